//! Open files: metadata are read once, for statistics and scans alike, and for all partitions that share a file.

use std::{
    collections::VecDeque,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::{
    common::{Result, Statistics},
    object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore},
    physical_expr::LexOrdering,
};
use entasis::{
    AsyncReader, AsyncScan, Condition, ReadLimits, Reader, Scan, ScanRequest, SortColumn,
    encoding::{Aggregates, Wanted},
    scan::ScanMetrics,
    source::FileSource,
};
use tokio::sync::OnceCell;

use crate::{
    error::{external, replaced},
    place::{Place, is_local},
    statistics::{ordering_of, statistics_of},
};

/// Files that stay open between queries.
const OPEN_FILES: usize = 256;

/// One version of a file in a store.
#[derive(Debug, Clone, PartialEq)]
struct Version {
    /// The address of the store, which the entry keeps alive.
    store: usize,
    meta: ObjectMeta,
}

type Entry = (Version, Arc<dyn ObjectStore>, Arc<OnceCell<Arc<OpenFile>>>);

/// Files that were opened before, the least recently used first. A file that was overwritten is another version, and
/// opened anew.
#[derive(Default)]
pub(crate) struct FileCache {
    entries: Mutex<VecDeque<Entry>>,
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileCache")
    }
}

impl FileCache {
    /// The file that `meta` describes. Fails if the store has another version of it by now.
    pub async fn open(&self, place: &Place, meta: &ObjectMeta) -> Result<Arc<OpenFile>> {
        let cell = self.entry(&place.store, meta);
        let open = || async { OpenFile::open(place, meta).await.map(Arc::new) };
        let file = cell.get_or_try_init(open).await?;
        file.check_version()?;
        Ok(file.behind(place, meta))
    }

    fn entry(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Arc<OnceCell<Arc<OpenFile>>> {
        // Without either, versions can't be told apart.
        if meta.e_tag.is_none() && meta.last_modified.timestamp() == 0 {
            return Arc::default();
        }
        let version = Version { store: Arc::as_ptr(store).cast::<()>() as usize, meta: meta.clone() };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().position(|(present, ..)| *present == version);
        let entry = match found.and_then(|position| entries.remove(position)) {
            Some(entry) => entry,
            None => (version, store.clone(), Arc::default()),
        };
        let cell = entry.2.clone();
        entries.push_back(entry);
        if entries.len() > OPEN_FILES {
            entries.pop_front();
        }
        cell
    }
}

/// A file that is open, by position on this machine or through its store.
pub(crate) struct OpenFile {
    handle: Handle,
    /// As it is stored, without the schema's own metadata.
    schema: SchemaRef,
    row_group_rows: Vec<u64>,
    /// Whether its bytes come through a cache.
    is_cached: bool,
    /// The same file through a cache, which wasn't known when it was opened.
    behind: OnceLock<Arc<OpenFile>>,
    /// What was said of it last.
    described: Mutex<Option<Arc<Described>>>,
}

/// What a file says of itself to tables of a schema.
pub(crate) struct Described {
    table: SchemaRef,
    pub statistics: Statistics,
    pub ordering: Option<LexOrdering>,
}

enum Handle {
    Local(LocalFile),
    Remote(AsyncReader),
}

struct LocalFile {
    reader: Reader,
    path: PathBuf,
    size_bytes: u64,
    modified: Option<SystemTime>,
}

impl OpenFile {
    async fn open(place: &Place, meta: &ObjectMeta) -> Result<Self> {
        let handle = match open_local(&place.store, meta).await? {
            Some(local) => Handle::Local(local),
            None => Handle::Remote(place.open(meta).await?),
        };
        let is_cached = place.behind.is_some();
        let opened = Self::new(handle, Arc::new(Schema::empty()), Vec::new(), is_cached);
        let schema = opened.call(|reader| reader.schema()).await?;
        let row_group_rows = opened.call(|reader| reader.row_group_rows().map(<[u64]>::to_vec)).await?;
        Ok(Self { schema: Arc::new(Schema::new(schema.fields().clone())), row_group_rows, ..opened })
    }

    fn new(handle: Handle, schema: SchemaRef, row_group_rows: Vec<u64>, is_cached: bool) -> Self {
        let (behind, described) = (OnceLock::new(), Mutex::default());
        Self { handle, schema, row_group_rows, is_cached, behind, described }
    }

