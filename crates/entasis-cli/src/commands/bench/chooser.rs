//! `entasis bench chooser`

use std::hint::black_box;
use std::io::{self, Write};

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;
use clap::Args;
use entasis::arrow::{ColumnNode, Input, Split, plain_array, shred, without_dictionaries};
use entasis::encoding::{BLOCK_ROWS, ChunkEncoder, EncodedBlock, Hint, Physical, Searched, search};
use entasis::{EncodeOptions, Result};
use serde_json::{Value, json};

use super::clock::{self, Plan, Work};
use super::{Report, Selected};
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::input::{self, InputOptions};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// The chooser against a search through all cascades, and its share of the time that encoding takes
///
/// Of each column, fields of structs too, the first rows are encoded as the chooser does and with every cascade that there is, under the
/// profile balanced, and both are weighed: bytes, and what decoding is held to cost (BtrBlocks §6.3). Then the column's first blocks, up to
/// four of 65,536 rows, are encoded three times: choosing anew for each, with hints from block to block as files are written, and by the
/// cascades that are known already, which leaves encoding alone. The rest is the chooser's share of the CPU time.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,

    /// Rows of a column that are searched
    #[arg(long, value_name = "COUNT", default_value = "16384", value_parser = clap::value_parser!(u32).range(1..=BLOCK_ROWS as i64))]
    rows: u32,

    /// Columns of a table, at most: the first ones
    #[arg(long, value_name = "COUNT")]
    columns_at_most: Option<usize>,

    /// Rounds of measurement; the median counts
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench chooser data/
  entasis bench chooser data/ --filter taxi --columns-at-most 10
  entasis bench chooser data/ --json > chooser.json

JSON: {\"tables\", \"total\": figures, \"columns\": [column]}; figures are {\"columns\", \"within_2_percent\",
  \"chosen_bytes\", \"best_bytes\", \"loss\", \"encode_seconds\": {\"anew\", \"hinted\", \"known\"},
  \"chooser_share_anew\", \"chooser_share\"}, shares from 0 to 1; a column is {\"table\", \"column\", \"type\",
  \"rows\", \"chosen\", \"chosen_bytes\", \"best\", \"best_bytes\", \"encode_seconds\", \"same_blocks\"}; bytes are
priced, seconds of CPU time; same_blocks tells whether the known cascades gave the same bytes";

/// Blocks after which the chooser would look at everything again.
const BLOCKS: usize = 4;
/// A choice is good if it takes at most so many times what the best one does.
const GOOD: f64 = 1.02;
/// Columns that are shown: those that lose the most bytes.
const WORST: usize = 10;
/// Columns are many: short samples.
const SAMPLE_SECONDS: f64 = 0.002;

/// Measures every column.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let files = arguments.selected.files()?;
    let progress = Progress::new("bench");
    let mut columns = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.relative.display().to_string();
        let format = Format::of(&file.path, None, "rename it")?;
        let leaves = leaves(input::open(&file.path, format, &InputOptions::default())?)?;
        let count = arguments.columns_at_most.unwrap_or(usize::MAX).min(leaves.len());
        for (number, leaf) in leaves.into_iter().take(count).enumerate().filter(|(_, leaf)| !leaf.array.is_empty()) {
            let done = index as f64 + number as f64 / count as f64;
            progress.set(done / files.len() as f64, || name.clone());
            columns.push(measure(&name, &leaf, arguments)?);
        }
    }
    drop(progress);
    if report.json {
        let all: Vec<Value> = columns.iter().map(Measured::to_json).collect();
        let total = Total::of(&columns).to_json();
        report.json(&json!({ "tables": files.len(), "total": total, "columns": all }))?;
        return Ok(Exit::Good);
    }
    print(report.out, files.len(), columns)?;
    Ok(Exit::Good)
}

/// A column with values, as far as it is measured.
struct Leaf {
    path: String,
    data_type: String,
    physical: Physical,
    array: ArrayRef,
}

/// The first blocks of every column of a table that has values.
fn leaves(input: Box<dyn input::Input>) -> Result<Vec<Leaf>, Failure> {
    let trees = shred(&input.schema())?;
    let mut arrays: Vec<Vec<ArrayRef>> = trees.iter().flat_map(|tree| tree.columns()).map(|_| Vec::new()).collect();
    let mut rows = 0;
    for batch in input {
        let batch = batch?;
        let batch = batch.slice(0, batch.num_rows().min(BLOCKS * BLOCK_ROWS - rows));
        rows += batch.num_rows();
        let mut places = arrays.iter_mut();
        for (tree, array) in trees.iter().zip(batch.columns()) {
            for (split, place) in tree.split(array)?.into_iter().zip(&mut places) {
                if let Split::Leaf(array) = split {
                    place.push(without_dictionaries(&plain_array(&array)?)?);
                }
            }
        }
        if rows == BLOCKS * BLOCK_ROWS {
            break;
        }
    }
    let (mut leaves, mut arrays) = (Vec::new(), arrays.into_iter());
    trees.iter().try_for_each(|tree| add_leaves(tree, tree.field.name().clone(), &mut arrays, &mut leaves))?;
    Ok(leaves)
}

