//! Verifying a whole file: every checksum, all padding, and every value by every path.

use std::sync::Arc;

use entasis_encoding::{BitBuffer, Block, Decoded, Parts, Selection, digest};

use super::{
    Reader,
    column::{BlockPlace, Opener, ReadColumn, bloom_name, chunk_of, empty, open_parts, split_of},
    layout::{StoredBlock, stored_blocks},
};
use crate::{
    arrow::{Split, widest_type, with_column},
    bloom::{BloomLayout, BloomRef, hashes_of},
    error::{Error, Result},
    metadata::{
        record::{BlockRef, Chunk, ColumnRecord},
        trailer::MAGIC,
    },
    write::ColumnWriter,
    zone::Zone,
};

/// A part of a file that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The part, in words.
    pub part: String,
    /// Its offset in the file; of the nearest enclosing part where no exact one is known.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

impl From<Error> for Damage {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt { part, offset, what, .. } => Self { part, offset, what },
            other => Self { part: "file".to_owned(), offset: 0, what: other.to_string() },
        }
    }
}

impl Reader {
    /// Reads everything and returns every part that is damaged. `progress` is told the bytes that have been dealt with,
    /// now and then. Fails only if the file can't be read.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Damage>> {
        let mut check = Check { reader: self, damages: Vec::new(), done_bytes: 0, progress };
        check.magic()?;
        check.metadata()?;
        check.padding()?;
        for column in 0..self.column_count() {
            match self.column(column) {
                Ok(record) => check.tree(column, &record)?,
                Err(error) => check.note(error)?,
            }
        }
        (check.progress)(self.size_bytes());
        Ok(check.damages)
    }
}

/// A verification under way.
struct Check<'a> {
    reader: &'a Reader,
    damages: Vec<Damage>,
    done_bytes: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Check<'_> {
    /// Notes a damage; what isn't one ends the verification. A part is noted once.
    fn note(&mut self, error: Error) -> Result<()> {
        if matches!(error, Error::Io { .. } | Error::Missing(_)) {
            return Err(error);
        }
        let damage = Damage::from(error);
        if !self.damages.contains(&damage) {
            self.damages.push(damage);
        }
        Ok(())
    }

    fn note_any<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.note(error).map(|()| None),
        }
    }

    fn done(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        (self.progress)(self.done_bytes);
    }

    fn magic(&mut self) -> Result<()> {
        let head = self.reader.inner.source.read(0..MAGIC.len() as u64)?;
        if head != MAGIC[..] {
            self.note(Error::corrupt(self.reader.name(), "magic", 0, "it isn't that of Entasis"))?;
        }
        Ok(())
    }

    fn metadata(&mut self) -> Result<()> {
        let metadata = &self.reader.inner.metadata;
        for page in 0..metadata.page_count() {
            let start = page * crate::metadata::pages::PAGE_PAYLOAD_BYTES;
            self.note_any(metadata.read(start..start + 1))?;
            let range = metadata.page_range(page);
            self.done(range.end - range.start);
        }
        self.note_any(self.reader.file_record())?;
        Ok(())
    }

    /// Padding between blocks is zero. A gap of 64 bytes and more holds large values, or blocks of a column whose record
    /// can't be read.
    fn padding(&mut self) -> Result<()> {
        let columns = (0..self.reader.column_count()).filter_map(|column| self.reader.column(column).ok());
        let mut blocks: Vec<_> = columns.flat_map(|record| stored_blocks(&record)).collect();
        let (offset, what) = (self.reader.blocks_end(), "the metadata pages".to_owned());
        let (row_group, section) = (self.reader.row_group_count(), "file.md, Metadata pages");
        blocks.push(StoredBlock { offset, size_bytes: 0, row_group, what, section });
        blocks.sort_by_key(|block| block.offset);
        let mut start = MAGIC.len() as u64;
        for block in blocks.iter().filter(|block| block.offset <= offset) {
            if start < block.offset && block.offset - start < 64 {
                let padding = self.reader.inner.source.read(start..block.offset)?;
                if padding.iter().any(|&byte| byte != 0) {
                    let part = format!("padding before {}", block.what);
                    self.note(Error::corrupt(self.reader.name(), part, start, "it isn't zero"))?;
                }
            }
            start = start.max(block.offset.saturating_add(block.size_bytes));
        }
        Ok(())
    }

    fn tree(&mut self, column: usize, record: &Arc<ColumnRecord>) -> Result<()> {
        for (place, (path, record)) in record.tree().into_iter().enumerate() {
            let data_type = match record.children {
                Some(_) => arrow_schema::DataType::Boolean,
                None => widest_type(record.field.data_type()),
            };
            let column = ReadColumn::new(self.reader, (column, place), &record, path, data_type);
            let Some(column) = self.note_any(column)? else { continue };
            let Some(groups) = self.note_any(self.reader.row_group_rows())? else { return Ok(()) };
            for (row_group, &rows) in groups.iter().enumerate() {
                if let Some(chunk) = self.note_any(chunk_of(self.reader, &column, row_group, rows))? {
                    self.chunk(&column, row_group, chunk)?;
                }
            }
        }
        Ok(())
    }

    fn chunk(&mut self, column: &ReadColumn, row_group: usize, chunk: &Chunk) -> Result<()> {
        // A fresh opener: what was read before isn't trusted.
        let opener = Opener::new(self.reader, self.reader.inner.source.clone());
        for (number, part) in chunk.parts.iter().enumerate() {
            self.note_any(verify_part(&opener, column, number, part))?;
            self.done(part.size_bytes);
        }
        let Some(parts) = self.note_any(open_parts(&opener, column, chunk))? else { return Ok(()) };
        let bloom = self.bloom(&opener, column, row_group, chunk)?;
        for (number, block) in chunk.blocks.iter().enumerate() {
            let place = BlockPlace { row_group, block: number };
            self.note_any(verify_block(&opener, column, &place, block, &parts, bloom.as_ref()))?;
            self.done(block.size_bytes);
        }
        Ok(())
    }

    /// The Bloom filters of a chunk, if all of their runs are whole.
    fn bloom(
        &mut self,
        opener: &Opener,
        column: &ReadColumn,
        row_group: usize,
        chunk: &Chunk,
    ) -> Result<Option<WholeBloom>> {
        let Some(BloomRef { offset, layout }) = chunk.bloom else { return Ok(None) };
        let name = bloom_name(column, row_group);
        let range = opener.check_range(offset..offset.saturating_add(layout.size_bytes()), || name.clone());
        let Some(range) = self.note_any(range)? else { return Ok(None) };
        let bytes = opener.source.read(range)?;
        self.done(layout.size_bytes());
        let (mut stripes, mut is_whole) = (Vec::with_capacity(bytes.len()), true);
        for run in 0..layout.run_count() {
            let range = layout.run_range(run);
            match layout.check_run(run, &bytes[range.start as usize..range.end as usize]) {
                Ok(whole) => stripes.extend_from_slice(whole),
                Err(what) => {
                    let part = format!("{name}, run {run}");
                    self.note(Error::corrupt(self.reader.name(), part, offset + range.start, what))?;
                    is_whole = false;
                }
            }
        }
        Ok(is_whole.then_some(WholeBloom { layout, stripes }))
    }
}

