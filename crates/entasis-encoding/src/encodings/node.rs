//! Opened nodes: the operations, with defaults that decode first, and what an encoding needs while it opens a node.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::aggregate::{Living, Reduction, aggregate_decoded};
use crate::block::body::{Body, Placement};
use crate::block::bounds::Budget;
use crate::block::head::NodeRecord;
use crate::block::parts::Parts;
use crate::error::{Error, Result};
use crate::filter::{AskCount, DECODED_ROWS, FilterWork, Question, filter_decoded};
use crate::values::{BitBuffer, BytesForm, Decoded, DecodedValues, LaneAccess, LargeValues};
use crate::wire::{Reader, WireError};
use crate::{Fixed, Physical, VECTOR_ROWS};

/// Up to so many rows of a vector are usually sooner got one by one.
pub(crate) const FEW: usize = 24;

/// So many vectors are decoded at a time to pick rows of them: their values stay in the processor's caches.
const PICKED_VECTORS: usize = 8;

/// An opened node: parameters parsed and checked, ready to be asked. Rows are the node's own.
pub(crate) trait Node: Send + Sync + fmt::Debug {
    /// Appends `rows`, any range within the node.
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()>;

    /// Appends single rows, in the order asked for, each within the node. By default neighbours in a vector are decoded together.
    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut span = out.empty_like();
        for group in by_vector(rows) {
            let (low, high) = group.iter().fold((u32::MAX, 0), |(low, high), &row| (low.min(row), high.max(row)));
            span.clear();
            self.decode(body, low as usize..high as usize + 1, &mut span)?;
            out.extend_picked(&span, group.iter().map(|&row| (row - low) as usize))?;
        }
        Ok(())
    }

    /// Appends `picked` of `rows`, any range within the node: ascending, and many of them. By default some vectors are decoded at a time,
    /// and what wasn't picked is left behind.
    fn pick(&self, body: &Body, rows: Range<usize>, picked: &[u32], out: &mut Decoded) -> Result<()> {
        pick_decoded(self, body, rows, picked, out)
    }

    /// The lanes of `rows`, any range within the node, little-endian, if they lie in the block as they are: verified, and without a
    /// copy. Who asks for no rows learns whether they do.
    fn lend(&self, _: &Body, _: Range<usize>) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Appends a bit for each of `rows`, any range within the node, set where the value passes.
    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        filter_decoded(self, body, rows, question, work, out)
    }

    /// Asks beforehand, and alone, the values of those of `rows` that are alive, if these are so few that it pays; [`Node::filter`] then finds
    /// in `work` what they answer, and what it says of other rows means nothing. False, with nothing done, by default.
    fn ask_living(
        &self,
        _body: &Body,
        _rows: Range<usize>,
        _alive: Living<'_>,
        _question: &Question,
        _work: &mut FilterWork,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Reduces those of `rows`, any range within the node, that are alive: a bit for each. By default some vectors are decoded at a time.
    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        aggregate_decoded(self, body, rows, alive, out)
    }

    /// How many values a question is put to that all rows, so many of them, are asked: as many, unless values stand for many rows.
    fn ask_count(&self, rows: usize, _: &Question) -> AskCount {
        AskCount { own: rows, shared: 0 }
    }

    /// Up to so many rows of a vector are sooner got one by one than all of them decoded.
    fn few(&self) -> usize {
        FEW
    }

    /// The runs of equal values that `rows`, not empty, touch, where the node keeps such: the row behind each run's last, ascending
    /// to `rows.end` or beyond from above `rows.start`, and a value per run.
    fn runs(&self, _: &Body, _: &Range<usize>) -> Option<Result<(Vec<u32>, Decoded)>> {
        None
    }

    /// The children, in the order in which they were written.
    fn children(&self) -> Vec<&dyn Node> {
        Vec::new()
    }

    /// Rows that are decoded together, a multiple of a vector's: whoever asks again and again had better ask for as many.
    fn grain_rows(&self) -> usize {
        self.children().iter().map(|child| child.grain_rows()).fold(VECTOR_ROWS, usize::max)
    }

    /// Checks what isn't checked when decoding, of this node alone.
    fn verify(&self, _: &Body) -> Result<()> {
        Ok(())
    }

    /// The parameters, for people; empty where there is nothing to tell.
    fn describe(&self) -> String {
        String::new()
    }
}

