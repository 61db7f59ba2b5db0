//! BitPacking: frame of reference, packed bits and patches. See *BitPacking* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ flags │ widths: u8 × 1 or vectors │ references │ patch ends, if any │
//! buffer 0:   │ vector 0: 128 × width bytes, interleaved │ … │ a short last vector: bit after bit │
//! buffer 1:   │ u16 position in its vector × patches │ lane × patches │      only with patches
//! ```
//!
//! A vector's values are reference + packed bits, except where a patch replaces them. The interleaved layout is that of
//! FastLanes (Afroozeh and Boncz, PVLDB 16, 2023).

use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening, by_vector, decode_vectors, lanes_mut, vector_range, vectors_of};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{FilterWork, Question, Test, filter_decoded};
use crate::values::{BitBuffer, Bits, Decoded, LaneAccess, Values};
use crate::wire::{EntryPoints, Reader, WireError, unzigzag, write_varint, zigzag};
use crate::{Fixed, Lanes, PackedLane, Physical, Scalar, VECTOR_ROWS, simd, with_packed_lane_of};

pub(crate) struct BitPacking;

const ONE_WIDTH: u8 = 1;
const PATCHED: u8 = 2;
const POSITION_BYTES: usize = 2;
/// For so many single values of a vector, all of it is unpacked.
const UNPACKED_SINGLES: usize = 64;

impl Encoding for BitPacking {
    fn id(&self) -> u8 {
        7
    }

    fn name(&self) -> &'static str {
        "BitPacking"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        Some(statistics.lanes()?.packed_bytes()? + 8.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(fixed, lanes) = &column.values else { return Ok(None) };
        let signed = fixed.is_signed();
        Ok(match lanes {
            Lanes::L8(lanes) => Some(pack(lanes, signed)),
            Lanes::L16(lanes) => Some(pack(lanes, signed)),
            Lanes::L32(lanes) => Some(pack(lanes, signed)),
            Lanes::L64(lanes) => Some(pack(lanes, signed)),
            Lanes::L128(_) | Lanes::L256(_) => None,
        })
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::Fixed(fixed) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        with_packed_lane_of!(*fixed, T => open::<T>(opening, *fixed), Err(opening.corrupt("lanes wider than 64 bits")))
    }
}

/// How one vector is to be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorPlan<T> {
    reference: T,
    width: u32,
    patches: usize,
    rows: usize,
}

impl<T: PackedLane> VectorPlan<T> {
    /// Bytes of packed bits, patches and parameters.
    pub fn size_bytes(&self) -> f64 {
        (packed_bytes(self.rows, self.width) + self.patches * (POSITION_BYTES + T::BYTES)) as f64 + 2.0
    }
}

fn packed_bytes(rows: usize, width: u32) -> usize {
    (rows * width as usize).div_ceil(8)
}

/// The cheapest way to pack one vector: the width at which packed bits and patches together are smallest, from its minimum or, where
/// that is far from most values, from where those begin. Signed values are in signed order.
pub(crate) fn plan<T: PackedLane>(values: &[T], signed: bool) -> VectorPlan<T> {
    let range = if signed { simd::min_max_signed(values) } else { simd::min_max(values) };
    let least = range.map_or(T::default(), |(least, _)| least);
    let from_least = plan_from(values, least);
    match beginning_of_most(values, least, from_least.width) {
        Some(reference) => {
            let from_most = plan_from(values, reference);
            if from_most.size_bytes() < from_least.size_bytes() { from_most } else { from_least }
        }
        None => from_least,
    }
}

