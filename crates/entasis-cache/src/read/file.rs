//! An open Parquet file: one version of an object, and its metadata.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use bytes::Bytes;
use entasis::arrow::{ColumnNode, shred};
use entasis_encoding::Physical;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use parquet::DecodeResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataPushDecoder,
    ParquetStatisticsPolicy, RowGroupMetaData,
};

use super::object::Object;
use super::pages::Source;
use super::request::ParquetRequest;
use super::rows::ParquetRows;
use crate::{Cache, ColumnId, Error, Result, Version};

/// Bytes that opening reads from the end: the metadata of most files. Those of large files are larger.
const TAIL_BYTES: RangeInclusive<u64> = 64 * 1024..=1 << 20;

/// Of an object of so many bytes one is metadata, if it is about as others are.
const BYTES_PER_TAIL_BYTE: u64 = 1024;

/// What a Parquet file ends with, after the four bytes of its metadata's length.
const MAGIC: &[u8; 4] = b"PAR1";

/// One version of a Parquet file, read through a cache. Cheap to clone. Open it for every query: that is how a query sees what was
/// written before it began.
#[derive(Debug, Clone)]
pub struct ParquetFile(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub cache: Cache,
    pub object: Object,
    pub source: Arc<Source>,
}

impl ParquetFile {
    /// Asks `store` which version it has at `path` now, and reads its metadata. `url` names the store: cells of equal paths in stores of
    /// different URLs are different cells.
    ///
    /// # Errors
    /// What the store says, not found among it; [`Error::Changed`] if it is overwritten meanwhile; what arrow-rs says of the metadata;
    /// unsupported are types that blocks can't hold.
    pub async fn open(
        cache: &Cache,
        store: Arc<dyn ObjectStore>,
        url: impl Into<Arc<str>>,
        path: &Path,
    ) -> Result<Self> {
        Self::of(cache, Object::find(store, url.into(), path).await?).await
    }

