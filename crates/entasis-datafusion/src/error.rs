//! Errors of the core as DataFusion's. They stay what they are inside, so that callers can find out what to do about them.

use datafusion::common::DataFusionError;

/// An error of the core. It says file, part and offset itself.
pub(crate) fn external(error: entasis::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The file isn't the one that was planned with.
pub(crate) fn replaced(name: &str) -> DataFusionError {
    let what = "it was replaced after the query began";
    external(entasis::Error::io(name, std::io::Error::other(what)))
}
