//! DataFusion's errors as ours: one line that says where, and the number that fits.

use std::error::Error;
use std::fmt;

use datafusion::common::DataFusionError;
use datafusion::object_store;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::exit::{Exit, Failure};

/// One of our failures on its way through DataFusion.
#[derive(Debug)]
pub struct Carried(pub Failure);

impl fmt::Display for Carried {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for Carried {}

/// What a failure says where somebody pressed Ctrl-C.
pub const STOPPED: &str = "stopped";

/// Somebody pressed Ctrl-C.
pub fn stopped() -> Failure {
    Failure::Told { exit: Exit::Usage, message: STOPPED.to_owned() }
}

/// The line and the column that a failure names at its beginning, both from 1.
pub fn place_in(message: &str) -> Option<(usize, usize)> {
    let (line, rest) = message.strip_prefix("line ")?.split_once(", column ")?;
    let (column, _) = rest.split_once(": ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// The failure that an error is; at its beginning the place in the SQL, where it is known.
pub fn failure(error: &DataFusionError) -> Failure {
    let (place, message) = words(error);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = match place {
        Some((line, column)) => format!("line {line}, column {column}: {message}"),
        None => message,
    };
    Failure::Told { exit: exit_of(error), message }
}

/// The place in the SQL, and what is wrong there.
fn words(error: &DataFusionError) -> (Option<(u64, u64)>, String) {
    let root = error.find_root();
    let place =
        error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| (span.start.line, span.start.column));
    if let DataFusionError::SQL(parser, _) = root {
        let (ParserError::TokenizerError(text) | ParserError::ParserError(text)) = &**parser else {
            return (place, parser.to_string());
        };
        return match text.rsplit_once(" at Line: ") {
            Some((what, at)) => (place_of(at).or(place), what.to_owned()),
            None => (place, text.clone()),
        };
    }
    let text = root.message().into_owned();
    let helps = error.diagnostic().map(|diagnostic| diagnostic.helps.iter().map(|help| help.message.clone()).collect());
    let helps: Vec<String> = helps.unwrap_or_default();
    (place, [vec![text], helps].concat().join("; "))
}

/// `1, Column: 8`
fn place_of(text: &str) -> Option<(u64, u64)> {
    let (line, column) = text.split_once(", Column: ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

fn exit_of_kind(kind: entasis::ErrorKind) -> Exit {
    match kind {
        entasis::ErrorKind::Corrupt | entasis::ErrorKind::Unsupported => Exit::Corrupt,
        entasis::ErrorKind::InvalidArgument => Exit::Usage,
        entasis::ErrorKind::Io => Exit::Io,
    }
}

/// What the shell sees: by the innermost error that says what kind it is, else the question was wrong.
fn exit_of(error: &DataFusionError) -> Exit {
    let mut exit = Exit::Usage;
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(carried) = error.downcast_ref::<Carried>() {
            return carried.0.exit();
        }
        if let Some(error) = error.downcast_ref::<entasis::Error>() {
            return exit_of_kind(error.kind());
        }
        #[cfg(feature = "cache")]
        if let Some(error) = error.downcast_ref::<entasis_cache::Error>() {
            return exit_of_kind(error.kind());
        }
        if error.is::<parquet::errors::ParquetError>() {
            exit = Exit::Corrupt;
        }
        if error.is::<std::io::Error>() || error.is::<object_store::Error>() {
            exit = Exit::Io;
        }
        next = error.source();
    }
    exit
}

#[cfg(all(test, feature = "cache"))]
mod tests {
    use std::sync::Arc;

    use entasis_cache::{ObjectId, Stamp, Version};

    use super::*;

    #[test]
    fn an_object_that_has_changed_is_no_fault_of_the_question() {
        let version = Version::new(ObjectId::new("s3://a", "t.parquet".into()), Stamp::ETag("1".to_owned()));
        let changed: DataFusionError =
            DataFusionError::External(Box::new(entasis_cache::Error::Changed(version.clone())));
        assert_eq!(failure(&changed).exit(), Exit::Io);
        let shared = DataFusionError::Shared(Arc::new(changed));
        assert_eq!(failure(&shared).exit(), Exit::Io);
        let damaged = entasis_cache::Error::Damaged { version, what: "no metadata".to_owned() };
        assert_eq!(failure(&DataFusionError::External(Box::new(damaged))).exit(), Exit::Corrupt);
    }
}
