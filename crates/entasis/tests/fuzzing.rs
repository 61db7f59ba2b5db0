//! The fuzz targets on a few inputs each, so that they are known to do what they say before a fuzzer runs them for long.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::write;
use entasis::{
    Reader, WriteOptions,
    fuzzing::{blooms_of, exercise, mutate, round_trip, scan},
    generate::Generator,
};

#[test]
fn batches_come_back() {
    let mut generator = Generator::new(31);
    for _ in 0..12 {
        round_trip(&generator.next_u64().to_le_bytes());
    }
    round_trip(&[]);
}

#[test]
fn scans_find_what_conditions_hold_of() {
    let mut generator = Generator::new(41);
    for _ in 0..40 {
        scan(&generator.next_u64().to_le_bytes());
    }
    scan(&[]);
}

#[test]
fn mutated_files_are_opened_and_do_no_harm() {
    let mut generator = Generator::new(37);
    let (mut opened, mut read) = (0, 0);
    for columns in [1, 3, 18] {
        let schema = generator.schema(columns);
        let batch = generator.batch(&schema, 1_200);
        let bloom = blooms_of(&schema);
        let options = WriteOptions { row_group_rows: 1_024, bloom, ..WriteOptions::default() };
        let file = write(&schema, &[batch], options);
        for _ in 0..30 {
            let seed = generator.next_u64();
            let mutated = mutate(&file, seed, &mut |bytes| {
                if bytes.is_empty() {
                    return bytes.push(1);
                }
                let at = generator.below(bytes.len());
                bytes[at] ^= 1 << generator.below(8);
            });
            exercise(&mutated);
            let Ok(reader) = Reader::from_bytes(mutated.into()) else { continue };
            opened += 1;
            read += usize::from(reader.schema().is_ok());
        }
    }
    assert!(opened > 75 && read > 50, "{opened} of 90 are opened, {read} have a schema");
}
