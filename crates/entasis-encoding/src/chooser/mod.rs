//! The chooser: picks the cascade of a block by predicted size (BtrBlocks §3). Statistics in one pass, the hopeless excluded,
//! sizes predicted from a sample of whole vectors, the best taken, and the same again for its children.

pub(crate) mod chunk;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod few;
pub(crate) mod frequent;
pub(crate) mod hints;
pub(crate) mod options;
pub(crate) mod prices;
pub(crate) mod promised;
pub(crate) mod shared;
pub(crate) mod sorted;
pub(crate) mod statistics;
mod trial;

use std::io;

pub use chunk::{ChunkEncoder, EncodedBlock};
use explain::Trace;
pub use explain::{Candidate, Choice, Searched, explain, search};
pub use hints::Hint;
use hints::Likeness;
pub use options::{EncodeOptions, Profile};
pub(crate) use shared::SharedDictionary;
use statistics::{AsText, Lessons};
pub(crate) use statistics::{LaidOut, Statistics, sample_vectors};

use crate::block::head::EncodedNode;
use crate::encodings::{Effort, Encoding, REGISTRY, by_id, large::Large, plain::Plain, validity::Validity};
use crate::error::{Error, Result};
use crate::values::{BitBuffer, Bits, Column, LaneAccess, Lanes, Values};
use crate::{Fixed, LARGE_VALUE_BYTES, with_lanes};

/// Bytes and price below which no better encoding is looked for.
const ENOUGH_BYTES: f64 = 40.0;
/// What takes long to decode has to take less, by this share of its bytes, than what doesn't.
const HEAVY_MARGIN: f64 = 0.03;

/// Stores a value of the region for large values and returns its offset.
pub(crate) type PutLarge<'a> = dyn FnMut(&[u8]) -> io::Result<u64> + 'a;

/// One block on its way: where in the cascade it stands, and what its encodings may use.
pub(crate) struct Encoder<'e> {
    options: &'e EncodeOptions,
    depth: u8,
    /// The chunk's dictionary, while at the root of a block that may use it.
    shared: Option<&'e mut SharedDictionary>,
    /// Where large values go; without it they stay in the block.
    large: Option<&'e mut PutLarge<'e>>,
    /// The encoding that the values must have.
    forced: Option<u8>,
    /// True below a Phrases node: what it leaves has no phrases worth looking for.
    within_phrases: bool,
    /// True once its children are those of a dictionary of this block alone.
    is_dictionary: bool,
    /// True for the children of a dictionary: its values are all different, and its codes no wider than they have to be.
    beneath_dictionary: bool,
    /// Bytes of a lane where blocks lend lanes that lie there as they are, else 0.
    lent_lane_bytes: usize,
    /// How many distinct values the root was found to have.
    distinct: Option<usize>,
    /// How many distinct values there are at least, as far as the parent knows.
    least_distinct: usize,
    /// Bytes and price of the best candidate so far for the node at hand.
    best_bytes: f64,
    /// What was chosen for the same node of the block before.
    hint: Option<&'e Hint>,
    /// The hint whose encoding is taken: its children are those of this node.
    followed: Option<&'e Hint>,
    /// Bytes and price that the encoding of a hint that doesn't hold promises.
    promised: Option<(f64, &'static dyn Encoding)>,
    /// True where hints are followed whatever they promise.
    obeys: bool,
    /// What the parent learned of strings, and whether it is of these very strings or of some that they are like.
    heard: Option<(Lessons, bool)>,
    /// What is chosen for this node, for the next block.
    learned: Option<Hint>,
    /// Who is told of every decision.
    trace: Option<&'e Trace>,
    /// True for a search through all cascades.
    exhaustive: bool,
}

impl<'e> Encoder<'e> {
    pub fn new(
        options: &'e EncodeOptions,
        shared: Option<&'e mut SharedDictionary>,
        large: Option<&'e mut PutLarge<'e>>,
    ) -> Self {
        Self {
            options,
            depth: 0,
            shared,
            large,
            forced: None,
            within_phrases: false,
            is_dictionary: false,
            beneath_dictionary: false,
            lent_lane_bytes: 0,
            distinct: None,
            least_distinct: 0,
            best_bytes: f64::MAX,
            hint: None,
            followed: None,
            promised: None,
            obeys: false,
            heard: None,
            learned: None,
            trace: None,
            exhaustive: false,
        }
    }

