//! The logical metadata string and the checksummed pages that it is cut into (`spec/file.md`, *Metadata pages*).

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use entasis_encoding::Lane;

use super::trailer::Trailer;
use crate::{
    error::{Error, Result},
    source::Source,
};

/// Bytes of the logical string in a page.
pub const PAGE_PAYLOAD_BYTES: u32 = 4_092;

/// Bytes of a page in the file: payload and checksum.
pub const PAGE_BYTES: u32 = PAGE_PAYLOAD_BYTES + 4;

fn checksum(page: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page.to_le_bytes()), payload)
}

/// Appends the pages of the logical string `metadata`.
pub fn write_pages(metadata: &[u8], out: &mut Vec<u8>) {
    for (page, payload) in metadata.chunks(PAGE_PAYLOAD_BYTES as usize).enumerate() {
        out.extend_from_slice(payload);
        checksum(page as u32, payload).write(out);
    }
}

/// Reads the logical string, page by page as they are touched; a page is fetched and verified once.
pub struct MetadataReader {
    source: Arc<dyn Source>,
    pages_offset: u64,
    size_bytes: u32,
    /// The end of the file, which opening has read already, and where it begins.
    tail: (u64, Bytes),
    /// Payloads, verified.
    pages: Mutex<HashMap<u32, Bytes>>,
}

impl MetadataReader {
    /// Nothing is read: `tail` are the last bytes of the file, of any number.
    pub fn new(source: Arc<dyn Source>, trailer: &Trailer, tail: Bytes) -> Self {
        let tail_offset = source.size_bytes() - tail.len() as u64;
        Self {
            source,
            pages_offset: trailer.pages_offset,
            size_bytes: trailer.metadata_size_bytes,
            tail: (tail_offset, tail),
            pages: Mutex::default(),
        }
    }

    /// Bytes of the logical string.
    pub fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// The file's name, for errors.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// File offset of the byte at `logical`.
    pub fn file_offset(&self, logical: u32) -> u64 {
        self.pages_offset + u64::from(logical) + 4 * u64::from(logical / PAGE_PAYLOAD_BYTES)
    }

    /// Where page `page` lies in the file, checksum included.
    pub fn page_range(&self, page: u32) -> Range<u64> {
        let start = self.pages_offset + u64::from(page) * u64::from(PAGE_BYTES);
        let payload = (self.size_bytes - page * PAGE_PAYLOAD_BYTES).min(PAGE_PAYLOAD_BYTES);
        start..start + u64::from(payload) + 4
    }

    /// The logical offset at which the page of `logical` ends.
    pub fn page_end(&self, logical: u32) -> u32 {
        (logical - logical % PAGE_PAYLOAD_BYTES).saturating_add(PAGE_PAYLOAD_BYTES).min(self.size_bytes)
    }

    /// Number of pages.
    pub fn page_count(&self) -> u32 {
        self.size_bytes.div_ceil(PAGE_PAYLOAD_BYTES)
    }

    /// The bytes of `range`, from verified pages. A range past the string's end is corruption of whatever named it.
    pub fn read(&self, range: Range<u32>) -> Result<Bytes> {
        self.read_many(std::slice::from_ref(&range)).map(|mut read| read.remove(0))
    }

    /// The bytes of each of `ranges`, in their order; pages that are missing are fetched together.
    pub fn read_many(&self, ranges: &[Range<u32>]) -> Result<Vec<Bytes>> {
        for range in ranges {
            if range.start > range.end || range.end > self.size_bytes {
                let what = format!("bytes {range:?} of {} are referred to", self.size_bytes);
                return Err(Error::corrupt(self.file(), "metadata", self.pages_offset, what));
            }
        }
        // Not held while pages are fetched: two threads may fetch the same page, neither waits for the other.
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner).clone_touched(ranges);
        self.fetch(&mut pages, ranges)?;
        Ok(ranges.iter().map(|range| assemble(&pages, range)).collect())
    }

    /// Adds those pages of `ranges` to `pages` that aren't among them, and keeps them.
    fn fetch(&self, pages: &mut HashMap<u32, Bytes>, ranges: &[Range<u32>]) -> Result<()> {
        let mut missing: Vec<u32> = ranges.iter().flat_map(touched).filter(|page| !pages.contains_key(page)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        let (tail_offset, tail) = &self.tail;
        let (near, far): (Vec<u32>, Vec<u32>) =
            missing.into_iter().partition(|&page| self.page_range(page).start >= *tail_offset);
        let far_ranges: Vec<_> = far.iter().map(|&page| self.page_range(page)).collect();
        let fetched = self.source.read_many(&far_ranges)?;
        let cut = |page: &u32| {
            let range = self.page_range(*page);
            tail.slice((range.start - tail_offset) as usize..(range.end - tail_offset) as usize)
        };
        let fetched = far.iter().copied().zip(fetched).chain(near.iter().map(|page| (*page, cut(page))));
        let verified = fetched
            .map(|(page, bytes)| Ok((page, self.verify(page, bytes)?)))
            .collect::<Result<Vec<(u32, Bytes)>>>()?;
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).extend(verified.iter().cloned());
        pages.extend(verified);
        Ok(())
    }

    /// The payload of a page, if the checksum agrees.
    fn verify(&self, page: u32, bytes: Bytes) -> Result<Bytes> {
        let payload = bytes.slice(..bytes.len() - 4);
        if u32::read(&bytes[payload.len()..]) == checksum(page, &payload) {
            return Ok(payload);
        }
        let part = format!("metadata page {page}");
        Err(Error::corrupt(self.file(), part, self.page_range(page).start, "checksum differs"))
    }
}

