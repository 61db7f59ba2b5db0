//! Changes files below their checksums: one part is changed, and everything that points at it or sums it up is made anew.

use bytes::Bytes;
use entasis_encoding::{digest, random::Random, wire};

use crate::{
    BloomLayout, BloomRef, Chunk, ColumnRecord, Reader, Result,
    arrow::ColumnNode,
    metadata::{
        pages::{PAGE_BYTES, PAGE_PAYLOAD_BYTES, write_pages},
        record::{WrittenColumn, write_record},
        trailer::{TRAILER_SIZE_BYTES, Trailer},
    },
};

/// Changes one thing of `file`. `change` alters any bytes in any way: it is the fuzzer's own.
pub fn mutate(file: &[u8], seed: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut parts = FileParts::parse(file);
    let kind = random.below(20);
    match &mut parts {
        Some(parts) if kind >= 2 => {
            match kind {
                2..5 => return parts.with_changed_metadata(change),
                5 => change(&mut parts.file_record),
                6 => parts.change_columns(&mut random),
                7..11 => parts.change_record(&mut random, change),
                _ => parts.change_block(&Bytes::copy_from_slice(file), &mut random, change).unwrap_or(()),
            }
            parts.write()
        }
        _ => {
            let mut changed = file.to_vec();
            change(&mut changed);
            seal_trailer(&mut changed);
            changed
        }
    }
}

/// Makes the checksum of the trailer fit.
fn seal_trailer(file: &mut [u8]) {
    if let Some(trailer) = file.last_chunk_mut::<TRAILER_SIZE_BYTES>() {
        let checksum = crc32c::crc32c(&trailer[..56]).to_le_bytes();
        trailer[56..60].copy_from_slice(&checksum);
    }
}

/// A file taken apart.
struct FileParts {
    trailer: Trailer,
    /// All that comes before the metadata.
    blocks: Vec<u8>,
    /// Top-level column records, their lengths included.
    records: Vec<Vec<u8>>,
    hash_index: Vec<u8>,
    file_record: Vec<u8>,
}