    /// An encoder for the same values, which knows nothing of other blocks and tells nobody.
    fn beside(&self) -> Self {
        Encoder {
            depth: self.depth,
            within_phrases: self.within_phrases,
            beneath_dictionary: self.beneath_dictionary,
            lent_lane_bytes: self.lent_lane_bytes,
            ..Encoder::new(self.options, None, None)
        }
    }

    /// An encoder whose root uses encoding `id`.
    pub fn forcing(options: &'e EncodeOptions, id: u8) -> Self {
        Self { forced: Some(id), ..Self::new(options, None, None) }
    }

    /// True while an encoding with encoded children may still be chosen.
    pub fn may_cascade(&self) -> bool {
        self.depth < self.options.max_depth
    }

    /// True while that holds so many steps deeper.
    pub fn may_cascade_below(&self, steps: u8) -> bool {
        self.depth + steps < self.options.max_depth
    }

    /// Encodes a whole column, nulls and large values included.
    pub fn root(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        let nulls = column.validity.filter(|validity| validity.count_ones() < column.rows);
        match (nulls, &column.values) {
            (Some(validity), values) if !matches!(values, Values::Null) => {
                let column = Column { validity: Some(validity), ..column.clone() };
                self.lent_lane_bytes = 0;
                self.required(&Validity, &Statistics::new(&column))
            }
            _ => self.values(&Column { validity: None, ..column.clone() }),
        }
    }

    /// Encodes a column without nulls.
    fn values(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        if let (Values::Bytes(strings), true) = (&column.values, self.large.is_some())
            && strings.iter().any(|string| string.len() >= LARGE_VALUE_BYTES)
        {
            return self.required(&Large, &Statistics::new(column));
        }
        let statistics =
            if self.beneath_dictionary { Statistics::without_distinct(column) } else { Statistics::new(column) };
        statistics.expect_distinct(self.least_distinct);
        if let (Some(strings), Some((heard, are_same))) = (statistics.strings(), &self.heard) {
            match are_same {
                true => strings.adopt(heard),
                false if self.hint.is_none() => strings.hear(heard),
                false => {}
            }
        }
        match self.forced.take().and_then(by_id) {
            // Where there is nothing to hold, nothing is asked of how it is held.
            Some(forced) if column.rows > 0 => self.required(forced, &statistics),
            _ => self.choose(&statistics),
        }
    }

    fn required(&mut self, encoding: &dyn Encoding, statistics: &Statistics<'_>) -> Result<EncodedNode> {
        self.encode_traced(encoding, statistics)?.ok_or_else(|| {
            let (name, physical) = (encoding.name(), statistics.column.values.physical());
            Error::InvalidArgument(format!("{name} can't hold these {} values of {physical}", statistics.rows))
        })
    }

    /// Encodes as the hint says, if that holds; else with the encoding that promises the fewest bytes, decode price included.
    fn choose(&mut self, statistics: &Statistics<'_>) -> Result<EncodedNode> {
        if let Some(node) = self.follow_hint(statistics)? {
            return Ok(node);
        }
        if self.exhaustive
            && let Some(node) = self.search(statistics)
        {
            return Ok(node);
        }
        for is_allowed in [true, false] {
            self.best_bytes = f64::MAX;
            let mut candidates = self.candidates(statistics, is_allowed, Effort::Much);
            if self.depth == 0 {
                self.distinct = statistics.known_distinct();
            }
            if self.options.profile == Profile::Size
                && let Some(node) = self.try_out(&mut candidates, statistics)?
            {
                return Ok(node);
            }
            for (priced_bytes, encoding) in candidates {
                // What doesn't hold for a node may hold for its children.
                self.followed = self.hint.filter(|hint| hint.encoding == encoding.id());
                if let Some(node) = self.attempt(encoding, priced_bytes / statistics.rows.max(1) as f64, statistics)? {
                    return Ok(node);
                }
            }
        }
        Err(Error::InvalidArgument(format!("no encoding holds {}", statistics.column.values.physical())))
    }

