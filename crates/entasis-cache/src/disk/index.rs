//! The index: which cells lie where, for the next process. See *The index* in `spec/cache.md`.

use std::collections::HashMap;
use std::sync::Arc;

use entasis_encoding::digest;
use entasis_encoding::wire::{Reader, WireError, write_varint};

use super::record::{read_place, read_version, write_place, write_version};
use super::space::{MOST_RUNS, Run};
use super::tier::Place;
use crate::{CellId, Version};

const MAGIC: &[u8; 8] = b"ENTINDEX";

/// The version of these bytes: others are ignored.
const FORMAT: u8 = 0;

/// The cells of an index.
pub(super) type Cells = Vec<(CellId, Arc<Place>)>;

/// The index of the file of cells that is called `identity`: as many of `cells`, first ones first, as fit into `most_bytes`.
pub(super) fn write_index(identity: &[u8; 16], cells: &[(CellId, Arc<Place>)], most_bytes: u64) -> Vec<u8> {
    let mut out = [MAGIC, [FORMAT].as_slice(), identity].concat();
    let mut versions: HashMap<&Version, u64> = HashMap::new();
    for (cell, place) in cells {
        let before = out.len();
        let next = versions.len() as u64;
        let number = *versions.entry(&cell.column.version).or_insert(next);
        write_varint(number, &mut out);
        if number == next {
            write_version(&cell.column.version, &mut out);
        }
        write_place(cell, &mut out);
        write_varint(place.size_bytes, &mut out);
        write_varint(u64::from(place.head_bytes), &mut out);
        out.extend_from_slice(&place.head_digest.to_le_bytes());
        write_varint(place.runs.len() as u64, &mut out);
        for run in &place.runs {
            write_varint(u64::from(run.first), &mut out);
            write_varint(u64::from(run.pages), &mut out);
        }
        if (out.len() + size_of::<u64>()) as u64 > most_bytes {
            out.truncate(before);
            break;
        }
    }
    let checksum = digest(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// The cells of an index of the file that is called `identity`; `None` if it is damaged, or of another file.
pub(super) fn read_index(bytes: &[u8], identity: &[u8; 16]) -> Option<Cells> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if digest(content) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let content = content.strip_prefix(MAGIC)?.strip_prefix(&[FORMAT])?.strip_prefix(identity)?;
    read_cells(&mut Reader::new(content)).ok()
}

fn read_cells(reader: &mut Reader<'_>) -> Result<Cells, WireError> {
    let (mut versions, mut cells) = (Vec::<Version>::new(), Vec::new());
    while reader.remaining() > 0 {
        let number = reader.length(versions.len())?;
        if number == versions.len() {
            versions.push(read_version(reader)?);
        }
        let cell = read_place(&versions[number], reader)?;
        let size_bytes = reader.varint()?;
        let head_bytes = reader.length(u32::MAX as usize)? as u32;
        let head_digest = reader.u64()?;
        let count = reader.length(MOST_RUNS)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let mut number = || Ok(reader.length(u32::MAX as usize)? as u32);
            runs.push(Run { first: number()?, pages: number()? });
        }
        cells.push((cell, Arc::new(Place { runs, size_bytes, head_bytes, head_digest })));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnId, ObjectId, Stamp};

    fn cells() -> Cells {
        let cell = |number: usize| {
            let object = ObjectId::new("s3://bucket", format!("{}.parquet", number % 3).into());
            let version = Version::new(object, Stamp::ETag((number % 5).to_string()));
            let id = CellId { column: ColumnId { version, leaf: number % 7 }, row_group: number, piece: 0 };
            let runs = (0..number % 4).map(|run| Run { first: run as u32 * 100, pages: 9 }).collect();
            let place = Place { runs, size_bytes: 1 << number, head_bytes: 99, head_digest: number as u64 };
            (id, Arc::new(place))
        };
        (0..40).map(cell).collect()
    }

    #[test]
    fn an_index_comes_back_or_is_ignored() {
        let identity = [7; 16];
        let bytes = write_index(&identity, &cells(), u64::MAX);
        assert_eq!(read_index(&bytes, &identity), Some(cells()));
        assert_eq!(read_index(&bytes, &[8; 16]), None, "that of another file");
        for length in 0..bytes.len() {
            assert_eq!(read_index(&bytes[..length], &identity), None, "{length} bytes");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x11;
            assert_eq!(read_index(&damaged, &identity), None, "byte {place}");
            // Under a right checksum too, nothing panics.
            let (content, _) = damaged.split_last_chunk::<8>().unwrap();
            let forged = [content, &digest(content).to_le_bytes()].concat();
            drop(read_index(&forged, &identity));
        }
    }

    #[test]
    fn an_index_keeps_to_its_room() {
        let whole = write_index(&[0; 16], &cells(), u64::MAX).len() as u64;
        for most_bytes in [33, 34, 200, whole - 1, whole] {
            let bytes = write_index(&[0; 16], &cells(), most_bytes);
            assert!(bytes.len() as u64 <= most_bytes);
            let found = read_index(&bytes, &[0; 16]).unwrap();
            assert_eq!(found, cells()[..found.len()]);
            assert_eq!(found.len() == 40, most_bytes == whole);
        }
    }
}
