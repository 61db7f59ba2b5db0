//! Predicates on the strings of files, as their blocks have them.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use entasis::Reader;
use entasis::encoding::{
    BitBuffer, Block, BytesForm, Comparison, Decoded, Filter, FilterWork, FloatOrder, Like, Limits, Parts, Physical,
    Predicate, Scalar, Selection,
};
use entasis::source::{BytesSource, Source};
use serde_json::{Value, json};

use super::super::Report;
use super::super::clock::{self, Plan, Work, geometric_mean};
use super::SAMPLE_SECONDS;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Rows that are decoded at a time where decoding comes first: as many as a reader's batch has.
const BATCH_ROWS: usize = 8192;

/// What is asked, in words.
const WORDS: [&str; 6] = ["= a value", "= no value", "IN 8 values", "≤ the middle", "LIKE begin%", "LIKE %inside%"];

/// Blocks that are measured of a column: those of its first row group.
struct Chunk {
    file: String,
    column: String,
    cascade: String,
    rows: usize,
    decoded_bytes: u64,
    parts: Vec<Bytes>,
    blocks: Vec<Bytes>,
}

/// What one column takes.
struct Figures {
    chunk: Chunk,
    decode_seconds: f64,
    asked: Vec<Asked>,
}

/// What one predicate takes.
struct Asked {
    words: &'static str,
    passing: usize,
    decoded_values: u64,
    encoded_seconds: f64,
    decoded_seconds: f64,
}

impl Asked {
    fn ratio(&self) -> f64 {
        self.encoded_seconds / self.decoded_seconds
    }
}

/// Measures all columns of strings.
pub fn run(paths: &[PathBuf], filter: &str, rounds: usize, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let progress = Progress::new("bench");
    let mut all = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let reader = Reader::open(path)?;
        for column in 0..reader.column_count() {
            let done = number as f64 + column as f64 / reader.column_count() as f64;
            progress.set(done / paths.len() as f64, || path.display().to_string());
            let Some(chunk) = Chunk::open(path, &reader, column)? else { continue };
            if chunk.cascade.contains(filter) {
                all.push(measure(chunk, rounds)?);
            }
        }
    }
    drop(progress);
    if report.json {
        report.json(&json!({ "columns": all.iter().map(Figures::to_json).collect::<Vec<_>>() }))?;
    } else {
        print(report, &all)?;
    }
    Ok(Exit::Good)
}

impl Chunk {
    /// `None` if the column has no strings, or not just these, or some that lie beside their blocks.
    fn open(path: &Path, reader: &Reader, column: usize) -> Result<Option<Self>, Failure> {
        let record = reader.column(column)?;
        let Some(chunk) = record.chunks.first().filter(|_| record.children.is_none()) else { return Ok(None) };
        let source = BytesSource::map(path)?;
        let read = |offset: u64, size_bytes: u64| source.read(offset..offset + size_bytes);
        let parts = chunk.parts.iter().map(|part| read(part.offset, part.size_bytes)).collect::<Result<_, _>>()?;
        let blocks = chunk.blocks.iter().map(|block| read(block.offset, block.size_bytes)).collect::<Result<_, _>>()?;
        let (file, column) = (reader.name().to_owned(), record.field.name().clone());
        let mut chunk = Self { file, column, cascade: String::new(), rows: 0, decoded_bytes: 0, parts, blocks };
        let mut is_of_strings = !chunk.blocks.is_empty();
        let (mut cascade, mut rows, mut decoded_bytes) = (String::new(), 0, 0);
        chunk.each_block(|block| {
            is_of_strings &= *block.physical() == Physical::Bytes && !block.has_large_values();
            if cascade.is_empty() {
                cascade = block.cascade().words();
            }
            rows += block.rows();
            decoded_bytes += block.decoded_size_bytes();
            Ok(())
        })?;
        (chunk.cascade, chunk.rows, chunk.decoded_bytes) = (cascade, rows, decoded_bytes);
        Ok(is_of_strings.then_some(chunk))
    }

