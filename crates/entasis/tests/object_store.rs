//! The same file through an object store: equal rows, few requests, no request for another version.

#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![cfg(feature = "object-store")]

mod common;

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{assert_same, concat, write};
use entasis::{
    AsyncReader, AsyncSource, BloomColumn, Condition, ErrorKind, Projection, ReadRequest, Reader, ScanRequest, Strings,
    WriteOptions,
    encoding::{FloatOrder, Predicate, Scalar},
    generate::Generator,
};
use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::BoxStream,
};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, memory::InMemory, path::Path,
};

/// Polls a future to its end; a store in memory never waits for anything.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A store that counts what is asked of it.
#[derive(Debug, Default)]
struct Counting {
    store: InMemory,
    requests: AtomicU64,
    ranges: Mutex<Vec<Range<u64>>>,
    /// So many more requests are answered, and then as many refused as are asked until it is set anew.
    answers: Option<AtomicU64>,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting")
    }
}

type StoreResult<T> = object_store::Result<T>;

#[async_trait::async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        self.store.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(answers) = &self.answers
            && answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        {
            return Err(object_store::Error::Generic { store: "counting", source: "the line is dead".into() });
        }
        let result = self.store.get_opts(at, options).await?;
        self.ranges.lock().unwrap().push(result.range.clone());
        Ok(result)
    }

    fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.store.copy_opts(from, to, options).await
    }
}

impl Counting {
    fn put(&self, bytes: Bytes) {
        block_on(self.put_opts(&path(), bytes.into(), PutOptions::default())).unwrap();
    }

    fn take_requests(&self) -> u64 {
        self.ranges.lock().unwrap().clear();
        self.requests.swap(0, Ordering::Relaxed)
    }
}

fn path() -> Path {
    Path::from("folder/a.ent")
}

fn open(store: &Arc<Counting>) -> AsyncReader {
    block_on(AsyncReader::open(store.clone(), path())).unwrap()
}

#[test]
fn rows_are_those_of_the_other_readers() {
    for seed in 300..310 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(15);
        let rows = 1 + generator.below(6_000);
        let batch = generator.batch(&schema, rows);
        let options = WriteOptions { row_group_rows: 2_500, ..WriteOptions::default() };
        let bytes = write(&schema, std::slice::from_ref(&batch), options);
        let store = Arc::new(Counting::default());
        store.put(bytes.clone());
        let reader = open(&store);
        assert_eq!(reader.rows(), rows as u64);
        assert_eq!(block_on(reader.schema()).unwrap(), schema);
        let request = ReadRequest { batch_rows: 1_000, ..ReadRequest::default() };
        let batches = block_on(block_on(reader.read(request)).unwrap().collect()).unwrap();
        assert_same(&concat(&schema, &batches), &batch, &format!("seed {seed}"));
        let wanted: Vec<u64> = (0..100).map(|_| generator.below(rows) as u64).collect();
        let taken = block_on(reader.take(&wanted, &Projection::all(), Strings::Views)).unwrap();
        let expected = Reader::from_bytes(bytes).unwrap().take(&wanted, &Projection::all(), Strings::Views).unwrap();
        assert_same(&taken, &expected, &format!("seed {seed}, taken"));
    }
}

