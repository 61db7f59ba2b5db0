//! Errors, by what the caller can do about them.

use arrow_schema::ArrowError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data or the file asks for something that this version doesn't have. A newer version may.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The call can't be answered as made.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// Arrow refused to put an array together: what was decoded isn't what the type says.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<entasis_encoding::Error> for Error {
    fn from(error: entasis_encoding::Error) -> Self {
        match error {
            entasis_encoding::Error::Unsupported(what) => Self::Unsupported(what),
            other => Self::InvalidArgument(other.to_string()),
        }
    }
}