    /// Encodings with the bytes and the price that they promise, the best first. Those that promise more than the best before needn't be
    /// among them.
    fn candidates(
        &mut self,
        statistics: &Statistics<'_>,
        is_allowed: bool,
        most_effort: Effort,
    ) -> Vec<(f64, &'static dyn Encoding)> {
        // What the hint's encoding promises is known, and that others have to promise less.
        let promised = self.promised.take().filter(|(_, encoding)| is_allowed == self.options.allows(*encoding));
        let mut candidates: Vec<(f64, &dyn Encoding)> = promised.into_iter().collect();
        let asked_before = promised.map(|(_, encoding)| encoding.id());
        self.best_bytes = promised.map_or(self.best_bytes, |(bytes, _)| self.best_bytes.min(bytes));
        for effort in Effort::ALL.into_iter().filter(|effort| *effort <= most_effort) {
            // What takes so little can't be beaten by much; but what is only promised may turn out not to hold the values.
            if self.best_bytes <= ENOUGH_BYTES && (asked_before.is_none() || effort > Effort::Little) {
                break;
            }
            let asked = REGISTRY
                .into_iter()
                .filter(|encoding| encoding.effort() == effort && Some(encoding.id()) != asked_before);
            for encoding in asked.filter(|encoding| self.options.allows(*encoding) == is_allowed) {
                if let Some(bytes) = encoding.predicted_bytes(statistics, self) {
                    let priced_bytes = bytes + self.price_bytes(encoding, statistics.rows, bytes);
                    candidates.push((priced_bytes, encoding));
                    self.best_bytes = self.best_bytes.min(priced_bytes);
                }
            }
        }
        candidates.sort_by(|left, right| left.0.total_cmp(&right.0));
        candidates
    }

    /// What decoding so many rows of an encoding, laid out in so many bytes, is held to cost, in bytes.
    pub fn price_bytes(&self, encoding: &dyn Encoding, rows: usize, bytes: f64) -> f64 {
        let margin = if encoding.is_heavy() { HEAVY_MARGIN } else { 0.0 };
        let price_bytes = prices::cascade_bits(encoding) * self.options.profile.price_factor() * rows as f64 / 8.0;
        price_bytes + bytes * margin + self.unlent_price_bytes(encoding.id(), rows)
    }

    /// What it is held to cost, in bytes, that so many rows can't be lent because they lie in the encoding with this id.
    fn unlent_price_bytes(&self, id: u8, rows: usize) -> f64 {
        if id == Plain.id() {
            return 0.0;
        }
        self.options.profile.lent_share() * (rows * self.lent_lane_bytes) as f64
    }

    /// Encodes as the block before was, if that promises about as few bytes per row.
    fn follow_hint(&mut self, statistics: &Statistics<'_>) -> Result<Option<EncodedNode>> {
        let Some(hint) = self.hint else { return Ok(None) };
        let Some(encoding) = by_id(hint.encoding) else { return Ok(None) };
        self.best_bytes = f64::MAX;
        if !self.obeys {
            statistics.hear(&hint.lessons);
            let Some(bytes) = encoding.predicted_bytes(statistics, self) else { return Ok(None) };
            let priced_bytes = bytes + self.price_bytes(encoding, statistics.rows, bytes);
            if !hint.holds(priced_bytes, statistics, self.shares_values()) {
                self.promised = Some((priced_bytes, encoding));
                return Ok(None);
            }
        }
        if self.depth == 0 {
            self.distinct = statistics.known_distinct();
        }
        self.followed = Some(hint);
        self.attempt(encoding, hint.bytes_per_row, statistics)
    }

    /// Encodes with this encoding, and remembers it as chosen.
    fn attempt(
        &mut self,
        encoding: &'static dyn Encoding,
        bytes_per_row: f64,
        statistics: &Statistics<'_>,
    ) -> Result<Option<EncodedNode>> {
        let likeness = Likeness::of(statistics);
        let lessons = Lessons::default();
        self.learned = Some(Hint { encoding: encoding.id(), bytes_per_row, likeness, lessons, children: Vec::new() });
        if let Some(trace) = self.trace {
            // Who only gave way to others is to tell what it would have promised.
            self.best_bytes = f64::MAX;
            trace.note(self, statistics, encoding.id());
        }
        let encoded = self.encode_traced(encoding, statistics);
        if let Some(learned) = &mut self.learned {
            learned.lessons = statistics.lessons();
        }
        encoded
    }

    /// Encodes with this encoding, and tells who asked what its children are beneath.
    fn encode_traced(&mut self, encoding: &dyn Encoding, statistics: &Statistics<'_>) -> Result<Option<EncodedNode>> {
        let Some(trace) = self.trace else { return encoding.encode(statistics, self) };
        trace.enter(encoding.name());
        let encoded = encoding.encode(statistics, self);
        trace.leave();
        encoded
    }

