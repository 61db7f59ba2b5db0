//! Random conditions on random tables: a scan finds the rows for which they hold, and no others.

use arrow_array::RecordBatch;

use super::{
    blooms_of,
    conditions::{passing_rows, random_condition},
    round_trip::{same, written},
};
use crate::{
    Condition, EncodeOptions, Profile, Projection, Reader, Result, ScanRequest, WriteOptions, encoding::digest,
    generate::Generator,
};

/// Conditions that a table is asked for.
const CONDITIONS: usize = 4;

/// Makes the table that `input` stands for, writes it by a profile, and scans it for random conditions.
///
/// # Panics
/// If other rows come back than those for which the condition holds, or none at all: that is a bug.
pub fn scan(input: &[u8]) {
    let byte = |index: usize| input.get(index).map_or(0, |&byte| usize::from(byte));
    let (columns, rows) = (1 + byte(0) % 5, (byte(1) | byte(2) << 8) % 5_000);
    let row_group_rows = [1_024, 2_000, 1 << 20][byte(3) % 3];
    let mut generator = Generator::new(digest(input));
    let schema = generator.schema(columns);
    let batch = generator.batch(&schema, rows);
    let encode = EncodeOptions::of(Profile::ALL[byte(4) % Profile::ALL.len()]);
    let bloom = if byte(6) % 2 == 0 { blooms_of(&schema) } else { Vec::new() };
    let file = written(&batch, &schema, 1, WriteOptions { row_group_rows, encode, bloom, ..WriteOptions::default() });
    for _ in 0..CONDITIONS {
        let condition = random_condition(&mut generator, &batch, byte(5) % 4);
        let checked = Reader::from_bytes(file.clone().into())
            .and_then(|reader| check(&reader, &batch, &condition, &mut generator));
        checked.unwrap_or_else(|error| panic!("{condition:?}: {error}"));
    }
}

fn check(reader: &Reader, batch: &RecordBatch, condition: &Condition, generator: &mut Generator) -> Result<()> {
    let passing = passing_rows(condition, batch);
    let batch_rows = 1 + generator.below(3_000);
    let request = ScanRequest { condition: condition.clone(), batch_rows, ..ScanRequest::default() };
    found(reader, request.clone(), batch, &passing)?;
    // A part of the rows, up to a limit, and those that are only counted.
    let (start, end) = (generator.below(batch.num_rows() + 1), generator.below(batch.num_rows() + 1));
    let range = start.min(end)..start.max(end);
    let part: Vec<usize> = passing.into_iter().filter(|row| range.contains(row)).collect();
    let limit = generator.below(60);
    let request = ScanRequest { rows: Some(range.start as u64..range.end as u64), ..request };
    let limited = ScanRequest { limit: Some(limit as u64), ..request.clone() };
    found(reader, limited, batch, &part[..limit.min(part.len())])?;
    let mut count = 0;
    for batch in reader.scan(ScanRequest { projection: Projection::of_columns([]), ..request })? {
        count += batch?.num_rows();
    }
    assert_eq!(count, part.len(), "{condition:?}");
    Ok(())
}

/// Holds what a scan finds against these rows of the table.
fn found(reader: &Reader, request: ScanRequest, batch: &RecordBatch, rows: &[usize]) -> Result<()> {
    let mut left = rows;
    for found in reader.scan(request)? {
        let found = found?;
        assert!(found.num_rows() <= left.len(), "{} rows found of {} that are left", found.num_rows(), left.len());
        let (expected, behind) = left.split_at(found.num_rows());
        let mut at = 0;
        // Neighbours together: Arrow has no way to take rows of all types.
        for run in expected.chunk_by(|row, next| row + 1 == *next) {
            same(&found.slice(at, run.len()), &batch.slice(run[0], run.len()));
            at += run.len();
        }
        left = behind;
    }
    assert!(left.is_empty(), "{} rows that weren't found", left.len());
    Ok(())
}
