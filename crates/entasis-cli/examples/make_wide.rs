//! Writes a file of many columns with ten rows, to see what opening costs:
//! `cargo run --release -p entasis-cli --example make_wide -- wide.ent [COLUMNS]`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use entasis::{FileWriter, WriteOptions};
use rustix::time::{ClockId, clock_gettime};

const ROWS: i64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: make_wide FILE [COLUMNS]")?;
    let columns: i64 = arguments.next().map_or(Ok(100_000), |columns| columns.parse())?;
    let fields: Vec<Field> =
        (0..columns).map(|column| Field::new(format!("c{column}"), DataType::Int64, true)).collect();
    let values = |column: i64| Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| column * row))) as ArrayRef;
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), (0..columns).map(values).collect())?;

    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let mut writer = FileWriter::create(Path::new(&path), batch.schema(), WriteOptions::default())?;
    writer.write(&batch)?;
    let summary = writer.finish()?;
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let each = summary.size_bytes as f64 / columns.max(1) as f64;
    println!(
        "{path}: {columns} columns of {ROWS} rows, {} bytes ({each:.0} a column), written in {wall:.2} s ({cpu:.2} s of CPU)",
        summary.size_bytes
    );
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