    /// As [`Self::open`], of the version that the store has just described, and without asking it again.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_found(
        cache: &Cache,
        store: Arc<dyn ObjectStore>,
        url: impl Into<Arc<str>>,
        meta: ObjectMeta,
    ) -> Result<Self> {
        Self::of(cache, Object::found(store, url.into(), meta)).await
    }

    async fn of(cache: &Cache, object: Object) -> Result<Self> {
        if !Version::is_told(object.meta()) {
            let what = format!("{}: caching what has neither an ETag nor a time", object.version().object());
            return Err(entasis::Error::Unsupported(what).into());
        }
        // A statement of its own: the lock isn't held while the store is asked.
        let kept = cache.footers().get(object.version());
        let (object, source) = match kept {
            Some(source) => (object.known(&source.is_near), source),
            None => {
                let (metadata, whole) = read_metadata(&object, cache.whole_bytes()).await?;
                check_places(&object, &metadata)?;
                let lacks_page_index = !reads_page_index(&object, cache.whole_bytes()) && has_page_index(&metadata);
                let source = Arc::new(Source::new(&object, Arc::new(metadata), lacks_page_index)?);
                let gone = cache.footers().insert(&source, whole);
                gone.iter().for_each(|version| cache.drop_pages(version));
                // What was there of it before is of no use any more.
                cache.invalidate_older(object.version());
                (object, source)
            }
        };
        Ok(Self(Arc::new(Inner { cache: cache.clone(), object, source })))
    }

    /// The same file, with byte strings of other types: views, strings with 64-bit offsets, text that the file calls binary. Cells serve
    /// all of them.
    ///
    /// # Errors
    /// Unsupported if a column is to be anything else than it is; what arrow-rs says of the schema.
    pub fn with_schema(&self, schema: SchemaRef) -> Result<Self> {
        let own = self.schema();
        if own.fields() == schema.fields() {
            return Ok(self.clone());
        }
        let physical = |schema: &SchemaRef| shred(schema).map(|nodes| nodes.into_iter().map(physicals).collect());
        let (was, wanted): (Vec<Vec<Physical>>, Vec<_>) = (physical(own)?, physical(&schema)?);
        if was != wanted {
            return Err(entasis::Error::Unsupported(format!("reading {own:?} as {schema:?}")).into());
        }
        Ok(self.with_source(Arc::new(self.0.source.with_schema(schema)?)))
    }

    /// The same file, with the index of its pages if it has one: not before rows are read, as what it takes to decode it is in vain where
    /// statistics of row groups answer.
    pub(super) async fn with_page_index(&self) -> Result<Self> {
        let Inner { cache, object, source } = &*self.0;
        if !source.lacks_page_index {
            return Ok(self.clone());
        }
        // One decodes it; who waited finds it. What is kept is asked in a statement of its own: its lock isn't held meanwhile.
        let _decoding = source.page_index.lock().await;
        let kept = cache.footers().get(object.version());
        let found = match kept.filter(|kept| !kept.lacks_page_index) {
            Some(kept) => kept,
            None => {
                let metadata = read_page_index(object, self.metadata()).await?;
                let found = Arc::new(Source::new(object, Arc::new(metadata), false)?);
                let gone = cache.footers().replace(&found);
                gone.iter().for_each(|version| cache.drop_pages(version));
                found
            }
        };
        Ok(self.with_source(match &source.supplied {
            Some(schema) => Arc::new(found.with_schema(schema.clone())?),
            None => found,
        }))
    }

    fn with_source(&self, source: Arc<Source>) -> Self {
        let Inner { cache, object, .. } = &*self.0;
        Self(Arc::new(Inner { cache: cache.clone(), object: object.clone(), source }))
    }

    /// The version.
    pub fn version(&self) -> &Version {
        self.0.object.version()
    }

    /// The schema, as arrow-rs reads it.
    pub fn schema(&self) -> &SchemaRef {
        self.0.source.metadata.schema()
    }

    /// Parquet's metadata.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.0.source.metadata.metadata()
    }

    /// The row groups that begin in a range of the file's bytes. Ranges that tile the file give row groups that do.
    pub fn row_groups_in(&self, range: &Range<u64>) -> Vec<usize> {
        let begins_in = |group: &RowGroupMetaData| {
            let first = group.columns().first();
            let offset = first.map_or(0, |column| column.dictionary_page_offset().unwrap_or(column.data_page_offset()));
            range.contains(&u64::try_from(offset).unwrap_or(0))
        };
        let groups = self.metadata().row_groups().iter().enumerate();
        groups.filter(|(_, group)| begins_in(group)).map(|(number, _)| number).collect()
    }

    /// Begins to read. Nothing is fetched yet.
    ///
    /// # Errors
    /// An invalid argument if there is no such column, unsupported are predicates on structs, lists and maps.
    pub fn read(&self, request: &ParquetRequest) -> Result<ParquetRows> {
        ParquetRows::new(self.clone(), request)
    }
}

/// The name of a leaf, fields of structs behind a dot each; `None` if its object's metadata aren't kept any more.
pub fn leaf_name(cache: &Cache, column: &ColumnId) -> Option<String> {
    let source = cache.footers().get(&column.version)?;
    let mut names = Vec::new();
    shred(source.metadata.schema()).ok()?.iter().for_each(|node| add_names(node, "", &mut names));
    names.into_iter().nth(column.leaf)
}

/// Bytes that Parquet has of a leaf, in all row groups and as they are compressed; `None` if its object's metadata aren't kept any more.
pub fn parquet_bytes(cache: &Cache, column: &ColumnId) -> Option<u64> {
    let source = cache.footers().get(&column.version)?;
    let wanted = source.layout.wanted(&[column.leaf].into());
    let of_group = |group: &RowGroupMetaData| {
        wanted.parquet.iter().map(|&leaf| u64::try_from(group.column(leaf).compressed_size()).unwrap_or(0)).sum::<u64>()
    };
    Some(source.metadata.metadata().row_groups().iter().map(of_group).sum())
}

fn add_names(node: &ColumnNode, prefix: &str, names: &mut Vec<String>) {
    let name = format!("{prefix}{}", node.field.name());
    let prefix = format!("{name}.");
    names.push(name);
    node.children.iter().flatten().for_each(|child| add_names(child, &prefix, names));
}