/// The cheapest way to pack one vector from this reference; what lies below it wraps and becomes a patch.
fn plan_from<T: PackedLane>(values: &[T], reference: T) -> VectorPlan<T> {
    let mut histogram = [0u32; 65];
    simd::width_histogram(values, reference, &mut histogram);
    let (mut width, mut patches) = (0, 0);
    let (mut best, mut over) = (usize::MAX, values.len());
    for candidate in 0..=T::BITS {
        over -= histogram[candidate as usize] as usize;
        let size = packed_bytes(values.len(), candidate) + over * (POSITION_BYTES + T::BYTES);
        if size < best {
            (best, width, patches) = (size, candidate, over);
        }
        // Wider ones only take more.
        if over == 0 {
            break;
        }
    }
    VectorPlan { reference, width, patches, rows: values.len() }
}

/// Where most values begin, if a few of them say that they take so much less than `width` bits that outliers on both sides may be
/// patches.
fn beginning_of_most<T: PackedLane>(values: &[T], least: T, width: u32) -> Option<T> {
    const LOOKED_AT: usize = 64;
    /// So many at each end may be outliers.
    const LEFT_OUT: usize = 6;
    const WORTHWHILE_BITS: u32 = 2;
    if values.len() < 4 * LOOKED_AT || width <= WORTHWHILE_BITS {
        return None;
    }
    // What they are above the least has the order that they have.
    let mut some: [T; LOOKED_AT] =
        std::array::from_fn(|index| values[index * values.len() / LOOKED_AT].subtract(least));
    let (_, low, higher) = some.select_nth_unstable(LEFT_OUT);
    let (_, high, _) = higher.select_nth_unstable(LOOKED_AT - 2 * (LEFT_OUT + 1));
    let (low, high) = (low.to_u64(), high.to_u64());
    let spread = high - low;
    let is_narrow = u64::BITS - spread.leading_zeros() + WORTHWHILE_BITS <= width;
    // Some of the others will be a little lower.
    is_narrow.then(|| least.add(T::from_u64(low.saturating_sub(spread / 2))))
}