    /// Encodes a child with an encoder of its own: hands it what is known of it, and keeps what it learned.
    fn encode_beneath(&mut self, child: Self, column: &Column<'_>, is_root: bool) -> Result<EncodedNode> {
        let number = self.learned.as_ref().map_or(0, |learned| learned.children.len());
        let hint = self.followed.and_then(|hint| hint.children.get(number)?.as_ref());
        let mut child = Encoder { hint, obeys: self.obeys, trace: self.trace, exhaustive: self.exhaustive, ..child };
        let node = if is_root { child.root(column) } else { child.values(column) }?;
        if let Some(learned) = &mut self.learned {
            learned.children.push(child.learned);
        }
        Ok(node)
    }

    /// Encodes a child that belongs to the cascade of its parent, one step deeper.
    pub fn child(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        self.encode_beneath(self.one_deeper(), column, false)
    }

    /// As [`Self::child`], for values of which so many `fewer` are distinct than of this node's at most: what had too many of those for a
    /// dictionary is not told apart again.
    pub fn child_as_distinct(
        &mut self,
        statistics: &Statistics<'_>,
        fewer: usize,
        column: &Column<'_>,
    ) -> Result<EncodedNode> {
        let least_distinct = statistics.least_distinct().saturating_sub(fewer);
        self.encode_beneath(Encoder { least_distinct, ..self.one_deeper() }, column, false)
    }

    /// As [`Self::child`], for lanes as the text that they were found to be.
    pub fn child_as(&mut self, text: &AsText, column: &Column<'_>) -> Result<EncodedNode> {
        let (forced, heard) = (Some(text.encoding), Some((text.lessons.clone(), true)));
        self.encode_beneath(Encoder { forced, heard, ..self.one_deeper() }, column, false)
    }

    /// As [`Self::child`], for strings like those of this node: what was learned of those needn't be learned again.
    pub fn child_like(&mut self, statistics: &Statistics<'_>, column: &Column<'_>) -> Result<EncodedNode> {
        let heard = statistics.strings().map(|strings| (strings.lessons(), false));
        self.encode_beneath(Encoder { heard, ..self.one_deeper() }, column, false)
    }

    /// As [`Self::child`], for the rests of this node's strings behind what they share with those before.
    pub fn child_of_rests(&mut self, statistics: &Statistics<'_>, column: &Column<'_>) -> Result<EncodedNode> {
        let heard = statistics.strings().and_then(|strings| strings.rest_lessons()).map(|lessons| (lessons, true));
        self.encode_beneath(Encoder { heard, ..self.one_deeper() }, column, false)
    }

    /// An encoder for a child.
    fn one_deeper(&self) -> Self {
        Encoder {
            depth: self.depth + 1,
            within_phrases: self.within_phrases,
            beneath_dictionary: self.is_dictionary,
            ..Encoder::new(self.options, None, None)
        }
    }

    /// From here on, this encoder's children are the codes and values of a dictionary of this block alone.
    pub fn enter_dictionary(&mut self) {
        self.is_dictionary = true;
    }

    /// Bytes and price of the best candidate before the one that is asked: what takes more needn't be looked at closely.
    pub fn best_bytes(&self) -> f64 {
        self.best_bytes
    }

    /// True where phrases may be looked for.
    pub fn may_have_phrases(&self) -> bool {
        !self.within_phrases
    }

    /// From here on, this encoder's children aren't searched for phrases.
    pub fn leave_phrases(&mut self) {
        self.within_phrases = true;
    }

    /// Encodes a child that is a column of its own: the items of lists, the fields of structs.
    pub fn nested(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        self.encode_beneath(Encoder::new(self.options, None, None), column, true)
    }

    /// As [`Self::nested`], for items of fixed-size lists: their lanes are lent where they lie as they are.
    pub fn nested_lent(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        let lent_lane_bytes = match &column.values {
            Values::Fixed(fixed, _) => fixed.size_bytes(),
            _ => 0,
        };
        self.encode_beneath(Encoder { lent_lane_bytes, ..Encoder::new(self.options, None, None) }, column, true)
    }

    /// Encodes unsigned integers in the smallest lane that holds `max`.
    pub fn unsigned_child(&mut self, values: &[u32], max: u64) -> Result<EncodedNode> {
        let fixed = Fixed::unsigned_for(max);
        let (rows, validity) = (values.len(), None);
        match fixed {
            Fixed::U8 => {
                let lanes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
                self.child(&Column { rows, validity, values: Values::Fixed(fixed, Lanes::L8(&lanes)) })
            }
            Fixed::U16 => {
                let lanes: Vec<u16> = values.iter().map(|&value| value as u16).collect();
                self.child(&Column { rows, validity, values: Values::Fixed(fixed, Lanes::L16(&lanes)) })
            }
            _ => self.child(&Column { rows, validity, values: Values::Fixed(Fixed::U32, Lanes::L32(values)) }),
        }
    }

