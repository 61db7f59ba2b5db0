//! Predicates on encoded values: rows that pass, found where the values lie, not where they were decoded to.
//!
//! A [`Filter`] is a predicate made ready for one column. Each node of a block answers a `Question` as its encoding allows
//! (`Node::filter`): packed integers are compared as they are packed, dictionaries answer once per value and then ask their codes,
//! runs answer once per run, strings are searched where they lie, and what no encoding can answer is decoded, a few vectors at a time, and
//! answered then.

mod anchor;
mod ask;
mod bytes;
pub(crate) mod coded;
mod coded_cuts;
#[cfg(test)]
mod coded_tests;
mod cuts;
mod intervals;
mod lent;
mod pattern;
pub(crate) mod pieced;
mod plain;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::aggregate::Living;
use crate::block::body::Body;
use crate::block::parts::Part;
use crate::encodings::node::{Node, grains};
use crate::error::{Error, Result};
use crate::scratch::Scratch;
use crate::values::{BitBuffer, Bits, BytesForm, Decoded, DecodedBytes, DecodedValues};
use crate::{Block, Fixed, Lane, PackedLane, Physical, Predicate, Scalar, Selection, VECTOR_ROWS, simd};
pub use ask::{Ask, AskCount};
pub(crate) use bytes::BytesTest;
pub use bytes::StringBounds;
use coded::CodedSearch;
use intervals::Intervals;

/// More intervals than these are searched instead of compared one after the other.
const COMPARED_INTERVALS: usize = 8;

/// So many rows are decoded at a time where a filter has to: what they take stays in the processor's nearest caches.
pub(crate) const DECODED_ROWS: usize = 4 * VECTOR_ROWS;

/// A predicate, made ready for columns of one physical type. It remembers what it found of shared parts, so that each is asked once,
/// however many blocks refer to it.
#[derive(Debug)]
pub struct Filter {
    question: Question,
}

/// What filters did, and memory that they use again.
#[derive(Debug, Default)]
pub struct FilterWork {
    /// Values that were decoded to be compared, those of dictionaries among them.
    pub decoded_values: u64,
    /// Values that were compared as they are encoded.
    pub compared_values: u64,
    /// Values that an [`Ask`] was asked about.
    pub asked_values: u64,
    scratch: Scratch,
    bits: BitBuffer,
    /// Questions that nodes of the block at hand made of the filter's, by the node's address.
    made: Vec<(usize, Arc<Question>)>,
    /// Searches that they made of it, and where there is none, or none that pays.
    searches: Vec<(usize, Option<CodedSearch>)>,
}

impl Filter {
    /// The rows for which `predicate` is true, of columns of type `physical`. A literal of another kind than the column's values is
    /// equal to none of them.
    pub fn new(predicate: &Predicate, physical: &Physical) -> Self {
        let nulls = *predicate == Predicate::IsNull;
        Self { question: Question::new(Test::of(predicate, physical), nulls, physical.clone()) }
    }

    /// Keeps the rows of `selection` that pass. Vectors without a living row aren't touched.
    ///
    /// # Errors
    /// Corrupt if what the question touches is; an invalid argument if block and selection are of different length, or the block of
    /// another type than the filter.
    pub fn apply(&self, block: &Block, selection: &mut Selection, work: &mut FilterWork) -> Result<()> {
        if *block.physical() != self.question.physical {
            let what = format!("a filter of {} on a block of {}", self.question.physical, block.physical());
            return Err(Error::InvalidArgument(what));
        }
        work.made.clear();
        work.searches.clear();
        let (root, body) = (block.root(), block.body());
        if let Test::Asked(_) = self.question.test {
            let lives = |vector: &usize| selection.count_in(*vector) > 0;
            let mut vectors = 0..selection.vectors().len();
            let (Some(first), last) = (vectors.find(lives), vectors.rfind(lives)) else { return Ok(()) };
            return self.filter_many(root, body, first..last.unwrap_or(first) + 1, selection, work);
        }
        let few = if self.ask_living(block, selection, work)? { 0 } else { root.few() };
        let mut vector = 0;
        while vector < selection.vectors().len() {
            let alive = selection.count_in(vector);
            if alive == 0 {
                vector += 1;
            } else if alive <= few && alive < selection.vector_rows(vector) {
                self.filter_few(root, body, vector, selection, work)?;
                vector += 1;
            } else {
                let dense = |vector: &usize| selection.count_in(*vector) > few;
                let end = (vector + 1..selection.vectors().len()).find(|vector| !dense(vector));
                let end = end.unwrap_or(selection.vectors().len());
                self.filter_many(root, body, vector..end, selection, work)?;
                vector = end;
            }
        }
        Ok(())
    }

