//! What the columns of one kind have in common.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use crate::table::Table;
use crate::units;

/// All kinds, in the order of tables: what JSON and what people call them.
const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::FixedWidth, "fixed_width", "fixed width"),
    (Kind::Strings, "strings", "strings"),
    (Kind::Others, "others", "others"),
];

/// One column's part in its kind.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Its kind.
    pub kind: Kind,
    /// Bytes of its Arrow buffers.
    pub arrow_bytes: u64,
    /// Bytes of its blocks.
    pub size_bytes: u64,
    /// CPU seconds of decoding it.
    pub decode_seconds: f64,
    /// CPU seconds of copying it.
    pub copy_seconds: f64,
}

impl Share {
    /// Bytes of Arrow's buffers over those of the blocks.
    pub fn factor(&self) -> f64 {
        self.arrow_bytes as f64 / self.size_bytes.max(1) as f64
    }

    /// Thousands of millions of Arrow's bytes per CPU second of decoding.
    pub fn gigabytes_per_second(&self) -> f64 {
        self.arrow_bytes as f64 / 1e9 / self.decode_seconds.max(1e-12)
    }

    /// The speed of decoding over that of copying.
    pub fn of_copy(&self) -> f64 {
        self.copy_seconds / self.decode_seconds.max(1e-12)
    }
}

/// Columns of one kind together.
struct Common {
    columns: usize,
    total: Share,
    mean_factor: f64,
    mean_of_copy: f64,
    half_of_copy: usize,
}

impl Common {
    /// `None` without columns of the kind.
    fn of(kind: Kind, shares: &[Share]) -> Option<Self> {
        let shares: Vec<&Share> = shares.iter().filter(|share| share.kind == kind && share.arrow_bytes > 0).collect();
        let columns = shares.len();
        if columns == 0 {
            return None;
        }
        let mut total = Share { kind, arrow_bytes: 0, size_bytes: 0, decode_seconds: 0.0, copy_seconds: 0.0 };
        for share in &shares {
            total.arrow_bytes += share.arrow_bytes;
            total.size_bytes += share.size_bytes;
            total.decode_seconds += share.decode_seconds;
            total.copy_seconds += share.copy_seconds;
        }
        let mean_factor = shares.iter().map(|share| share.factor()).sum::<f64>() / columns as f64;
        let logarithms: f64 = shares.iter().map(|share| share.of_copy().ln()).sum();
        let half_of_copy = shares.iter().filter(|share| share.of_copy() >= 0.5).count();
        let mean_of_copy = (logarithms / columns as f64).exp();
        Some(Self { columns, total, mean_factor, mean_of_copy, half_of_copy })
    }
}

/// As the help of `bench columns` describes it.
pub fn to_json(shares: &[Share]) -> Value {
    let common = |(kind, name, _): (Kind, &str, &str)| {
        let Common { columns, total, mean_factor, mean_of_copy, half_of_copy } = Common::of(kind, shares)?;
        let value = json!({
            "columns": columns,
            "arrow_bytes": total.arrow_bytes,
            "bytes": total.size_bytes,
            "mean_factor": mean_factor,
            "decode_gigabytes_per_second": total.gigabytes_per_second(),
            "decode_to_copy": { "total": total.of_copy(), "geometric_mean": mean_of_copy, "at_least_half": half_of_copy },
        });
        Some((name.to_owned(), value))
    };
    Value::Object(KINDS.into_iter().filter_map(common).collect::<Map<_, _>>())
}

/// A line for each kind that there is.
pub fn print(out: &mut dyn Write, shares: &[Share]) -> io::Result<()> {
    let mut table = Table::new(&[
        "kind",
        ">columns",
        ">Arrow",
        ">factor",
        ">mean factor",
        ">GB/s",
        ">/copy",
        ">mean /copy",
        ">half of copy",
    ]);
    for (kind, _, words) in KINDS {
        let Some(common) = Common::of(kind, shares) else { continue };
        table.row(vec![
            words.to_owned(),
            units::grouped(common.columns as u64),
            units::bytes(common.total.arrow_bytes),
            format!("{:.2}", common.total.factor()),
            format!("{:.2}", common.mean_factor),
            format!("{:.2}", common.total.gigabytes_per_second()),
            format!("{:.2}", common.total.of_copy()),
            format!("{:.2}", common.mean_of_copy),
            format!("{} of {}", common.half_of_copy, common.columns),
        ]);
    }
    table.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(kind: Kind, size_bytes: u64, decode_seconds: f64) -> Share {
        Share { kind, arrow_bytes: 1_000_000_000, size_bytes, decode_seconds, copy_seconds: 0.5 }
    }

    #[test]
    fn kinds_are_added_up_apart() {
        let (fixed, strings) = (Kind::FixedWidth, Kind::Strings);
        let shares = [share(fixed, 250_000_000, 0.5), share(strings, 1, 9.0), share(fixed, 500_000_000, 2.0)];
        let common = Common::of(fixed, &shares).unwrap();
        assert_eq!((common.columns, common.half_of_copy, common.mean_factor), (2, 1, 3.0));
        assert_eq!((common.total.factor(), common.total.gigabytes_per_second()), (2e9 / 7.5e8, 0.8));
        assert_eq!((common.total.of_copy(), common.mean_of_copy), (0.4, 0.5));
        assert!(Common::of(Kind::Others, &shares).is_none());
        assert_eq!(to_json(&shares)["strings"]["columns"], 1);
    }
}
