//! Where row groups and blocks end. It depends on the rows alone, never on how batches cut them.

use std::ops::Range;

use arrow_array::ArrayRef;
use entasis_encoding::VECTOR_ROWS;

use super::{
    column::ColumnWriter,
    size::{Size, decoded_size, rows_within},
};

/// A row group ends before a row with which a single vector of a column would decode to more than this: a block can't
/// be shorter than a vector unless it is its chunk's last, and readers refuse blocks over 256 MiB.
const VECTOR_BYTES: u64 = 128 * 1024 * 1024;

/// Bounds of a row group.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimits {
    /// Most rows.
    pub rows: u64,
    /// Decoded bytes at which it ends, at the next multiple of 1,024 rows.
    pub bytes: u64,
}

/// What has been planned of the row group so far.
#[derive(Debug, Default)]
pub struct Group {
    /// Rows.
    pub rows: u64,
    bytes: u64,
    /// Per column, bytes of the vector that is filling.
    vector_bytes: Vec<u64>,
}

impl Group {
    /// Adds as many of `rows` of the arrays (one per column) as the group takes and counts them into the columns'
    /// blocks. Returns how many that are, and whether the group ends with them.
    pub fn add(
        &mut self,
        limits: &GroupLimits,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        columns: &mut [ColumnWriter],
    ) -> (usize, bool) {
        self.vector_bytes.resize(columns.len(), 0);
        let most = usize::try_from(limits.rows - self.rows).unwrap_or(usize::MAX).min(rows.len());
        let mut taken = 0;
        while taken < most {
            let to_vector_end = VECTOR_ROWS - (self.rows % VECTOR_ROWS as u64) as usize;
            let count = to_vector_end.min(most - taken);
            let segment = rows.start + taken..rows.start + taken + count;
            let (count, cut) = self.add_segment(arrays, segment, columns);
            taken += count;
            let at_vector = self.rows.is_multiple_of(VECTOR_ROWS as u64);
            if cut || self.rows == limits.rows || (at_vector && self.bytes >= limits.bytes) {
                return (taken, true);
            }
        }
        (taken, false)
    }

    /// Adds rows that don't reach past the end of a vector. Returns how many, and whether the group must end there.
    fn add_segment(&mut self, arrays: &[ArrayRef], rows: Range<usize>, columns: &mut [ColumnWriter]) -> (usize, bool) {
        let sizes: Vec<Size> = arrays.iter().map(|array| decoded_size(array, rows.clone())).collect();
        let mut count = rows.len();
        for ((array, size), vector_bytes) in arrays.iter().zip(&sizes).zip(&self.vector_bytes) {
            if vector_bytes + size.inline > VECTOR_BYTES {
                let room = VECTOR_BYTES.saturating_sub(*vector_bytes);
                count = count.min(rows_within(array, rows.clone(), room));
            }
        }
        let cut = count < rows.len();
        if cut && count == 0 && self.rows == 0 {
            // A single row that is too long: a group of its own.
            count = 1;
        }
        self.rows += count as u64;
        let at_vector = self.rows.is_multiple_of(VECTOR_ROWS as u64);
        for (index, (column, size)) in columns.iter_mut().zip(&sizes).enumerate() {
            let size = if cut { decoded_size(&arrays[index], rows.start..rows.start + count) } else { *size };
            self.bytes += size.all;
            self.vector_bytes[index] = if at_vector { 0 } else { self.vector_bytes[index] + size.inline };
            column.count(count, size, self.rows, at_vector);
        }
        (count, cut)
    }
}
