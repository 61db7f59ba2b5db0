//! Cells as their object has them: Parquet's pages, as they were fetched. They wait like that for being transcoded, and answer by being
//! decoded.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use entasis_encoding::Selection;
use futures::lock::Mutex;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowSelection};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::layout::{Layout, Wanted};
use super::object::Object;
use crate::ledger::Holdings;
use crate::{CELL_ROWS, Error, Result, Version};

/// What it takes to decode pages of an object.
#[derive(Debug)]
pub(crate) struct Source {
    pub version: Version,
    pub metadata: ArrowReaderMetadata,
    /// The schema, if it is another one than the file's own.
    pub supplied: Option<SchemaRef>,
    /// Bytes of Parquet's own metadata, as arrow-rs counts them.
    pub metadata_bytes: u64,
    /// The object has an index of its pages that wasn't decoded.
    pub lacks_page_index: bool,
    /// Held by who decodes it.
    pub page_index: Arc<Mutex<()>>,
    pub layout: Layout,
    /// Whether requests for it cost next to nothing.
    pub is_near: Arc<AtomicBool>,
}

impl Source {
    /// Of an object whose metadata these are, but for an index of its pages if it `lacks` one that there is.
    pub fn new(object: &Object, metadata: Arc<ParquetMetaData>, lacks_page_index: bool) -> Result<Self> {
        let metadata_bytes = metadata.memory_size() as u64;
        let metadata = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new())?;
        let layout = Layout::new(metadata.schema())?;
        let (version, is_near) = (object.version().clone(), object.nearness().clone());
        let page_index = Arc::default();
        Ok(Self { version, metadata, supplied: None, metadata_bytes, lacks_page_index, page_index, layout, is_near })
    }

    /// The same with a schema in the stead of its own.
    pub fn with_schema(&self, schema: SchemaRef) -> Result<Self> {
        let options = ArrowReaderOptions::new().with_schema(schema.clone());
        let metadata = ArrowReaderMetadata::try_new(self.metadata.metadata().clone(), options)?;
        let layout = Layout::new(metadata.schema())?;
        let (version, is_near, page_index) = (self.version.clone(), self.is_near.clone(), self.page_index.clone());
        Ok(Self { version, metadata, supplied: Some(schema), layout, is_near, page_index, ..*self })
    }

    /// Rows of a row group.
    pub fn rows_of(&self, row_group: usize) -> Result<usize> {
        let rows = self.metadata.metadata().row_group(row_group).num_rows();
        usize::try_from(rows).map_err(|_| Error::damaged(&self.version, format!("{rows} rows in a row group")))
    }

    /// A decoder of leaves of a row group, at `rows`, which ascend.
    pub fn decoder(
        &self,
        row_group: usize,
        wanted: &Wanted,
        rows: impl Iterator<Item = Range<usize>>,
        batch_rows: usize,
    ) -> Result<ParquetPushDecoder> {
        let mask = ProjectionMask::leaves(self.metadata.parquet_schema(), wanted.parquet.iter().copied());
        let builder = ParquetPushDecoderBuilder::new_with_metadata(self.metadata.clone())
            .with_row_groups(vec![row_group])
            .with_projection(mask)
            .with_batch_size(batch_rows);
        let count = self.rows_of(row_group)?;
        let selection = RowSelection::from_consecutive_ranges(rows, count);
        let builder = match selection.row_count() == count {
            true => builder,
            false => builder.with_row_selection(selection),
        };
        Ok(builder.build()?)
    }

    /// Where the pages lie of a leaf of a row group that have some of its rows: all of the column if it is about all rows, or where no index
    /// tells pages apart.
    pub fn places(
        &self,
        row_group: usize,
        leaf: usize,
        rows: impl Iterator<Item = Range<usize>> + Clone,
    ) -> Result<Vec<Range<u64>>> {
        let wanted = self.layout.wanted(&[leaf].into());
        let metadata = self.metadata.metadata();
        let is_all = rows.clone().map(|rows| rows.len()).sum::<usize>() == self.rows_of(row_group)?;
        if metadata.offset_index().is_some() && !is_all {
            return Ok(match self.decoder(row_group, &wanted, rows, CELL_ROWS)?.try_decode()? {
                DecodeResult::NeedsData(ranges) => ranges,
                _ => Vec::new(),
            });
        }
        let outside = || Error::damaged(&self.version, "a column outside of the object");
        let chunks = wanted.parquet.iter().map(|&leaf| metadata.row_group(row_group).column(leaf));
        chunks.map(|chunk| place_of(chunk).ok_or_else(outside)).collect()
    }
}

