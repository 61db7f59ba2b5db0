//! The README's Rust is this file's Rust, and it runs.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};

#[test]
fn the_readme_is_true() {
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    let ids = Arc::new(Int64Array::from_iter_values(0..5_000)) as ArrayRef;
    let prices =
        Arc::new(Float64Array::from_iter_values((0..5_000).map(|row| f64::from(row % 90) / 100.0))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", ids), ("price", prices)]).unwrap();
    snippet(batch).unwrap();
}

#[rustfmt::skip]
fn snippet(batch: RecordBatch) -> Result<(), Box<dyn std::error::Error>> {
    // README, from here
    let mut writer = entasis::FileWriter::create("trips.ent".as_ref(), batch.schema(), Default::default())?;
    writer.write(&batch)?;
    writer.finish()?;

    let reader = entasis::Reader::open("trips.ent".as_ref())?;
    let projection = reader.projection(&["price".into()])?;
    for batch in reader.read(entasis::ReadRequest { projection, ..Default::default() })? {
        println!("{} rows", batch?.num_rows());
    }
    // to here
    Ok(())
}

#[test]
fn the_readme_has_this_code() {
    let readme = include_str!("../../../README.md");
    let (_, block) = readme.split_once("```rust\n").unwrap();
    let (shown, _) = block.split_once("```").unwrap();
    let (_, own) = include_str!("readme.rs").split_once("// README, from here\n").unwrap();
    let (own, _) = own.split_once("    // to here").unwrap();
    let lines: Vec<&str> = own.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), lines);
}
