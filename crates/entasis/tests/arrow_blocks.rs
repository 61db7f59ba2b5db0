//! Arrays → blocks → arrays: every type through the chooser and back, two blocks of a chunk into one array.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::sync::{Arc, Mutex};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;
use entasis::{
    arrow::{Strings, empty_decoded, physical_of, target_type, to_arrow, with_column},
    compare::first_array_difference,
    generate::{Generator, flat_types, nested_types},
};
use entasis_encoding::{Block, ChunkEncoder, EncodeOptions, LargeValues, Limits, Parts};

/// A region for large values in memory.
#[derive(Default)]
struct Region(Mutex<Vec<u8>>);

impl LargeValues for Region {
    fn fetch(&self, offset: u64, size_bytes: u64) -> entasis_encoding::Result<Bytes> {
        let region = self.0.lock().unwrap();
        Ok(Bytes::copy_from_slice(&region[offset as usize..(offset + size_bytes) as usize]))
    }
}

/// The blocks that hold `arrays`, opened.
fn blocks_of(arrays: &[ArrayRef]) -> Vec<Block> {
    let region = Arc::new(Region::default());
    let mut encoder = ChunkEncoder::new(physical_of(arrays[0].data_type()).unwrap(), EncodeOptions::default());
    let mut store = |value: &[u8]| {
        let mut region = region.0.lock().unwrap();
        region.extend_from_slice(value);
        Ok((region.len() - value.len()) as u64)
    };
    let encode = |array: &ArrayRef| {
        with_column(array, |column| encoder.encode(column, arrays.len() == 1, &mut store)).unwrap().unwrap()
    };
    let encoded: Vec<_> = arrays.iter().map(encode).collect();
    let open = |bytes: Vec<u8>, parts: &Parts| {
        Block::open(bytes.into(), parts, Some(region.clone()), &Limits::default()).unwrap()
    };
    let mut parts = Parts::new();
    for part in encoder.finish().unwrap() {
        let part = open(part.bytes, &parts);
        parts.push(part);
    }
    encoded.into_iter().map(|block| open(block.bytes, &parts)).collect()
}

fn check(array: &ArrayRef, strings: Strings, context: &str) {
    let target = target_type(array.data_type(), strings);
    let half = array.len() / 2048 * 1024;
    let arrays =
        if half == 0 { vec![array.clone()] } else { vec![array.slice(0, half), array.slice(half, array.len() - half)] };
    let mut decoded = empty_decoded(&target).unwrap();
    for block in blocks_of(&arrays) {
        block.verify().unwrap_or_else(|error| panic!("{context}: {error}"));
        block.decode(0..block.rows(), &mut decoded).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    let back = to_arrow(decoded, &target).unwrap_or_else(|error| panic!("{context}: {error}"));
    back.to_data().validate_full().unwrap();
    if let Some(difference) = first_array_difference(array, &back).unwrap() {
        panic!("{context}: {difference}");
    }
}

#[test]
fn every_type_comes_back_through_blocks() {
    for (index, data_type) in flat_types().into_iter().chain(nested_types()).enumerate() {
        for rows in [0, 1, 65, 1_024, 4_000] {
            for round in 0..2 {
                let seed = (index * 1_000 + rows + round) as u64;
                let array = Generator::new(seed).array(&data_type, rows);
                for strings in [Strings::AsStored, Strings::Views, Strings::Offsets] {
                    check(&array, strings, &format!("{data_type}, {rows} rows, seed {seed}, {strings:?}"));
                }
            }
        }
    }
}

#[test]
fn nested_types_come_back_through_blocks() {
    for seed in 0..150 {
        let mut generator = Generator::new(seed);
        let data_type = generator.data_type(4);
        // Structs are shredded before they get here; under lists they are nodes.
        let data_type = match data_type {
            DataType::Struct(_) => DataType::new_list(data_type, true),
            other => other,
        };
        let rows = generator.below(3_000);
        let array = generator.array(&data_type, rows);
        let strings = [Strings::AsStored, Strings::Views, Strings::Offsets][seed as usize % 3];
        check(&array, strings, &format!("{data_type}, {rows} rows, seed {seed}"));
    }
}
