//! Errors, by what the caller can do about them.

use std::{io, ops::Range};

use arrow_schema::ArrowError;

/// What went wrong with a file or a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part of the file isn't what the specification says. Other parts may be whole and stay readable.
    #[error("{file}: corrupt {part} at byte {offset}: {what}")]
    Corrupt {
        /// The file.
        file: String,
        /// The damaged part, in words.
        part: String,
        /// Byte offset in the file; of the nearest enclosing part where no exact one is known.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file ends too early: it was cut, or its writer never finished.
    #[error("{file}: truncated: {what}")]
    Truncated {
        /// The file.
        file: String,
        /// What is missing.
        what: String,
    },
    /// The file is whole, but needs something that this version doesn't have, or isn't an Entasis file at all.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// A part of the file is larger than the reader may allocate; raise [`ReadLimits`](crate::ReadLimits) to read it.
    #[error("{file}: {part} at byte {offset}: {what} is {declared}, over the limit of {limit}")]
    OverLimit {
        /// The file.
        file: String,
        /// The part, in words.
        part: String,
        /// Byte offset of the part in the file.
        offset: u64,
        /// What is too large.
        what: String,
        /// As declared by the file.
        declared: u64,
        /// The reader's limit.
        limit: u64,
    },
    /// The call can't be answered as made.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// The file, folder or sink.
        path: String,
        /// What the operating system or the sink said.
        source: io::Error,
    },
    /// Arrow refused what it was given.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// A [`Fetched`](crate::source::Fetched) source lacks these ranges: fetch them, add them, and make the call again.
    /// No other source yields this.
    #[error("bytes {0:?} have not been fetched")]
    Missing(Vec<Range<u64>>),
}

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The file is damaged: restore it, or read what is whole.
    Corrupt,
    /// Get a newer version, raise a limit, or pass another file.
    Unsupported,
    /// Change the call.
    InvalidArgument,
    /// Look at the disk, the network or the permissions; trying again may help.
    Io,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Corrupt { .. } | Error::Truncated { .. } => ErrorKind::Corrupt,
            Error::Unsupported(_) | Error::OverLimit { .. } => ErrorKind::Unsupported,
            Error::InvalidArgument(_) | Error::Arrow(_) => ErrorKind::InvalidArgument,
            Error::Io { .. } | Error::Missing(_) => ErrorKind::Io,
        }
    }

    /// Corruption of `part` of `file` at byte `offset` of it.
    pub fn corrupt(file: &str, part: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_owned(), part: part.into(), offset, what: what.into() }
    }

    /// A failure to read or write `path`.
    pub fn io(path: impl Into<String>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// An error of a block that lies at byte `offset` of `file`; `part` names the block.
    pub fn in_block(error: entasis_encoding::Error, file: &str, part: &str, offset: u64) -> Self {
        use entasis_encoding::Error as Block;
        match error {
            Block::Corrupt { part: inner, offset: at, what } => {
                Self::corrupt(file, format!("{part}, {inner}"), offset.saturating_add(at), what)
            }
            Block::Unsupported(what) => Self::Unsupported(format!("{file}: {part}: {what}")),
            Block::OverLimit { what, declared, limit } => Self::OverLimit {
                file: file.to_owned(),
                part: part.to_owned(),
                offset,
                what: what.to_owned(),
                declared,
                limit,
            },
            Block::LargeValue(what) => Self::corrupt(file, format!("{part}, large value"), offset, what),
            other => other.into(),
        }
    }
}

/// Without a file: errors of encoding and of calls. Errors of stored blocks get their place by [`Error::in_block`].
impl From<entasis_encoding::Error> for Error {
    fn from(error: entasis_encoding::Error) -> Self {
        use entasis_encoding::Error as Block;
        match error {
            Block::Unsupported(what) => Self::Unsupported(what),
            other => Self::InvalidArgument(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_blocks_get_file_part_and_offset() {
        let inner = entasis_encoding::Error::corrupt("head", 7, "checksum differs");
        let error = Error::in_block(inner, "a.ent", "column \"x\", row group 0, block 3", 4_096);
        assert_eq!(
            error.to_string(),
            "a.ent: corrupt column \"x\", row group 0, block 3, head at byte 4103: checksum differs"
        );
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn kinds_say_what_the_caller_can_do() {
        let over = entasis_encoding::Error::OverLimit { what: "decoded bytes", declared: 9, limit: 8 };
        assert_eq!(Error::in_block(over, "a", "b", 0).kind(), ErrorKind::Unsupported);
        assert_eq!(Error::from(entasis_encoding::Error::OffsetOverflow).kind(), ErrorKind::InvalidArgument);
        assert_eq!(Error::io("a", io::ErrorKind::StorageFull.into()).kind(), ErrorKind::Io);
        assert_eq!(Error::Truncated { file: "a".into(), what: "b".into() }.kind(), ErrorKind::Corrupt);
    }
}
