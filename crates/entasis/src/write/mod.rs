//! Writing a file, front to back, in one pass.
//!
//! A column encodes as soon as a block is full; encoded bytes wait for the row group's end, large values don't. What a
//! file holds depends on the rows and the options alone: never on how batches cut the rows, nor on threads.

mod asked;
mod categories;
mod column;
mod file;
mod options;
mod plan;
mod sink;
mod size;
mod sort;

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

pub use file::FileWriter;
pub use options::{BloomColumn, EncodeOptions, Profile, SortColumn, WriteOptions};

use self::{
    categories::SeenCategories,
    plan::{Group, GroupLimits},
    sink::Sink,
    sort::SortCheck,
};
pub(crate) use self::{
    column::{BLOCK_BYTES, ColumnWriter},
    plan::VECTOR_BYTES,
    size::decoded_size,
};
use crate::{
    arrow::{ColumnNode, Split, shred},
    error::{Error, Result},
    metadata::{
        file_record::FileRecord,
        index::{name_hash, write_index},
        pages::write_pages,
        record::write_record,
        trailer::{MAGIC, Trailer},
    },
};

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the file.
    pub rows: u64,
    /// Row groups.
    pub row_groups: usize,
    /// Bytes of the file.
    pub size_bytes: u64,
}

/// Writes a file to any sink, as rows come.
pub struct Writer<W: io::Write> {
    sink: Sink<W>,
    schema: SchemaRef,
    /// One tree per top-level column; `columns` holds all of their columns in pre-order.
    trees: Vec<ColumnNode>,
    columns: Vec<ColumnWriter>,
    categories: Vec<SeenCategories>,
    options: WriteOptions,
    sort: SortCheck,
    group: Group,
    row_group_rows: Vec<u64>,
    /// Set while something is written that can't be taken back: a failure leaves it set.
    broken: bool,
}

impl<W: io::Write> Writer<W> {
    /// Begins a file of `schema`. Types that can't be stored are [`Error::Unsupported`]; the error names the column.
    pub fn new(sink: W, schema: SchemaRef, options: WriteOptions) -> Result<Self> {
        Self::named(sink, "sink".to_owned(), schema, options)
    }

    /// As [`Self::new`]; errors call the sink `name`.
    fn named(sink: W, name: String, schema: SchemaRef, options: WriteOptions) -> Result<Self> {
        options.check()?;
        let trees = shred(&schema)?;
        let nodes: Vec<&ColumnNode> = trees.iter().flat_map(ColumnNode::columns).collect();
        if u32::try_from(nodes.len()).is_err() {
            return Err(Error::Unsupported(format!("{} columns", nodes.len())));
        }
        let sort = SortCheck::new(&trees, &options.sort_order)?;
        let columns = nodes
            .iter()
            .zip(asked::of_columns(&trees, &options)?)
            .map(|(node, asked)| ColumnWriter::new(node.physical.clone(), node.children.is_some(), asked))
            .collect();
        let mut sink = Sink::new(sink, name);
        sink.write(&MAGIC)?;
        Ok(Self {
            sink,
            schema,
            categories: SeenCategories::of_columns(&trees),
            trees,
            columns,
            options,
            sort,
            group: Group::default(),
            row_group_rows: Vec::new(),
            broken: false,
        })
    }

