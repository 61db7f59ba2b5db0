//! What reading takes without Python, for `benchmarks/wheel.py`: a line of JSON in, a line of JSON out, so that both can take turns.
//!
//! In: `{"path", "work", "columns": [name], "rows": [number]}`. Out: CPU seconds of opening the file and, as `work` says, reading (`"read"`) all
//! of it with one thread, or taking (`"take"`) these rows of these columns; what was read is dropped within that time.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::Path;

use entasis::{ReadRequest, Reader, Strings};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// The allocator that the wheel has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is too short for the clock is repeated until it takes this long, after as long a time that doesn't count: memory, caches and the
/// processor's clock find their way back first from what the other side left.
const SAMPLE_SECONDS: f64 = 0.02;

fn main() -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let path = request["path"].as_str().ok_or("no path")?;
        let list = |key: &str| request[key].as_array().cloned().unwrap_or_default();
        let rows: Vec<u64> = list("rows").iter().filter_map(Value::as_u64).collect();
        let columns: Vec<String> = list("columns").iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let seconds = match request["work"].as_str() {
            Some("read") => timed(|| read(Path::new(path)))?,
            Some("take") => timed(|| take(Path::new(path), &columns, &rows))?,
            _ => return Err("no work".into()),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{seconds}")?;
        out.flush()?;
    }
    Ok(())
}

/// All rows, in batches as large as the wheel's.
fn read(path: &Path) -> entasis::Result<()> {
    let request = ReadRequest { column_bytes: u64::MAX, ..ReadRequest::default() };
    let batches = Reader::open(path)?.read(request)?.collect::<entasis::Result<Vec<_>>>()?;
    drop(black_box(batches));
    Ok(())
}

fn take(path: &Path, columns: &[String], rows: &[u64]) -> entasis::Result<()> {
    let reader = Reader::open(path)?;
    let projection = reader.projection(columns)?;
    drop(black_box(reader.take(rows, &projection, Strings::AsStored)?));
    Ok(())
}

/// CPU seconds of one run.
fn timed(work: impl Fn() -> entasis::Result<()>) -> entasis::Result<f64> {
    sample(&work)?;
    sample(&work)
}

/// CPU seconds of one of as many runs as a sample takes.
fn sample(work: impl Fn() -> entasis::Result<()>) -> entasis::Result<f64> {
    let begin = cpu_seconds();
    for done in 1.. {
        work()?;
        let seconds = cpu_seconds() - begin;
        if seconds >= SAMPLE_SECONDS {
            return Ok(seconds / f64::from(done));
        }
    }
    unreachable!("work takes time")
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