    /// Appends a bit for each of `values`, decoded before, strings with 32-bit offsets; set where the value passes.
    ///
    /// # Errors
    /// An invalid argument if the values are of another type than the filter's, or strings of another form, or if the filter is one of
    /// [`Filter::asking`].
    pub fn answer_decoded(&self, values: &Decoded, out: &mut BitBuffer) -> Result<()> {
        self.question.answer(values, out)
    }

    /// Asks the values of living rows before the rows, where strings are searched and some rows are gone.
    fn ask_living(&self, block: &Block, selection: &Selection, work: &mut FilterWork) -> Result<bool> {
        let is_search = self.question.bytes_test().is_some_and(BytesTest::is_search);
        if !is_search || selection.count() == selection.rows() {
            return Ok(false);
        }
        let alive = selection.to_bits();
        let rows = 0..selection.rows();
        block.root().ask_living(block.body(), rows, Living::of(&alive), &self.question, work)
    }

    /// Gets the living rows of a vector, one by one.
    fn filter_few(
        &self,
        root: &dyn Node,
        body: &Body,
        vector: usize,
        selection: &mut Selection,
        work: &mut FilterWork,
    ) -> Result<()> {
        let rows: Vec<u32> = selection.vector_iter(vector).map(|row| (vector * VECTOR_ROWS + row) as u32).collect();
        let mut values = work.scratch(&self.question.physical);
        root.get(body, &rows, &mut values)?;
        work.decoded_values += rows.len() as u64;
        let mut bits = std::mem::take(&mut work.bits);
        bits.truncate(0);
        self.question.answer(&values, &mut bits)?;
        let mut asked = 0..rows.len();
        selection.retain(vector, |_| asked.next().is_some_and(|index| bits.bits().get(index)));
        work.bits = bits;
        work.give_back(values);
        Ok(())
    }

    /// Asks about all rows of neighbouring vectors.
    fn filter_many(
        &self,
        root: &dyn Node,
        body: &Body,
        vectors: Range<usize>,
        selection: &mut Selection,
        work: &mut FilterWork,
    ) -> Result<()> {
        let rows = vectors.start * VECTOR_ROWS..(vectors.end * VECTOR_ROWS).min(selection.rows());
        let mut bits = std::mem::take(&mut work.bits);
        bits.truncate(0);
        root.filter(body, rows.clone(), &self.question, work, &mut bits)?;
        debug_assert_eq!(bits.len(), rows.len());
        for (index, vector) in vectors.enumerate() {
            let start = index * VECTOR_ROWS;
            selection.intersect(vector, bits.bits().slice(start, selection.vector_rows(vector)));
        }
        work.bits = bits;
        Ok(())
    }
}

impl FilterWork {
    /// An empty place for values of this type; [`FilterWork::give_back`] keeps it.
    pub(crate) fn scratch(&mut self, physical: &Physical) -> Decoded {
        self.scratch.take(physical, BytesForm::Offsets32)
    }

    /// Keeps a place for the next time.
    pub(crate) fn give_back(&mut self, scratch: Decoded) {
        self.scratch.give_back(scratch);
    }

    /// The question that `make` makes of the one that `node` is asked, once per block and filter.
    pub(crate) fn made<N>(
        &mut self,
        node: &N,
        make: impl FnOnce(&mut Self) -> Result<Question>,
    ) -> Result<Arc<Question>> {
        let address = std::ptr::from_ref(node) as usize;
        if let Some((_, made)) = self.made.iter().find(|(of, _)| *of == address) {
            return Ok(made.clone());
        }
        let made = Arc::new(make(self)?);
        self.made.push((address, made.clone()));
        Ok(made)
    }
}

impl FilterWork {
    /// Takes the search that `node` made for the block at hand, or makes it with `make`; nothing where there is none or none that pays.
    /// [`FilterWork::give_back_search`] keeps it.
    pub(crate) fn search<N>(&mut self, node: &N, make: impl FnOnce() -> Option<CodedSearch>) -> Option<CodedSearch> {
        let address = std::ptr::from_ref(node) as usize;
        match self.searches.iter().position(|(of, _)| *of == address) {
            Some(index) => self.searches.swap_remove(index).1,
            None => make(),
        }
    }

    /// Keeps a search for the rest of the block, or that there is none.
    pub(crate) fn give_back_search<N>(&mut self, node: &N, search: Option<CodedSearch>) {
        self.searches.push((std::ptr::from_ref(node) as usize, search));
    }
}

