//! What can be chosen when a file is written.

use std::str::FromStr;

pub use entasis_encoding::{EncodeOptions, Profile};

use crate::{
    bloom::{BLOOM_RATE, BLOOM_RATES},
    error::{Error, Result},
    metadata::file_record::MAX_ROW_GROUP_ROWS,
};

/// How a file is written. [`Default`] gives what the fields say.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Most rows of a row group: 1,048,576.
    pub row_group_rows: u64,
    /// Decoded bytes at which a row group ends, at the next multiple of 1,024 rows: 512 MiB.
    pub row_group_bytes: u64,
    /// What the file should say about itself, in this order: nothing.
    pub user_metadata: Vec<(String, Vec<u8>)>,
    /// The order in which rows come, the most significant column first: none. It is verified, not made.
    pub sort_order: Vec<SortColumn>,
    /// Threads that encode: 1, the caller's. The bytes of the file don't depend on it.
    pub threads: usize,
    /// How blocks are encoded; [`EncodeOptions::of`] gives those of a profile.
    pub encode: EncodeOptions,
    /// Columns whose values, nulls aside, must have an encoding: path and the encoding's name. None: the chooser's choice. Values that
    /// an encoding can't hold are then [`Error::InvalidArgument`].
    pub encodings: Vec<(String, String)>,
    /// Columns whose blocks get Bloom filters, for lookups of single values: none. Filters that would take more bytes than the values of a
    /// row group are left out.
    pub bloom: Vec<BloomColumn>,
}

/// A column whose blocks get Bloom filters.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomColumn {
    /// Path of the column: its name, or names of structs and the field in them joined by dots.
    pub column: String,
    /// The share of blocks without a value that may be read nevertheless, 0.000001 to 0.5: [`BLOOM_RATE`], 1 %, by [`Self::new`].
    pub rate: f64,
}

impl BloomColumn {
    /// Bloom filters of the usual size for a column.
    pub fn new(column: impl Into<String>) -> Self {
        Self { column: column.into(), rate: BLOOM_RATE }
    }
}

/// `COLUMN`, or `COLUMN=RATE`. What stands behind the last `=` is part of the name if it is no number.
impl FromStr for BloomColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.rsplit_once('=').and_then(|(column, rate)| Some((column, rate.parse::<f64>().ok()?)));
        match rate {
            None => Ok(Self::new(text)),
            Some((column, rate)) if BLOOM_RATES.contains(&rate) => Ok(Self { column: column.to_owned(), rate }),
            Some((column, rate)) => Err(wrong_rate(column, rate)),
        }
    }
}

/// What is wrong with a rate that no filters have.
fn wrong_rate(column: &str, rate: f64) -> String {
    let (least, most) = BLOOM_RATES.into_inner();
    format!("Bloom filters of column {column:?} that answer wrongly at a rate of {rate}; it can be {least} to {most}")
}

/// A column of the declared sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortColumn {
    /// Path of the column: its name, or names of structs and the field in them joined by dots.
    pub column: String,
    /// Largest values first.
    pub descending: bool,
    /// Nulls before all values, whatever the direction.
    pub nulls_first: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            row_group_rows: 1_048_576,
            row_group_bytes: 512 * 1024 * 1024,
            user_metadata: Vec::new(),
            sort_order: Vec::new(),
            threads: 1,
            encode: EncodeOptions::default(),
            encodings: Vec::new(),
            bloom: Vec::new(),
        }
    }
}

impl WriteOptions {
    /// Refuses numbers that no file can have.
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=MAX_ROW_GROUP_ROWS).contains(&self.row_group_rows) {
            return Err(Error::InvalidArgument(format!("row groups of {} rows", self.row_group_rows)));
        }
        if self.row_group_bytes == 0 || self.threads == 0 {
            return Err(Error::InvalidArgument("row groups of 0 bytes, or 0 threads".to_owned()));
        }
        if let Some(wrong) = self.bloom.iter().find(|bloom| !BLOOM_RATES.contains(&bloom.rate)) {
            return Err(Error::InvalidArgument(wrong_rate(&wrong.column, wrong.rate)));
        }
        Ok(())
    }
}