    /// Opens the blocks one after the other, as a query does: nothing is left of what another one decoded or found.
    fn each_block(&self, mut work: impl FnMut(Block) -> entasis::encoding::Result<()>) -> Result<(), Failure> {
        let mut open = || {
            let mut parts = Parts::new();
            for part in &self.parts {
                parts.push(Block::open(part.clone(), &Parts::new(), None, &Limits::default())?);
            }
            for block in &self.blocks {
                work(Block::open(block.clone(), &parts, None, &Limits::default())?)?;
            }
            Ok(())
        };
        open().map_err(|error: entasis::encoding::Error| entasis::Error::from(error).into())
    }

    /// The rows that pass, found among encoded values.
    fn of_encoded(&self, predicate: &Predicate, work: &mut FilterWork) -> Result<Vec<Selection>, Failure> {
        let (filter, mut found) = (Filter::new(predicate, &Physical::Bytes), Vec::new());
        self.each_block(|block| {
            let mut selection = Selection::all(block.rows());
            filter.apply(&block, &mut selection, work)?;
            found.push(selection);
            Ok(())
        })?;
        Ok(found)
    }

    /// The same, found among decoded values; without a predicate they are only decoded.
    fn of_decoded(&self, predicate: Option<&Predicate>, out: &mut Decoded) -> Result<Vec<Selection>, Failure> {
        let filter = predicate.map(|predicate| Filter::new(predicate, &Physical::Bytes));
        let mut found = Vec::new();
        self.each_block(|block| {
            let mut bits = BitBuffer::default();
            for start in (0..block.rows()).step_by(BATCH_ROWS) {
                out.clear();
                block.decode(start..(start + BATCH_ROWS).min(block.rows()), out)?;
                if let Some(filter) = &filter {
                    filter.answer_decoded(out, &mut bits)?;
                }
            }
            found.extend(filter.is_some().then(|| Selection::from_bits(&bits)));
            Ok(())
        })?;
        Ok(found)
    }

    /// What is asked of it: by values that it has, one in the middle of their order and others beside it.
    fn predicates(&self) -> Result<Vec<(&'static str, Predicate)>, Failure> {
        let mut values = Vec::new();
        self.each_block(|block| {
            let mut out = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
            block.decode(0..block.rows(), &mut out)?;
            values.extend((0..block.rows()).filter_map(|row| match out.scalar(&Physical::Bytes, row) {
                Some(Scalar::Bytes(bytes)) if !bytes.is_empty() => Some(bytes),
                _ => None,
            }));
            Ok(())
        })?;
        values.sort_unstable();
        values.dedup();
        let Some(middle) = values.get(values.len() / 2) else { return Ok(Vec::new()) };
        let scalar = |bytes: &[u8]| Scalar::Bytes(bytes.to_vec());
        let order = FloatOrder::Ieee;
        let compare = |comparison, bytes: &[u8]| Predicate::Compare(comparison, scalar(bytes), order);
        let like = |pattern: Vec<u8>| Predicate::Like(Like { pattern, escape: Some(b'\\'), negated: false });
        let plain = |bytes: &[u8]| bytes.iter().flat_map(|byte| [b'\\', *byte]).collect::<Vec<u8>>();
        let eighths = (0..8).map(|eighth| scalar(&values[eighth * values.len() / 8])).collect();
        let absent = [middle.as_slice(), b"\x01"].concat();
        let inside = &middle[middle.len() / 2..(middle.len() / 2 + 6).min(middle.len())];
        let predicates = [
            compare(Comparison::Equal, middle),
            compare(Comparison::Equal, &absent),
            Predicate::In { values: eighths, negated: false, order },
            compare(Comparison::LessOrEqual, middle),
            like([plain(&middle[..middle.len().div_ceil(2)]), b"%".to_vec()].concat()),
            like([b"%".to_vec(), plain(inside), b"%".to_vec()].concat()),
        ];
        Ok(WORDS.into_iter().zip(predicates).collect())
    }
}

