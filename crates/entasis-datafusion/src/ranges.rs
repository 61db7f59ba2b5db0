//! Parts of a file: DataFusion cuts files by bytes, and a scan reads rows.

use std::ops::Range;

use datafusion::datasource::listing::FileRange;

/// Rows of a piece: those of a block of a column with small values.
const PIECE_ROWS: u64 = 65_536;

/// The rows that stand for `range` of a file of `size_bytes`: whole pieces, each in the range in which it would begin if
/// all pieces were equally long. Ranges that tile the file give rows that tile it.
pub(crate) fn rows_of(range: &FileRange, size_bytes: u64, row_group_rows: &[u64]) -> Range<u64> {
    let pieces: u64 = row_group_rows.iter().map(|rows| rows.div_ceil(PIECE_ROWS)).sum();
    let first_from = |offset: i64| {
        let offset = u64::try_from(offset).unwrap_or(0).min(size_bytes);
        let piece = (u128::from(offset) * u128::from(pieces)).div_ceil(u128::from(size_bytes.max(1)));
        row_of_piece(piece as u64, row_group_rows)
    };
    first_from(range.start)..first_from(range.end)
}

/// The first row of a piece; all rows for the piece after the last.
fn row_of_piece(mut piece: u64, row_group_rows: &[u64]) -> u64 {
    let mut first = 0;
    for rows in row_group_rows {
        let pieces = rows.div_ceil(PIECE_ROWS);
        if piece < pieces {
            return first + piece * PIECE_ROWS;
        }
        piece -= pieces;
        first += rows;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_tile_a_file_give_rows_that_tile_it() {
        let groups = [200_000, 1, 65_536, 70_000];
        let rows: u64 = groups.iter().sum();
        for size_bytes in [1_u64, 3, 1_000, 123_457] {
            for parts in 1..9 {
                let cut = |part: u64| (size_bytes * part / parts) as i64;
                let mut next = 0;
                for part in 0..parts {
                    let range = FileRange { start: cut(part), end: cut(part + 1) };
                    let found = rows_of(&range, size_bytes, &groups);
                    assert_eq!(found.start, next);
                    next = found.end;
                }
                assert_eq!(next, rows);
            }
        }
    }

    #[test]
    fn pieces_begin_where_blocks_do() {
        let range = FileRange { start: 50, end: 100 };
        assert_eq!(rows_of(&range, 100, &[131_072]), 65_536..131_072);
        assert_eq!(rows_of(&range, 100, &[]), 0..0);
        assert_eq!(rows_of(&FileRange { start: -5, end: i64::MAX }, 0, &[7]), 0..0);
    }
}
