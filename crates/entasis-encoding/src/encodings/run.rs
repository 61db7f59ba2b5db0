//! Run: equal neighbours once, with the row at which each run ends. See *Run* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ entry points: number of the run that holds each vector's first row │
//! child 0: ends, ascending, unsigned lanes that fit the rows     child 1: one value per run
//! ```

use std::ops::Range;

use super::Encoding;
use super::bitmap::bits_mut;
use super::node::{Node, Opening, by_vector, decode_child, decode_unsigned, lanes_mut, vectors_of};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics, statistics::LaneStatistics};
use crate::error::{Error, Result};
use crate::filter::{AskCount, FilterWork, Question};
use crate::values::{BitBuffer, Bits, Column, Decoded, DecodedValues, LaneAccess, Values};
use crate::wire::EntryPoints;
use crate::{Fixed, PackedLane, Physical, VECTOR_ROWS, simd, with_lane_of, with_lanes, with_packed_lane_of};

pub(crate) struct Run;

impl Encoding for Run {
    fn id(&self) -> u8 {
        5
    }

    fn name(&self) -> &'static str {
        "Run"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        if !matches!(statistics.column.values, Values::Fixed(..) | Values::Bool(_)) || !encoder.may_cascade() {
            return None;
        }
        let runs = statistics.run_count()?;
        if runs * 2 > statistics.rows {
            return None;
        }
        let end_bits = end_bits(statistics.rows, runs, encoder.may_cascade_below(1));
        let end_bytes = runs as f64 * end_bits / 8.0;
        let value_bytes = match (&statistics.column.values, statistics.lanes()) {
            (_, Some(lanes)) => {
                let most_bytes = encoder.best_bytes() - end_bytes;
                let promised = if most_bytes > 0.0 { value_bytes(lanes, runs, encoder, most_bytes) } else { None };
                promised.unwrap_or_else(|| runs as f64 * lanes.value_bits() / 8.0)
            }
            // Bits are filled in run by run, which takes longer than bits by the word: short runs have to pay.
            (Values::Bool(_), None) => runs as f64 / 4.0,
            _ => return None,
        };
        Some(end_bytes + value_bytes + 24.0 + statistics.rows.div_ceil(VECTOR_ROWS) as f64 * 2.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        if column.rows == 0 {
            return Ok(None);
        }
        let (ends, values) = match &column.values {
            Values::Bool(bits) => {
                let ends = run_ends(column.rows, |row| bits.get(row) != bits.get(row - 1));
                let values: BitBuffer = ends.iter().map(|&end| bits.get(end as usize - 1)).collect();
                let column = Column { rows: ends.len(), validity: None, values: Values::Bool(values.bits()) };
                let values = encoder.child(&column)?;
                (ends, values)
            }
            Values::Fixed(fixed, lanes) => with_lanes!(lanes, lanes => {
                let ends = run_ends(column.rows, |row| lanes[row] != lanes[row - 1]);
                let values: Vec<_> = ends.iter().map(|&end| lanes[end as usize - 1]).collect();
                let values = Values::Fixed(*fixed, LaneAccess::lanes(&values));
                let column = Column { rows: ends.len(), validity: None, values };
                (ends, encoder.child_as_distinct(statistics, 0, &column)?)
            }),
            _ => return Ok(None),
        };
        let mut parameters = Vec::new();
        let first_runs =
            (0..column.rows).step_by(VECTOR_ROWS).map(|row| ends.partition_point(|&end| end as usize <= row));
        EntryPoints::write(&first_runs.map(|run| run as u64).collect::<Vec<_>>(), &mut parameters);
        let ends = encoder.unsigned_child(&ends, column.rows as u64)?;
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: vec![ends, values],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.shape(2, 0)?;
        opening.within_bounds(4)?;
        let rows = opening.rows();
        let runs = opening.record.children[0].rows;
        let entries = opening.parameters(|reader| EntryPoints::read(reader, opening.vectors()))?;
        if runs > rows || !entries.is_sorted() || entries.last().is_some_and(|&entry| entry >= runs as u64) {
            return Err(opening.corrupt(format!("{runs} runs or their entry points don't fit {rows} rows")));
        }
        let end_type = Fixed::unsigned_for(rows as u64);
        let ends = opening.child(0, &Physical::Fixed(end_type), runs)?;
        let values = opening.child(1, opening.physical, runs)?;
        let runs = Runs { rows, runs, entries, end_type, ends, values, physical: opening.physical.clone() };
        match opening.physical {
            Physical::Bool => Ok(Box::new(BitRuns(runs))),
            Physical::Fixed(fixed) => {
                opening.within_bounds(fixed.size_bytes())?;
                Ok(with_lane_of!(*fixed, T => Box::new(LaneRuns::<T>(runs, std::marker::PhantomData))))
            }
            other => Err(opening.corrupt(format!("can't hold {other}"))),
        }
    }
}

