//! Cells: what the cache holds one by one.

use std::fmt;

use crate::Version;

/// Rows of a cell, but for the last of a row group.
pub const CELL_ROWS: usize = entasis_encoding::BLOCK_ROWS;

/// Which cell: 65,536 rows of one leaf in one row group of one version of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CellId {
    /// The column that it is a piece of.
    pub column: ColumnId,
    /// Number of the row group in the object.
    pub row_group: usize,
    /// Number of the piece in the row group: its first row is this times [`CELL_ROWS`].
    pub piece: usize,
}

/// A leaf of a version of an object, in all of its row groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnId {
    /// The version.
    pub version: Version,
    /// Number of the leaf among all columns of the schema in pre-order, as [`ColumnNode::columns`](entasis::arrow::ColumnNode::columns)
    /// counts them: a struct outside lists is a leaf of its own, its validity, before its fields.
    pub leaf: usize,
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, row_group, piece } = self;
        write!(f, "{}, leaf {}, row group {row_group}, piece {piece}", column.version, column.leaf)
    }
}