#[test]
fn a_scan_fetches_what_its_condition_leaves() {
    let rows = 200_000;
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let mut generator = Generator::new(1);
    let noise: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| generator.next_u64() as i64)));
    let batch = RecordBatch::try_from_iter([("number", number), ("noise", noise)]).unwrap();
    let store = Arc::new(Counting::default());
    store.put(write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default()));
    let reader = open(&store);
    let between = |low: i64, high: i64| Predicate::Between {
        low: Scalar::Int(low.into()),
        high: Scalar::Int(high.into()),
        negated: false,
        order: FloatOrder::Total,
    };
    let scan_of = |low, high| {
        store.take_requests();
        let request = ScanRequest { condition: Condition::column(0, between(low, high)), ..ScanRequest::default() };
        let mut scan = block_on(reader.scan(request)).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = block_on(scan.next()) {
            batches.push(batch.unwrap());
        }
        let found = concat(&batch.schema(), &batches);
        assert_same(&found, &batch.slice(low as usize, (high - low + 1) as usize), &format!("{low} to {high}"));
        (store.take_requests(), scan.metrics().bytes_read)
    };
    // A block of each column, the second once the first has said which.
    let (requests, bytes_read) = scan_of(70_000, 90_000);
    assert!(requests <= 2 && (160_000..700_000).contains(&bytes_read), "{requests} requests, {bytes_read} bytes");
    let (requests, all) = scan_of(0, rows - 1);
    // All blocks of both columns, ahead of what is looked at: those of the condition are settled by zones.
    assert!(requests <= 5 && all > 1_600_000, "{requests} requests, {all} bytes");
    // Without a condition, all that is read ahead in one request.
    let plain = block_on(reader.scan(ScanRequest::default())).unwrap();
    store.take_requests();
    let count = block_on(plain.into_stream().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>());
    assert_eq!(count.iter().sum::<usize>(), rows as usize);
    assert!(store.take_requests() <= 2);
}

#[test]
fn bloom_filters_of_all_row_groups_are_fetched_together() {
    let rows = 600_000;
    let mut generator = Generator::new(2);
    let ids = Int64Array::from_iter_values((0..rows).map(|_| generator.next_u64() as i64 / 2));
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids.clone()) as ArrayRef)]).unwrap();
    let store = Arc::new(Counting::default());
    let bloom = vec![BloomColumn::new("id")];
    let options = WriteOptions { row_group_rows: 200_000, bloom, ..WriteOptions::default() };
    store.put(write(&batch.schema(), std::slice::from_ref(&batch), options));
    let reader = open(&store);
    block_on(reader.schema()).unwrap();
    let scan_of = |id: i64| {
        let predicate =
            Predicate::In { values: vec![Scalar::Int(id.into())], negated: false, order: FloatOrder::Total };
        let request = ScanRequest { condition: Condition::column(0, predicate), ..ScanRequest::default() };
        store.take_requests();
        let mut scan = block_on(reader.scan(request)).unwrap();
        let mut found = 0;
        while let Some(batch) = block_on(scan.next()) {
            found += batch.unwrap().num_rows();
        }
        (found, store.take_requests(), scan.metrics())
    };
    let (found, requests, metrics) = scan_of(generator.next_u64() as i64 / 2);
    assert_eq!((found, requests, metrics.rows_fallen_by_blooms, metrics.row_groups_fallen), (0, 3, 600_000, 3));
    assert!(metrics.bytes_read < 13_000, "{metrics:?}");
    // A block more, which holds it; its row is taken from the same bytes, and counted again.
    let (found, requests, metrics) = scan_of(ids.value(300_000));
    assert_eq!((found, requests), (1, 4));
    assert!(metrics.bytes_read < 1_100_000, "{metrics:?}");
}

#[test]
fn one_column_of_many_takes_four_requests() {
    let columns = 20_000;
    let fields: Vec<_> =
        (0..columns).map(|index| Field::new(format!("column_{index}"), DataType::Int64, false)).collect();
    let array = |index: i64| Arc::new(Int64Array::from_iter_values((0..10).map(|row| index * row))) as ArrayRef;
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), (0..columns).map(array).collect()).unwrap();
    let store = Arc::new(Counting::default());
    store.put(write(&schema, &[batch], WriteOptions::default()));
    for column in (0..columns).step_by(701) {
        store.take_requests();
        let reader = open(&store);
        let projection = block_on(reader.projection(&[format!("column_{column}")])).unwrap();
        let request = ReadRequest { projection, ..ReadRequest::default() };
        let batches = block_on(block_on(reader.read(request)).unwrap().collect()).unwrap();
        assert_eq!(batches[0].column(0), &array(column));
        let requests = store.take_requests();
        assert!(requests <= 4, "{requests} requests");
    }
}