/// Bytes that the values of runs promise to take, too many where they are more than `most_bytes`; `None` where they are wider than 64 bits.
fn value_bytes(lanes: &LaneStatistics<'_>, runs: usize, encoder: &Encoder<'_>, most_bytes: f64) -> Option<f64> {
    /// Of more runs, only those of a sample are looked at.
    const MOST_RUNS: usize = 4 * VECTOR_ROWS;
    /// Lanes that are compared together.
    const LOOKED_AT: usize = 16;
    with_packed_lane_of!(lanes.fixed, T => {
        let vectors = if runs > MOST_RUNS { lanes.sample::<T>() } else { vec![<T as LaneAccess>::lent(lanes.all())?] };
        let mut values: Vec<T> = Vec::new();
        for vector in vectors {
            let Some(&first) = vector.first() else { continue };
            values.push(first);
            let mut last = first;
            for piece in vector.chunks(LOOKED_AT) {
                // Most pieces of long runs go on with the one before.
                if piece.iter().fold(0, |differ, value| differ | (value.to_u64() ^ last.to_u64())) == 0 {
                    continue;
                }
                for &value in piece {
                    if value != last {
                        values.push(value);
                        last = value;
                    }
                }
            }
        }
        let (rows, lanes) = (values.len(), Values::Fixed(lanes.fixed, T::lanes(&values)));
        let scale = runs as f64 / rows.max(1) as f64;
        let column = Column { rows, validity: None, values: lanes };
        encoder.promised_beneath(&Statistics::new(&column), most_bytes / scale).map(|bytes| bytes * scale)
    }, None)
}

/// Bits that the end of a run takes, about: as a difference where the ends cascade, else as one of the 1,024 of its vector.
pub(crate) fn end_bits(rows: usize, runs: usize, cascades: bool) -> f64 {
    let run_rows = (rows as f64 / runs.max(1) as f64).log2();
    if cascades { 1.5 + run_rows } else { 10.0 + run_rows }
}

/// Row numbers behind the last row of each run; a run starts wherever `differs` from the row before.
fn run_ends(rows: usize, differs: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut ends: Vec<u32> = (1..rows).filter(|&row| differs(row)).map(|row| row as u32).collect();
    ends.push(rows as u32);
    ends
}

#[derive(Debug)]
struct Runs {
    rows: usize,
    runs: usize,
    entries: Vec<u64>,
    end_type: Fixed,
    ends: Box<dyn Node>,
    values: Box<dyn Node>,
    physical: Physical,
}

impl Runs {
    /// The runs that may hold rows of `vectors`, and before them the one that must end where the first vector begins, if
    /// there is one.
    fn window(&self, vectors: Range<usize>) -> Range<usize> {
        let last = self.entries.get(vectors.end).map_or(self.runs, |&run| run as usize + 1);
        (self.entries[vectors.start] as usize).saturating_sub(1)..last
    }

    /// Refuses a window whose vector begins within the run before its entry point: other ways to its rows would see that run.
    fn check_entry(&self, vector: usize, window: &[u32]) -> Result<()> {
        if self.entries[vector] > 0 && window[0] as usize > vector * VECTOR_ROWS { Err(bad_ends()) } else { Ok(()) }
    }

    /// Ends and values of the runs that `rows`, not empty, touches; the first end lies behind the first row. Of the ends
    /// that are kept, the caller checks that they ascend.
    fn touched(&self, body: &Body, rows: &Range<usize>) -> Result<(Vec<u32>, Decoded)> {
        let (ends, runs) = self.touched_ends(body, rows)?;
        Ok((ends, decode_child(&*self.values, &self.physical, body, runs)?))
    }

    /// As [`Runs::touched`], with the numbers of the runs instead of their values.
    fn touched_ends(&self, body: &Body, rows: &Range<usize>) -> Result<(Vec<u32>, Range<usize>)> {
        let vectors = vectors_of(rows);
        let window = self.window(vectors.clone());
        let mut ends = decode_unsigned(&*self.ends, self.end_type, body, window.clone())?;
        self.check_entry(vectors.start, &ends)?;
        let skip = ends.partition_point(|&end| end as usize <= rows.start);
        let needed = ends[skip..].partition_point(|&end| (end as usize) < rows.end) + 1;
        let kept = skip..(skip + needed).min(ends.len());
        if !ascend(&ends[..kept.end.min(skip + 1)]) || !ascend(&ends[kept.end - 1..]) {
            return Err(bad_ends());
        }
        let run = |index: usize| window.start + index;
        ends.truncate(kept.end);
        ends.drain(..kept.start);
        Ok((ends, run(kept.start)..run(kept.end)))
    }