/// The pages that a range touches.
fn touched(range: &Range<u32>) -> Range<u32> {
    if range.is_empty() { 0..0 } else { range.start / PAGE_PAYLOAD_BYTES..(range.end - 1) / PAGE_PAYLOAD_BYTES + 1 }
}

trait CloneTouched {
    fn clone_touched(&self, ranges: &[Range<u32>]) -> Self;
}

impl CloneTouched for HashMap<u32, Bytes> {
    /// The pages at hand of those that `ranges` touch.
    fn clone_touched(&self, ranges: &[Range<u32>]) -> Self {
        let pages = ranges.iter().flat_map(touched);
        pages.filter_map(|page| Some((page, self.get(&page)?.clone()))).collect()
    }
}

/// `range` out of pages that are all at hand.
fn assemble(pages: &HashMap<u32, Bytes>, range: &Range<u32>) -> Bytes {
    let part = |page: u32| {
        let first = page * PAGE_PAYLOAD_BYTES;
        let end = (range.end - first).min(PAGE_PAYLOAD_BYTES) as usize;
        pages[&page].slice(range.start.saturating_sub(first) as usize..end)
    };
    let touched = touched(range);
    match touched.len() {
        0 => Bytes::new(),
        1 => part(touched.start),
        _ => {
            let mut bytes = Vec::with_capacity(range.len());
            touched.for_each(|page| bytes.extend_from_slice(&part(page)));
            bytes.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::ErrorKind, source::BytesSource};

    fn metadata(size: usize) -> Vec<u8> {
        (0..size).map(|index| (index % 251) as u8).collect()
    }

    /// A file of 8 bytes and the pages; no trailer, so `tail` may be anything.
    fn file(metadata: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 8];
        write_pages(metadata, &mut file);
        file
    }

    fn reader(file: Vec<u8>, metadata_size_bytes: usize, tail_bytes: usize) -> MetadataReader {
        let tail = Bytes::from(file[file.len() - tail_bytes..].to_vec());
        let trailer =
            Trailer { pages_offset: 8, metadata_size_bytes: metadata_size_bytes as u32, ..Trailer::default() };
        MetadataReader::new(Arc::new(BytesSource::new(file.into(), "a")), &trailer, tail)
    }

    #[test]
    fn any_range_comes_back() {
        for size in [0, 1, 4_091, 4_092, 4_093, 20_000] {
            let metadata = metadata(size);
            for tail_bytes in [0, 5_000.min(size)] {
                let reader = reader(file(&metadata), size, tail_bytes);
                for start in (0..=size).step_by(997) {
                    for end in (start..=size).step_by(1_501).chain([size]) {
                        assert_eq!(reader.read(start as u32..end as u32).unwrap(), metadata[start..end]);
                    }
                }
                assert_eq!(reader.read(0..size as u32 + 1).unwrap_err().kind(), ErrorKind::Corrupt);
            }
        }
    }

    #[test]
    fn a_flipped_byte_is_found_in_its_page_and_no_other() {
        let metadata = metadata(10_000);
        let mut bytes = file(&metadata);
        bytes[8 + 4_096 + 17] ^= 4;
        let reader = reader(bytes, metadata.len(), 100);
        assert_eq!(reader.read(0..4_092).unwrap(), metadata[..4_092]);
        assert_eq!(reader.read(8_184..10_000).unwrap(), metadata[8_184..]);
        let error = reader.read(4_000..4_100).unwrap_err();
        assert_eq!(error.to_string(), "a: corrupt metadata page 1 at byte 4104: checksum differs");
    }

    #[test]
    fn pages_that_changed_places_are_found() {
        let metadata = vec![7; 8_184];
        let mut bytes = file(&metadata);
        let (first, second) = bytes[8..].split_at_mut(4_096);
        first.swap_with_slice(second);
        assert_eq!(reader(bytes, 8_184, 0).read(0..1).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
