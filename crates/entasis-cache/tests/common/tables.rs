//! Parquet files, how they are read through a cache, and what must come of it by definition.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, cast::AsArray, types::Int32Type,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use entasis::scan::{Condition, scalar_of};
use entasis_cache::Cache;
use entasis_cache::read::{ParquetFile, ParquetRequest, ReadMetrics};
use entasis_encoding::{Comparison, FloatOrder, Predicate, Scalar};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use super::Random;

/// A table with nulls, strings, lists, and structs in structs.
pub fn table(seed: u64, rows: usize) -> RecordBatch {
    let mut random = Random(seed);
    let mut nulls = |percent: usize| -> NullBuffer { (0..rows).map(|_| random.below(100) >= percent).collect() };
    let (few, many, outer, inner) = (nulls(5), nulls(60), nulls(10), nulls(20));
    let mut number = || random.below(1_000);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row * 3)));
    let numbers: Vec<i32> = (0..rows).map(|_| number() as i32).collect();
    let numbers: ArrayRef = Arc::new(Int32Array::new(numbers.into(), Some(few)));
    let floats: Vec<f64> = (0..rows).map(|_| number() as f64 / 8.0).collect();
    let floats: ArrayRef = Arc::new(Float64Array::new(floats.into(), Some(many)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..rows).map(|row| {
        let number = number();
        (number % 9 > 0).then(|| format!("/page/{}?{}", number % 40, row / 1_000))
    })));
    let lists = (0..rows).map(|_| {
        let number = number();
        (number % 5 > 0).then(|| (0..number % 4).map(|item| (item != 2).then_some(item as i32)).collect::<Vec<_>>())
    });
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(number() % 10 == 0))));
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let inner_fields = Fields::from(vec![field("x", &numbers), field("t", &texts)]);
    let nested: ArrayRef = Arc::new(StructArray::new(inner_fields, vec![numbers.clone(), texts.clone()], Some(inner)));
    let outer_fields = Fields::from(vec![field("flag", &flags), field("inner", &nested), field("y", &floats)]);
    let nested: ArrayRef =
        Arc::new(StructArray::new(outer_fields, vec![flags.clone(), nested, floats.clone()], Some(outer)));
    let columns = [("id", ids), ("n", numbers), ("f", floats), ("t", texts), ("l", lists), ("s", nested), ("b", flags)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

pub fn parquet(batch: &RecordBatch, row_group_rows: usize) -> Vec<u8> {
    parquet_with(WriterProperties::builder(), batch, row_group_rows)
}

pub fn parquet_with(builder: WriterPropertiesBuilder, batch: &RecordBatch, row_group_rows: usize) -> Vec<u8> {
    let properties = builder
        .set_max_row_group_row_count(Some(row_group_rows))
        .set_data_page_row_count_limit(5_000)
        .set_write_batch_size(1_000)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn by_arrow(bytes: &[u8]) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(bytes)).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// A store with one object.
pub fn store(path: &str, bytes: Vec<u8>) -> Arc<dyn ObjectStore> {
    let store = InMemory::new();
    block_on(store.put(&Path::from(path), bytes.into())).unwrap();
    Arc::new(store)
}

/// A store of files with one object.
pub fn near(folder: &std::path::Path, bytes: &[u8]) -> Arc<dyn ObjectStore> {
    std::fs::write(folder.join("t.parquet"), bytes).unwrap();
    Arc::new(LocalFileSystem::new_with_prefix(folder).unwrap())
}

pub fn read(
    cache: &Cache,
    store: &Arc<dyn ObjectStore>,
    path: &str,
    request: &ParquetRequest,
) -> (RecordBatch, ReadMetrics) {
    block_on(async {
        let file = ParquetFile::open(cache, store.clone(), "memory://a", &Path::from(path)).await.unwrap();
        let mut rows = file.read(request).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await.unwrap() {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= entasis_cache::CELL_ROWS);
            batches.push(batch);
        }
        (concat_batches(rows.schema(), &batches).unwrap(), rows.metrics())
    })
}

/// The value of a column, or of a field of a struct, in one row; where a struct is null, so are its fields.
pub fn value(batch: &RecordBatch, path: &[usize], row: usize) -> Option<Scalar> {
    let mut array = batch.column(path[0]).clone();
    for &field in &path[1..] {
        if array.is_null(row) {
            return None;
        }
        array = array.as_struct().column(field).clone();
    }
    scalar_of(&array.slice(row, 1))
}

/// Whether a condition is true of a row, or false; neither of nulls.
pub fn holds(batch: &RecordBatch, condition: &Condition, row: usize) -> Option<bool> {
    let each = |conditions: &[Condition]| conditions.iter().map(|one| holds(batch, one, row)).collect::<Vec<_>>();
    match condition {
        Condition::Always(holds) => Some(*holds),
        Condition::Column { path, predicate } => {
            let value = value(batch, path, row);
            let is_known = value.is_some() || matches!(predicate, Predicate::IsNull | Predicate::IsNotNull);
            is_known.then(|| predicate.holds(value.as_ref()))
        }
        Condition::Not(condition) => holds(batch, condition, row).map(|holds| !holds),
        Condition::And(conditions) => {
            let each = each(conditions);
            if each.contains(&Some(false)) {
                Some(false)
            } else {
                each.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
            }
        }
        Condition::Or(conditions) => {
            let each = each(conditions);
            if each.contains(&Some(true)) {
                Some(true)
            } else {
                each.into_iter().collect::<Option<Vec<_>>>().map(|_| false)
            }
        }
        Condition::Expression(expression) => {
            let one = batch.slice(row, 1);
            let columns: Vec<usize> =
                expression.projection().selected().unwrap().iter().map(|one| one.column).collect();
            let found = expression.evaluate(&one.project(&columns).unwrap()).unwrap();
            found.is_valid(0).then(|| found.value(0))
        }
    }
}

/// The rows of which a condition is true by definition.
pub fn mask(batch: &RecordBatch, condition: &Condition) -> BooleanArray {
    (0..batch.num_rows()).map(|row| holds(batch, condition, row)).collect()
}

pub fn expected(batch: &RecordBatch, request: &ParquetRequest) -> RecordBatch {
    filtered(batch, &mask(batch, &request.condition), request)
}

pub fn filtered(batch: &RecordBatch, mask: &BooleanArray, request: &ParquetRequest) -> RecordBatch {
    let projection: Vec<usize> = match request.projection.selected() {
        Some(selected) => selected.iter().map(|one| one.column).collect(),
        None => (0..batch.num_columns()).collect(),
    };
    filter_record_batch(&batch.project(&projection).unwrap(), mask).unwrap()
}

pub fn compare(comparison: Comparison, literal: Scalar) -> Predicate {
    Predicate::Compare(comparison, literal, FloatOrder::default())
}
