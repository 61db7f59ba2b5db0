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
pub const VECTOR_BYTES: u64 = 128 * 1024 * 1024;

/// Bounds of a row group.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimits {
    /// Most rows.
    pub rows: u64,
    /// Decoded bytes at which it ends, at the next multiple of 1,024 rows.
    pub bytes: u64,
    /// Most decoded bytes of one vector of a column, see [`VECTOR_BYTES`].
    pub vector_bytes: u64,
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
            let (count, cut) = self.add_segment(limits, arrays, segment, columns);
            taken += count;
            let at_vector = self.rows.is_multiple_of(VECTOR_ROWS as u64);
            if cut || self.rows == limits.rows || (at_vector && self.bytes >= limits.bytes) {
                return (taken, true);
            }
        }
        (taken, false)
    }

    /// Adds rows that don't reach past the end of a vector. Returns how many, and whether the group must end there.
    fn add_segment(
        &mut self,
        limits: &GroupLimits,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        columns: &mut [ColumnWriter],
    ) -> (usize, bool) {
        let sizes: Vec<Size> = arrays.iter().map(|array| decoded_size(array, rows.clone())).collect();
        let mut count = rows.len();
        for ((array, size), vector_bytes) in arrays.iter().zip(&sizes).zip(&self.vector_bytes) {
            if vector_bytes + size.inline > limits.vector_bytes {
                let room = limits.vector_bytes.saturating_sub(*vector_bytes);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};
    use entasis_encoding::{Fixed, Physical};

    use super::*;
    use crate::write::asked::ColumnOptions;

    /// The rows of each row group when batches of `batch_rows` come.
    fn groups(limits: &GroupLimits, arrays: &[ArrayRef], batch_rows: usize) -> Vec<u64> {
        let rows = arrays[0].len();
        let mut columns = [Physical::Fixed(Fixed::I64), Physical::Bytes]
            .map(|physical| ColumnWriter::new(physical, false, ColumnOptions::default()));
        let (mut group, mut groups) = (Group::default(), Vec::new());
        for first in (0..rows).step_by(batch_rows) {
            let end = rows.min(first + batch_rows);
            let mut start = first;
            while start < end {
                let (taken, ends) = group.add(limits, arrays, start..end, &mut columns);
                assert!(taken > 0 || ends, "it goes on");
                start += taken;
                if ends {
                    groups.push(std::mem::take(&mut group).rows);
                }
            }
        }
        groups.push(group.rows);
        groups
    }

    fn arrays() -> Vec<ArrayRef> {
        let integers = Int64Array::from_iter_values(0..5_000);
        let texts = StringArray::from_iter_values((0..5_000).map(|row| "x".repeat(if row < 2_500 { 6 } else { 96 })));
        vec![Arc::new(integers), Arc::new(texts)]
    }

    #[test]
    fn row_groups_end_at_the_same_rows_however_batches_are_cut() {
        let limits = GroupLimits { rows: u64::MAX, bytes: u64::MAX, vector_bytes: u64::MAX };
        let cases = [
            (limits, vec![5_000]),
            (GroupLimits { rows: 2_000, ..limits }, vec![2_000, 2_000, 1_000]),
            // 18 bytes a row, and 108 from row 2,500 on: ends at the next multiple of 1,024 rows of the group.
            (GroupLimits { bytes: 20_000, ..limits }, vec![2_048, 1_024, 1_024, 904]),
            // 10 bytes a row in the longer column, then 100: 102 rows fill a vector, the rows before them too.
            (GroupLimits { vector_bytes: 10_240, ..limits }, vec![2_557, 102, 102]),
        ];
        for (limits, expected) in cases {
            let whole = groups(&limits, &arrays(), 5_000);
            assert_eq!(whole[..expected.len()], expected, "{limits:?}");
            assert_eq!(whole.iter().sum::<u64>(), 5_000);
            for batch_rows in [1, 7, 1_000, 1_024, 3_000] {
                let cut = groups(&limits, &arrays(), batch_rows);
                assert_eq!(cut, whole, "{limits:?}, batches of {batch_rows}");
            }
        }
    }

    #[test]
    fn a_row_that_is_too_long_is_a_group_of_its_own() {
        let limits = GroupLimits { rows: u64::MAX, bytes: u64::MAX, vector_bytes: 50 };
        let texts = ["short", &"x".repeat(100), "short"].map(str::to_owned);
        let arrays: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![1, 2, 3])), Arc::new(StringArray::from(texts.to_vec()))];
        assert_eq!(groups(&limits, &arrays, 3), [1, 1, 1]);
        assert_eq!(groups(&limits, &arrays, 1), [1, 1, 1]);
    }
}
