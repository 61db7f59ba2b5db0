//! The command line: arguments in, tables and exit codes out. What is done with data is the library's.

mod cells;
mod columns;
mod commands;
mod compare;
mod describe;
mod exit;
mod format;
mod input;
mod output;
mod paths;
mod progress;
mod table;
mod units;
mod zone;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use commands::Arguments;
use exit::{Exit, Failure};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    match run(arguments, &mut out) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Failure::Told { message, .. } = &failure {
                // Standard error may be closed; the exit code says it all the same.
                let _ = writeln!(io::stderr(), "error: {message}");
            }
            failure.exit().into()
        }
    }
}

fn run(arguments: Arguments, out: &mut dyn Write) -> Result<Exit, Failure> {
    let exit = commands::run(arguments, out)?;
    out.flush()?;
    Ok(exit)
}