fn measure(chunk: Chunk, rounds: usize) -> Result<Figures, Failure> {
    let predicates = chunk.predicates()?;
    let mut asked = Vec::with_capacity(predicates.len());
    for (words, predicate) in &predicates {
        let mut work = FilterWork::default();
        let found = chunk.of_encoded(predicate, &mut work)?;
        let mut out = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        if found != chunk.of_decoded(Some(predicate), &mut out)? {
            let what = format!("{}, column {:?}: {words} is answered otherwise than decoded", chunk.file, chunk.column);
            return Err(entasis::Error::InvalidArgument(what).into());
        }
        let passing = found.iter().map(Selection::count).sum();
        let decoded_values = work.decoded_values;
        asked.push(Asked { words, passing, decoded_values, encoded_seconds: 0.0, decoded_seconds: 0.0 });
    }
    let mut works: Vec<Work<'_>> = Vec::new();
    for (_, predicate) in &predicates {
        let (chunk, mut work) = (&chunk, FilterWork::default());
        works.push(Box::new(move || {
            black_box(chunk.of_encoded(predicate, &mut work)?);
            Ok(())
        }));
        works.push(decoding(chunk, Some(predicate)));
    }
    works.push(decoding(&chunk, None));
    let times = clock::interleaved(&mut works, Plan { rounds, sample_seconds: SAMPLE_SECONDS })?;
    drop(works);
    for (asked, times) in asked.iter_mut().zip(times.chunks_exact(2)) {
        (asked.encoded_seconds, asked.decoded_seconds) = (times[0].median, times[1].median);
    }
    let decode_seconds = times.last().map_or(0.0, |times| times.median);
    Ok(Figures { chunk, decode_seconds, asked })
}

fn decoding<'a>(chunk: &'a Chunk, predicate: Option<&'a Predicate>) -> Work<'a> {
    let mut out = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
    Box::new(move || {
        black_box(chunk.of_decoded(predicate, &mut out)?);
        Ok(())
    })
}

impl Figures {
    fn to_json(&self) -> Value {
        let asked = self.asked.iter().map(|asked| {
            json!({
                "predicate": asked.words,
                "passing": asked.passing,
                "decoded_values": asked.decoded_values,
                "encoded_seconds": asked.encoded_seconds,
                "decoded_seconds": asked.decoded_seconds,
            })
        });
        json!({
            "file": self.chunk.file,
            "column": self.chunk.column,
            "cascade": self.chunk.cascade,
            "rows": self.chunk.rows,
            "decoded_bytes": self.chunk.decoded_bytes,
            "decode_seconds": self.decode_seconds,
            "asked": asked.collect::<Vec<_>>(),
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(report.out, "Predicates on strings: CPU time on encoded blocks over that of decoding these first\n")?;
    let mut headings = vec!["column", ">rows", ">decoded", ">decoding, ms"];
    let words = WORDS.map(|words| format!(">{words}"));
    headings.extend(words.iter().map(String::as_str));
    headings.push("encoded as");
    let mut table = Table::new(&headings);
    let measured = || all.iter().filter(|one| !one.asked.is_empty());
    for one in measured() {
        let mut row = vec![
            one.chunk.column.clone(),
            units::grouped(one.chunk.rows as u64),
            units::bytes(one.chunk.decoded_bytes),
            format!("{:.2}", one.decode_seconds * 1e3),
        ];
        row.extend(one.asked.iter().map(|asked| format!("{:.2}", asked.ratio())));
        row.push(one.chunk.cascade.clone());
        table.row(row);
    }
    let all_of = |name: &str, of: &dyn Fn(usize) -> f64| {
        let mut row = vec![name.to_owned(), String::new(), String::new(), String::new()];
        row.extend((0..WORDS.len()).map(|predicate| format!("{:.2}", of(predicate))));
        row.push(String::new());
        row
    };
    let sum = |predicate: usize, of: fn(&Asked) -> f64| measured().map(|one| of(&one.asked[predicate])).sum::<f64>();
    table.row(all_of("all together", &|predicate| {
        sum(predicate, |asked| asked.encoded_seconds) / sum(predicate, |asked| asked.decoded_seconds)
    }));
    table
        .row(all_of("geometric mean", &|predicate| geometric_mean(measured().map(|one| one.asked[predicate].ratio()))));
    table.print(report.out)?;
    Ok(())
}
