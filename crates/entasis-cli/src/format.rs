//! The file formats that the commands read and write.

use std::path::Path;

use clap::ValueEnum;

use crate::exit::Failure;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Entasis.
    Ent,
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values, with a line of names first.
    Csv,
    /// Arrow IPC, file format (also known as Feather V2).
    Arrow,
    /// Arrow IPC, stream format.
    ArrowStream,
}

impl Format {
    /// The format that the name's extension stands for.
    pub fn from_extension(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "ent" => Some(Format::Ent),
            "parquet" | "pq" => Some(Format::Parquet),
            "csv" => Some(Format::Csv),
            "arrow" | "ipc" | "feather" => Some(Format::Arrow),
            "arrows" => Some(Format::ArrowStream),
            _ => None,
        }
    }

    /// The format that was asked for, else that of the extension; `remedy` is what to do if there is neither.
    pub fn of(path: &Path, asked: Option<Format>, remedy: &str) -> Result<Format, Failure> {
        asked.or_else(|| Format::from_extension(path)).ok_or_else(|| {
            Failure::usage(format!(
                "{}: the name's extension tells no format (.ent .parquet .pq .csv .arrow .ipc .feather .arrows); {remedy}",
                path.display()
            ))
        })
    }

    /// The extension of files of this format.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Ent => "ent",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Arrow => "arrow",
            Format::ArrowStream => "arrows",
        }
    }
}