/// Where a column of a row group lies, if its metadata say so.
pub(super) fn place_of(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = u64::try_from(column.dictionary_page_offset().unwrap_or(column.data_page_offset())).ok()?;
    Some(start..start.checked_add(u64::try_from(column.compressed_size()).ok()?)?)
}

/// The rows of a piece of a row group.
pub(super) fn piece_rows(rows: usize, piece: usize) -> Range<usize> {
    piece * CELL_ROWS..rows.min((piece + 1) * CELL_ROWS)
}

/// The pages that have the rows of a cell: their bytes, or, where the object is near, where they are, as reading them again costs less than
/// memory does. Where pages have rows of the cell's neighbours as well they are held by these, too, and are there once.
#[derive(Debug)]
pub(crate) struct Pages {
    source: Arc<Source>,
    row_group: usize,
    leaf: usize,
    /// In the row group.
    rows: Range<usize>,
    data_type: DataType,
    bytes: PageBytes,
}

#[derive(Debug)]
enum PageBytes {
    Here(Vec<(Range<u64>, Bytes)>),
    /// In the object, whose file isn't held open for them.
    There(Arc<Object>),
}

impl Pages {
    /// Those of a piece of a leaf, as `find` has them by where they lie.
    pub fn new(
        source: &Arc<Source>,
        (row_group, leaf, piece): (usize, usize, usize),
        find: impl Fn(&Range<u64>) -> Option<Bytes>,
    ) -> Result<Self> {
        let all = 0..source.rows_of(row_group)?;
        let rows = piece_rows(all.end, piece);
        let parts_of = |rows: &Range<usize>| -> Result<Option<Vec<_>>> {
            let places = source.places(row_group, leaf, [rows.clone()].into_iter())?;
            Ok(places.into_iter().map(|place| find(&place).map(|bytes| (place, bytes))).collect())
        };
        // What was fetched as one is held as one.
        let parts = match parts_of(&all)? {
            Some(parts) => Some(parts),
            None => parts_of(&rows)?,
        };
        let lacks = || Error::damaged(&source.version, "bytes that were fetched aren't there");
        let bytes = PageBytes::Here(parts.ok_or_else(lacks)?);
        let no_leaf = || Error::damaged(&source.version, format!("no leaf {leaf}"));
        let data_type = source.layout.data_type(leaf).ok_or_else(no_leaf)?.clone();
        Ok(Self { source: source.clone(), row_group, leaf, rows, data_type, bytes })
    }

    /// The same without their bytes, which stay in their object.
    pub fn left_in(&self, object: &Arc<Object>) -> Self {
        Self {
            source: self.source.clone(),
            rows: self.rows.clone(),
            data_type: self.data_type.clone(),
            bytes: PageBytes::There(object.clone()),
            ..*self
        }
    }

    /// Whether their bytes are here.
    pub fn is_here(&self) -> bool {
        matches!(self.bytes, PageBytes::Here(_))
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// What holding them takes, beside the metadata that decoding them needs: they are cells as long as these are kept.
    pub fn holdings(&self) -> Holdings {
        Holdings::new(self.parts().iter().map(|(_, bytes)| (bytes.as_ptr().addr(), bytes.len() as u64)))
    }

    /// All rows. Reads the object on the calling thread if that has the bytes.
    pub fn decode(self: &Arc<Self>) -> Result<ArrayRef> {
        self.decode_at([self.rows.clone()].into_iter(), self.rows())
    }

    /// The rows that are alive; likewise.
    pub fn select(self: &Arc<Self>, selection: &Selection) -> Result<ArrayRef> {
        let start = self.rows.start;
        self.decode_at(selection.iter().map(|row| start + row..start + row + 1), selection.count())
    }

    fn decode_at(self: &Arc<Self>, rows: impl Iterator<Item = Range<usize>>, count: usize) -> Result<ArrayRef> {
        if count == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        let mut decoding = Decoding::new(&self.source, vec![self.here()?], rows, CELL_ROWS)?;
        let found = decoding.next()?.unwrap_or_default().into_iter().find(|(leaf, _)| *leaf == self.leaf);
        let array = found.map(|(_, array)| array).filter(|array| array.len() == count);
        array.ok_or_else(|| Error::damaged(&self.source.version, "a row group of other rows than its metadata say"))
    }

    /// The same with their bytes.
    fn here(self: &Arc<Self>) -> Result<Arc<Self>> {
        let PageBytes::There(object) = &self.bytes else { return Ok(self.clone()) };
        let places = self.source.places(self.row_group, self.leaf, [self.rows.clone()].into_iter())?;
        let fetched = wait_for(Object::clone(object).fetch(&places))?;
        let bytes = PageBytes::Here(places.into_iter().zip(fetched).collect());
        let (rows, data_type) = (self.rows.clone(), self.data_type.clone());
        Ok(Arc::new(Self { source: self.source.clone(), rows, data_type, bytes, ..**self }))
    }

    fn parts(&self) -> &[(Range<u64>, Bytes)] {
        match &self.bytes {
            PageBytes::Here(parts) => parts,
            PageBytes::There(_) => &[],
        }
    }

    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let holds = |part: &&(Range<u64>, Bytes)| part.0.start <= range.start && range.end <= part.0.end;
        let (part, bytes) = self.parts().iter().find(holds)?;
        let start = usize::try_from(range.start - part.start).ok()?;
        Some(bytes.slice(start..start + usize::try_from(range.end - range.start).ok()?))
    }
}