    /// The schema that was given.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends the rows of `batch`. A batch of another schema, or one whose rows aren't in the declared order, is
    /// [`Error::InvalidArgument`]; none of its rows is written then, and others may follow. After any other error
    /// nothing more can be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        let schema = batch.schema_ref();
        if !Arc::ptr_eq(schema, &self.schema) && schema.fields() != self.schema.fields() {
            return Err(Error::InvalidArgument("the batch has another schema than the file".to_owned()));
        }
        let mut splits: Vec<Split> = Vec::with_capacity(self.columns.len());
        for (tree, array) in self.trees.iter().zip(batch.columns()) {
            splits.extend(tree.split(array)?);
        }
        let arrays = splits.iter().map(ColumnWriter::array_of).collect::<Result<Vec<_>>>()?;
        self.sort.check(&arrays, batch.num_rows())?;
        self.broken = true;
        self.categories.iter_mut().try_for_each(|categories| categories.add(&splits))?;
        self.append(&arrays, batch.num_rows())?;
        self.broken = false;
        Ok(())
    }

    /// Writes what waits and the metadata, and gives the sink back, flushed.
    pub fn finish(mut self) -> Result<(W, Summary)> {
        self.check_whole()?;
        if self.group.rows > 0 {
            self.end_group()?;
        }
        let rows = self.row_group_rows.iter().sum();
        let row_groups = self.row_group_rows.len();
        self.write_metadata(rows)?;
        let summary = Summary { rows, row_groups, size_bytes: self.sink.position() };
        Ok((self.sink.into_inner()?, summary))
    }

    fn check_whole(&self) -> Result<()> {
        match self.broken {
            true => Err(Error::InvalidArgument("an earlier write failed: the file can't be continued".to_owned())),
            false => Ok(()),
        }
    }

    /// Appends `rows` rows, row group by row group.
    fn append(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<()> {
        let (rows_limit, bytes) = (self.options.row_group_rows, self.options.row_group_bytes);
        let limits = GroupLimits { rows: rows_limit, bytes, vector_bytes: VECTOR_BYTES };
        let mut start = 0;
        while start < rows {
            let (count, ends) = self.group.add(&limits, arrays, start..rows, &mut self.columns);
            for (column, array) in self.columns.iter_mut().zip(arrays) {
                column.push(array.slice(start, count));
            }
            start += count;
            match ends {
                true => self.end_group()?,
                false => self.encode(None)?,
            }
        }
        Ok(())
    }

    /// Encodes all blocks that are full. Columns without large values share the threads; the others follow in the order
    /// of their rows, for that is the order of their values in the file.
    fn encode(&mut self, group_rows: Option<u64>) -> Result<()> {
        let (large, small): (Vec<_>, Vec<_>) = self
            .columns
            .iter_mut()
            .filter(|column| column.next_full().is_some())
            .partition(|column| column.has_large());
        let encode_all = |column: &mut ColumnWriter| {
            let none = &mut |_: &[u8]| Err(io::Error::other("a large value where none was counted"));
            while column.next_full().is_some() {
                column.encode_next(group_rows, none)?;
            }
            Ok(())
        };
        share(small, self.options.threads, encode_all)?;
        encode_large(large, group_rows, &mut self.sink)
    }

    /// Encodes what waits and writes the row group.
    fn end_group(&mut self) -> Result<()> {
        let group_rows = std::mem::take(&mut self.group).rows;
        self.columns.iter_mut().for_each(|column| column.end_block(group_rows));
        self.encode(Some(group_rows))?;
        for column in &mut self.columns {
            column.write_chunk(&mut self.sink)?;
        }
        for column in &mut self.columns {
            column.write_bloom(&mut self.sink)?;
        }
        self.row_group_rows.push(group_rows);
        Ok(())
    }

    fn write_metadata(&mut self, rows: u64) -> Result<()> {
        self.sink.align(8)?;
        let mut trailer = Trailer { pages_offset: self.sink.position(), rows, ..Trailer::default() };
        trailer.row_groups = u32::try_from(self.row_group_rows.len()).map_err(|_| too_much("row groups"))?;
        for categories in &self.categories {
            self.columns[categories.column].set_categories(categories.blocks()?);
        }
        let (mut metadata, mut field_id) = (Vec::new(), 0);
        let mut written = self.columns.iter().map(ColumnWriter::written);
        let (mut offsets, mut hashes) = (Vec::new(), Vec::new());
        for tree in &self.trees {
            offsets.push(u32::try_from(metadata.len()).map_err(|_| too_much("metadata"))?);
            hashes.push(name_hash(tree.field.name()));
            write_record(tree, &mut written, &mut field_id, &mut metadata)?;
        }
        write_index(&offsets, &hashes, &mut metadata, &mut trailer);
        trailer.file_record = metadata.len() as u32;
        let record = FileRecord {
            schema_metadata: self.schema.metadata().clone(),
            user_metadata: self.options.user_metadata.clone(),
            sort_order: self.sort.keys().to_vec(),
            row_group_rows: self.row_group_rows.clone(),
            next_field_id: field_id,
            written_by: concat!("entasis ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        record.write(&mut metadata);
        trailer.metadata_size_bytes = u32::try_from(metadata.len()).map_err(|_| too_much("metadata"))?;
        let mut pages = Vec::new();
        write_pages(&metadata, &mut pages);
        self.sink.write(&pages)?;
        self.sink.write(&trailer.to_bytes())
    }
}

fn too_much(what: &str) -> Error {
    Error::Unsupported(format!("more {what} than a file can hold"))
}

/// Runs `work` on every column, on so many threads.
fn share(
    columns: Vec<&mut ColumnWriter>,
    threads: usize,
    work: impl Fn(&mut ColumnWriter) -> Result<()> + Sync,
) -> Result<()> {
    if threads == 1 || columns.len() < 2 {
        return columns.into_iter().try_for_each(work);
    }
    let threads = threads.min(columns.len());
    let queue = Mutex::new(columns.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let drain = || std::iter::from_fn(next).try_for_each(&work);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(drain)).collect();
        let own = drain();
        let joined = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.fold(own, Result::and)
    })
}

/// Encodes blocks by the row at which they end, then by column, and writes their large values as they come.
fn encode_large<W: io::Write>(
    mut columns: Vec<&mut ColumnWriter>,
    group_rows: Option<u64>,
    sink: &mut Sink<W>,
) -> Result<()> {
    loop {
        let ends = columns.iter().enumerate().filter_map(|(index, column)| Some((column.next_full()?, index)));
        let Some((_, index)) = ends.min() else { return Ok(()) };
        let mut failure = None;
        let encoded = columns[index].encode_next(group_rows, &mut |bytes| {
            sink.write_io(bytes).map_err(|error| {
                let kind = error.kind();
                failure = Some(error);
                kind.into()
            })
        });
        // The sink's own error says more than the encoder's.
        match failure {
            Some(source) => return Err(sink.error(source)),
            None => encoded?,
        }
    }
}
