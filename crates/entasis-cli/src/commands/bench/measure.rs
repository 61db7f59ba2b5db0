//! What is measured of a table, and how Entasis compares.

use std::hint::black_box;

use serde_json::{Map, Value, json};

use super::clock::{self, Plan, Work};
use super::contenders::Contender;
use super::source::{LeftOut, Source};
use super::touch::{self, Touch};
use crate::exit::{Exit, Failure};

/// Tables are few and their ratios are quoted: long samples.
const SAMPLE_SECONDS: f64 = 0.02;

/// Size and CPU time of one contender on one table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Bytes of the file.
    pub size_bytes: u64,
    /// CPU seconds from Arrow to the file's bytes.
    pub encode_seconds: f64,
    /// CPU seconds from the file's bytes to Arrow arrays, every byte of them read.
    pub decode_seconds: f64,
}

/// Sizes and CPU times of all contenders on one table, or on several together.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The table's file.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// The columns that were measured.
    pub columns: u64,
    /// Bytes of the Arrow buffers.
    pub arrow_bytes: u64,
    /// CPU seconds for copying and reading them.
    pub copy_seconds: f64,
    /// In the order of [`Contender::ALL`].
    pub figures: [Figures; 4],
    /// Columns that weren't measured.
    pub left_out: Vec<LeftOut>,
}

/// Compares the values that every contender gives back, then measures.
///
/// # Errors
/// [`Exit::Different`] with contender, column and row if values differ.
pub fn measure(source: Source, rounds: usize) -> Result<Measured, Failure> {
    let encoded = Contender::ALL.map(|contender| contender.encode(&source));
    let [one, two, three, four] = encoded;
    let encoded = [one?, two?, three?, four?];
    for (contender, encoded) in Contender::ALL.into_iter().zip(&encoded) {
        if let Some(difference) = source.difference(contender, encoded)? {
            let message = format!("{}: {} gives back other values: {difference}", source.name, contender.name());
            return Err(Failure::Told { exit: Exit::Different, message });
        }
    }
    let mut works: Vec<Work<'_>> = vec![Box::new(|| {
        black_box(touch::copy(&source.batches));
        Ok(())
    })];
    for (contender, encoded) in Contender::ALL.into_iter().zip(&encoded) {
        let source = &source;
        works.push(Box::new(move || contender.encode(source).map(|encoded| drop(black_box(encoded)))));
        works.push(Box::new(move || {
            let mut touch = Touch::default();
            contender.decode(encoded.clone(), &mut |batch| touch.batch(batch))?;
            black_box(touch.sum());
            Ok(())
        }));
    }
    let plan = Plan { rounds, sample_seconds: SAMPLE_SECONDS };
    let seconds: Vec<f64> = clock::interleaved(&mut works, plan)?.iter().map(|times| times.median).collect();
    drop(works);
    let figures = [0, 1, 2, 3].map(|index| Figures {
        size_bytes: encoded[index].len() as u64,
        encode_seconds: seconds[1 + 2 * index],
        decode_seconds: seconds[2 + 2 * index],
    });
    Ok(Measured {
        rows: source.rows(),
        columns: source.schema.fields().len() as u64,
        name: source.name,
        arrow_bytes: source.arrow_bytes,
        copy_seconds: seconds[0],
        figures,
        left_out: source.left_out,
    })
}

impl Measured {
    /// The figures of one contender.
    pub fn of(&self, contender: Contender) -> &Figures {
        &self.figures[contender as usize]
    }

    /// Millions of bytes of Arrow buffers per CPU second.
    pub fn megabytes_per_second(&self, seconds: f64) -> f64 {
        self.arrow_bytes as f64 / 1e6 / seconds.max(1e-12)
    }

    /// All tables together.
    pub fn total(tables: &[Measured]) -> Measured {
        let mut total = Measured { name: "total".to_owned(), ..Measured::default() };
        for table in tables {
            total.rows += table.rows;
            total.columns += table.columns;
            total.arrow_bytes += table.arrow_bytes;
            total.copy_seconds += table.copy_seconds;
            for (sum, figures) in total.figures.iter_mut().zip(&table.figures) {
                sum.size_bytes += figures.size_bytes;
                sum.encode_seconds += figures.encode_seconds;
                sum.decode_seconds += figures.decode_seconds;
            }
        }
        total
    }