impl FileParts {
    fn parse(file: &[u8]) -> Option<Self> {
        let trailer = Trailer::read(file.last_chunk()?, "fuzzed", file.len() as u64).ok()?;
        let (blocks, rest) = file.split_at(trailer.pages_offset as usize);
        let pages = rest[..rest.len() - TRAILER_SIZE_BYTES].chunks(PAGE_BYTES as usize);
        let metadata: Vec<u8> = pages.flat_map(|page| &page[..page.len() - 4]).copied().collect();
        let table = &metadata[trailer.record_table as usize..trailer.hash_index as usize];
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte));
        let mut starts: Vec<usize> = table.chunks(trailer.offset_width.into()).map(number).collect();
        starts.push(trailer.record_table as usize);
        let records = starts.windows(2).map(|pair| Some(metadata.get(pair[0]..pair[1])?.to_vec()));
        Some(Self {
            trailer,
            blocks: blocks.to_vec(),
            records: records.collect::<Option<_>>()?,
            hash_index: metadata[trailer.hash_index as usize..trailer.file_record as usize].to_vec(),
            file_record: metadata[trailer.file_record as usize..].to_vec(),
        })
    }

    /// The logical string of metadata and the trailer that goes with it.
    fn metadata(&mut self) -> (Vec<u8>, Trailer) {
        self.blocks.resize(self.blocks.len().next_multiple_of(8), 0);
        let mut trailer = Trailer { columns: self.records.len() as u32, ..self.trailer };
        trailer.pages_offset = self.blocks.len() as u64;
        let mut metadata = self.records.concat();
        trailer.record_table = metadata.len() as u32;
        trailer.offset_width = trailer.offset_width.max(4 - (trailer.record_table.leading_zeros() / 8) as u8);
        let mut start = 0;
        for record in &self.records {
            metadata.extend_from_slice(&u32::to_le_bytes(start)[..trailer.offset_width.into()]);
            start += record.len() as u32;
        }
        trailer.hash_index = metadata.len() as u32;
        metadata.extend_from_slice(&self.hash_index);
        metadata.resize(trailer.hash_index as usize + trailer.hash_index_size_bytes() as usize, 0);
        trailer.file_record = metadata.len() as u32;
        metadata.extend_from_slice(&self.file_record);
        trailer.metadata_size_bytes = metadata.len() as u32;
        (metadata, trailer)
    }

    fn write(&mut self) -> Vec<u8> {
        let (metadata, trailer) = self.metadata();
        self.write_with(&metadata, &trailer)
    }

    fn write_with(&self, metadata: &[u8], trailer: &Trailer) -> Vec<u8> {
        let mut file = self.blocks.clone();
        write_pages(metadata, &mut file);
        file.extend_from_slice(&trailer.to_bytes());
        file
    }

    /// The file with metadata of the same length, but other bytes.
    fn with_changed_metadata(&mut self, change: &mut dyn FnMut(&mut Vec<u8>)) -> Vec<u8> {
        let (mut metadata, trailer) = self.metadata();
        let size_bytes = metadata.len();
        let page = metadata.len().min(PAGE_PAYLOAD_BYTES as usize);
        let mut tail = metadata.split_off(size_bytes - page);
        change(&mut tail);
        metadata.extend_from_slice(&tail);
        metadata.resize(size_bytes, 0);
        self.write_with(&metadata, &trailer)
    }

    /// Columns that come twice, or not at all.
    fn change_columns(&mut self, random: &mut Random) {
        if self.records.is_empty() {
            return;
        }
        let column = random.below(self.records.len());
        match random.below(3) {
            0 => drop(self.records.remove(column)),
            1 => self.records.swap(0, column),
            _ => self.records.push(self.records[column].clone()),
        }
    }

    /// A record of other bytes, whose length fits.
    fn change_record(&mut self, random: &mut Random, change: &mut dyn FnMut(&mut Vec<u8>)) {
        if self.records.is_empty() {
            return;
        }
        let column = random.below(self.records.len());
        let mut reader = wire::Reader::new(&self.records[column]);
        let mut body = reader.bytes().map(<[u8]>::to_vec).unwrap_or_default();
        change(&mut body);
        self.records[column].clear();
        wire::write_bytes(&body, &mut self.records[column]);
    }

    /// Another block, or another shared part, at the end of all blocks, and a record that points at it.
    fn change_block(&mut self, file: &Bytes, random: &mut Random, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        let reader = Reader::from_bytes(file.clone())?;
        if reader.column_count() == 0 || reader.row_group_count() == 0 {
            return Ok(());
        }
        let index = random.below(reader.column_count());
        let mut tree: Vec<ColumnRecord> =
            reader.column(index)?.tree().into_iter().map(|(_, record)| ColumnRecord::clone(&record)).collect();
        let column = random.below(tree.len());
        let row_group = random.below(reader.row_group_count());
        let categories = tree[column].categories.len();
        let bloom = tree[column].chunks[row_group].bloom;
        match (categories > 0, bloom) {
            (true, _) if random.below(2) == 0 => {
                let block = &mut tree[column].categories[random.below(categories)];
                *block = entasis_encoding::fuzzing::mutate(block, random.next(), change).into();
            }
            (_, Some(bloom)) if random.below(3) == 0 => {
                tree[column].chunks[row_group].bloom = self.changed_bloom(bloom, file, random, change);
            }
            _ => self.replace_block(&mut tree[column].chunks[row_group], random, change),
        }
        let mut written = tree.iter().map(written_column).collect::<Result<Vec<_>>>()?;
        written.iter_mut().for_each(|column| column.encodings.truncate(64));
        let root = ColumnNode::new(&tree[0].field)?;
        let mut field_id = tree[0].field_id;
        self.records[index].clear();
        write_record(&root, &mut written.iter(), &mut field_id, &mut self.records[index])
    }

    /// Other Bloom filters at the end of all blocks, of as many buckets as their bytes make; or the same in another place.
    fn changed_bloom(
        &mut self,
        bloom: BloomRef,
        file: &Bytes,
        random: &mut Random,
        change: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Option<BloomRef> {
        if random.below(2) == 0 {
            let buckets = random.next() as u32 >> random.below(32);
            let layout = BloomLayout::new(bloom.layout.blocks(), buckets.max(1))?;
            return Some(BloomRef { offset: random.next() >> random.below(64), layout });
        }
        let range = bloom.range();
        let mut stripes = file.get(range.start as usize..range.end as usize)?.to_vec();
        change(&mut stripes);
        let blocks = bloom.layout.blocks();
        let layout = BloomLayout::new(blocks, (stripes.len() / 32 / blocks) as u32)?;
        stripes.truncate(32 * blocks * layout.buckets() as usize);
        let offset = self.blocks.len() as u64;
        self.blocks.extend(layout.seal(&stripes));
        Some(BloomRef { offset, layout })
    }

    fn replace_block(&mut self, chunk: &mut Chunk, random: &mut Random, change: &mut dyn FnMut(&mut Vec<u8>)) {
        let places = chunk.parts.iter().map(|part| part.range()).chain(chunk.blocks.iter().map(|block| block.range()));
        let places: Vec<_> = places.collect();
        if places.is_empty() {
            return;
        }
        let chosen = random.below(places.len());
        let range = places[chosen].start as usize..places[chosen].end as usize;
        let Some(old) = self.blocks.get(range) else { return };
        let new = entasis_encoding::fuzzing::mutate(old, random.next(), change);
        self.blocks.resize(self.blocks.len().next_multiple_of(64), 0);
        let (offset, size_bytes) = (self.blocks.len() as u64, new.len() as u64);
        self.blocks.extend_from_slice(&new);
        match chosen.checked_sub(chunk.parts.len()) {
            None => {
                let part = &mut chunk.parts[chosen];
                (part.offset, part.size_bytes, part.digest) = (offset, size_bytes, digest(&new));
            }
            Some(block) => {
                let block = &mut chunk.blocks[block];
                (block.offset, block.size_bytes) = (offset, size_bytes);
            }
        }
    }
}

fn written_column(record: &ColumnRecord) -> Result<WrittenColumn> {
    let physical = record.physical()?;
    let (mut place, mut chunks) = (0, Vec::new());
    record.chunks.iter().for_each(|chunk| chunk.write(&physical, &mut place, &mut chunks));
    let categories = record.categories.iter().map(|block| block.to_vec()).collect();
    let blooms = record.chunks.iter().map(|chunk| chunk.bloom).collect();
    Ok(WrittenColumn { categories, encodings: record.encodings.clone(), chunks, blooms })
}