/// What a column's leaves are, the structs around them among them.
fn physicals(node: ColumnNode) -> Vec<Physical> {
    node.columns().iter().map(|column| column.physical.clone()).collect()
}

/// The metadata, and all of the object if it has at most `whole_bytes`.
async fn read_metadata(object: &Object, whole_bytes: u64) -> Result<(ParquetMetaData, Option<Bytes>)> {
    let size_bytes = object.size_bytes();
    let is_whole = size_bytes <= whole_bytes;
    let tail_bytes = (size_bytes / BYTES_PER_TAIL_BYTE).clamp(*TAIL_BYTES.start(), *TAIL_BYTES.end());
    let tail = if is_whole { 0 } else { size_bytes.saturating_sub(tail_bytes) }..size_bytes;
    let bytes = object.fetch(std::slice::from_ref(&tail)).await?.pop().unwrap_or_default();
    check_tail(object, &bytes)?;
    let whole = is_whole.then(|| bytes.clone());
    // What nobody here asks for isn't decoded: it is most of the metadata of many columns.
    let options = ParquetMetaDataOptions::new()
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let page_index = match reads_page_index(object, whole_bytes) {
        true => PageIndexPolicy::Optional,
        false => PageIndexPolicy::Skip,
    };
    let mut decoder = ParquetMetaDataPushDecoder::try_new(size_bytes)?
        .with_metadata_options(Some(Arc::new(options)))
        .with_page_index_policy(page_index);
    decoder.push_range(tail, bytes)?;
    Ok((decode(object, decoder).await?, whole))
}

/// Whether the index of pages is read with the other metadata: not where another request costs next to nothing.
fn reads_page_index(object: &Object, whole_bytes: u64) -> bool {
    object.size_bytes() <= whole_bytes || !object.is_near()
}

fn has_page_index(metadata: &ParquetMetaData) -> bool {
    let has_index =
        |chunk: &ColumnChunkMetaData| chunk.offset_index_offset().is_some() || chunk.column_index_offset().is_some();
    metadata.row_groups().iter().any(|group| group.columns().iter().any(has_index))
}

/// Metadata that lack it with the index of pages.
async fn read_page_index(object: &Object, metadata: &ParquetMetaData) -> Result<ParquetMetaData> {
    let decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(object.size_bytes(), metadata.clone())?;
    decode(object, decoder.with_page_index_policy(PageIndexPolicy::Optional)).await
}

async fn decode(object: &Object, mut decoder: ParquetMetaDataPushDecoder) -> Result<ParquetMetaData> {
    loop {
        match decoder.try_decode()? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => {
                let fetched = object.fetch(&ranges).await?;
                decoder.push_ranges(ranges, fetched)?;
            }
            DecodeResult::Finished => return Err(Error::damaged(object.version(), "no metadata")),
        }
    }
}

/// Refuses places before the object's start: arrow-rs takes for granted that nobody writes them.
fn check_places(object: &Object, metadata: &ParquetMetaData) -> Result<()> {
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let start = chunk.dictionary_page_offset().unwrap_or(0).min(chunk.data_page_offset());
            if start.min(chunk.compressed_size()) < 0 {
                let what = format!("its metadata place leaf {leaf} of row group {row_group} before its first byte");
                return Err(Error::damaged(object.version(), what));
            }
        }
    }
    Ok(())
}

/// Refuses what can't be Parquet's end before arrow-rs counts with it.
fn check_tail(object: &Object, tail: &Bytes) -> Result<()> {
    let Some((length, magic)) = tail.last_chunk::<8>().and_then(|end| end.split_first_chunk::<4>()) else {
        return Err(Error::damaged(object.version(), "too short for Parquet"));
    };
    if magic != MAGIC {
        return Err(Error::damaged(object.version(), "it doesn't end as Parquet files do"));
    }
    if u64::from(u32::from_le_bytes(*length)) > object.size_bytes() - 8 {
        return Err(Error::damaged(object.version(), "its metadata would begin before it does"));
    }
    Ok(())
}