/// What is asked of the values of a node.
#[derive(Debug)]
pub(crate) struct Question {
    pub test: Test,
    /// Whether nulls pass.
    pub nulls: bool,
    pub physical: Physical,
    /// What shared dictionaries answered.
    of_parts: Mutex<Vec<OfPart>>,
}

/// What the values of a shared part answered, and the questions that it makes of codes.
#[derive(Debug)]
struct OfPart {
    part: Arc<Part>,
    found: BitBuffer,
    of_codes: Vec<(Fixed, Arc<Question>)>,
}

/// Which values pass; nulls aside.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// All, or none.
    Always(bool),
    /// Lanes of at most 128 bits.
    Lanes(Intervals),
    /// Codes: a byte 0 or 1 for each.
    Codes(Vec<u8>),
    /// Booleans.
    Bool { clear: bool, set: bool },
    /// Byte strings.
    Bytes(BytesTest),
    /// What has no better form: lanes of 256 bits.
    Scalars(Predicate),
    /// What somebody else says of decoded values.
    Asked(Arc<dyn Ask>),
}

impl Test {
    /// Whether all values pass, or none; `None` where that depends.
    pub fn verdict(&self) -> Option<bool> {
        match self {
            Test::Always(verdict) => Some(*verdict),
            _ => None,
        }
    }

    fn of(predicate: &Predicate, physical: &Physical) -> Self {
        if let Predicate::IsNull | Predicate::IsNotNull = predicate {
            return Test::Always(*predicate == Predicate::IsNotNull);
        }
        match physical {
            Physical::Bool => {
                let holds = |value| predicate.holds(Some(&Scalar::Bool(value)));
                match (holds(false), holds(true)) {
                    (clear, set) if clear == set => Test::Always(set),
                    (clear, set) => Test::Bool { clear, set },
                }
            }
            Physical::Fixed(fixed) => match Intervals::of(predicate, *fixed) {
                Some(intervals) => Self::of_intervals(intervals),
                None => Test::Scalars(predicate.clone()),
            },
            Physical::Bytes => {
                let test = BytesTest::of(predicate);
                test.verdict().map_or(Test::Bytes(test), Test::Always)
            }
            // Nested values and nothing at all compare with nothing.
            Physical::Null | Physical::List(_) | Physical::FixedList(..) | Physical::Struct(_) => Test::Always(false),
        }
    }

    /// Lanes within intervals.
    pub fn of_intervals(intervals: Intervals) -> Self {
        intervals.verdict().map_or(Test::Lanes(intervals), Test::Always)
    }

    /// Codes whose bit is set. Those behind the last bit are in no question.
    fn of_codes(bits: Bits<'_>, code_type: Fixed) -> Self {
        /// More aren't worth comparing with.
        const MOST_INTERVALS: usize = 4;
        match bits.count_ones() {
            0 => Test::Always(false),
            count if count == bits.len() => Test::Always(true),
            _ => match Intervals::of_bits(bits, code_type, MOST_INTERVALS) {
                Some(intervals) => Test::Lanes(intervals),
                None => Test::Codes(bits.iter().map(u8::from).collect()),
            },
        }
    }
}

impl Question {
    pub fn new(test: Test, nulls: bool, physical: Physical) -> Self {
        Self { test, nulls, physical, of_parts: Mutex::default() }
    }

    /// Whether all values pass, or none; `None` where that depends.
    pub fn verdict(&self) -> Option<bool> {
        self.test.verdict()
    }

    /// The question to the codes of a dictionary whose values answer `bits`.
    pub fn of_codes(bits: Bits<'_>, code_type: Fixed) -> Self {
        // A part may have grown beyond what these codes can say.
        let codes = 1usize.checked_shl(code_type.size_bytes() as u32 * 8).unwrap_or(usize::MAX);
        let bits = bits.slice(0, bits.len().min(codes));
        Self::new(Test::of_codes(bits, code_type), false, Physical::Fixed(code_type))
    }

    /// The question to codes of type `code_type` into a shared part whose values `answer` this one, once for all blocks.
    pub fn of_part(
        &self,
        part: &Arc<Part>,
        code_type: Fixed,
        answer: impl FnOnce() -> Result<BitBuffer>,
    ) -> Result<Arc<Question>> {
        if !self.knows(part) {
            let found = answer()?;
            self.parts().push(OfPart { part: part.clone(), found, of_codes: Vec::new() });
        }
        let mut parts = self.parts();
        let known = parts.iter_mut().find(|known| Arc::ptr_eq(&known.part, part));
        let Some(OfPart { found, of_codes, .. }) = known else {
            return Err(Error::InvalidArgument("a shared part that was asked just now".into()));
        };
        if let Some((_, made)) = of_codes.iter().find(|(of, _)| *of == code_type) {
            return Ok(made.clone());
        }
        let made = Arc::new(Self::of_codes(found.bits(), code_type));
        of_codes.push((code_type, made.clone()));
        Ok(made)
    }

