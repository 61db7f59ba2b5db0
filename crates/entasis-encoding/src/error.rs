//! Errors, by what the caller can do about them.

use std::ops::Range;

/// What went wrong with a block or an operation on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes aren't what the specification says: damaged or not a block. Nothing of the part named can be used.
    #[error("corrupt {part} at byte {offset} of the block: {what}")]
    Corrupt {
        /// The part of the block.
        part: &'static str,
        /// Byte offset from the block's start; of the nearest enclosing part where no exact one is known.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The bytes are whole, but ask for something that this version doesn't have. A newer version may.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The block declares more than the reader's limit; raise [`Limits`](crate::Limits) to read it.
    #[error("{what} is {declared}, over the limit of {limit}")]
    OverLimit {
        /// What is too large.
        what: &'static str,
        /// As declared by the block.
        declared: u64,
        /// The reader's limit.
        limit: u64,
    },
    /// The call can't be answered as made.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// A value of the region for large values couldn't be fetched.
    #[error("large value: {0}")]
    LargeValue(String),
    /// The block was opened by its head, and these bytes of it have not been supplied. Supply them and ask again.
    #[error("bytes {0:?} of the block have not been supplied")]
    Missing(Vec<Range<u64>>),
    /// Byte strings together need offsets of more than 32 bits; ask for views or for fewer rows.
    #[error(
        "more than 2 GiB of byte strings don't fit 32-bit offsets: ask for views, for 64-bit offsets or for fewer rows"
    )]
    OffsetOverflow,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Corruption of `part` at `offset`, a byte of the block.
    pub fn corrupt(part: &'static str, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { part, offset, what: what.into() }
    }
}