fn add_leaves(
    node: &ColumnNode,
    path: String,
    arrays: &mut impl Iterator<Item = Vec<ArrayRef>>,
    leaves: &mut Vec<Leaf>,
) -> Result<()> {
    let own = arrays.next().unwrap_or_default();
    if let Some(children) = &node.children {
        return children
            .iter()
            .try_for_each(|child| add_leaves(child, format!("{path}.{}", child.field.name()), arrays, leaves));
    }
    let lent: Vec<&dyn Array> = own.iter().map(AsRef::as_ref).collect();
    if !lent.is_empty() {
        let (array, data_type) = (concat(&lent)?, node.field.data_type().to_string());
        leaves.push(Leaf { path, data_type, physical: node.physical.clone(), array });
    }
    Ok(())
}

/// A column's figures.
struct Measured {
    table: String,
    column: String,
    data_type: String,
    rows: usize,
    searched: Searched,
    seconds: Seconds,
    is_same: bool,
}

/// CPU seconds of encoding.
#[derive(Clone, Copy, Debug, Default)]
struct Seconds {
    /// Choosing for each block.
    anew: f64,
    /// With hints from block to block.
    hinted: f64,
    /// By cascades that are known.
    known: f64,
}

fn measure(table: &str, leaf: &Leaf, arguments: &Arguments) -> Result<Measured, Failure> {
    let sample = leaf.array.slice(0, leaf.array.len().min(arguments.rows as usize));
    let searched = Input::new(&sample)?.with(|column| search(column, &EncodeOptions::default()));
    let searched = searched.map_err(entasis::Error::from)?;
    let blocks = (0..leaf.array.len()).step_by(BLOCK_ROWS);
    let blocks = blocks.map(|row| Input::new(&leaf.array.slice(row, BLOCK_ROWS.min(leaf.array.len() - row))));
    let chunk = Chunk { physical: &leaf.physical, blocks: blocks.collect::<Result<Vec<_>>>()? };
    let anew = EncodeOptions { follow_hints: false, ..EncodeOptions::default() };
    let known = chunk.hints(&anew)?;
    let bytes = |hints: Option<&Hints>| -> Result<Vec<Vec<u8>>, Failure> {
        Ok(chunk.encode(&anew, hints)?.into_iter().map(|block| block.bytes).collect())
    };
    let is_same = bytes(None)? == bytes(Some(&known))?;
    let mut works: Vec<Work<'_>> = vec![
        Box::new(|| chunk.encode(&anew, None).map(|blocks| drop(black_box(blocks)))),
        Box::new(|| chunk.encode(&EncodeOptions::default(), None).map(|blocks| drop(black_box(blocks)))),
        Box::new(|| chunk.encode(&anew, Some(&known)).map(|blocks| drop(black_box(blocks)))),
    ];
    let plan = Plan { rounds: usize::from(arguments.rounds), sample_seconds: SAMPLE_SECONDS };
    let times = clock::interleaved(&mut works, plan)?;
    drop(works);
    Ok(Measured {
        table: table.to_owned(),
        column: leaf.path.clone(),
        data_type: leaf.data_type.clone(),
        rows: sample.len(),
        searched,
        seconds: Seconds { anew: times[0].median, hinted: times[1].median, known: times[2].median },
        is_same,
    })
}

/// Blocks to encode.
struct Chunk<'a> {
    physical: &'a Physical,
    blocks: Vec<Input>,
}

/// What was chosen for each block; `None` where nothing was to be chosen.
type Hints = Vec<Option<Hint>>;

impl Chunk<'_> {
    /// Encodes all blocks, by the hints if there are some.
    fn encode(&self, options: &EncodeOptions, hints: Option<&Hints>) -> Result<Vec<EncodedBlock>, Failure> {
        let mut encoder = ChunkEncoder::new(self.physical.clone(), options.clone());
        let only = self.blocks.len() == 1;
        let mut encoded = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            let hint = hints.and_then(|hints| hints[number].as_ref());
            let block = block.with(|column| match hint {
                Some(hint) => encoder.encode_as(hint, column, only, &mut |_| Ok(0)),
                None => encoder.encode(column, only, &mut |_| Ok(0)),
            });
            encoded.push(block.map_err(entasis::Error::from)?);
        }
        encoded.extend(encoder.finish().map_err(entasis::Error::from)?);
        Ok(encoded)
    }

    fn hints(&self, options: &EncodeOptions) -> Result<Hints, Failure> {
        let mut encoder = ChunkEncoder::new(self.physical.clone(), options.clone());
        let only = self.blocks.len() == 1;
        let mut hints = Vec::new();
        for block in &self.blocks {
            block.with(|column| encoder.encode(column, only, &mut |_| Ok(0))).map_err(entasis::Error::from)?;
            hints.push(encoder.hint().cloned());
        }
        Ok(hints)
    }
}