#[test]
fn large_values_are_fetched_last_and_in_few_requests() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..60).map(|row| format!("{row:>9}").repeat(3_000))));
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![texts]).unwrap();
    let store = Arc::new(Counting::default());
    store.put(write(&schema, std::slice::from_ref(&batch), WriteOptions::default()));
    let reader = open(&store);
    store.take_requests();
    let batches = block_on(block_on(reader.read(ReadRequest::default())).unwrap().collect()).unwrap();
    assert_same(&concat(&schema, &batches), &batch, "large values");
    let requests = store.take_requests();
    assert!(requests <= 6, "{requests} requests for 60 large values");
}

/// Strings without a pattern: 65,536 of 192 hexadecimal digits make a block of some 6 MB.
fn noise(rows: usize) -> (Arc<Schema>, RecordBatch) {
    let mut generator = Generator::new(330);
    let text =
        |generator: &mut Generator| (0..12).map(|_| format!("{:016x}", generator.next_u64())).collect::<String>();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| text(&mut generator))));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| generator.below(1_000_000) as i64)));
    let fields = vec![Field::new("text", DataType::Utf8, false), Field::new("key", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    (schema.clone(), RecordBatch::try_new(schema, vec![texts, keys]).unwrap())
}

#[test]
fn of_blocks_of_megabytes_single_rows_are_read_and_others_are_read_whole() {
    let rows = 3 * 65_536;
    let (schema, batch) = noise(rows);
    let store = Arc::new(Counting::default());
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    store.put(bytes.clone());
    let reader = open(&store);
    let sizes: Vec<_> = [0, 1]
        .map(|column| {
            block_on(reader.column(column)).unwrap().chunks[0].blocks.iter().map(|block| block.size_bytes).max()
        })
        .into();
    assert!(sizes[0] > Some(3 << 20) && sizes[1] < Some(1 << 20), "{sizes:?}");
    let whole = Reader::from_bytes(bytes).unwrap();
    store.take_requests();
    for wanted in [vec![100_000], vec![100_001, 100_000], vec![7, rows as u64 - 1]] {
        let taken = block_on(reader.take(&wanted, &Projection::all(), Strings::Views)).unwrap();
        assert_same(&taken, &whole.take(&wanted, &Projection::all(), Strings::Views).unwrap(), "single rows");
        let read_bytes: u64 = store.ranges.lock().unwrap().iter().map(|range| range.end - range.start).sum();
        let requests = store.take_requests();
        // Of each of two columns' two blocks at most: the head, and then what a node learns that it needs, lengths, their patches, codes,
        // near ones together.
        assert!(requests <= 10, "{requests} requests for {wanted:?}");
        assert!(read_bytes < 3 << 20, "{read_bytes} bytes for {wanted:?}");
    }
    // What was read is kept.
    block_on(reader.take(&[100_000, 7], &Projection::all(), Strings::Views)).unwrap();
    assert_eq!(store.take_requests(), 0);
}

#[test]
fn large_values_are_found_again_by_a_second_call() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..9).map(|row| format!("{row:>9}").repeat(3_000))));
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![texts]).unwrap();
    let store = Arc::new(Counting::default());
    store.put(write(&schema, std::slice::from_ref(&batch), WriteOptions::default()));
    let reader = open(&store);
    for row in 0..9 {
        let taken = block_on(reader.take(&[row], &Projection::all(), Strings::AsStored)).unwrap();
        assert_same(&taken, &batch.slice(row as usize, 1), "a large value");
    }
}

#[test]
fn an_object_that_was_replaced_is_an_error() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
    let mut generator = Generator::new(320);
    let store = Arc::new(Counting::default());
    let first = generator.batch(&schema, 20_000);
    store.put(write(&schema, &[first], WriteOptions::default()));
    let reader = open(&store);
    store.put(write(&schema, &[generator.batch(&schema, 20_000)], WriteOptions::default()));
    let result = block_on(block_on(reader.read(ReadRequest::default())).unwrap().collect());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
    let missing = block_on(AsyncReader::open(store, Path::from("nowhere"))).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[test]
