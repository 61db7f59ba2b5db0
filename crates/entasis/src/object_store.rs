//! Reading from object stores.
//!
//! The reader of local files is driven here by a source that holds what has been fetched: where it lacks bytes it names
//! them all, they are fetched together, and the same call is made again. Nothing is parsed twice over, and no runtime
//! is started.

use std::{ops::Range, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use entasis_encoding::{Aggregates, Wanted};
use futures::{
    Stream, StreamExt, TryStreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use object_store::{GetOptions, GetRange, ObjectStore, path::Path};

use crate::{
    arrow::Strings,
    error::{Error, Result},
    metadata::record::ColumnRecord,
    read::{Batches, Projection, ReadLimits, ReadRequest, Reader, TAIL_BYTES},
    scan::{Condition, Scan, ScanMetrics, ScanRequest},
    source::{Fetched, STORE_REQUEST_BYTES, coalesce},
};

/// Requests under way at a time.
const CONCURRENT_REQUESTS: usize = 10;

/// One version of a file whose bytes take their time to come: an object in a store, or what somebody keeps of one.
pub trait AsyncSource: Send + Sync {
    /// Length of the file.
    fn size_bytes(&self) -> u64;

    /// What errors call the file.
    fn name(&self) -> &str;

    /// The bytes of `range`: all of them, of this version, or an error.
    fn fetch(&self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>>;
}

/// A file in an object store. Every request is for the version that was opened: where it has been replaced, requests
/// fail instead of mixing the two.
#[derive(Clone)]
pub struct AsyncReader {
    source: Arc<dyn AsyncSource>,
    e_tag: Option<String>,
    /// What the metadata is read from.
    fetched: Arc<Fetched>,
    reader: Reader,
}

/// One version of an object.
struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    size_bytes: u64,
    e_tag: Option<String>,
}

impl AsyncReader {
    /// Opens the object at `path` by one request, for its tail.
    pub async fn open(store: Arc<dyn ObjectStore>, path: Path) -> Result<Self> {
        Self::open_with(store, path, ReadLimits::default()).await
    }

    /// As [`Self::open`], with other limits.
    pub async fn open_with(store: Arc<dyn ObjectStore>, path: Path, limits: ReadLimits) -> Result<Self> {
        let options = GetOptions { range: Some(GetRange::Suffix(TAIL_BYTES)), ..GetOptions::default() };
        let result = store.get_opts(&path, options).await.map_err(|error| failure(&path, error))?;
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let tail = result.bytes().await.map_err(|error| failure(&path, error))?;
        let e_tag = meta.e_tag.clone();
        let object = Object { store, name: path.to_string(), path, size_bytes: meta.size, e_tag: meta.e_tag };
        Self::with_tail(Arc::new(object), e_tag, range.start, tail, limits).await
    }

    /// Opens the version of a file that `source` has, by one request, for its tail.
    pub async fn open_source(source: Arc<dyn AsyncSource>) -> Result<Self> {
        let size_bytes = source.size_bytes();
        let start = size_bytes.saturating_sub(TAIL_BYTES);
        let tail = if size_bytes == 0 { Bytes::new() } else { fetch_all(&*source, start..size_bytes).await? };
        Self::with_tail(source, None, start, tail, ReadLimits::default()).await
    }

    async fn with_tail(
        source: Arc<dyn AsyncSource>,
        e_tag: Option<String>,
        start: u64,
        tail: Bytes,
        limits: ReadLimits,
    ) -> Result<Self> {
        let fetched = fetched_of(&*source);
        fetched.insert(start, tail);
        let reader = drive(&*source, &fetched, || Reader::from_source(fetched.clone(), limits)).await?;
        Ok(Self { source, e_tag, fetched, reader })
    }

    /// The same file, of which what hasn't been fetched yet comes from `source`, which has to be of the same version.
    pub fn with_source(&self, source: Arc<dyn AsyncSource>) -> Self {
        Self { source, ..self.clone() }
    }

    /// Bytes of the file.
    pub fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    /// What the store calls the version that was opened; `None` where it doesn't tell versions apart, and of a source, which knows itself.
    pub fn e_tag(&self) -> Option<&str> {
        self.e_tag.as_deref()
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        self.reader.rows()
    }

    /// Number of row groups.
    pub fn row_group_count(&self) -> usize {
        self.reader.row_group_count()
    }

    /// Number of top-level columns.
    pub fn column_count(&self) -> usize {
        self.reader.column_count()
    }

    /// The whole schema: see [`Reader::schema`].
    pub async fn schema(&self) -> Result<SchemaRef> {
        self.call(|reader| reader.schema()).await
    }

    /// Numbers of the columns of this name: see [`Reader::columns_named`].
    pub async fn columns_named(&self, name: &str) -> Result<Vec<usize>> {
        self.call(|reader| reader.columns_named(name)).await
    }

    /// The record of a column: see [`Reader::column`].
    pub async fn column(&self, index: usize) -> Result<Arc<ColumnRecord>> {
        self.call(|reader| reader.column(index)).await
    }

    /// The projection of these paths: see [`Reader::projection`].
    pub async fn projection(&self, paths: &[String]) -> Result<Projection> {
        self.call(|reader| reader.projection(paths)).await
    }

    /// Anything of the metadata, by a call that may be made several times: each time that it lacks bytes, they are
    /// fetched.
    pub async fn call<T>(&self, call: impl Fn(&Reader) -> Result<T>) -> Result<T> {
        drive(&*self.source, &self.fetched, || call(&self.reader)).await
    }

    /// Makes a call until it lacks nothing: metadata are fetched for everybody, blocks for `data`.
    async fn complete<T>(&self, data: &Fetched, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let blocks_end = self.reader.blocks_end();
        loop {
            match call() {
                Err(Error::Missing(ranges)) => {
                    let source_of = |offset| if offset < blocks_end { data } else { &self.fetched };
                    fetch_into(&*self.source, &ranges, source_of).await?;
                }
                result => return result,
            }
        }
    }

    /// Reads rows in order: see [`Reader::read`].
    pub async fn read(&self, request: ReadRequest) -> Result<AsyncBatches> {
        let data = fetched_of(&*self.source);
        let batches = self.call(|reader| reader.read_from(data.clone(), request.clone())).await?;
        Ok(AsyncBatches { reader: self.clone(), data, batches })
    }

    /// The rows for which a condition holds: see [`Reader::scan`].
    pub async fn scan(&self, request: ScanRequest) -> Result<AsyncScan> {
        let data = fetched_of(&*self.source);
        let scan = self.call(|reader| reader.scan_from(data.clone(), request.clone())).await?;
        Ok(AsyncScan { reader: self.clone(), data, scan })
    }

    /// Reads single rows: see [`Reader::take`].
    pub async fn take(&self, rows: &[u64], projection: &Projection, strings: Strings) -> Result<RecordBatch> {
        let data = fetched_of(&*self.source);
        self.complete(&data, || self.reader.take_from(data.clone(), rows, projection, strings)).await
    }
}

/// The rows that were asked for, in order.
pub struct AsyncBatches {
    reader: AsyncReader,
    data: Arc<Fetched>,
    batches: Batches,
}

impl AsyncBatches {
    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        self.batches.schema()
    }

    /// The next batch; `None` after the last. After an error, the next batch is the one after the rows that failed; if it was the store
    /// that failed, the same one is asked for again.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.reader.complete(&self.data, || self.batches.next().transpose()).await;
        // Open blocks hold what they need; the rest has been read.
        self.data.clear();
        next.transpose()
    }

    /// The batches as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        stream::unfold(self, |mut batches| async { batches.next().await.map(|batch| (batch, batches)) })
    }

    /// All batches.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        self.into_stream().try_collect().await
    }
}