    /// The same file behind the cache of its place. It was opened before there was one, or before the store's URL was known: what was read of its
    /// metadata then needn't be read again.
    fn behind(self: &Arc<Self>, place: &Place, meta: &ObjectMeta) -> Arc<Self> {
        let Handle::Remote(reader) = &self.handle else { return self.clone() };
        let Some(source) = place.cached(meta).filter(|_| !self.is_cached) else { return self.clone() };
        let behind = || {
            let handle = Handle::Remote(reader.with_source(source));
            Arc::new(Self::new(handle, self.schema.clone(), self.row_group_rows.clone(), true))
        };
        self.behind.get_or_init(behind).clone()
    }

    /// What it says to tables with the columns `table`.
    pub async fn described(&self, table: &SchemaRef) -> Result<Arc<Described>> {
        let last = || self.described.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(described) = last().as_ref().filter(|described| described.table == *table) {
            return Ok(described.clone());
        }
        let statistics = statistics_of(self, table).await?;
        let ordering = ordering_of(self, table).await?;
        let described = Arc::new(Described { table: table.clone(), statistics, ordering });
        *last() = Some(described.clone());
        Ok(described)
    }

    /// The fields as they are stored.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of each row group.
    pub fn row_group_rows(&self) -> &[u64] {
        &self.row_group_rows
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        self.row_group_rows.iter().sum()
    }

    /// The order that the rows were written in.
    pub async fn sort_order(&self) -> Result<Vec<SortColumn>> {
        self.call(|reader| reader.sort_order()).await
    }

    /// Anything of the metadata, by a call that may be made several times.
    pub async fn call<T>(&self, call: impl Fn(&Reader) -> entasis::Result<T>) -> Result<T> {
        match &self.handle {
            Handle::Local(local) => call(&local.reader).map_err(external),
            Handle::Remote(reader) => reader.call(call).await.map_err(external),
        }
    }

    /// Begins a scan. Local files are read and decoded where batches are asked for.
    pub async fn scan(&self, request: ScanRequest) -> Result<FileScan> {
        Ok(match &self.handle {
            Handle::Local(local) => FileScan::Local(Box::new(local.reader.scan(request).map_err(external)?)),
            Handle::Remote(reader) => FileScan::Remote(Box::new(reader.scan(request).await.map_err(external)?)),
        })
    }

    /// Fails if the file isn't the one any more that was opened. Through stores every request is for that version anyway.
    pub fn check_version(&self) -> Result<()> {
        let Handle::Local(local) = &self.handle else { return Ok(()) };
        let same = std::fs::metadata(&local.path)
            .is_ok_and(|now| now.len() == local.size_bytes && now.modified().ok() == local.modified);
        if same { Ok(()) } else { Err(replaced(local.reader.name())) }
    }
}

/// A scan that is under way. Dropped, it ends.
pub(crate) enum FileScan {
    Local(Box<Scan>),
    Remote(Box<AsyncScan>),
}

impl FileScan {
    /// The next batch; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = match self {
            FileScan::Local(scan) => scan.next(),
            FileScan::Remote(scan) => scan.next().await,
        };
        next.transpose().map_err(external)
    }

    /// Counts rows that pass into `into`; false if none are left.
    pub async fn aggregate(&mut self, wanted: &[Wanted], into: &mut [Aggregates]) -> Result<bool> {
        let more = match self {
            FileScan::Local(scan) => scan.aggregate(wanted, into),
            FileScan::Remote(scan) => scan.aggregate(wanted, into).await,
        };
        more.map_err(external)
    }

    /// Asks the rows to come for another condition.
    pub async fn set_condition(&mut self, condition: &Condition) -> Result<()> {
        let set = match self {
            FileScan::Local(scan) => scan.set_condition(condition),
            FileScan::Remote(scan) => scan.set_condition(condition).await,
        };
        set.map_err(external)
    }

    /// What it did so far.
    pub fn metrics(&self) -> ScanMetrics {
        match self {
            FileScan::Local(scan) => scan.metrics(),
            FileScan::Remote(scan) => scan.metrics(),
        }
    }
}

/// Opens the file by position, if it lies on this machine.
async fn open_local(store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Result<Option<LocalFile>> {
    // Any other store would send the file's bytes for this question.
    if !is_local(store) {
        return Ok(None);
    }
    let result = store.get_opts(&meta.location, GetOptions::default()).await?;
    let now = result.meta;
    let GetResultPayload::File(file, path) = result.payload else { return Ok(None) };
    let same_tag = meta.e_tag.is_none() || meta.e_tag == now.e_tag;
    let name = path.display().to_string();
    if now.size != meta.size || !same_tag {
        return Err(replaced(&name));
    }
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let source = FileSource::of_file(file, now.size, name);
    let reader = Reader::from_source(Arc::new(source), ReadLimits::default()).map_err(external)?;
    Ok(Some(LocalFile { reader, path, size_bytes: now.size, modified }))
}
