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

/// An error of the cache, as what it is about.
#[cfg(feature = "cache")]
pub(crate) fn of_cache(error: entasis_cache::Error) -> DataFusionError {
    match error {
        entasis_cache::Error::Entasis(error) => external(error),
        entasis_cache::Error::Store(error) => error.into(),
        entasis_cache::Error::Parquet(error) => error.into(),
        other => DataFusionError::External(Box::new(other)),
    }
}
