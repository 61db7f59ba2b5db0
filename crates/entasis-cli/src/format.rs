//! The file formats that the commands read and write.

use std::path::{Path, PathBuf};

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
    /// A JSON object per line.
    Ndjson,
    /// Apache ORC; it is read, not written.
    Orc,
    /// Arrow IPC, file format (also known as Feather V2).
    Arrow,
    /// Arrow IPC, stream format.
    ArrowStream,
}

/// How text may be compressed. It is read, not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Every extension, as people are told.
const EXTENSIONS: &str =
    ".ent .parquet .pq .csv .ndjson .jsonl .json .orc .arrow .ipc .feather .arrows; .gz or .zst behind text";

impl Format {
    /// The format that the name's extension stands for. Behind that of a text's format there may be that of a [`Compression`].
    pub fn from_extension(path: &Path) -> Option<Format> {
        let uncompressed = without_compression(path);
        let extension = uncompressed.extension()?.to_str()?.to_ascii_lowercase();
        let format = match extension.as_str() {
            "ent" => Format::Ent,
            "parquet" | "pq" => Format::Parquet,
            "csv" => Format::Csv,
            "ndjson" | "jsonl" | "json" => Format::Ndjson,
            "orc" => Format::Orc,
            "arrow" | "ipc" | "feather" => Format::Arrow,
            "arrows" => Format::ArrowStream,
            _ => return None,
        };
        (format.is_text() || uncompressed == path).then_some(format)
    }

    /// The format to read that was asked for, else that of the extension; `remedy` is what to do if there is neither.
    pub fn of(path: &Path, asked: Option<Format>, remedy: &str) -> Result<Format, Failure> {
        asked.or_else(|| Format::from_extension(path)).ok_or_else(|| {
            Failure::usage(format!("{}: the name's extension tells no format ({EXTENSIONS}); {remedy}", path.display()))
        })
    }

    /// As [`Format::of`], of a file to write.
    pub fn of_output(path: &Path, asked: Option<Format>, remedy: &str) -> Result<Format, Failure> {
        if let Some(compression) = Compression::of_name(path) {
            let what = format!("compressed text is read, not written; {} compresses files", compression.name());
            return Err(Failure::usage(format!("{}: {what}", path.display())));
        }
        Self::of(path, asked, remedy)
    }

    /// The extension of files of this format.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Ent => "ent",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
            Format::Orc => "orc",
            Format::Arrow => "arrow",
            Format::ArrowStream => "arrows",
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Format::Csv | Format::Ndjson)
    }
}

impl Compression {
    /// What the name's last extension stands for.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some(Compression::Gzip),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Its command's name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

/// The name without the extension of a [`Compression`].
pub fn without_compression(path: &Path) -> PathBuf {
    if Compression::of_name(path).is_some() { path.with_extension("") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_tell_formats_and_text_may_be_compressed() {
        for (name, expected) in [
            ("a.ent", Some(Format::Ent)),
            ("a.CSV.GZ", Some(Format::Csv)),
            ("a.b.jsonl.zst", Some(Format::Ndjson)),
            ("a.json", Some(Format::Ndjson)),
            ("a.parquet.gz", None),
            ("a.gz", None),
            ("gz", None),
            ("csv", None),
        ] {
            assert_eq!(Format::from_extension(Path::new(name)), expected, "{name}");
        }
        assert_eq!(Format::of_output(Path::new("a.csv"), None, "").unwrap(), Format::Csv);
        assert!(Format::of_output(Path::new("a.csv.gz"), None, "").is_err());
    }
}
