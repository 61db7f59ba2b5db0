//! What can be said about a table's files in `OPTIONS (…)`.

use std::collections::HashMap;

use datafusion::common::{Result, config_err};
use entasis::{BloomColumn, EncodeOptions, Profile, Strings, WriteOptions};

/// How files of a table are read and written. [`Default`] gives what the fields say.
#[derive(Debug, Clone)]
pub struct FormatOptions {
    /// How byte strings come: as views, which DataFusion handles fastest. `format.strings`: `views` or `stored`.
    pub strings: Strings,
    /// Bytes against speed in files that are written: balanced. `format.profile`: `size`, `balanced` or `scan`.
    pub profile: Profile,
    /// Most rows of a row group in files that are written: 1,048,576. `format.row_group_rows`.
    pub row_group_rows: u64,
    /// Columns that get Bloom filters in files that are written: none. `format.bloom`: names with commas between, each with `=RATE` if it should
    /// have another than the usual one.
    pub bloom: Vec<BloomColumn>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        let row_group_rows = WriteOptions::default().row_group_rows;
        Self { strings: Strings::Views, profile: Profile::default(), row_group_rows, bloom: Vec::new() }
    }
}

impl FormatOptions {
    /// The options of a statement; those of others (stores, sinks) are left to them.
    pub(crate) fn parse(options: &HashMap<String, String>) -> Result<Self> {
        let mut parsed = Self::default();
        for (key, value) in options {
            let Some(name) = key.strip_prefix("format.") else { continue };
            match (name, value.to_ascii_lowercase().as_str()) {
                ("strings", "views") => parsed.strings = Strings::Views,
                ("strings", "stored") => parsed.strings = Strings::AsStored,
                ("profile", "size") => parsed.profile = Profile::Size,
                ("profile", "balanced") => parsed.profile = Profile::Balanced,
                ("profile", "scan") => parsed.profile = Profile::Scan,
                ("row_group_rows", rows) => match rows.parse() {
                    Ok(rows) => parsed.row_group_rows = rows,
                    Err(_) => return config_err!("{key}: {value:?} is not a number of rows"),
                },
                ("bloom", _) => match value.split(',').map(|column| column.trim().parse()).collect() {
                    Ok(bloom) => parsed.bloom = bloom,
                    Err::<_, String>(what) => return config_err!("{key}: {what}"),
                },
                ("strings", _) => return config_err!("{key}: {value:?} is neither 'views' nor 'stored'"),
                ("profile", _) => return config_err!("{key}: {value:?} is not 'size', 'balanced' or 'scan'"),
                _ => {
                    return config_err!(
                        "{key}: .ent files have the options strings, profile, row_group_rows and bloom"
                    );
                }
            }
        }
        Ok(parsed)
    }

    /// How files are written.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions {
            row_group_rows: self.row_group_rows,
            encode: EncodeOptions::of(self.profile),
            bloom: self.bloom.clone(),
            ..WriteOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(key: &str, value: &str) -> Result<FormatOptions> {
        FormatOptions::parse(&HashMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        assert_eq!(parse("format.strings", "stored").unwrap().strings, Strings::AsStored);
        assert_eq!(parse("format.profile", "SIZE").unwrap().profile, Profile::Size);
        assert_eq!(parse("format.row_group_rows", "5000").unwrap().row_group_rows, 5000);
        let bloom = vec![BloomColumn::new("id"), BloomColumn { rate: 0.1, ..BloomColumn::new("a.B") }];
        assert_eq!(parse("format.bloom", "id, a.B=0.1").unwrap().bloom, bloom);
        assert_eq!(parse("aws.region", "x").unwrap().strings, Strings::Views);
        for (key, value) in [
            ("format.strings", "x"),
            ("format.profile", "x"),
            ("format.row_group_rows", "x"),
            ("format.bloom", "id=7"),
            ("format.x", "x"),
        ] {
            assert!(parse(key, value).unwrap_err().to_string().contains(key));
        }
    }
}