/// The piece that was decoded last, of a node that is decoded in pieces: ranges and rows beside one another lie in the same. A failure
/// isn't kept.
#[derive(Debug)]
pub(crate) struct Recent<T>(Mutex<Option<(usize, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Recent<T> {
    /// Piece `number`, decoded unless it was the last one.
    pub fn piece(&self, number: usize, decode: impl FnOnce() -> Result<T>) -> Result<T> {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, piece)) = last().as_ref().filter(|(known, _)| *known == number) {
            return Ok(piece.clone());
        }
        let piece = decode()?;
        *last() = Some((number, piece.clone()));
        Ok(piece)
    }
}

/// A node about to be opened, with everything around it that may be needed.
pub(crate) struct Opening<'a> {
    pub record: &'a NodeRecord,
    pub physical: &'a Physical,
    pub placement: &'a Placement,
    pub parts: &'a Parts,
    pub large: Option<&'a Arc<dyn LargeValues + Send + Sync>>,
    /// Bound on decoded bytes, already held against the reader's limit.
    pub decoded_bytes: u64,
    /// What all nodes of the block may take together.
    pub budget: &'a Arc<Budget>,
    /// True where a `Validity` node may stand: at the root and as a child of lists and structs.
    pub nullable: bool,
}

impl<'a> Opening<'a> {
    /// Corruption of this node.
    pub fn corrupt(&self, what: impl fmt::Display) -> Error {
        let name = super::by_id(self.record.encoding).map_or("node", |encoding| encoding.name());
        Error::corrupt("node", self.record.span.start as u64, format!("{name}: {what}"))
    }

    /// Rows of the node.
    pub fn rows(&self) -> usize {
        self.record.rows
    }

    /// Vectors of the node.
    pub fn vectors(&self) -> usize {
        self.record.rows.div_ceil(VECTOR_ROWS)
    }

    /// Parses the parameters with `parse`, which must use all of them.
    pub fn parameters<T>(&self, parse: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>) -> Result<T> {
        let mut reader = Reader::new(&self.record.parameters);
        let at = |position: usize| (self.record.parameters_at + position) as u64;
        let parsed = parse(&mut reader)
            .map_err(|error| Error::corrupt("parameters", at(error.0), "end too early or hold a bad number"))?;
        match reader.remaining() {
            0 => Ok(parsed),
            left => Err(Error::corrupt("parameters", at(reader.position()), format!("{left} bytes left over"))),
        }
    }

