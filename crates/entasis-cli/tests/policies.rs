//! `entasis bench policies`

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use common::{Place, parquet_bytes};

/// A recording of accesses to pieces of column 3, ten bytes each.
fn recording(first_ns: u64, pieces: impl Iterator<Item = u64>) -> Vec<u8> {
    let ids: Vec<u64> = pieces.map(|piece| 1 << 48 | 3 << 16 | piece).collect();
    let count = ids.len() as u64;
    let column = |numbers: Vec<u64>| Arc::new(UInt64Array::from(numbers)) as ArrayRef;
    let columns = [
        ("entry_id", column(ids)),
        ("entry_size", column(vec![10; count as usize])),
        ("time_stamp_nanos", column((first_ns..first_ns + count).collect())),
    ];
    parquet_bytes(&RecordBatch::try_from_iter(columns).unwrap())
}

#[test]
fn bench_policies_replays_recordings_in_the_order_of_their_time() {
    let place = Place::new();
    // The file that comes first by its name was recorded last.
    place.write("traces/a.parquet", recording(1_000, (0..10).chain(0..10)));
    place.write("traces/b.parquet", recording(10, 5..20));
    let value = place.json(&["bench", "policies", "traces", "--budgets", "50,100"]);
    assert_eq!((value["accesses"].as_u64(), value["bytes"].as_u64()), (Some(35), Some(350)));
    assert_eq!((value["entries"].as_u64(), value["entry_bytes"].as_u64()), (Some(20), Some(200)));
    assert!(value["least_ratio"].as_f64() > Some(0.9), "{value}");
    for policy in value["policies"].as_array().unwrap() {
        let all = &policy["budgets"][1];
        assert_eq!((all["hits"].as_u64(), all["evictions"].as_u64()), (Some(15), Some(0)), "{policy}");
    }
    // In ten places lie 10 to 19 when the second file begins; then the ten of it come in, and are there the second time.
    let fifo = value["policies"].as_array().unwrap().iter().find(|policy| policy["policy"] == "fifo").unwrap();
    assert_eq!((fifo["budgets"][0]["hits"].as_u64(), fifo["budgets"][0]["evictions"].as_u64()), (Some(10), Some(15)));
    let text = place.good(&["bench", "policies", "traces", "--times", "2"]);
    assert!(text.starts_with("70 accesses to 20 entries, 200 B together") && text.contains("column-prefix"), "{text}");
    place.write("other.parquet", parquet_bytes(&common::table(5)));
    assert_ne!(place.run(&["bench", "policies", "other.parquet"]).code, 0);
}
