//! How a run ends: the number that the shell sees, and the line that a person reads.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::process::ExitCode;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use serde_json::{Value, json};

/// What a run came to. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Good = 0,
    /// Two tables that should be equal are not.
    Different = 1,
    /// The command line asks for something that makes no sense.
    Usage = 2,
    /// A file is damaged, isn't what it claims to be, or holds what isn't supported.
    Corrupt = 3,
    /// A file can't be found, read or written.
    Io = 4,
}

impl Exit {
    /// What JSON calls it.
    fn name(self) -> &'static str {
        match self {
            Exit::Good => "good",
            Exit::Different => "different",
            Exit::Usage => "usage",
            Exit::Corrupt => "corrupt",
            Exit::Io => "io",
        }
    }
}

/// One form for every command, whoever met the error.
fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a folder".to_owned(),
        // Only folders are made where something may be.
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "is no folder".to_owned(),
        io::ErrorKind::StorageFull => "no space left on the device".to_owned(),
        _ => {
            let words = error.to_string();
            words.split(" (os error").next().unwrap_or(&words).to_owned()
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped before its end.
#[derive(Debug)]
pub enum Failure {
    /// To be told on standard error.
    Told {
        /// What the shell sees.
        exit: Exit,
        /// One line for people.
        message: String,
    },
    /// Whoever read our output has seen enough (`entasis head x.ent | head -1`): nothing to tell.
    OutputClosed,
}

impl Failure {
    /// The command line asks for something that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::Told { exit: Exit::Usage, message: message.into() }
    }

    /// A file is damaged or holds what isn't supported.
    pub fn corrupt(path: &Path, what: impl Display) -> Self {
        Failure::Told { exit: Exit::Corrupt, message: format!("{}: {what}", path.display()) }
    }

    /// A file can't be found, read or written.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Self::unusable(path, io_words(error)),
        }
    }

    /// What the file asks for isn't in this build.
    #[cfg(not(all(feature = "text", feature = "orc")))]
    pub fn without_feature(path: &Path, feature: &str) -> Self {
        let remedy = format!("cargo install --path crates/entasis-cli --features {feature}");
        Self::usage(format!("{}: this build has no {feature} ({remedy})", path.display()))
    }

    /// As [`Failure::io`], where not the operating system says why.
    pub fn unusable(path: &Path, what: impl Display) -> Self {
        Failure::Told { exit: Exit::Io, message: format!("{}: {what}", path.display()) }
    }

    /// Arrow's readers wrap errors of the file system: those are I/O, all others are the file's content.
    pub fn arrow(path: &Path, error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => Self::read(path, source),
            ArrowError::ExternalError(source) => Self::boxed(path, source),
            other => Self::corrupt(path, other),
        }
    }

    /// As [`Failure::arrow`], for Parquet's readers and writers.
    pub fn parquet(path: &Path, error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => Self::boxed(path, source),
            other => Self::corrupt(path, other),
        }
    }

    fn boxed(path: &Path, source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        match source.downcast::<io::Error>() {
            Ok(source) => Self::read(path, *source),
            Err(other) => Self::corrupt(path, other),
        }
    }

    /// As [`Failure::io`] while reading: a file that ends too early or holds nonsense is reported by decoders as an I/O error, too.
    pub fn read(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Self::corrupt(path, source),
            _ => Self::io(path, &source),
        }
    }

    /// For programs, as the help describes it.
    pub fn to_json(&self) -> Value {
        let exit = self.exit();
        json!({ "error": { "kind": exit.name(), "message": self.to_string(), "exit_code": exit as u8 } })
    }

    /// What the shell sees.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Told { exit, .. } => *exit,
            Failure::OutputClosed => Exit::Good,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Told { message, .. } => formatter.write_str(message),
            Failure::OutputClosed => formatter.write_str("standard output was closed"),
        }
    }
}

/// An I/O error without a path comes from standard output: files name theirs with [`Failure::io`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Self::unusable(Path::new("standard output"), io_words(&error)),
        }
    }
}

impl From<entasis::Error> for Failure {
    fn from(error: entasis::Error) -> Self {
        let exit = match error.kind() {
            entasis::ErrorKind::Corrupt | entasis::ErrorKind::Unsupported => Exit::Corrupt,
            entasis::ErrorKind::InvalidArgument => Exit::Usage,
            entasis::ErrorKind::Io => Exit::Io,
        };
        match error {
            entasis::Error::Io { path, source } => Self::io(Path::new(&path), &source),
            // The exit code says already what kind of error this is.
            entasis::Error::InvalidArgument(message) => Failure::Told { exit, message },
            other => Failure::Told { exit, message: other.to_string() },
        }
    }
}
