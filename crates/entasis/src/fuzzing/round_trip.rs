//! Random typed batches, written and read back: what comes out is what went in, on every way.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::blooms_of;
use crate::{
    EncodeOptions, Profile, Projection, ReadRequest, Reader, Result, Strings, WriteOptions, Writer,
    compare::first_difference, encoding::digest, generate::Generator,
};

/// Makes a batch of the type, size and values that `input` stands for, writes it by a profile, reads it and compares.
///
/// # Panics
/// If anything comes back differently, or not at all: that is a bug.
pub fn round_trip(input: &[u8]) {
    let byte = |index: usize| input.get(index).map_or(0, |&byte| usize::from(byte));
    let (columns, rows) = (byte(0) % 12, (byte(1) | byte(2) << 8) % 4_000);
    let group_rows = [1, 100, 1_024, 3_000, 1 << 20][byte(3) % 5].max(rows as u64 / 20);
    let pieces = 1 + byte(4) % 7;
    let mut generator = Generator::new(digest(input));
    let schema = generator.schema(columns);
    let batch = generator.batch(&schema, rows);
    let encode = EncodeOptions::of(Profile::ALL[byte(5) % Profile::ALL.len()]);
    let bloom = if byte(6) % 2 == 0 { blooms_of(&schema) } else { Vec::new() };
    let options = WriteOptions { row_group_rows: group_rows, encode, bloom, ..WriteOptions::default() };
    let file = written(&batch, &schema, pieces, options.clone());
    let again = written(&batch, &schema, 1, WriteOptions { threads: 2, ..options });
    assert!(file == again, "bytes depend on batches or threads");
    check(file, &batch, &mut generator).unwrap_or_else(|error| panic!("a file that was just written: {error}"));
}

/// A file of `batch`, written in so many pieces.
pub(super) fn written(batch: &RecordBatch, schema: &SchemaRef, pieces: usize, options: WriteOptions) -> Vec<u8> {
    let run = || -> Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new(), Arc::clone(schema), options.clone())?;
        let step = batch.num_rows().div_ceil(pieces).max(1);
        for start in (0..batch.num_rows()).step_by(step) {
            writer.write(&batch.slice(start, step.min(batch.num_rows() - start)))?;
        }
        Ok(writer.finish()?.0)
    };
    run().unwrap_or_else(|error| panic!("can't be written: {error}"))
}

fn check(file: Vec<u8>, batch: &RecordBatch, generator: &mut Generator) -> Result<()> {
    let reader = Reader::from_bytes(Bytes::from(file))?;
    assert_eq!((reader.rows(), reader.schema()?), (batch.num_rows() as u64, batch.schema()));
    assert_eq!(reader.verify(&mut |_| {})?, []);
    let start = generator.below(batch.num_rows() + 1);
    let length = generator.below(batch.num_rows() - start + 1);
    let range = start as u64..(start + length) as u64;
    for (rows, expected) in [(None, batch.clone()), (Some(range), batch.slice(start, length))] {
        for strings in [Strings::AsStored, Strings::Views, Strings::Offsets] {
            let batches = reader.read(ReadRequest {
                rows: rows.clone(),
                strings,
                batch_rows: 1_500,
                ..ReadRequest::default()
            })?;
            // Piece by piece: Arrow can't concatenate dictionaries whose values together are more than their keys can count.
            let mut rows = 0;
            for found in batches {
                let found = found?;
                same(&found, &expected.slice(rows, found.num_rows()));
                rows += found.num_rows();
            }
            assert_eq!(rows, expected.num_rows());
        }
    }
    if batch.num_rows() > 0 {
        let picked: Vec<u64> = (0..30).map(|_| generator.below(batch.num_rows()) as u64).collect();
        let taken = reader.take(&picked, &Projection::all(), Strings::AsStored)?;
        // Row by row: Arrow's own `take` loses the rows of lists of size 0.
        for (index, row) in picked.into_iter().enumerate() {
            same(&taken.slice(index, 1), &batch.slice(row as usize, 1));
        }
    }
    Ok(())
}

/// Panics where the two differ.
pub(super) fn same(found: &RecordBatch, expected: &RecordBatch) {
    match first_difference(found, expected) {
        Ok(None) => {}
        Ok(Some(difference)) => panic!("{difference}"),
        Err(error) => panic!("can't be compared: {error}"),
    }
}