/// All stripes of a chunk's Bloom filters.
struct WholeBloom {
    layout: BloomLayout,
    stripes: Vec<u8>,
}

fn verify_part(
    opener: &Opener,
    column: &ReadColumn,
    number: usize,
    part: &crate::metadata::record::PartRef,
) -> Result<()> {
    let name = format!("column {:?}, shared part {number}", column.path);
    let bytes = opener.source.read(opener.check_range(part.range(), || name.clone())?)?;
    if digest(&bytes) != part.digest {
        return Err(Error::corrupt(opener.source.name(), name, part.offset, "digest differs"));
    }
    let block = opener.open_part(column, part, number, bytes)?;
    block.verify().map_err(|error| opener.place(error, &name, part.offset))
}

fn verify_block(
    opener: &Opener,
    column: &ReadColumn,
    place: &BlockPlace,
    reference: &BlockRef,
    parts: &Parts,
    bloom: Option<&WholeBloom>,
) -> Result<()> {
    let name = place.name(column);
    let bytes = opener.source.read(opener.check_range(reference.range(), || name.clone())?)?;
    let block = opener.open_block(column, place, reference, parts, bytes)?;
    let at = |error| opener.place(error, &name, reference.offset);
    block.verify().map_err(at)?;
    let file = opener.source.name();
    let corrupt = |what: &str| Error::corrupt(file, name.clone(), reference.offset, what);
    let rows = block.rows();
    let whole = decode(column, file, |out| block.decode(0..rows, out).map_err(at))?;
    for (path, other) in other_paths(&block, column, file, at)? {
        if !equal(&whole, &other)? {
            return Err(corrupt(&format!("{path} gives other values than decode")));
        }
    }
    // The estimate of distinct values is the encoder's, and can't be made anew.
    let array = ColumnWriter::array_of(&whole)?;
    let zone = with_column(&array, |values| Zone::of(values, reference.zone.distinct))?;
    if zone != reference.zone {
        return Err(corrupt("its zone isn't that of its values"));
    }
    if let Some(WholeBloom { layout, stripes }) = bloom {
        let hashes = with_column(&array, hashes_of)?;
        if hashes.into_iter().any(|hash| !layout.may_hold(stripes, place.block, hash)) {
            return Err(corrupt("its Bloom filter denies a value that it holds"));
        }
    }
    Ok(())
}

fn decode(column: &ReadColumn, file: &str, run: impl FnOnce(&mut Decoded) -> Result<()>) -> Result<Split> {
    let mut decoded = empty(column)?;
    run(&mut decoded)?;
    split_of(column, decoded, file)
}

/// All rows by the other ways to them: vector by vector, selected in two halves, and one by one.
fn other_paths(
    block: &Block,
    column: &ReadColumn,
    file: &str,
    at: impl Fn(entasis_encoding::Error) -> Error + Copy,
) -> Result<Vec<(&'static str, Split)>> {
    let rows = block.rows();
    let by_vector = decode(column, file, |out| {
        let vectors = (0..rows).step_by(entasis_encoding::VECTOR_ROWS);
        vectors
            .into_iter()
            .try_for_each(|first| block.decode(first..rows.min(first + entasis_encoding::VECTOR_ROWS), out).map_err(at))
    })?;
    let halves =
        |first: bool| Selection::from_bits(&(0..rows).map(|row| (row < rows / 2) == first).collect::<BitBuffer>());
    let selected = decode(column, file, |out| {
        block.select(&halves(true), out).map_err(at)?;
        block.select(&halves(false), out).map_err(at)
    })?;
    let numbers: Vec<u32> = (0..rows as u32).collect();
    let got = decode(column, file, |out| block.get(&numbers, out).map_err(at))?;
    Ok(vec![("decoding by vector", by_vector), ("select", selected), ("get", got)])
}

fn equal(left: &Split, right: &Split) -> Result<bool> {
    match (left, right) {
        (Split::Leaf(left), Split::Leaf(right)) => Ok(crate::compare::first_array_difference(left, right)?.is_none()),
        (Split::Struct(left_rows, left), Split::Struct(right_rows, right)) => {
            Ok(left_rows == right_rows && left == right)
        }
        _ => Ok(false),
    }
}