fn a_store_that_fails_on_the_way_fails_the_scan_with_the_range_and_can_be_asked_again() {
    let (schema, batch) = noise(2 * 65_536);
    let store = Arc::new(Counting { answers: Some(AtomicU64::new(u64::MAX)), ..Counting::default() });
    let options = WriteOptions { row_group_rows: 65_536, ..WriteOptions::default() };
    store.put(write(&schema, std::slice::from_ref(&batch), options));
    let answer = |count| store.answers.as_ref().unwrap().store(count, Ordering::Relaxed);
    let reader = open(&store);
    block_on(reader.schema()).unwrap();
    let key = |low: i128| {
        let (low, high) = (Scalar::Int(low), Scalar::Int(999_999));
        Condition::column(1, Predicate::Between { low, high, negated: false, order: FloatOrder::Total })
    };
    let request = ScanRequest { condition: key(500_000), batch_rows: 65_536, ..ScanRequest::default() };
    let mut expected = Vec::new();
    let mut scan = block_on(reader.scan(request.clone())).unwrap();
    while let Some(batch) = block_on(scan.next()) {
        expected.push(batch.unwrap());
    }
    let asked = scan.metrics().requests;
    // Wherever it fails, the scan fails there, and goes on from there once the store answers again.
    for answered in 0..asked.min(6) {
        answer(u64::MAX);
        let mut scan = block_on(reader.scan(request.clone())).unwrap();
        answer(answered);
        let (mut found, mut failures) = (Vec::new(), 0);
        loop {
            match block_on(scan.next()) {
                None => break,
                Some(Ok(batch)) => found.push(batch),
                Some(Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Io);
                    let error = error.to_string();
                    assert!(error.contains("folder/a.ent") && error.contains("bytes "), "{error}");
                    assert!(error.contains("the line is dead") && error.contains(".."), "{error}");
                    failures += 1;
                    answer(u64::MAX);
                }
            }
        }
        assert_eq!(failures, 1, "after {answered} requests");
        let (found, expected) = (concat(&schema, &found), concat(&schema, &expected));
        assert_same(&found, &expected, &format!("after {answered} requests"));
    }
    // The same of rows that are read in order.
    let mut batches = block_on(reader.read(ReadRequest::default())).unwrap();
    answer(1);
    let failed = loop {
        match block_on(batches.next()) {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error.to_string(),
            None => panic!("nothing failed"),
        }
    };
    assert!(failed.contains("folder/a.ent: bytes ") && failed.contains("the line is dead"), "{failed}");
}

/// A file that somebody has, of which a request may bring less than was asked for.
struct Had {
    bytes: Bytes,
    most_bytes: u64,
    requests: AtomicU64,
}

impl AsyncSource for Had {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> &str {
        "had.ent"
    }

    fn fetch(&self, range: Range<u64>) -> BoxFuture<'_, entasis::Result<Bytes>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let end = range.end.min(range.start.saturating_add(self.most_bytes));
        async move { Ok(self.bytes.slice(range.start as usize..end as usize)) }.boxed()
    }
}

#[test]
fn whoever_has_the_bytes_of_a_version_can_be_read() {
    let (schema, batch) = noise(40_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let had = |most_bytes, bytes| Arc::new(Had { bytes, most_bytes, requests: AtomicU64::new(0) });
    let rows = |reader: AsyncReader| {
        block_on(async move { reader.read(ReadRequest::default()).await?.collect().await })
            .map(|found| concat(&schema, &found))
    };
    let source = had(u64::MAX, bytes.clone());
    let reader = block_on(AsyncReader::open_source(source.clone())).unwrap();
    assert_eq!(source.requests.load(Ordering::Relaxed), 1);
    assert_same(&rows(reader.clone()).unwrap(), &batch, "by a source");
    // Of what was fetched nothing is asked for again.
    let other = had(u64::MAX, bytes.clone());
    let before = source.requests.load(Ordering::Relaxed);
    assert_same(&rows(reader.with_source(other.clone())).unwrap(), &batch, "by another source");
    assert_eq!((source.requests.load(Ordering::Relaxed), other.requests.load(Ordering::Relaxed)), (before, before - 1));
    // Less than was asked for, and nothing at all, are errors.
    let short = reader.with_source(had(1_000, bytes.clone()));
    assert_eq!(rows(short).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(block_on(AsyncReader::open_source(had(1_000, bytes))).is_err());
    assert!(block_on(AsyncReader::open_source(had(u64::MAX, Bytes::new()))).is_err());
}