/// Blocks the thread until a future is ready.
fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Leaves of a row group that are decoded from pages, batch by batch.
pub(super) struct Decoding {
    source: Arc<Source>,
    decoder: ParquetPushDecoder,
    /// What the decoder gave once it had its bytes.
    reader: Option<ParquetRecordBatchReader>,
    wanted: Wanted,
    pages: Vec<Arc<Pages>>,
}

impl Decoding {
    /// Of cells of one row group, which have all that is needed of the rows, in the types of `source`.
    pub fn new(
        source: &Arc<Source>,
        pages: Vec<Arc<Pages>>,
        rows: impl Iterator<Item = Range<usize>>,
        batch_rows: usize,
    ) -> Result<Self> {
        let wanted = source.layout.wanted(&pages.iter().map(|pages| pages.leaf).collect());
        let row_group = pages.first().map_or(0, |pages| pages.row_group);
        let decoder = source.decoder(row_group, &wanted, rows, batch_rows)?;
        Ok(Self { source: source.clone(), decoder, reader: None, wanted, pages })
    }

    /// The leaves' next rows, as many as a batch has, but for the last.
    pub fn next(&mut self) -> Result<Option<Vec<(usize, ArrayRef)>>> {
        loop {
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(batch) => return self.wanted.split(&batch.map_err(entasis::Error::from)?).map(Some),
                None => self.reader = None,
            }
            match self.decoder.try_next_reader()? {
                DecodeResult::NeedsData(ranges) => {
                    let found: Option<Vec<Bytes>> = ranges.iter().map(|range| self.find(range)).collect();
                    let lacks = || self.damaged("pages that lie elsewhere than its metadata say");
                    self.decoder.push_ranges(ranges, found.ok_or_else(lacks)?)?;
                }
                DecodeResult::Data(reader) => self.reader = Some(reader),
                DecodeResult::Finished => return Ok(None),
            }
        }
    }

    /// The object isn't what its metadata say.
    pub fn damaged(&self, what: &str) -> Error {
        Error::damaged(&self.source.version, what)
    }

    /// Bytes of pages, those of neighbours put together: all of a column is asked for where it was fetched page by page.
    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        if let Some(bytes) = self.pages.iter().find_map(|pages| pages.find(range)) {
            return Some(bytes);
        }
        let mut parts: Vec<&(Range<u64>, Bytes)> = self.pages.iter().flat_map(|pages| pages.parts()).collect();
        parts.sort_unstable_by_key(|(place, _)| (place.start, place.end));
        let (mut joined, mut next) = (Vec::new(), range.start);
        for (place, bytes) in parts {
            if place.start <= next && next < place.end.min(range.end) {
                let end = place.end.min(range.end);
                let at = |offset: u64| usize::try_from(offset - place.start).ok();
                joined.extend_from_slice(bytes.get(at(next)?..at(end)?)?);
                next = end;
            }
        }
        (next == range.end).then(|| joined.into())
    }
}

impl std::fmt::Debug for Decoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoding").field("pages", &self.pages).finish_non_exhaustive()
    }
}
