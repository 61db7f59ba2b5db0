//! The trailer: the last 64 bytes of a file (`spec/file.md`, *Trailer*).

use entasis_encoding::Lane;

use crate::error::{Error, Result};

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"ENTASIS0";

/// What a file ends with.
const END_MAGIC: [u8; 4] = *b"ENT0";

/// The version that this code reads and writes.
pub const VERSION: u16 = 0;

/// Bytes of the trailer.
pub const TRAILER_SIZE_BYTES: usize = 64;

const CHECKSUM_AT: usize = 56;

/// The trailer, less what is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trailer {
    /// File offset of the metadata pages.
    pub pages_offset: u64,
    /// Rows of the file.
    pub rows: u64,
    /// Bytes of the logical metadata string.
    pub metadata_size_bytes: u32,
    /// Logical offset of the record table.
    pub record_table: u32,
    /// Logical offset of the hash index.
    pub hash_index: u32,
    /// Logical offset of the file record.
    pub file_record: u32,
    /// Top-level columns.
    pub columns: u32,
    /// Row groups.
    pub row_groups: u32,
    /// Bytes per entry of the record table, 1 to 4.
    pub offset_width: u8,
    /// Bytes per column number, 1 to 4.
    pub ordinal_width: u8,
}

impl Trailer {
    /// The trailer as it lies in the file.
    pub fn to_bytes(self) -> [u8; TRAILER_SIZE_BYTES] {
        let mut out = Vec::with_capacity(TRAILER_SIZE_BYTES);
        self.pages_offset.write(&mut out);
        self.rows.write(&mut out);
        let words = [
            self.metadata_size_bytes,
            self.record_table,
            self.hash_index,
            self.file_record,
            self.columns,
            self.row_groups,
        ];
        words.into_iter().for_each(|word| word.write(&mut out));
        out.extend_from_slice(&[self.offset_width, self.ordinal_width, 0, 0]);
        VERSION.write(&mut out);
        // File kind, encryption, must-understand bits, may-ignore bits.
        out.extend_from_slice(&[0; 10]);
        crc32c::crc32c(&out).write(&mut out);
        out.extend_from_slice(&END_MAGIC);
        let mut bytes = [0; TRAILER_SIZE_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Reads the trailer of a file of `file_size_bytes`: `tail` is the file's last 64 bytes. Everything that it says
    /// about places is checked against the file's length.
    pub fn read(tail: &[u8; TRAILER_SIZE_BYTES], file: &str, file_size_bytes: u64) -> Result<Self> {
        let at = file_size_bytes - TRAILER_SIZE_BYTES as u64;
        let corrupt = |offset: usize, what: &str| Error::corrupt(file, "trailer", at + offset as u64, what);
        if tail[60..] != END_MAGIC {
            return Err(corrupt(60, "no magic at the end"));
        }
        if u32::read(&tail[CHECKSUM_AT..]) != crc32c::crc32c(&tail[..CHECKSUM_AT]) {
            return Err(corrupt(CHECKSUM_AT, "checksum differs"));
        }
        check_understood(tail, file)?;
        let word = |offset: usize| u32::read(&tail[offset..]);
        let trailer = Self {
            pages_offset: u64::read(tail),
            rows: u64::read(&tail[8..]),
            metadata_size_bytes: word(16),
            record_table: word(20),
            hash_index: word(24),
            file_record: word(28),
            columns: word(32),
            row_groups: word(36),
            offset_width: tail[40],
            ordinal_width: tail[41],
        };
        trailer.check(at).map_err(|what| corrupt(0, what))?;
        Ok(trailer)
    }

    /// Number of metadata pages.
    pub fn page_count(&self) -> u32 {
        self.metadata_size_bytes.div_ceil(super::pages::PAGE_PAYLOAD_BYTES)
    }

    /// Bytes per entry of the hash index.
    pub fn entry_width(&self) -> u32 {
        u32::from(self.hash_width() + self.ordinal_width + self.offset_width)
    }

    /// Bytes of a hash in the hash index: enough for names of equal hash to be rare.
    pub fn hash_width(&self) -> u8 {
        (self.ordinal_width + 1).min(4)
    }

    /// Bytes of the hash index.
    pub fn hash_index_size_bytes(&self) -> u64 {
        if self.columns as usize > super::index::WALKED_COLUMNS {
            u64::from(self.columns) * u64::from(self.entry_width())
        } else {
            0
        }
    }

    /// Holds the fields against one another; the trailer lies at file offset `at`.
    fn check(&self, at: u64) -> Result<(), &'static str> {
        if !(1..=4).contains(&self.offset_width) || !(1..=4).contains(&self.ordinal_width) {
            return Err("widths of the index aren't 1 to 4");
        }
        let pages_bytes = u64::from(self.metadata_size_bytes) + 4 * u64::from(self.page_count());
        if self.pages_offset.checked_add(pages_bytes) != Some(at) {
            return Err("metadata pages don't end where the trailer begins");
        }
        if self.pages_offset < MAGIC.len() as u64 || !self.pages_offset.is_multiple_of(8) {
            return Err("metadata pages begin at no multiple of 8");
        }
        let table_end = u64::from(self.record_table) + u64::from(self.offset_width) * u64::from(self.columns);
        let index_end = u64::from(self.hash_index) + self.hash_index_size_bytes();
        if table_end != u64::from(self.hash_index)
            || index_end != u64::from(self.file_record)
            || self.file_record > self.metadata_size_bytes
        {
            return Err("parts of the metadata don't follow one another");
        }
        Ok(())
    }
}

/// Refuses what a newer writer may say and this reader doesn't know. The checksum has been verified.
fn check_understood(tail: &[u8; TRAILER_SIZE_BYTES], file: &str) -> Result<()> {
    let refuse = |what: String| Err(Error::Unsupported(format!("{file}: {what}")));
    let version = u16::read(&tail[44..]);
    if version != VERSION {
        return refuse(format!("version {version} of the format; this reader knows version {VERSION}"));
    }
    if tail[46] != 0 {
        return refuse(format!("file kind {}", tail[46]));
    }
    if tail[47] != 0 {
        return refuse(format!("encryption {}", tail[47]));
    }
    let must_understand = u32::read(&tail[48..]);
    if must_understand != 0 || tail[42..44] != [0; 2] {
        return refuse(format!("must-understand bits {must_understand:#x}, reserved bytes {:?}", &tail[42..44]));
    }
    Ok(())
}

const _: () = assert!(CHECKSUM_AT + 4 + END_MAGIC.len() == TRAILER_SIZE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn trailer() -> Trailer {
        Trailer {
            pages_offset: 4_096,
            rows: 10,
            metadata_size_bytes: 5_000,
            record_table: 4_000,
            hash_index: 4_004,
            file_record: 4_004,
            columns: 2,
            row_groups: 1,
            offset_width: 2,
            ordinal_width: 1,
        }
    }

    const FILE_SIZE_BYTES: u64 = 4_096 + 5_000 + 8 + 64;

    /// The bytes with the checksum made to fit.
    fn changed(offset: usize, value: u8) -> [u8; TRAILER_SIZE_BYTES] {
        let mut bytes = trailer().to_bytes();
        bytes[offset] = value;
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]).to_le_bytes();
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum);
        bytes
    }

    #[test]
    fn comes_back_and_every_flip_is_found() {
        let bytes = trailer().to_bytes();
        assert_eq!(Trailer::read(&bytes, "a", FILE_SIZE_BYTES).unwrap(), trailer());
        for index in 0..TRAILER_SIZE_BYTES {
            let mut flipped = bytes;
            flipped[index] ^= 1;
            assert_eq!(Trailer::read(&flipped, "a", FILE_SIZE_BYTES).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_and_what_may_be_ignored_is_not() {
        for offset in [42, 43, 44, 45, 46, 47, 48, 49, 50, 51] {
            let error = Trailer::read(&changed(offset, 1), "a", FILE_SIZE_BYTES).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "byte {offset}");
        }
        for offset in 52..56 {
            assert_eq!(Trailer::read(&changed(offset, 1), "a", FILE_SIZE_BYTES).unwrap(), trailer());
        }
    }

    #[test]
    fn places_outside_the_file_are_corrupt() {
        for (offset, value) in
            [(0, 8), (7, 0xFF), (16, 0), (19, 0xFF), (20, 1), (24, 0), (28, 0), (32, 9), (40, 0), (41, 9)]
        {
            let error = Trailer::read(&changed(offset, value), "a", FILE_SIZE_BYTES).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {offset}");
        }
    }
}