    /// As the help of `bench tables` describes it.
    pub fn to_json(&self) -> Value {
        let left_out: Vec<Value> =
            self.left_out.iter().map(|left| json!({ "column": left.column, "reason": left.reason })).collect();
        let mut table = Map::new();
        table.insert("name".to_owned(), json!(self.name));
        table.insert("rows".to_owned(), json!(self.rows));
        table.insert("columns".to_owned(), json!(self.columns));
        table.insert("arrow_bytes".to_owned(), json!(self.arrow_bytes));
        table.insert("copy_seconds".to_owned(), json!(self.copy_seconds));
        for contender in Contender::ALL {
            let figures = self.of(contender);
            let value = json!({
                "bytes": figures.size_bytes,
                "encode_seconds": figures.encode_seconds,
                "decode_seconds": figures.decode_seconds,
            });
            table.insert(contender.name().to_owned(), value);
        }
        table.insert("left_out".to_owned(), json!(left_out));
        Value::Object(table)
    }
}

/// A figure of Entasis over the same of another: below 1 is better.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// What JSON calls it.
    pub name: &'static str,
    /// What people read.
    pub words: &'static str,
    of: fn(&Measured) -> f64,
}

impl Ratio {
    /// All, in the order of tables.
    pub const ALL: [Ratio; 5] = [
        Ratio {
            name: "bytes_to_parquet_snappy",
            words: "bytes, Parquet+Snappy",
            of: |table| over(table, Contender::ParquetSnappy, |figures| figures.size_bytes as f64),
        },
        Ratio {
            name: "bytes_to_parquet_zstd",
            words: "bytes, Parquet+Zstd",
            of: |table| over(table, Contender::ParquetZstd, |figures| figures.size_bytes as f64),
        },
        Ratio {
            name: "encode_to_parquet_zstd",
            words: "encode CPU, Parquet+Zstd",
            of: |table| over(table, Contender::ParquetZstd, |figures| figures.encode_seconds),
        },
        Ratio {
            name: "decode_to_parquet_zstd",
            words: "decode CPU, Parquet+Zstd",
            of: |table| over(table, Contender::ParquetZstd, |figures| figures.decode_seconds),
        },
        Ratio {
            name: "decode_to_copy",
            words: "decode CPU, copy",
            of: |table| table.of(Contender::Entasis).decode_seconds / table.copy_seconds.max(1e-12),
        },
    ];

    /// On one table, or on a total.
    pub fn on(self, table: &Measured) -> f64 {
        (self.of)(table)
    }

    /// The geometric mean over tables: each counts alike, whatever its size. `None` without tables.
    pub fn geometric_mean(self, tables: &[Measured]) -> Option<f64> {
        let logarithms: f64 = tables.iter().map(|table| self.on(table).ln()).sum();
        (!tables.is_empty()).then(|| (logarithms / tables.len() as f64).exp())
    }

    /// Tables on which it is below 1.
    pub fn wins(self, tables: &[Measured]) -> usize {
        tables.iter().filter(|table| self.on(table) < 1.0).count()
    }
}

fn over(table: &Measured, other: Contender, figure: fn(&Figures) -> f64) -> f64 {
    figure(table.of(Contender::Entasis)) / figure(table.of(other)).max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entasis: u64, zstd: u64) -> Measured {
        let mut table = Measured { arrow_bytes: 10, ..Measured::default() };
        table.figures[Contender::Entasis as usize].size_bytes = entasis;
        table.figures[Contender::ParquetZstd as usize].size_bytes = zstd;
        table
    }

    #[test]
    fn ratios_are_of_totals_and_of_tables() {
        let tables = [table(1, 2), table(200, 100)];
        let ratio = Ratio::ALL[1];
        assert_eq!(ratio.on(&Measured::total(&tables)), 201.0 / 102.0);
        assert!((ratio.geometric_mean(&tables).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(ratio.wins(&tables), 1);
        assert_eq!(ratio.geometric_mean(&[]), None);
    }
}
