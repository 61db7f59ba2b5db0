//! Errors of the cache.

use entasis::ErrorKind;

use crate::Version;

/// What went wrong with a cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Blocks or arrays; says what a caller can do by [`entasis::Error::kind`].
    #[error(transparent)]
    Entasis(#[from] entasis::Error),
    /// The object isn't this version any more: it was overwritten, or deleted. A query that starts now sees what there is.
    #[error("{0} has changed")]
    Changed(Version),
    /// The object isn't what it has to be, or the store gave other bytes than were asked for.
    #[error("{version}: {what}")]
    Damaged {
        /// The version.
        version: Version,
        /// What is wrong.
        what: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// What arrow-rs says of the file.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A cell has at most [`CELL_ROWS`](crate::CELL_ROWS) rows.
    #[error("{cell}: {rows} rows in one cell")]
    TooManyRows {
        /// The cell.
        cell: String,
        /// The rows that it was to have.
        rows: usize,
    },
}

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Entasis(error) => error.kind(),
            Error::Damaged { .. } | Error::Parquet(_) => ErrorKind::Corrupt,
            Error::Changed(_) | Error::Store(_) => ErrorKind::Io,
            Error::TooManyRows { .. } => ErrorKind::InvalidArgument,
        }
    }

    pub(crate) fn damaged(version: &Version, what: impl Into<String>) -> Self {
        Self::Damaged { version: version.clone(), what: what.into() }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