    /// Whether the values of a shared part have answered.
    pub fn knows(&self, part: &Arc<Part>) -> bool {
        self.parts().iter().any(|known| Arc::ptr_eq(&known.part, part))
    }

    /// What is behind the lock is whole, whoever panicked.
    fn parts(&self) -> MutexGuard<'_, Vec<OfPart>> {
        self.of_parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The test of byte strings, if it is one, and not for all or none of them.
    pub fn bytes_test(&self) -> Option<&BytesTest> {
        match &self.test {
            Test::Bytes(test) => Some(test),
            _ => None,
        }
    }

    /// Whether a lane's pattern passes.
    pub fn holds_lane<T: Lane>(&self, lane: T) -> bool {
        let wide = lane.widen();
        match &self.test {
            Test::Always(verdict) => *verdict,
            Test::Lanes(intervals) => intervals.contains(wide.low),
            Test::Codes(bits) => bits.get(wide.low as usize).is_some_and(|bit| *bit == 1),
            Test::Scalars(predicate) => match self.physical {
                Physical::Fixed(fixed) => predicate.holds(Some(&Scalar::from_lane(fixed, wide))),
                _ => false,
            },
            Test::Bool { .. } | Test::Bytes(_) | Test::Asked(_) => false,
        }
    }

    /// Whether a byte string passes.
    pub fn holds_bytes(&self, value: &[u8]) -> bool {
        match &self.test {
            Test::Always(verdict) => *verdict,
            Test::Bytes(test) => test.holds(value),
            _ => false,
        }
    }

    /// Whether a boolean passes.
    pub fn holds_bool(&self, value: bool) -> bool {
        match &self.test {
            Test::Always(verdict) => *verdict,
            Test::Bool { clear, set } => {
                if value {
                    *set
                } else {
                    *clear
                }
            }
            _ => false,
        }
    }

    /// Appends a bit for each of the lanes, set where it passes.
    pub fn answer_lanes<T: PackedLane>(&self, lanes: &[T], out: &mut BitBuffer) -> Result<()> {
        match &self.test {
            Test::Always(verdict) => out.extend_constant(*verdict, lanes.len()),
            Test::Lanes(intervals) if intervals.list.len() <= COMPARED_INTERVALS => {
                let mut within = [simd::Within { first: T::default(), span: T::default() }; COMPARED_INTERVALS];
                for (within, interval) in within.iter_mut().zip(&intervals.list) {
                    within.first = T::from_u64(interval.first as u64);
                    within.span = T::from_u64(interval.span as u64);
                }
                simd::within(lanes, &within[..intervals.list.len()], intervals.keyed, out);
            }
            Test::Lanes(intervals) => {
                push_each(lanes.len(), out, |row| intervals.search(u128::from(lanes[row].to_u64())));
            }
            Test::Codes(bits) => {
                if !simd::look_up(lanes, bits, out) {
                    return Err(Error::corrupt("node", 0, "Dictionary: a code that no value has"));
                }
            }
            _ => push_each(lanes.len(), out, |row| self.holds_lane(lanes[row])),
        }
        Ok(())
    }

    /// Appends a bit for each of these values, set where it passes.
    pub fn answer(&self, values: &Decoded, out: &mut BitBuffer) -> Result<()> {
        let Some(validity) = &values.validity else { return self.answer_valid(values, out) };
        let mut found = BitBuffer::default();
        self.answer_valid(values, &mut found)?;
        merge_nulls(found.bits(), validity.bits(), self.nulls, out);
        Ok(())
    }