    /// Refuses the node as unsupported if its flags, the parameter byte at `index`, have bits that this version doesn't know.
    pub fn known_flags(&self, index: usize, known: u8) -> Result<()> {
        match self.record.parameters.get(index) {
            Some(flags) if flags & !known != 0 => {
                let name = super::by_id(self.record.encoding).map_or("node", |encoding| encoding.name());
                Err(Error::Unsupported(format!(
                    "{name} with flags {flags:#04x}: the block was written by a newer version"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks the number of children and buffers.
    pub fn shape(&self, children: usize, buffers: usize) -> Result<()> {
        let (has_children, has_buffers) = (self.record.children.len(), self.record.buffers.len());
        if (has_children, has_buffers) == (children, buffers) {
            return Ok(());
        }
        Err(self
            .corrupt(format!("{has_children} children and {has_buffers} buffers instead of {children} and {buffers}")))
    }

    /// Buffer `index` of this node: its number in the block and its length in bytes.
    pub fn buffer(&self, index: usize) -> (usize, usize) {
        let number = self.record.buffers.start + index;
        let place = &self.placement.buffers[number];
        (number, (place.end - place.start) as usize)
    }

    /// Buffer `index`, which must have exactly `length` bytes.
    pub fn buffer_of(&self, index: usize, length: Option<usize>) -> Result<usize> {
        let (number, found) = self.buffer(index);
        if Some(found) == length {
            return Ok(number);
        }
        Err(self.corrupt(format!("buffer {index} has {found} bytes instead of {length:?}")))
    }

    /// Checks that the node's rows × `size_bytes` stay within the block's declared bound.
    pub fn within_bounds(&self, size_bytes: usize) -> Result<()> {
        match (self.rows() as u64).checked_mul(size_bytes as u64) {
            Some(bytes) if bytes <= self.decoded_bytes => Ok(()),
            _ => Err(self.corrupt(format!(
                "{} rows of {size_bytes} bytes exceed the {} bytes that the block declares",
                self.rows(),
                self.decoded_bytes
            ))),
        }
    }

    /// Opens child `index` as `physical` with `rows` rows; it may not hold nulls.
    pub fn child(&self, index: usize, physical: &Physical, rows: usize) -> Result<Box<dyn Node>> {
        self.open_child(index, physical, rows, false)
    }

    /// Opens child `index`, which may hold nulls.
    pub fn nullable_child(&self, index: usize, physical: &Physical, rows: usize) -> Result<Box<dyn Node>> {
        self.open_child(index, physical, rows, true)
    }

    fn open_child(&self, index: usize, physical: &Physical, rows: usize, nullable: bool) -> Result<Box<dyn Node>> {
        let record = &self.record.children[index];
        if record.rows != rows {
            return Err(self.corrupt(format!("child {index} has {} rows instead of {rows}", record.rows)));
        }
        open(&Opening { record, physical, nullable, ..*self })
    }
}

/// Opens a node by the encoding that it names.
pub(crate) fn open(opening: &Opening<'_>) -> Result<Box<dyn Node>> {
    let id = opening.record.encoding;
    let encoding = super::by_id(id).ok_or_else(|| Error::Unsupported(super::why_unknown(id)))?;
    if !opening.budget.take_rows(opening.physical, opening.rows()) {
        return Err(opening.corrupt("the rows of all nodes exceed what the block declares"));
    }
    encoding.open(opening)
}

/// The most bytes that these rows may decode to, in a block that declares `decoded_bytes`: that much as often as the row that is
/// asked for most often.
pub(crate) fn bound_of_rows(rows: &[u32], decoded_bytes: u64) -> u64 {
    if rows.is_sorted_by(|left, right| left < right) {
        return decoded_bytes;
    }
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    let most = sorted.chunk_by(|left, right| left == right).map(|equal| equal.len() as u64).max().unwrap_or(1);
    decoded_bytes.saturating_mul(most)
}

/// [`Node::pick`] by decoding.
pub(crate) fn pick_decoded<N: Node + ?Sized>(
    node: &N,
    body: &Body,
    rows: Range<usize>,
    picked: &[u32],
    out: &mut Decoded,
) -> Result<()> {
    let mut scratch = out.empty_like();
    let span = |row: &u32| *row as usize / (PICKED_VECTORS * VECTOR_ROWS);
    for group in picked.chunk_by(|left, right| span(left) == span(right)) {
        let start = (span(&group[0]) * PICKED_VECTORS * VECTOR_ROWS).max(rows.start);
        let end = ((span(&group[0]) + 1) * PICKED_VECTORS * VECTOR_ROWS).min(rows.end);
        scratch.clear();
        node.decode(body, start..end, &mut scratch)?;
        out.extend_picked(&scratch, group.iter().map(|&row| row as usize - start))?;
    }
    Ok(())
}

/// Single rows, cut where the next one lies in another vector.
pub(crate) fn by_vector(rows: &[u32]) -> impl Iterator<Item = &[u32]> {
    by_grain(rows, VECTOR_ROWS)
}

/// As [`by_vector`], for what is decoded in pieces of so many rows.
pub(crate) fn by_grain(rows: &[u32], grain_rows: usize) -> impl Iterator<Item = &[u32]> {
    let grain_of = move |row: u32| row as usize / grain_rows;
    rows.chunk_by(move |&left, &right| grain_of(left) == grain_of(right))
}

/// `rows`, cut at the multiples of `grain_rows`.
pub(crate) fn grains(rows: Range<usize>, grain_rows: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = (rows.start / grain_rows + 1..).map(move |grain| grain * grain_rows);
    let starts = std::iter::once(rows.start).chain(ends.clone());
    starts.take_while(move |&start| start < rows.end).zip(ends).map(move |(start, end)| start..end.min(rows.end))
}

/// `rows` by stretches in which a filter does what may pay or not: first a vector, to see, then as many as are decoded at a time.
pub(crate) fn tried(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let seen = (rows.start / VECTOR_ROWS * VECTOR_ROWS + VECTOR_ROWS).min(rows.end);
    std::iter::once(rows.start..seen).chain(grains(seen..rows.end, DECODED_ROWS)).filter(|rows| !rows.is_empty())
}

/// The vectors that `rows` touches.
pub(crate) fn vectors_of(rows: &Range<usize>) -> Range<usize> {
    if rows.is_empty() { 0..0 } else { rows.start / VECTOR_ROWS..rows.end.div_ceil(VECTOR_ROWS) }
}

/// The rows of vector `vector` in a node of `node_rows` rows.
pub(crate) fn vector_range(vector: usize, node_rows: usize) -> Range<usize> {
    let start = vector * VECTOR_ROWS;
    start..(start + VECTOR_ROWS).min(node_rows)
}

/// Decodes `rows` by asking `append` for each touched vector whole, and cutting off what wasn't asked for.
pub(crate) fn decode_vectors<T: LaneAccess>(
    rows: Range<usize>,
    node_rows: usize,
    out: &mut Decoded,
    mut append: impl FnMut(usize, &mut Vec<T>) -> Result<()>,
) -> Result<()> {
    let lanes = lanes_mut::<T>(out)?;
    lanes.reserve(rows.len() + VECTOR_ROWS);
    for vector in vectors_of(&rows) {
        let before = lanes.len();
        append(vector, lanes)?;
        let whole = vector_range(vector, node_rows);
        debug_assert_eq!(lanes.len() - before, whole.len());
        lanes.truncate(before + rows.end.min(whole.end) - whole.start);
        if rows.start > whole.start {
            lanes.drain(before..before + rows.start - whole.start);
        }
    }
    out.extend_valid(rows.len());
    Ok(())
}

/// The lanes of `out`, which the caller says are of this width.
pub(crate) fn lanes_mut<T: LaneAccess>(out: &mut Decoded) -> Result<&mut Vec<T>> {
    T::of_mut(&mut out.values).ok_or_else(|| Error::InvalidArgument("output of another physical type".into()))
}

/// Decodes `rows` of a child into a fresh buffer of its own.
pub(crate) fn decode_child(child: &dyn Node, physical: &Physical, body: &Body, rows: Range<usize>) -> Result<Decoded> {
    let mut out = Decoded::new(physical, BytesForm::Offsets32);
    child.decode(body, rows, &mut out)?;
    Ok(out)
}

/// Runs `$body` with the type `$lane` bound to the lane of `$fixed`.
#[macro_export]
#[doc(hidden)]
macro_rules! with_lane_of {
    ($fixed:expr, $lane:ident => $body:expr) => {
        match $crate::Fixed::size_bytes($fixed) {
            1 => {
                type $lane = u8;
                $body
            }
            2 => {
                type $lane = u16;
                $body
            }
            4 => {
                type $lane = u32;
                $body
            }
            8 => {
                type $lane = u64;
                $body
            }
            16 => {
                type $lane = u128;
                $body
            }
            _ => {
                type $lane = $crate::U256;
                $body
            }
        }
    };
}

/// As `with_lane_of`, for lanes of at most 64 bits; `$otherwise` is the value for wider ones.
#[macro_export]
#[doc(hidden)]
macro_rules! with_packed_lane_of {
    ($fixed:expr, $lane:ident => $body:expr, $otherwise:expr) => {
        match $crate::Fixed::size_bytes($fixed) {
            1 => {
                type $lane = u8;
                $body
            }
            2 => {
                type $lane = u16;
                $body
            }
            4 => {
                type $lane = u32;
                $body
            }
            8 => {
                type $lane = u64;
                $body
            }
            _ => $otherwise,
        }
    };
}

/// Decodes `rows` of a child of unsigned lanes of at most 32 bits, widened to 32.
pub(crate) fn decode_unsigned(child: &dyn Node, fixed: Fixed, body: &Body, rows: Range<usize>) -> Result<Vec<u32>> {
    let decoded = decode_child(child, &Physical::Fixed(fixed), body, rows)?;
    match decoded.values {
        DecodedValues::L8(lanes) => Ok(lanes.into_iter().map(u32::from).collect()),
        DecodedValues::L16(lanes) => Ok(lanes.into_iter().map(u32::from).collect()),
        DecodedValues::L32(lanes) => Ok(lanes),
        _ => Err(Error::InvalidArgument("lanes of more than 32 bits".into())),
    }
}