impl Measured {
    fn lost_bytes(&self) -> f64 {
        self.searched.chosen_bytes - self.searched.best_bytes
    }

    fn to_json(&self) -> Value {
        json!({
            "table": self.table,
            "column": self.column,
            "type": self.data_type,
            "rows": self.rows,
            "chosen": self.searched.chosen,
            "chosen_bytes": self.searched.chosen_bytes,
            "best": self.searched.best,
            "best_bytes": self.searched.best_bytes,
            "encode_seconds": self.seconds.to_json(),
            "same_blocks": self.is_same,
        })
    }
}

impl Seconds {
    fn to_json(self) -> Value {
        json!({ "anew": self.anew, "hinted": self.hinted, "known": self.known })
    }
}

/// Figures of all columns together.
#[derive(Debug, Default)]
struct Total {
    columns: usize,
    good: usize,
    chosen_bytes: f64,
    best_bytes: f64,
    seconds: Seconds,
    same: usize,
}

impl Total {
    fn of(columns: &[Measured]) -> Self {
        let mut total = Total::default();
        for column in columns {
            let searched = &column.searched;
            total.columns += 1;
            total.good += usize::from(searched.chosen_bytes <= searched.best_bytes * GOOD);
            total.chosen_bytes += searched.chosen_bytes;
            total.best_bytes += searched.best_bytes;
            total.seconds.anew += column.seconds.anew;
            total.seconds.hinted += column.seconds.hinted;
            total.seconds.known += column.seconds.known;
            total.same += usize::from(column.is_same);
        }
        total
    }

    fn good_share(&self) -> f64 {
        self.good as f64 / self.columns.max(1) as f64
    }

    fn loss(&self) -> f64 {
        self.chosen_bytes / self.best_bytes.max(1.0) - 1.0
    }

    /// What choosing takes of so many seconds.
    fn share(&self, seconds: f64) -> f64 {
        1.0 - self.seconds.known / seconds.max(1e-12)
    }

    fn to_json(&self) -> Value {
        json!({
            "columns": self.columns,
            "within_2_percent": self.good_share(),
            "chosen_bytes": self.chosen_bytes,
            "best_bytes": self.best_bytes,
            "loss": self.loss(),
            "encode_seconds": self.seconds.to_json(),
            "chooser_share_anew": self.share(self.seconds.anew),
            "chooser_share": self.share(self.seconds.hinted),
        })
    }
}

fn print(out: &mut dyn Write, tables: usize, mut columns: Vec<Measured>) -> io::Result<()> {
    let total = Total::of(&columns);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let (tables, count) = (units::counted(tables as u64, "table"), units::counted(columns.len() as u64, "column"));
    writeln!(out, "{tables}, {count}\n")?;
    let mut figures = Table::new(&["what", ">"]);
    let rows = [
        ("choices within 2 % of the best", percent(total.good_share())),
        ("loss against the best, priced bytes", percent(total.loss())),
        ("encode CPU, choosing anew", units::seconds(total.seconds.anew)),
        ("  the chooser's share", percent(total.share(total.seconds.anew))),
        ("encode CPU, with hints", units::seconds(total.seconds.hinted)),
        ("  the chooser's share", percent(total.share(total.seconds.hinted))),
        ("columns with the same bytes by known cascades", format!("{} of {}", total.same, total.columns)),
    ];
    rows.into_iter().for_each(|(what, figure)| figures.row(vec![what.to_owned(), figure]));
    figures.print(out)?;
    columns.retain(|column| column.lost_bytes() > 0.0);
    columns.sort_by(|one, other| other.lost_bytes().total_cmp(&one.lost_bytes()));
    if columns.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nColumns that lose the most:\n")?;
    let mut worst = Table::new(&["table", "column", ">chosen", ">best", ">loss", "chosen cascade", "best cascade"]);
    for column in columns.iter().take(WORST) {
        let (searched, bytes) = (&column.searched, |bytes: f64| units::grouped(bytes.round() as u64));
        worst.row(vec![
            column.table.clone(),
            column.column.clone(),
            bytes(searched.chosen_bytes),
            bytes(searched.best_bytes),
            percent(searched.chosen_bytes / searched.best_bytes - 1.0),
            searched.chosen.clone(),
            searched.best.clone(),
        ]);
    }
    worst.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up() {
        let measured = |chosen_bytes, best_bytes, known| Measured {
            table: String::new(),
            column: String::new(),
            data_type: String::new(),
            rows: 1,
            searched: Searched { chosen: "a".to_owned(), chosen_bytes, best: "b".to_owned(), best_bytes },
            seconds: Seconds { anew: 4.0, hinted: 2.0, known },
            is_same: true,
        };
        let total = Total::of(&[measured(102.0, 100.0, 1.0), measured(103.0, 100.0, 1.5)]);
        assert_eq!((total.good, total.good_share(), total.same), (1, 0.5, 2));
        assert!((total.loss() - 0.025).abs() < 1e-12);
        assert_eq!((total.share(total.seconds.anew), total.share(total.seconds.hinted)), (0.6875, 0.375));
    }
}
