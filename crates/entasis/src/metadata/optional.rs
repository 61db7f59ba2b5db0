//! Optional parts of column records, which a reader that doesn't know them skips (`spec/file.md`, *Column record*).

use entasis_encoding::wire::{Reader, WireError, write_bytes, write_signed, write_varint};

use super::record::Chunk;
use crate::bloom::{BloomLayout, BloomRef};

/// Kind of the part that says where Bloom filters are.
const BLOOM: u8 = 1;

/// Appends the optional parts of a column whose chunks have these Bloom filters, if it has any part.
pub fn write_optional(blooms: &[Option<BloomRef>], out: &mut Vec<u8>) {
    if !has_optional(blooms) {
        return;
    }
    write_varint(1, out);
    out.push(BLOOM);
    let (mut place, mut content) = (0, Vec::new());
    for bloom in blooms {
        match bloom {
            None => write_varint(0, &mut content),
            Some(BloomRef { offset, layout }) => {
                write_varint(layout.buckets().into(), &mut content);
                write_signed(offset.wrapping_sub(place) as i64, &mut content);
                place = offset + layout.size_bytes();
            }
        }
    }
    write_bytes(&content, out);
}

/// Whether a column whose chunks have these Bloom filters has optional parts.
pub fn has_optional(blooms: &[Option<BloomRef>]) -> bool {
    blooms.iter().any(Option::is_some)
}

/// Reads what is known of the optional parts, and skips the rest.
pub fn read_optional(reader: &mut Reader<'_>, chunks: &mut [Chunk]) -> Result<(), WireError> {
    let at = WireError(reader.position());
    let count = reader.length(reader.remaining())?;
    let mut last = 0;
    for _ in 0..count {
        let kind = reader.u8()?;
        if kind <= last {
            return Err(at);
        }
        last = kind;
        let content = reader.bytes()?;
        if kind == BLOOM {
            let start = reader.position() - content.len();
            read_blooms(content, chunks).map_err(|WireError(inner)| WireError(start + inner))?;
        }
    }
    if count == 0 { Err(at) } else { Ok(()) }
}

fn read_blooms(content: &[u8], chunks: &mut [Chunk]) -> Result<(), WireError> {
    let mut reader = Reader::new(content);
    let mut place: u64 = 0;
    for chunk in chunks {
        let at = WireError(reader.position());
        let buckets = u32::try_from(reader.varint()?).map_err(|_| at)?;
        if buckets > 0 {
            let layout = BloomLayout::new(chunk.blocks.len(), buckets).ok_or(at)?;
            let offset = place.wrapping_add_signed(reader.signed()?);
            place = offset.checked_add(layout.size_bytes()).ok_or(at)?;
            chunk.bloom = Some(BloomRef { offset, layout });
        }
    }
    if reader.remaining() > 0 { Err(WireError(reader.position())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockRef, zone::Zone};

    fn chunks(blocks: &[usize]) -> Vec<Chunk> {
        let block = BlockRef { offset: 8, size_bytes: 1, rows: 1, zone: Zone::default() };
        let chunk = |&count| Chunk { blocks: vec![block.clone(); count], ..Chunk::default() };
        blocks.iter().map(chunk).collect()
    }

    fn blooms() -> Vec<Option<BloomRef>> {
        let bloom =
            |offset, blocks, buckets| BloomLayout::new(blocks, buckets).map(|layout| BloomRef { offset, layout });
        vec![bloom(1 << 40, 2, 300), None, bloom(64, 16, u32::MAX)]
    }

    fn read(bytes: &[u8], chunks: &mut [Chunk]) -> Result<(), WireError> {
        let mut reader = Reader::new(bytes);
        read_optional(&mut reader, chunks)?;
        assert_eq!(reader.remaining(), 0);
        Ok(())
    }

    #[test]
    fn places_of_filters_come_back() {
        let (mut bytes, mut read_into) = (Vec::new(), chunks(&[2, 0, 16]));
        write_optional(&blooms(), &mut bytes);
        read(&bytes, &mut read_into).unwrap();
        assert_eq!(read_into.iter().map(|chunk| chunk.bloom).collect::<Vec<_>>(), blooms());
        bytes.clear();
        write_optional(&[None, None], &mut bytes);
        assert!(bytes.is_empty(), "a column without any has no optional parts");
    }

    #[test]
    fn kinds_of_tomorrow_are_skipped() {
        let (mut bytes, mut read_into) = (Vec::new(), chunks(&[2, 0, 16]));
        write_optional(&blooms(), &mut bytes);
        bytes[0] = 3;
        bytes.extend_from_slice(&[2, 4, 1, 2, 3, 4, 255, 0]);
        read(&bytes, &mut read_into).unwrap();
        assert_eq!(read_into[0].bloom, blooms()[0]);
    }

    #[test]
    fn what_contradicts_itself_is_malformed() {
        let parts: [&[u8]; 9] = [
            &[0],                                             // no part
            &[1, 0, 0],                                       // kind 0
            &[2, 2, 0, 2, 0],                                 // twice
            &[1, BLOOM, 2, 0, 0],                             // a row group lacks
            &[1, BLOOM, 4, 0, 0, 0, 0],                       // one too many
            &[1, BLOOM, 4, 0, 1, 0, 0],                       // filters for no blocks
            &[1, BLOOM, 8, 255, 255, 255, 255, 255, 1, 0, 0], // more buckets than there can be
            &[1, BLOOM, 4, 1, 1, 0, 0],                       // before the file's begin: the end overflows
            &[1, BLOOM, 100],                                 // longer than there are bytes
        ];
        for part in parts {
            assert!(read_optional(&mut Reader::new(part), &mut chunks(&[2, 0, 16])).is_err(), "{part:?}");
        }
    }
}
