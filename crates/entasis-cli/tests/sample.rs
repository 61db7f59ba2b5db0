//! The shipped sample is what its generator makes.

#[path = "../examples/make_sample/trips.rs"]
mod trips;

mod common;

use std::path::Path;

#[test]
fn the_generator_makes_the_shipped_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/trips.parquet");
    assert!(std::fs::metadata(&path).unwrap().len() <= 2_000_000);
    assert_eq!(common::read_parquet(&path), trips::table().unwrap());
}