/// A scan of a file in an object store: the rows that pass, in order.
pub struct AsyncScan {
    reader: AsyncReader,
    data: Arc<Fetched>,
    scan: Scan,
}

impl AsyncScan {
    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        self.scan.schema()
    }

    /// What the scan did so far.
    pub fn metrics(&self) -> ScanMetrics {
        self.scan.metrics()
    }

    /// Asks for another condition from here on: see [`Scan::set_condition`].
    pub async fn set_condition(&mut self, condition: &Condition) -> Result<()> {
        self.reader.complete(&self.data, || self.scan.set_condition(condition)).await
    }

    /// The next batch; `None` after the last, and after an error; if it was the store that failed, the same one is asked for again.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.reader.complete(&self.data, || self.scan.next().transpose()).await;
        self.data.clear();
        next.transpose()
    }

    /// Counts rows that pass into `into`: see [`Scan::aggregate`].
    pub async fn aggregate(&mut self, wanted: &[Wanted], into: &mut [Aggregates]) -> Result<bool> {
        let more = self.reader.complete(&self.data, || self.scan.aggregate(wanted, into)).await;
        self.data.clear();
        more
    }

    /// The batches as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        stream::unfold(self, |mut scan| async { scan.next().await.map(|batch| (batch, scan)) })
    }
}