    /// [`Question::answer`], as if nothing were null.
    fn answer_valid(&self, values: &Decoded, out: &mut BitBuffer) -> Result<()> {
        let rows = values.rows;
        match (&values.values, &self.test) {
            (DecodedValues::Null, _) => out.extend_constant(self.nulls, rows),
            (_, Test::Always(verdict)) => out.extend_constant(*verdict, rows),
            (_, Test::Asked(_)) => {
                return Err(Error::InvalidArgument("values that somebody else is asked about".into()));
            }
            (DecodedValues::L8(lanes), _) => self.answer_lanes(lanes, out)?,
            (DecodedValues::L16(lanes), _) => self.answer_lanes(lanes, out)?,
            (DecodedValues::L32(lanes), _) => self.answer_lanes(lanes, out)?,
            (DecodedValues::L64(lanes), _) => self.answer_lanes(lanes, out)?,
            (DecodedValues::L128(lanes), _) => push_each(rows, out, |row| self.holds_lane(lanes[row])),
            (DecodedValues::L256(lanes), _) => push_each(rows, out, |row| self.holds_lane(lanes[row])),
            (DecodedValues::Bool(bits), Test::Bool { set, .. }) => extend_equal(bits.bits(), *set, out),
            (DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, data)), Test::Bytes(test)) => {
                if rows >= VECTOR_ROWS && coded::answer_plain(test, offsets, data, out) {
                    return Ok(());
                }
                let value = |row: usize| &data[offsets[row] as usize..offsets[row + 1] as usize];
                let mut words = Words::new(out);
                test.each(rows, value, |passes| words.push(passes));
                words.finish();
            }
            _ => return Err(Error::InvalidArgument("values of another type than the question's".into())),
        }
        Ok(())
    }
}

/// Appends the bits of what is found among values, and `nulls` where nothing is.
pub(crate) fn merge_nulls(found: Bits<'_>, validity: Bits<'_>, nulls: bool, out: &mut BitBuffer) {
    let nulls = if nulls { u64::MAX } else { 0 };
    for row in (0..found.len()).step_by(64) {
        let count = (found.len() - row).min(64);
        let valid = validity.word(row);
        let word = found.word(row) & valid | nulls & !valid;
        out.extend_word(word & u64::MAX >> (64 - count), count);
    }
}

/// Appends the bits of `found`, one for each set bit of `which`, in their places, and `others` in the others.
pub(crate) fn spread_found(found: Bits<'_>, which: Bits<'_>, others: bool, out: &mut BitBuffer) {
    let others = if others { u64::MAX } else { 0 };
    let mut rank = 0;
    for row in (0..which.len()).step_by(64) {
        let count = (which.len() - row).min(64);
        let mask = which.word(row);
        let word = simd::deposit(found.word(rank), mask) | others & !mask;
        out.extend_word(word & u64::MAX >> (64 - count), count);
        rank += mask.count_ones() as usize;
    }
}

/// Appends a bit for each of `bits`: whether it is `wanted`.
pub(crate) fn extend_equal(bits: Bits<'_>, wanted: bool, out: &mut BitBuffer) {
    if wanted {
        return out.extend_bits(bits);
    }
    for row in (0..bits.len()).step_by(64) {
        let count = (bits.len() - row).min(64);
        out.extend_word(!bits.word(row) & u64::MAX >> (64 - count), count);
    }
}

fn push_each(count: usize, out: &mut BitBuffer, passes: impl Fn(usize) -> bool) {
    let mut words = Words::new(out);
    (0..count).for_each(|row| words.push(passes(row)));
    words.finish();
}

/// Gathers bits, a word at a time.
struct Words<'a> {
    out: &'a mut BitBuffer,
    word: u64,
    count: usize,
}

impl<'a> Words<'a> {
    fn new(out: &'a mut BitBuffer) -> Self {
        Self { out, word: 0, count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, bit: bool) {
        self.word |= u64::from(bit) << self.count;
        self.count += 1;
        if self.count == 64 {
            self.out.extend_word(self.word, 64);
            (self.word, self.count) = (0, 0);
        }
    }

    fn finish(self) {
        self.out.extend_word(self.word, self.count);
    }
}

/// What a node answers that knows nothing better: it decodes some vectors, and compares.
pub(crate) fn filter_decoded<N: Node + ?Sized>(
    node: &N,
    body: &Body,
    rows: Range<usize>,
    question: &Question,
    work: &mut FilterWork,
    out: &mut BitBuffer,
) -> Result<()> {
    if let Some(verdict) = question.verdict() {
        out.extend_constant(verdict, rows.len());
        return Ok(());
    }
    if let Test::Asked(ask) = &question.test {
        work.decoded_values += rows.len() as u64;
        return question.ask(&**ask, rows.len(), |values| node.decode(body, rows, values), work, out);
    }
    let mut values = work.scratch(&question.physical);
    for piece in grains(rows.clone(), node.grain_rows().max(DECODED_ROWS)) {
        values.clear();
        values.reserve(piece.len() + VECTOR_ROWS);
        node.decode(body, piece, &mut values)?;
        question.answer(&values, out)?;
    }
    work.decoded_values += rows.len() as u64;
    work.give_back(values);
    Ok(())
}