    /// Encodes the values beside `validity`, with something cheap under the nulls: the value before, or nothing at all for
    /// byte strings.
    pub fn filled(&mut self, column: &Column<'_>, validity: Bits<'_>) -> Result<EncodedNode> {
        let rows = column.rows;
        let plain = |values| Column { rows, validity: None, values };
        match &column.values {
            Values::Fixed(fixed, lanes) => with_lanes!(lanes, lanes => {
                let filled = fill(lanes, validity);
                self.values(&plain(Values::Fixed(*fixed, LaneAccess::lanes(&filled))))
            }),
            Values::Bool(bits) => {
                let filled: BitBuffer = fill(&bits.iter().collect::<Vec<_>>(), validity).into_iter().collect();
                self.values(&plain(Values::Bool(filled.bits())))
            }
            Values::Bytes(strings) => {
                // Empty, for what lies under a null is decoded too.
                let emptied: Vec<&[u8]> = strings
                    .iter()
                    .enumerate()
                    .map(|(row, &string)| if validity.get(row) { string } else { &[] })
                    .collect();
                self.values(&plain(Values::Bytes(&emptied)))
            }
            nested => self.values(&plain(nested.clone())),
        }
    }

    /// Encodes the values beside `validity` without what lies under nulls; of lanes, booleans and byte strings.
    pub fn packed(&mut self, column: &Column<'_>, validity: Bits<'_>) -> Result<EncodedNode> {
        let rows = validity.count_ones();
        let plain = |values| Column { rows, validity: None, values };
        match &column.values {
            Values::Fixed(fixed, lanes) => with_lanes!(lanes, lanes => {
                let picked = pick(lanes, validity);
                self.values(&plain(Values::Fixed(*fixed, LaneAccess::lanes(&picked))))
            }),
            Values::Bool(bits) => {
                let picked: BitBuffer = pick(&bits.iter().collect::<Vec<_>>(), validity).into_iter().collect();
                self.values(&plain(Values::Bool(picked.bits())))
            }
            Values::Bytes(strings) => self.values(&plain(Values::Bytes(&pick(strings, validity)))),
            other => Err(Error::InvalidArgument(format!("{} can't be packed", other.physical()))),
        }
    }

    /// Stores a large value and returns its offset.
    pub fn put_large(&mut self, value: &[u8]) -> Result<u64> {
        match &mut self.large {
            Some(put) => put(value).map_err(|error| Error::LargeValue(error.to_string())),
            None => Err(Error::LargeValue("there is no region for them here".into())),
        }
    }

    /// How many distinct values the root has, nulls aside, where the chooser had to know.
    pub fn distinct(&self) -> Option<u64> {
        self.distinct.map(|distinct| distinct as u64)
    }

    /// The chunk's dictionary, where this block may use it.
    pub fn shared(&mut self) -> Option<&mut SharedDictionary> {
        self.shared.as_deref_mut()
    }

    /// True where the chunk's dictionary has values already, which this block may share.
    pub fn shares_values(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.has_values())
    }

    /// How many values of the column the chunk's dictionary lacks; `None` where it can't be used.
    pub fn fresh_values(&self, statistics: &Statistics<'_>) -> Option<usize> {
        self.shared.as_ref()?.fresh_values(statistics)
    }
}

/// The values of set bits.
fn pick<T: Copy>(values: &[T], validity: Bits<'_>) -> Vec<T> {
    let mut picked = Vec::with_capacity(validity.count_ones());
    for row in (0..values.len()).step_by(64) {
        let mut word = validity.word(row);
        while word != 0 {
            picked.push(values[row + word.trailing_zeros() as usize]);
            word &= word - 1;
        }
    }
    picked
}

/// The values, with each null replaced by the value before it; leading nulls by the first value.
fn fill<T: Copy + Default>(values: &[T], validity: Bits<'_>) -> Vec<T> {
    let mut last = (0..values.len()).find(|&row| validity.get(row)).map_or(T::default(), |row| values[row]);
    let mut filled = Vec::with_capacity(values.len());
    for (row, &value) in values.iter().enumerate() {
        if validity.get(row) {
            last = value;
        }
        filled.push(last);
    }
    filled
}
