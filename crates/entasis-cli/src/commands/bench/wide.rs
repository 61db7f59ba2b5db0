//! Opening tables of many columns, to read one: what `bench access` asks of tables that it makes.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use entasis::generate::Generator;
use entasis::source::BytesSource;
use entasis::{Projection, ReadLimits, ReadRequest, Reader, WriteOptions, Writer};

use super::access::Access;
use super::accounted::{Accounted, Network};
use crate::exit::{Exit, Failure};
use crate::units;

/// Rows of the tables: next to nothing, for the columns are what counts.
const ROWS: i64 = 10;

/// Opens a table of `columns` columns in memory and beyond `network`, `rounds` times, and reads one of them each time.
pub fn measure(columns: usize, network: Network, rounds: usize) -> Result<Vec<Access>, Failure> {
    let file = BytesSource::new(table(columns)?, "wide table");
    let file: Arc<dyn entasis::source::Source> = Arc::new(file);
    let question = format!("open, one column of {}", units::grouped(columns as u64));
    let mut accesses = Vec::new();
    for (store, network) in [("memory", None), ("remote", Some(network))] {
        let source = Accounted::new(file.clone(), network);
        let mut generator = Generator::new(1);
        let (mut seconds, mut accounts) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let column = generator.below(columns);
            source.take();
            let begin = Instant::now();
            let reader = Reader::from_source(source.clone(), ReadLimits::default())?;
            let found = reader.columns_named(&name(column))?;
            let request = ReadRequest { projection: Projection::of_columns(found), ..ReadRequest::default() };
            let batches = reader.read(request)?.collect::<entasis::Result<Vec<_>>>()?;
            let clock = begin.elapsed().as_secs_f64();
            let account = source.take();
            check(&batches, column)?;
            // The first warms up.
            if round > 0 {
                seconds.push(clock + account.network_seconds);
                accounts.push(account);
            }
        }
        accesses.push(Access::new(store, question.clone(), false, seconds, accounts));
    }
    Ok(accesses)
}

fn name(column: usize) -> String {
    format!("c{column}")
}

fn values(column: usize) -> impl Iterator<Item = i64> {
    (0..ROWS).map(move |row| column as i64 * 1_000 + row)
}

fn table(columns: usize) -> Result<Bytes, Failure> {
    let fields: Vec<Field> = (0..columns).map(|column| Field::new(name(column), DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = (0..columns).map(|column| Arc::new(Int64Array::from_iter_values(values(column))) as ArrayRef);
    let batch = RecordBatch::try_new(schema.clone(), arrays.collect()).map_err(entasis::Error::from)?;
    let mut writer = Writer::new(Vec::new(), schema, WriteOptions::default())?;
    writer.write(&batch)?;
    let (bytes, _) = writer.finish()?;
    Ok(bytes.into())
}

/// Fails unless the batches hold what the column was made of.
fn check(batches: &[RecordBatch], column: usize) -> Result<(), Failure> {
    let read = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter().copied());
    if batches.iter().all(|batch| batch.num_columns() == 1) && read.eq(values(column)) {
        return Ok(());
    }
    Err(Failure::Told {
        exit: Exit::Different,
        message: format!("column {} of a wide table: other values", name(column)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_not_grow_with_the_number_of_columns() {
        let network = Network { latency_seconds: 0.01, bytes_per_second: 1e8 };
        let requests: Vec<u64> = [10, 3_000]
            .iter()
            .map(|columns| {
                let accesses = measure(*columns, network, 3).unwrap();
                assert!(accesses[1].median_seconds() > 0.01);
                accesses[1].requests
            })
            .collect();
        assert!(requests[0] >= 1 && requests[1] <= 4, "{requests:?}");
    }
}
