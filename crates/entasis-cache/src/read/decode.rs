//! Rows of one row group, fetched and decoded by arrow-rs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::concat::concat;
use bytes::Bytes;
use parquet::DecodeResult;

use super::file::Inner;
use super::layout::Wanted;
use super::object::Object;
use crate::{CELL_ROWS, Error, Result};

/// So many bytes are fetched along, rather than by another request: in the time from question to answer a store sends some megabytes.
const ALONG_BYTES: u64 = 2 << 20;

/// What is said of metadata that name other bytes than the object has.
const OUTSIDE: &str = "ranges outside of the object";

/// Bytes of a row group, fetched once for all that is decoded of them.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    parts: Vec<(Range<u64>, Bytes)>,
    /// All of the object, where it was read whole.
    whole: Option<Bytes>,
    /// Ranges that are likely to be asked for, the likeliest first, once that is known: the first request brings them along, as far as they cost
    /// less than another one.
    likely: Option<Vec<Range<u64>>>,
    /// Bytes that were asked of the store for it.
    pub bytes_read: u64,
}

impl Fetched {
    /// Nothing yet; `whole` is all of the object, if that is there.
    pub fn new(whole: Option<Bytes>) -> Self {
        Self { whole, ..Self::default() }
    }

    /// Whether it would help to know which ranges are likely to be asked for.
    pub fn needs_likely(&self, object: &Object) -> bool {
        self.likely.is_none() && self.whole.is_none() && !object.is_near()
    }

    /// Sets which are, the likeliest first.
    pub fn set_likely(&mut self, object: &Object, ranges: impl Iterator<Item = Range<u64>>) {
        self.likely = Some(ranges.filter(|range| range.end <= object.size_bytes()).collect());
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// The bytes of each range, from the store as far as they aren't there.
    pub async fn fetch(&mut self, object: &Object, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let lacking: Vec<Range<u64>> = ranges.iter().filter(|range| self.find(range).is_none()).cloned().collect();
        if !lacking.is_empty() {
            let lacking = self.with_likely(lacking, object);
            let fetched = match &self.whole {
                Some(whole) => cut(whole, &lacking).ok_or_else(|| Error::damaged(object.version(), OUTSIDE))?,
                None => object.fetch(&lacking).await?,
            };
            self.bytes_read += lacking.iter().map(|range| range.end - range.start).sum::<u64>();
            self.parts.extend(lacking.into_iter().zip(fetched));
        }
        let lacks = || Error::damaged(object.version(), "bytes that were fetched aren't there");
        ranges.iter().map(|range| self.find(range).ok_or_else(lacks)).collect()
    }

    /// Some ranges, and with the first of them those that are likely to be asked for next, as far as they are worth it; ranges within these
    /// are left out.
    fn with_likely(&mut self, lacking: Vec<Range<u64>>, object: &Object) -> Vec<Range<u64>> {
        let likely = self.likely.as_mut().map(std::mem::take).unwrap_or_default();
        let (mut left, mut along) = (ALONG_BYTES, Vec::<Range<u64>>::new());
        for range in likely.into_iter().filter(|_| !object.is_near()) {
            let size_bytes = range.end.saturating_sub(range.start);
            let is_asked = lacking.contains(&range) || along.contains(&range);
            if !is_asked && size_bytes <= left {
                left -= size_bytes;
                along.push(range);
            }
        }
        let is_along =
            |range: &Range<u64>| along.iter().any(|along| along.start <= range.start && range.end <= along.end);
        let alone: Vec<Range<u64>> = lacking.into_iter().filter(|range| !is_along(range)).collect();
        along.into_iter().chain(alone).collect()
    }

    /// Bytes that were fetched.
    pub fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let holds = |part: &&(Range<u64>, Bytes)| part.0.start <= range.start && range.end <= part.0.end;
        let (part, bytes) = self.parts.iter().find(holds)?;
        let start = usize::try_from(range.start - part.start).ok()?;
        Some(bytes.slice(start..start + usize::try_from(range.end - range.start).ok()?))
    }
}

/// Ranges of an object that is there.
fn cut(whole: &Bytes, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
    let cut = |range: &Range<u64>| {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        // Copied, so that a column doesn't keep all of the object.
        (start <= end && end <= whole.len()).then(|| Bytes::copy_from_slice(&whole[start..end]))
    };
    ranges.iter().map(cut).collect()
}

/// Decodes leaves of a row group, only at `rows`, which ascend, and hands them on as they come: `lengths` rows at a time, of each leaf an
/// array that has just these rows.
pub(super) async fn decode(
    file: &Inner,
    fetched: &mut Fetched,
    row_group: usize,
    leaves: &BTreeSet<usize>,
    rows: impl Iterator<Item = Range<usize>>,
    lengths: Vec<usize>,
    mut take: impl FnMut(BTreeMap<usize, ArrayRef>) -> Result<()> + Send,
) -> Result<()> {
    let wanted = file.source.layout.wanted(leaves);
    let mut decoder = file.source.decoder(row_group, &wanted, rows, CELL_ROWS)?;
    let mut cutter = Cutter { lengths: lengths.into(), batches: VecDeque::new(), rows: 0 };
    loop {
        let inside = file.cache.enter();
        match decoder.try_decode()? {
            DecodeResult::NeedsData(ranges) => {
                drop(inside);
                let bytes = fetched.fetch(&file.object, &ranges).await?;
                decoder.push_ranges(ranges, bytes)?;
            }
            DecodeResult::Data(batch) => {
                cutter.push(batch);
                while let Some(batch) = cutter.next(&wanted)? {
                    take(batch)?;
                }
            }
            DecodeResult::Finished => break,
        }
    }
    match cutter.lengths.is_empty() && cutter.rows == 0 {
        true => Ok(()),
        false => Err(Error::damaged(file.object.version(), "a row group of other rows than its metadata say")),
    }
}

/// Cuts batches anew.
struct Cutter {
    lengths: VecDeque<usize>,
    batches: VecDeque<RecordBatch>,
    rows: usize,
}

impl Cutter {
    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.batches.push_back(batch);
    }

    /// The leaves of the next length, if its rows are there. Arrays that come as they are to be cut aren't copied, others are, so
    /// that none keeps the memory of its neighbours.
    fn next(&mut self, wanted: &Wanted) -> Result<Option<BTreeMap<usize, ArrayRef>>> {
        let Some(&length) = self.lengths.front().filter(|&&length| length <= self.rows) else { return Ok(None) };
        self.lengths.pop_front();
        self.rows -= length;
        let (mut parts, mut lacking) = (Vec::new(), length);
        while let Some(batch) = self.batches.pop_front() {
            if batch.num_rows() > lacking {
                self.batches.push_front(batch.slice(lacking, batch.num_rows() - lacking));
                parts.push((batch.slice(0, lacking), true));
                break;
            }
            lacking -= batch.num_rows();
            parts.push((batch, false));
            if lacking == 0 {
                break;
            }
        }
        let mut leaves: BTreeMap<usize, Vec<ArrayRef>> = BTreeMap::new();
        let is_whole = matches!(parts.as_slice(), [(_, false)]);
        for (part, _) in &parts {
            for (leaf, array) in wanted.split(part)? {
                leaves.entry(leaf).or_default().push(array);
            }
        }
        let joined = leaves.into_iter().map(|(leaf, mut arrays)| {
            if is_whole && arrays[0].offset() == 0 {
                return Ok((leaf, arrays.remove(0)));
            }
            let lent: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            Ok((leaf, concat(&lent).map_err(entasis::Error::from)?))
        });
        joined.collect::<Result<_>>().map(Some)
    }
}