    /// A bit for each of `rows`: what the value of its run answers.
    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (ends, runs) = self.touched_ends(body, &rows)?;
        let mut found = BitBuffer::default();
        self.values.filter(body, runs, question, work, &mut found)?;
        expand_bits(found.bits(), &ends, rows, out)
    }

    /// Reduces the value of each run as often as it has living rows.
    fn aggregate(&self, body: &Body, rows: &Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (ends, values) = self.touched(body, rows)?;
        out.weighted(&values, &living_in_runs(&ends, rows, alive)?);
        Ok(())
    }

    /// The run of each row. Ends that lie near each other are decoded together: runs are fewer than rows, so that those
    /// of several vectors of rows lie in one vector of ends.
    fn runs_of(&self, body: &Body, rows: &[u32]) -> Result<Vec<u32>> {
        let with_window = |group: &'_ [u32]| {
            let vector = group[0] as usize / VECTOR_ROWS;
            (vector, self.window(vector..vector + 1))
        };
        let groups: Vec<_> = by_vector(rows).map(|group| (group, with_window(group))).collect();
        let mut runs = Vec::with_capacity(rows.len());
        for near in groups
            .chunk_by(|(_, (_, left)), (_, (_, right))| (left.start..left.end + VECTOR_ROWS).contains(&right.start))
        {
            let start = near[0].1.1.start;
            let end = near.iter().fold(start, |end, (_, (_, window))| end.max(window.end));
            let ends = decode_unsigned(&*self.ends, self.end_type, body, start..end)?;
            for (group, (vector, window)) in near {
                let ends = &ends[window.start - start..window.end - start];
                self.check_entry(*vector, ends)?;
                if !ascend(ends) {
                    return Err(bad_ends());
                }
                for &row in *group {
                    let run = ends.partition_point(|&end| end <= row);
                    if run == ends.len() {
                        return Err(bad_ends());
                    }
                    runs.push((window.start + run) as u32);
                }
            }
        }
        Ok(runs)
    }
}

/// Appends the bits of runs, each as often as it has rows among `rows`.
fn expand_bits(values: Bits<'_>, ends: &[u32], rows: Range<usize>, out: &mut BitBuffer) -> Result<()> {
    simd::expand_bit_runs(values, ends, rows.start as u32, rows.len(), out).map_err(|_| bad_ends())
}

/// How many of `rows` are alive in each run.
pub(crate) fn living_in_runs(ends: &[u32], rows: &Range<usize>, alive: Living<'_>) -> Result<Vec<u32>> {
    let mut row = rows.start;
    let mut counts = Vec::with_capacity(ends.len());
    for &end in ends {
        let end = (end as usize).min(rows.end);
        let length = end.checked_sub(row).ok_or_else(bad_ends)?;
        counts.push(alive.slice(row - rows.start, length).count() as u32);
        row = end;
    }
    if row == rows.end { Ok(counts) } else { Err(bad_ends()) }
}

/// True if each end is above the one before.
fn ascend(ends: &[u32]) -> bool {
    ends.iter().zip(ends.get(1..).unwrap_or_default()).fold(true, |ascend, (end, next)| ascend & (end < next))
}

fn bad_ends() -> Error {
    Error::corrupt("node", 0, "Run: ends don't ascend to the number of rows")
}

#[derive(Debug)]
struct LaneRuns<T>(Runs, std::marker::PhantomData<T>);

impl<T: LaneAccess> Node for LaneRuns<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (ends, values) = self.0.touched(body, &rows)?;
        let values = T::of(&values.values).ok_or_else(bad_ends)?;
        simd::expand_runs(values, &ends, rows.start as u32, rows.len(), lanes_mut::<T>(out)?)
            .map_err(|_| bad_ends())?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn runs(&self, body: &Body, rows: &Range<usize>) -> Option<Result<(Vec<u32>, Decoded)>> {
        Some(self.0.touched(body, rows))
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        self.0.filter(body, rows, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.0.values.ask_count(self.0.runs, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        self.0.aggregate(body, &rows, alive, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.0.values.get(body, &self.0.runs_of(body, rows)?, out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.0.ends, &*self.0.values]
    }

    fn describe(&self) -> String {
        describe(&self.0)
    }
}

#[derive(Debug)]
struct BitRuns(Runs);

impl Node for BitRuns {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (ends, values) = self.0.touched(body, &rows)?;
        let DecodedValues::Bool(values) = &values.values else { return Err(bad_ends()) };
        expand_bits(values.bits(), &ends, rows.clone(), bits_mut(out)?)?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        self.0.filter(body, rows, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.0.values.ask_count(self.0.runs, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        self.0.aggregate(body, &rows, alive, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.0.values.get(body, &self.0.runs_of(body, rows)?, out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.0.ends, &*self.0.values]
    }

    fn describe(&self) -> String {
        describe(&self.0)
    }
}

fn describe(runs: &Runs) -> String {
    format!("{} runs of {:.1} rows", runs.runs, runs.rows as f64 / runs.runs.max(1) as f64)
}
