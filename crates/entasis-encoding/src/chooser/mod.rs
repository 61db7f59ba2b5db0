//! The chooser: picks the cascade of a block by predicted size (BtrBlocks §3). Statistics in one pass, the hopeless excluded,
//! sizes predicted from a sample of whole vectors, the best taken, and the same again for its children.

pub(crate) mod chunk;
pub(crate) mod distinct;
pub(crate) mod frequent;
pub(crate) mod shared;
pub(crate) mod sorted;
pub(crate) mod statistics;

use std::io;

pub use chunk::{ChunkEncoder, EncodedBlock};
pub(crate) use shared::SharedDictionary;
pub(crate) use statistics::{Statistics, sample_vectors};

use crate::block::head::EncodedNode;
use crate::encodings::{Encoding, REGISTRY, by_id, large::Large, validity::Validity};
use crate::error::{Error, Result};
use crate::values::{BitBuffer, Bits, Column, LaneAccess, Lanes, Values};
use crate::{Fixed, LARGE_VALUE_BYTES, with_lanes};

/// How blocks are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeOptions {
    /// How many encodings may stand above one another before only those without encoded children are left.
    pub max_depth: u8,
    /// Ids of the encodings that may be chosen; `None` for all. Another is used only where none of these can hold the values.
    pub allowed: Option<Vec<u8>>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { max_depth: 3, allowed: None }
    }
}

impl EncodeOptions {
    fn allows(&self, id: u8) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&id))
    }
}

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
    /// The encoding that the root must have, for tests of single encodings.
    forced: Option<u8>,
    /// True below a Phrases node: what it leaves has no phrases worth looking for.
    within_phrases: bool,
    /// True once its children are those of a dictionary of this block alone.
    is_dictionary: bool,
    /// True for the children of a dictionary: its values are all different, and its codes no wider than they have to be.
    beneath_dictionary: bool,
    /// How many distinct values the root was found to have.
    distinct: Option<usize>,
    /// Bytes and price of the best candidate so far for the node at hand.
    best_bytes: f64,
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
            distinct: None,
            best_bytes: f64::MAX,
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
        match self.forced.take().and_then(by_id) {
            Some(forced) => self.required(forced, &statistics),
            None => self.choose(&statistics),
        }
    }

    fn required(&mut self, encoding: &dyn Encoding, statistics: &Statistics<'_>) -> Result<EncodedNode> {
        encoding.encode(statistics, self)?.ok_or_else(|| {
            let (name, physical) = (encoding.name(), statistics.column.values.physical());
            Error::InvalidArgument(format!("{name} can't hold these {} values of {physical}", statistics.rows))
        })
    }

    /// Encodes with the encoding that promises the fewest bytes, decode price included.
    fn choose(&mut self, statistics: &Statistics<'_>) -> Result<EncodedNode> {
        for is_allowed in [true, false] {
            let mut candidates: Vec<(f64, &dyn Encoding)> = Vec::new();
            self.best_bytes = f64::MAX;
            for encoding in REGISTRY.into_iter().filter(|encoding| self.options.allows(encoding.id()) == is_allowed) {
                if let Some(bytes) = encoding.predicted_bytes(statistics, self) {
                    let priced = bytes + encoding.price_bits() * statistics.rows as f64 / 8.0;
                    candidates.push((priced, encoding));
                    self.best_bytes = self.best_bytes.min(priced);
                }
            }
            candidates.sort_by(|left, right| left.0.total_cmp(&right.0));
            if self.depth == 0 {
                self.distinct = statistics.known_distinct();
            }
            for (_, encoding) in candidates {
                if let Some(node) = encoding.encode(statistics, self)? {
                    return Ok(node);
                }
            }
        }
        Err(Error::InvalidArgument(format!("no encoding holds {}", statistics.column.values.physical())))
    }

    /// Encodes a child that belongs to the cascade of its parent, one step deeper.
    pub fn child(&mut self, column: &Column<'_>) -> Result<EncodedNode> {
        self.child_as(None, column)
    }

    /// As [`Self::child`], by the encoding of this id, if one is given.
    pub fn child_as(&mut self, forced: Option<u8>, column: &Column<'_>) -> Result<EncodedNode> {
        let (depth, within_phrases) = (self.depth + 1, self.within_phrases);
        let beneath_dictionary = self.is_dictionary;
        Encoder { depth, forced, within_phrases, beneath_dictionary, ..Encoder::new(self.options, None, None) }
            .values(column)
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
        Encoder::new(self.options, None, None).root(column)
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
