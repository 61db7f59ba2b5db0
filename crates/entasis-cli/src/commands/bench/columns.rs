//! `entasis bench columns`

use std::cmp::Ordering;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ord::ord::make_comparator;
use arrow_schema::{Schema, SortOptions};
use arrow_select::concat::concat;
use clap::Args;
use entasis::Reader;
use serde_json::{Value, json};

use super::clock::{self, Plan, Times, Work};
use super::kinds::Kind;
use super::shares::{self, Share};
use super::touch::{self, Touch};
use super::{Contender, Report, Selected, Source};
use crate::describe::describe;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;

/// Every column by itself: what it is like, what was chosen for it, how small and how fast
///
/// Each column is written as a table of its own, by Entasis, in memory. `distinct` is the share of different values among all that
/// aren't null; `sorted` the share of neighbours that are in ascending order; `bits` what one value takes; `GB/s` the Arrow bytes that
/// are decoded, and read, per CPU second, on one thread, and `±` how far the rounds lie apart: the longest less the shortest, in percent
/// of the median. `/copy` is the speed of decoding over that of copying, and reading, the same buffers, which mostly lie in the
/// processor's cache (`bench tables --kind` has whole tables, which don't); `factor` is their bytes over those of the column's blocks.
/// A column takes ten milliseconds of decoding with the default rounds, or as many runs as there are rounds if one takes longer than
/// two. At the end comes what the columns of a kind have in common: in total, and as a mean in which each column counts alike (of
/// factors the arithmetic one, of speeds the geometric one).
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,

    /// Rounds of measurement, two milliseconds or one run each; the median counts
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench columns data/taxi.parquet
  entasis bench columns data/ --filter floats/ --json

JSON: {\"columns\": [{\"table\", \"column\", \"type\", \"rows\", \"nulls\", \"distinct_ratio\",
  \"sorted_ratio\", \"cascades\": [text], \"bytes\", \"bits_per_value\", \"decode_seconds\",
  \"decode_seconds_least\", \"decode_seconds_most\", \"decode_gigabytes_per_second\",
  \"arrow_bytes\", \"copy_seconds\"}], \"kinds\": {\"fixed_width\" | \"strings\" | \"others\": {\"columns\",
  \"arrow_bytes\", \"bytes\", \"mean_factor\", \"decode_gigabytes_per_second\", \"decode_to_copy\":
  {\"total\", \"geometric_mean\", \"at_least_half\"}}}};
ratios are null for types without an order, decode_seconds is the median";

/// Columns are many: short samples.
const SAMPLE_SECONDS: f64 = 0.002;

/// Measures every column.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let files = arguments.selected.files()?;
    let progress = Progress::new("bench");
    let mut columns = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.relative.display().to_string();
        let source = Source::open(&file.path, &name)?;
        for column in 0..source.schema.fields().len() {
            let done = index as f64 + column as f64 / source.schema.fields().len() as f64;
            progress.set(done / files.len() as f64, || name.clone());
            columns.push(measure(&source, column, usize::from(arguments.rounds))?);
        }
    }
    drop(progress);
    if report.json {
        let values: Vec<Value> = columns.iter().map(Measured::to_json).collect();
        report.json(&json!({ "columns": values, "kinds": shares::to_json(&shares_of(&columns)) }))?;
        return Ok(Exit::Good);
    }
    print(report.out, &columns)?;
    Ok(Exit::Good)
}

struct Measured {
    table: String,
    column: String,
    data_type: String,
    rows: u64,
    null_count: u64,
    order: Option<Order>,
    cascades: Vec<String>,
    size_bytes: u64,
    arrow_bytes: u64,
    decode: Times,
    copy: Times,
    kind: Kind,
}

fn measure(source: &Source, column: usize, rounds: usize) -> Result<Measured, Failure> {
    let failure = |error| Failure::arrow(Path::new(&source.name), error);
    let field = source.schema.field(column);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let batches = source.batches.iter().map(|batch| batch.project(&[column])).collect::<Result<Vec<_>, _>>();
    let single = Source {
        name: source.name.clone(),
        schema: schema.clone(),
        batches: batches.map_err(failure)?,
        arrow_bytes: 0,
        left_out: Vec::new(),
    };
    let encoded = Contender::Entasis.encode(&single)?;
    let whole = whole(&single.batches, &schema).map_err(failure)?;
    let mut decoded = Vec::new();
    Contender::Entasis.decode(encoded.clone(), &mut |batch| decoded.push(batch))?;
    let mut works: Vec<Work<'_>> = vec![Box::new(|| {
        let mut touch = Touch::default();
        Contender::Entasis.decode(encoded.clone(), &mut |batch| touch.batch(batch))?;
        black_box(touch.sum());
        Ok(())
    })];
    works.push(Box::new(|| {
        black_box(touch::copy(&decoded));
        Ok(())
    }));
    let times = clock::interleaved(&mut works, Plan { rounds, sample_seconds: SAMPLE_SECONDS })?;
    drop(works);
    let reader = Reader::from_bytes(encoded)?;
    let (mut cascades, mut size_bytes) = (Vec::new(), 0);
    for (path, record) in reader.column(0)?.tree() {
        let described = describe(&reader, &path, &record)?;
        size_bytes += described.stats.size_bytes;
        cascades.extend(Some(described.cascade_words()).filter(|words| !words.is_empty()));
    }
    Ok(Measured {
        table: source.name.clone(),
        column: field.name().clone(),
        data_type: field.data_type().to_string(),
        rows: whole.len() as u64,
        null_count: whole.logical_null_count() as u64,
        order: Order::of(&whole),
        cascades,
        size_bytes,
        arrow_bytes: touch::size_bytes(&single.batches),
        decode: times[0],
        copy: times[1],
        kind: Kind::of(field.data_type()),
    })
}

