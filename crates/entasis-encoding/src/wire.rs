//! The small change of the format: varints, byte strings and entry points, written and read with every length checked.
//! See *Conventions* in `spec/README.md` and *Vectors and entry points* in `spec/block.md`.

/// Appends `value` as an unsigned LEB128 varint.
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`write_varint`] takes for `value`.
pub fn varint_size_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Maps a signed integer to an unsigned one that is small when the magnitude is.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends `value` as the varint of its zigzag.
pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_varint(zigzag(value), out);
}

/// Appends a varint length and the bytes.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The reading side ran out of bytes or met a varint over 64 bits, at this byte of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("input ends or is malformed at byte {0}")]
pub struct WireError(pub usize);

/// Reads from a slice, front to back; every read is checked.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    fn error(&self) -> WireError {
        WireError(self.position)
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let taken = self.bytes[self.position..].get(..length).ok_or(self.error())?;
        self.position += length;
        Ok(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian `u32`.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(<u32 as crate::Lane>::read(self.take(4)?))
    }

    /// A little-endian `u64`.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(<u64 as crate::Lane>::read(self.take(8)?))
    }

    /// A varint of at most 64 bits.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let start = *self;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7F);
            if shift == 63 && byte > 1 {
                break;
            }
            value |= low << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(start.error())
    }

    /// A varint that must fit `usize` and be at most `limit`.
    pub fn length(&mut self, limit: usize) -> Result<usize, WireError> {
        let start = *self;
        match usize::try_from(self.varint()?) {
            Ok(length) if length <= limit => Ok(length),
            _ => Err(start.error()),
        }
    }

    /// A zigzag varint.
    pub fn signed(&mut self) -> Result<i64, WireError> {
        self.varint().map(unzigzag)
    }

    /// A varint length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.length(self.remaining())?;
        self.take(length)
    }
}

/// Entry points: one number per vector, as offsets of equal width from the smallest.
#[derive(Debug)]
pub struct EntryPoints;

impl EntryPoints {
    /// Appends `entries` to `out`.
    pub fn write(entries: &[u64], out: &mut Vec<u8>) {
        let base = entries.iter().copied().min().unwrap_or(0);
        let spread = entries.iter().map(|&entry| entry - base).max().unwrap_or(0);
        let width = (64 - spread.leading_zeros() as usize).div_ceil(8);
        write_varint(base, out);
        out.push(width as u8);
        for &entry in entries {
            out.extend_from_slice(&(entry - base).to_le_bytes()[..width]);
        }
    }

    /// Reads `count` entries; sums over 2^64 wrap, for the user of an entry checks it anyway.
    pub fn read(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u64>, WireError> {
        let base = reader.varint()?;
        let start = *reader;
        let width = reader.u8()? as usize;
        if width > 8 {
            return Err(start.error());
        }
        let bytes = reader.take(width.checked_mul(count).ok_or(start.error())?)?;
        if width == 0 {
            return Ok(vec![base; count]);
        }
        let offset = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        Ok(bytes.chunks_exact(width).map(|chunk| base.wrapping_add(offset(chunk))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(out.len(), varint_size_bytes(value));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.remaining(), 0);
            assert!(Reader::new(&out[..out.len() - 1]).varint().is_err());
        }
    }

    #[test]
    fn varints_over_64_bits_are_refused() {
        let mut eleven = vec![0xFF; 10];
        eleven.push(0);
        assert_eq!(Reader::new(&eleven).varint(), Err(WireError(0)));
        let mut over = vec![0xFF; 9];
        over.push(2);
        assert_eq!(Reader::new(&over).varint(), Err(WireError(0)));
    }

    #[test]
    fn zigzag_is_its_own_way_back() {
        for value in [0, -1, 1, i64::MIN, i64::MAX, -64, 63] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn entry_points_come_back_and_truncations_fail() {
        for entries in
            [vec![], vec![7], vec![5, 5, 5], vec![0, 300, 70_000], vec![u64::MAX, 0], vec![1 << 40, (1 << 40) + 255]]
        {
            let mut out = Vec::new();
            EntryPoints::write(&entries, &mut out);
            assert_eq!(EntryPoints::read(&mut Reader::new(&out), entries.len()), Ok(entries.clone()));
            for cut in 0..out.len() {
                assert!(EntryPoints::read(&mut Reader::new(&out[..cut]), entries.len()).is_err() || cut == out.len());
            }
        }
    }

    #[test]
    fn lengths_are_held_against_the_bytes_at_hand() {
        let mut out = Vec::new();
        write_varint(1 << 60, &mut out);
        assert!(Reader::new(&out).bytes().is_err());
    }
}
