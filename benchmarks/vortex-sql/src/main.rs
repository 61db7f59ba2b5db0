//! Answers SQL statements from standard input on tables of Vortex, each with an Arrow stream, as `entasis sql --format arrow` does on
//! those of Entasis: `vortex-sql THREADS`. A statement ends at a semicolon at the end of a line; the first that fails ends the run.

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;

use arrow_ipc::writer::StreamWriter;
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use vortex::VortexSessionDefault;
use vortex::io::session::RuntimeSessionExt;
use vortex::session::VortexSession;
use vortex_datafusion::VortexFormatFactory;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args().nth(1).ok_or("usage: vortex-sql THREADS")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    // Vortex asks which runtime it is in.
    let _inside = runtime.enter();
    let context = session(threads)?;
    let mut statement = String::new();
    for line in stdin().lock().lines() {
        statement.push_str(&line?);
        statement.push('\n');
        if statement.trim_end().ends_with(';') {
            runtime.block_on(answer(&context, statement.trim_end().trim_end_matches(';')))?;
            statement.clear();
        }
    }
    Ok(())
}

/// A session that knows the format, with default options.
fn session(threads: usize) -> Result<SessionContext, Box<dyn Error>> {
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(threads))
        .with_default_features()
        .with_table_factory("VORTEX".to_owned(), Arc::new(DefaultTableFactory::new()));
    let mut state = builder.build();
    let vortex = VortexSession::default().with_tokio();
    state.register_file_format(Arc::new(VortexFormatFactory::new_with_session(vortex)), true)?;
    Ok(SessionContext::new_with_state(state))
}

/// Carries a statement out, and writes its rows if it is one that has any.
async fn answer(context: &SessionContext, sql: &str) -> Result<(), Box<dyn Error>> {
    let frame = context.sql(sql).await?;
    let schema = frame.schema().inner().clone();
    let batches = frame.collect().await?;
    if !schema.fields().is_empty() {
        let mut writer = StreamWriter::try_new(stdout().lock(), &schema)?;
        for batch in &batches {
            writer.write(batch)?;
        }
        writer.finish()?;
        stdout().flush()?;
    }
    Ok(())
}