fn pack<T: PackedLane + LaneAccess>(lanes: &[T], signed: bool) -> EncodedNode {
    let plans: Vec<VectorPlan<T>> = lanes.chunks(VECTOR_ROWS).map(|vector| plan(vector, signed)).collect();
    let (mut packed, mut positions, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    let mut patch_ends = Vec::with_capacity(plans.len());
    let mut residues: Vec<T> = Vec::with_capacity(VECTOR_ROWS);
    for (vector, plan) in lanes.chunks(VECTOR_ROWS).zip(&plans) {
        residues.clear();
        residues.extend(vector.iter().map(|value| value.subtract(plan.reference)));
        if plan.patches > 0 {
            for (position, residue) in residues.iter_mut().enumerate() {
                if u64::BITS - residue.to_u64().leading_zeros() > plan.width {
                    positions.extend_from_slice(&(position as u16).to_le_bytes());
                    vector[position].write(&mut patches);
                    *residue = T::default();
                }
            }
        }
        patch_ends.push((positions.len() / POSITION_BYTES) as u64);
        match vector.len() {
            VECTOR_ROWS => simd::pack(&residues, plan.width, &mut packed),
            _ => simd::pack_short(&residues, plan.width, &mut packed),
        }
    }
    let one_width = plans.windows(2).all(|pair| pair[0].width == pair[1].width);
    let mut parameters = vec![(u8::from(one_width) * ONE_WIDTH) | (u8::from(!positions.is_empty()) * PATCHED)];
    let widths = if one_width { &plans[..plans.len().min(1)] } else { &plans[..] };
    parameters.extend(widths.iter().map(|plan| plan.width as u8));
    write_lane_entries(plans.iter().map(|plan| plan.reference), signed, &mut parameters);
    let mut buffers = vec![packed];
    if !positions.is_empty() {
        EntryPoints::write(&patch_ends, &mut parameters);
        positions.extend_from_slice(&patches);
        buffers.push(positions);
    }
    EncodedNode { encoding: BitPacking.id(), rows: lanes.len(), parameters, buffers, children: Vec::new() }
}

/// Writes one lane per vector: the least as a varint (zigzag if signed), then entry points of the differences.
pub(crate) fn write_lane_entries<T: PackedLane>(
    entries: impl Iterator<Item = T> + Clone,
    signed: bool,
    out: &mut Vec<u8>,
) {
    let shift = 64 - T::BITS;
    let to_signed = |entry: T| ((entry.to_u64() << shift) as i64) >> shift;
    if signed {
        let base = entries.clone().map(to_signed).min().unwrap_or(0);
        write_varint(zigzag(base), out);
        EntryPoints::write(&entries.map(|entry| to_signed(entry).wrapping_sub(base) as u64).collect::<Vec<_>>(), out);
    } else {
        let base = entries.clone().map(PackedLane::to_u64).min().unwrap_or(0);
        write_varint(base, out);
        EntryPoints::write(&entries.map(|entry| entry.to_u64() - base).collect::<Vec<_>>(), out);
    }
}

/// Reads what [`write_lane_entries`] wrote for `count` vectors.
pub(crate) fn read_lane_entries<T: PackedLane>(
    reader: &mut Reader<'_>,
    count: usize,
    signed: bool,
) -> Result<Vec<T>, WireError> {
    let base = reader.varint()?;
    let base = if signed { unzigzag(base) as u64 } else { base };
    let entries = EntryPoints::read(reader, count)?;
    Ok(entries.into_iter().map(|entry| T::from_u64(entry.wrapping_add(base))).collect())
}

fn open<T: PackedLane + LaneAccess>(opening: &Opening<'_>, fixed: Fixed) -> Result<Box<dyn Node>> {
    let (rows, vectors) = (opening.rows(), opening.vectors());
    opening.within_bounds(T::BYTES)?;
    opening.known_flags(0, ONE_WIDTH | PATCHED)?;
    let (flags, widths, references, patch_ends) = opening.parameters(|reader| {
        let flags = reader.u8()?;
        let widths = match flags & ONE_WIDTH {
            0 => reader.take(vectors)?.to_vec(),
            _ => vec![reader.take(vectors.min(1))?.first().copied().unwrap_or(0); vectors],
        };
        let references = read_lane_entries::<T>(reader, vectors, fixed.is_signed())?;
        let patch_ends = if flags & PATCHED != 0 { EntryPoints::read(reader, vectors)? } else { Vec::new() };
        Ok((flags, widths, references, patch_ends))
    })?;
    if widths.iter().any(|&width| u32::from(width) > T::BITS) {
        return Err(opening.corrupt("a width above the lane's"));
    }
    let patched = flags & PATCHED != 0;
    opening.shape(0, 1 + usize::from(patched))?;
    let mut starts = Vec::with_capacity(vectors + 1);
    let mut end = 0;
    for (vector, &width) in widths.iter().enumerate() {
        starts.push(end);
        end += packed_bytes(vector_range(vector, rows).len(), u32::from(width));
    }
    starts.push(end);
    let packed = opening.buffer_of(0, Some(end))?;
    let patches = patched.then(|| Patches::open(opening, 1, &patch_ends, T::BYTES)).transpose()?;
    Ok(Box::new(BitPackingNode { rows, packed, starts, widths, references, patches }))
}

#[derive(Debug)]
struct BitPackingNode<T> {
    rows: usize,
    packed: usize,
    starts: Vec<usize>,
    widths: Vec<u8>,
    references: Vec<T>,
    patches: Option<Patches>,
}

impl<T: PackedLane + LaneAccess> BitPackingNode<T> {
    fn append_vector(&self, body: &Body, vector: usize, out: &mut Vec<T>) -> Result<()> {
        let packed = body.buffer(self.packed, self.starts[vector]..self.starts[vector + 1])?;
        let (width, reference) = (u32::from(self.widths[vector]), self.references[vector]);
        let before = out.len();
        match vector_range(vector, self.rows).len() {
            VECTOR_ROWS => simd::unpack(packed, width, reference, out),
            rows => simd::unpack_short(packed, width, reference, rows, out),
        }
        match &self.patches {
            Some(patches) => patches.apply(body, vector, &mut out[before..]),
            None => Ok(()),
        }
    }
}

impl<T: PackedLane + LaneAccess> BitPackingNode<T> {
    /// Whether all values of a vector but its patches pass, or none, told by where they begin and how far they can reach.
    fn settled(&self, vector: usize, question: &Question) -> Option<bool> {
        let span = u128::MAX.checked_shr(128 - u32::from(self.widths[vector])).unwrap_or(0);
        match &question.test {
            Test::Lanes(intervals) => intervals.settles(self.references[vector].to_u64().into(), span),
            other => other.verdict(),
        }
    }
}

impl<T: PackedLane + LaneAccess> BitPackingNode<T> {
    /// The values that a vector without patches can hold, from the least to the greatest, if these are integers and in order.
    fn reach(&self, vector: usize, physical: &Physical) -> Option<(i128, i128)> {
        let Physical::Fixed(fixed) = physical else { return None };
        let integer = |lane: T| match Scalar::from_lane(*fixed, lane.widen()) {
            Scalar::Int(value) => Some(value),
            _ => None,
        };
        let span = u64::MAX.checked_shr(64 - u32::from(self.widths[vector])).unwrap_or(0);
        let reference = self.references[vector];
        let ends = (integer(reference)?, integer(reference.add(T::from_u64(span)))?);
        (ends.0 + i128::from(span) == ends.1).then_some(ends)
    }
}

impl<T: PackedLane + LaneAccess> Node for BitPackingNode<T> {
    /// Vectors of which nothing can be new aren't unpacked: those of one value, and those within the range that is known.
    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        let mut scratch = out.work.scratch.take(out.physical(), Default::default());
        for vector in vectors_of(&rows) {
            let whole = vector_range(vector, self.rows);
            let part = rows.start.max(whole.start)..rows.end.min(whole.end);
            let alive = alive.slice(part.start - rows.start, part.len());
            let count = alive.count();
            if count == 0 {
                continue;
            }
            let is_patched = self.patches.as_ref().is_some_and(|patches| patches.are_in(vector));
            if !is_patched && self.widths[vector] == 0 {
                out.work.reduced_values += 1;
                out.repeated_lane(self.references[vector], count);
                continue;
            }
            let reach = if is_patched { None } else { self.reach(vector, out.physical()) };
            if reach.is_some_and(|(least, greatest)| out.covers(least, greatest)) {
                out.count(count);
                continue;
            }
            scratch.clear();
            let lanes = lanes_mut::<T>(&mut scratch)?;
            self.append_vector(body, vector, lanes)?;
            lanes.truncate(part.end - whole.start);
            lanes.drain(..part.start - whole.start);
            scratch.rows = part.len();
            out.work.reduced_values += part.len() as u64;
            out.decoded(&mut scratch, alive);
        }
        out.work.scratch.give_back(scratch);
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
        if matches!(question.test, Test::Asked(_)) {
            return filter_decoded(self, body, rows, question, work, out);
        }
        let mut scratch = work.scratch(&question.physical);
        let lanes = lanes_mut::<T>(&mut scratch)?;
        for vector in vectors_of(&rows) {
            let whole = vector_range(vector, self.rows);
            let part = rows.start.max(whole.start)..rows.end.min(whole.end);
            let (first, patches) =
                (part.start - whole.start, self.patches.as_ref().filter(|patches| patches.are_in(vector)));
            match (self.settled(vector, question), patches) {
                (None, _) => {
                    lanes.clear();
                    self.append_vector(body, vector, lanes)?;
                    question.answer_lanes(&lanes[first..first + part.len()], out)?;
                    work.compared_values += part.len() as u64;
                }
                (Some(verdict), None) => out.extend_constant(verdict, part.len()),
                (Some(verdict), Some(patches)) => {
                    let mut found = BitBuffer::default();
                    found.extend_constant(verdict, part.len());
                    patches.correct::<T>(body, vector, first, found.bits(), |value| question.holds_lane(value), out)?;
                }
            }
        }
        work.give_back(scratch);
        Ok(())
    }

    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        decode_vectors::<T>(rows, self.rows, out, |vector, lanes| self.append_vector(body, vector, lanes))
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let lanes = lanes_mut::<T>(out)?;
        let before = lanes.len();
        let mut whole = Vec::new();
        for group in by_vector(rows) {
            let vector = group[0] as usize / VECTOR_ROWS;
            let indices = group.iter().map(|&row| row as usize % VECTOR_ROWS);
            if group.len() >= UNPACKED_SINGLES {
                whole.clear();
                self.append_vector(body, vector, &mut whole)?;
                lanes.extend(indices.map(|index| whole[index]));
                continue;
            }
            let packed = body.buffer(self.packed, self.starts[vector]..self.starts[vector + 1])?;
            let (width, vector_rows) = (u32::from(self.widths[vector]), vector_range(vector, self.rows).len());
            let unpack = |index| simd::unpack_one::<T>(packed, width, index, vector_rows);
            lanes.extend(indices.map(|index| unpack(index).add(self.references[vector])));
        }
        if let Some(patches) = &self.patches {
            patches.apply_to(body, rows, &mut lanes[before..])?;
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn describe(&self) -> String {
        let least = self.widths.iter().min().copied().unwrap_or(0);
        let most = self.widths.iter().max().copied().unwrap_or(0);
        let widths = if least == most { format!("{least} bits") } else { format!("{least} to {most} bits") };
        match &self.patches {
            Some(patches) => format!("{widths}, {} patches", patches.count()),
            None => widths,
        }
    }
}

/// Single values of a vector that replace what is packed: positions, then lanes, in one buffer.
#[derive(Debug)]
pub(crate) struct Patches {
    buffer: usize,
    ends: Vec<usize>,
    lane_bytes: usize,
}

impl Patches {
    /// Checks buffer `index` of the node against the patch ends of its vectors.
    pub fn open(opening: &Opening<'_>, index: usize, ends: &[u64], lane_bytes: usize) -> Result<Self> {
        let limit = opening.rows() as u64;
        if ends.windows(2).any(|pair| pair[0] > pair[1]) || ends.last().is_some_and(|&end| end > limit) {
            return Err(opening.corrupt("patch ends don't ascend or exceed the rows"));
        }
        let ends: Vec<usize> = ends.iter().map(|&end| end as usize).collect();
        let count = ends.last().copied().unwrap_or(0);
        let buffer = opening.buffer_of(index, count.checked_mul(POSITION_BYTES + lane_bytes))?;
        Ok(Self { buffer, ends, lane_bytes })
    }

    /// Patches in all vectors.
    pub fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Takes those of `rows`, any range within the node, that are `alive`: they are so no longer, and their values are handed out.
    pub fn take<T: LaneAccess>(&self, body: &Body, rows: &Range<usize>, alive: &mut [u64]) -> Result<Vec<T>> {
        let mut taken = Vec::new();
        for vector in vectors_of(rows).filter(|&vector| self.are_in(vector)) {
            let (positions, patches) = self.of_vector(body, vector)?;
            let pairs = positions.chunks_exact(POSITION_BYTES).zip(patches.chunks_exact(T::BYTES));
            // Of several at one position the last holds, as when all are applied.
            for (position, patch) in pairs.rev() {
                let position = usize::from(u16::from_le_bytes([position[0], position[1]]));
                let row = (vector * VECTOR_ROWS + position).checked_sub(rows.start);
                let Some(row) = row.filter(|&row| position < VECTOR_ROWS && row < rows.len()) else { continue };
                let bit = 1 << (row % 64);
                if alive[row / 64] & bit != 0 {
                    alive[row / 64] &= !bit;
                    taken.push(T::read(patch));
                }
            }
        }
        Ok(taken)
    }

    /// Whether a vector has any.
    pub fn are_in(&self, vector: usize) -> bool {
        self.ends[vector] > if vector == 0 { 0 } else { self.ends[vector - 1] }
    }

    fn of_vector<'b>(&self, body: &'b Body, vector: usize) -> Result<(&'b [u8], &'b [u8])> {
        let start = if vector == 0 { 0 } else { self.ends[vector - 1] };
        let end = self.ends[vector];
        let lanes = self.count() * POSITION_BYTES;
        let positions = body.buffer(self.buffer, start * POSITION_BYTES..end * POSITION_BYTES)?;
        let values = body.buffer(self.buffer, lanes + start * self.lane_bytes..lanes + end * self.lane_bytes)?;
        Ok((positions, values))
    }

    /// Appends the bits of `found`, which are of the rows of a vector from `first` on, but for patched values what `passes` says.
    pub fn correct<T: LaneAccess>(
        &self,
        body: &Body,
        vector: usize,
        first: usize,
        found: Bits<'_>,
        passes: impl Fn(T) -> bool,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let mut words = [0; VECTOR_ROWS / 64];
        words.iter_mut().enumerate().for_each(|(index, word)| *word = found.word(index * 64));
        let (positions, patches) = self.of_vector(body, vector)?;
        for (position, patch) in positions.chunks_exact(POSITION_BYTES).zip(patches.chunks_exact(T::BYTES)) {
            let Some(row) = usize::from(u16::from_le_bytes([position[0], position[1]]))
                .checked_sub(first)
                .filter(|row| *row < found.len())
            else {
                continue;
            };
            let bit = 1 << (row % 64);
            words[row / 64] = if passes(T::read(patch)) { words[row / 64] | bit } else { words[row / 64] & !bit };
        }
        for (index, word) in words.into_iter().enumerate().take(found.len().div_ceil(64)) {
            out.extend_word(word, (found.len() - index * 64).min(64));
        }
        Ok(())
    }

    /// Replaces the patched values of one whole vector.
    pub fn apply<T: LaneAccess>(&self, body: &Body, vector: usize, values: &mut [T]) -> Result<()> {
        let (positions, patches) = self.of_vector(body, vector)?;
        for (position, patch) in positions.chunks_exact(POSITION_BYTES).zip(patches.chunks_exact(T::BYTES)) {
            let position = u16::from_le_bytes([position[0], position[1]]) as usize;
            let slot = values.get_mut(position).ok_or_else(|| {
                Error::corrupt("node", 0, format!("a patch at position {position} of vector {vector}"))
            })?;
            *slot = T::read(patch);
        }
        Ok(())
    }

    /// Replaces what is patched of the values of single rows.
    pub fn apply_to<T: LaneAccess>(&self, body: &Body, rows: &[u32], values: &mut [T]) -> Result<()> {
        let mut start = 0;
        for group in by_vector(rows) {
            let values = &mut values[start..start + group.len()];
            start += group.len();
            let vector = group[0] as usize / VECTOR_ROWS;
            if !self.are_in(vector) {
                continue;
            }
            let (positions, patches) = self.of_vector(body, vector)?;
            let positions = positions.chunks_exact(POSITION_BYTES);
            for (value, row) in values.iter_mut().zip(group) {
                let is_here = |at: &[u8]| u32::from(u16::from_le_bytes([at[0], at[1]])) == row % VECTOR_ROWS as u32;
                // Of several at one position the last holds, as when all are applied.
                if let Some(patch) = positions.clone().rposition(is_here) {
                    *value = T::read(&patches[patch * T::BYTES..]);
                }
            }
        }
        Ok(())
    }
}