fn whole(batches: &[RecordBatch], schema: &Arc<Schema>) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let columns: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    match columns.is_empty() {
        true => Ok(RecordBatch::new_empty(schema.clone()).column(0).clone()),
        false => concat(&columns),
    }
}

/// How values follow each other.
struct Order {
    /// Different values among those that aren't null.
    distinct_ratio: f64,
    /// Neighbours in ascending order among all neighbours.
    sorted_ratio: f64,
}

impl Order {
    /// `None` for types whose values have no order.
    fn of(column: &ArrayRef) -> Option<Self> {
        let compare = make_comparator(column, column, SortOptions::default()).ok()?;
        let nulls = column.logical_nulls();
        let is_valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        let mut rows: Vec<usize> = (0..column.len()).filter(is_valid).collect();
        let ascending = rows.windows(2).filter(|pair| compare(pair[0], pair[1]) != Ordering::Greater).count();
        let neighbours = rows.len().saturating_sub(1);
        rows.sort_unstable_by(|one, two| compare(*one, *two));
        let steps = rows.windows(2).filter(|pair| compare(pair[0], pair[1]) != Ordering::Equal).count();
        let distinct = if rows.is_empty() { 0 } else { steps + 1 };
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        Some(Order { distinct_ratio: share(distinct, rows.len()), sorted_ratio: share(ascending, neighbours) })
    }
}

impl Measured {
    fn bits_per_value(&self) -> f64 {
        self.size_bytes as f64 * 8.0 / self.rows.max(1) as f64
    }

    fn share(&self) -> Share {
        Share {
            kind: self.kind,
            arrow_bytes: self.arrow_bytes,
            size_bytes: self.size_bytes,
            decode_seconds: self.decode.median,
            copy_seconds: self.copy.median,
        }
    }

    /// How far the rounds lie apart, relative to the median.
    fn spread(&self) -> f64 {
        (self.decode.most - self.decode.least) / self.decode.median.max(1e-12)
    }

    fn to_json(&self) -> Value {
        json!({
            "table": self.table,
            "column": self.column,
            "type": self.data_type,
            "rows": self.rows,
            "nulls": self.null_count,
            "distinct_ratio": self.order.as_ref().map(|order| order.distinct_ratio),
            "sorted_ratio": self.order.as_ref().map(|order| order.sorted_ratio),
            "cascades": self.cascades,
            "bytes": self.size_bytes,
            "bits_per_value": self.bits_per_value(),
            "decode_seconds": self.decode.median,
            "decode_seconds_least": self.decode.least,
            "decode_seconds_most": self.decode.most,
            "decode_gigabytes_per_second": self.share().gigabytes_per_second(),
            "arrow_bytes": self.arrow_bytes,
            "copy_seconds": self.copy.median,
        })
    }
}

fn print(out: &mut dyn Write, columns: &[Measured]) -> io::Result<()> {
    let mut table = Table::new(&[
        "table",
        "column",
        "type",
        ">distinct",
        ">nulls",
        ">sorted",
        ">bits",
        ">factor",
        ">GB/s",
        ">±",
        ">/copy",
        "encoded as",
    ]);
    for column in columns {
        let ratio =
            |of: fn(&Order) -> f64| column.order.as_ref().map_or("–".to_owned(), |order| format!("{:.3}", of(order)));
        table.row(vec![
            column.table.clone(),
            column.column.clone(),
            column.data_type.clone(),
            ratio(|order| order.distinct_ratio),
            format!("{:.3}", column.null_count as f64 / column.rows.max(1) as f64),
            ratio(|order| order.sorted_ratio),
            format!("{:.2}", column.bits_per_value()),
            format!("{:.2}", column.share().factor()),
            format!("{:.2}", column.share().gigabytes_per_second()),
            format!("{:.0} %", column.spread() * 100.0),
            format!("{:.2}", column.share().of_copy()),
            column.cascades.join("; "),
        ]);
    }
    table.print(out)?;
    writeln!(out, "\nKinds of columns: in total, and means in which each column counts alike")?;
    shares::print(out, &shares_of(columns))
}

fn shares_of(columns: &[Measured]) -> Vec<Share> {
    columns.iter().map(Measured::share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;

    #[test]
    fn order_is_measured_between_values_that_are_there() {
        let column = Arc::new(Int32Array::from(vec![Some(1), None, Some(1), Some(3), Some(2)])) as ArrayRef;
        let order = Order::of(&column).unwrap();
        assert_eq!((order.distinct_ratio, order.sorted_ratio), (0.75, 2.0 / 3.0));
    }
}