/// Nothing yet of a file of a store.
fn fetched_of(source: &dyn AsyncSource) -> Arc<Fetched> {
    Fetched::new(source.size_bytes(), source.name(), STORE_REQUEST_BYTES)
}

/// Makes a call until it lacks nothing of one source.
async fn drive<T>(source: &dyn AsyncSource, fetched: &Fetched, call: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Error::Missing(ranges)) => fetch_into(source, &ranges, |_| fetched).await?,
            result => return result,
        }
    }
}

/// The bytes of a range, if it is all of them.
async fn fetch_all(source: &dyn AsyncSource, range: Range<u64>) -> Result<Bytes> {
    let bytes = source.fetch(range.clone()).await?;
    if bytes.len() as u64 != range.end - range.start {
        let what = format!("bytes {range:?} were asked for and {} came", bytes.len());
        return Err(Error::Truncated { file: source.name().to_owned(), what });
    }
    Ok(bytes)
}

/// Fetches ranges, near ones together, and gives each to the holder that `holder_of` says for its offset.
async fn fetch_into<'a>(
    source: &dyn AsyncSource,
    ranges: &[Range<u64>],
    holder_of: impl Fn(u64) -> &'a Fetched,
) -> Result<()> {
    let requests = coalesce(ranges, STORE_REQUEST_BYTES).into_iter().map(|range| async move {
        let start = range.start;
        Ok::<_, Error>((start, fetch_all(source, range).await?))
    });
    let mut fetched = stream::iter(requests).buffer_unordered(CONCURRENT_REQUESTS);
    while let Some((offset, bytes)) = fetched.try_next().await? {
        let end = offset + bytes.len() as u64;
        for range in ranges.iter().filter(|range| offset <= range.start && range.end <= end) {
            let slice = bytes.slice((range.start - offset) as usize..(range.end - offset) as usize);
            holder_of(range.start).insert(range.start, slice);
        }
    }
    Ok(())
}

impl AsyncSource for Object {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn fetch(&self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.request(range).boxed()
    }
}

impl Object {
    async fn request(&self, range: Range<u64>) -> Result<Bytes> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.e_tag.clone(),
            ..GetOptions::default()
        };
        let failed = |source| failure(&self.path, RangeError { range: range.clone(), source });
        let result = self.store.get_opts(&self.path, options).await.map_err(failed)?;
        result.bytes().await.map_err(failed)
    }
}

/// A request that the store didn't answer.
#[derive(Debug, thiserror::Error)]
#[error("bytes {range:?}: {source}")]
struct RangeError {
    range: Range<u64>,
    source: object_store::Error,
}

fn failure(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::io(path.to_string(), std::io::Error::other(error))
}
