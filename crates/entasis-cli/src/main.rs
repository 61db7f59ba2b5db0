//! The command line: arguments in, tables and exit codes out. What is done with data is the library's.

#[cfg(feature = "text")]
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
mod stats;
mod table;
mod units;
mod zone;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use commands::Arguments;
use exit::{Exit, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&error),
    };
    let json = arguments.json;
    let mut out = BufWriter::new(io::stdout().lock());
    match run(arguments, &mut out) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            tell(&failure, json);
            failure.exit().into()
        }
    }
}

/// Standard error may be closed; the exit code says it all the same.
fn tell(failure: &Failure, json: bool) {
    let _ = match failure {
        Failure::OutputClosed => Ok(()),
        Failure::Told { .. } if json => writeln!(io::stderr(), "{}", failure.to_json()),
        Failure::Told { message, .. } => writeln!(io::stderr(), "error: {}", table::without_controls(message)),
    };
}

/// What clap has to say: help and the version, which were asked for, or what is wrong with the arguments.
fn not_understood(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !json {
        error.exit();
    }
    let text = error.render().to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text).trim_start_matches("error: ");
    let failure = Failure::usage(message.split_whitespace().collect::<Vec<_>>().join(" "));
    tell(&failure, true);
    failure.exit().into()
}

fn run(arguments: Arguments, out: &mut dyn Write) -> Result<Exit, Failure> {
    let exit = commands::run(arguments, out)?;
    out.flush()?;
    Ok(exit)
}
