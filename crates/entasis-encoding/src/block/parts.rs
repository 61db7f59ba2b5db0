//! Shared parts: what the blocks of a chunk have in common. See *Shared parts* in `spec/block.md`.

use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::Xxh3;

use crate::encodings::singles::Singles;
use crate::error::{Error, Result};
use crate::simd::StringTable;
use crate::values::{BytesForm, Decoded, DecodedBytes, DecodedValues};
use crate::{Block, Physical, with_decoded_lanes};

/// The shared parts of a chunk, by number.
#[derive(Debug, Clone, Default)]
pub struct Parts(Vec<Arc<Part>>);

impl Parts {
    /// No parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the part with the next number.
    pub fn push(&mut self, part: Block) {
        let number = self.0.len();
        let (lanes_or_views, strings, singles) = (OnceLock::new(), OnceLock::new(), Singles::default());
        self.0.push(Arc::new(Part { number, block: part, lanes_or_views, strings, singles }));
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Part `number`, which must hold `physical`; else says what is wrong.
    pub(crate) fn get(&self, number: u64, physical: &Physical) -> Result<Arc<Part>, String> {
        let part = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        let part = part.ok_or_else(|| format!("shared part {number} isn't at hand ({} are)", self.0.len()))?;
        if part.block.physical() != physical {
            return Err(format!("shared part {number} holds {} instead of {physical}", part.block.physical()));
        }
        Ok(part.clone())
    }
}

/// One shared part and its values, decoded when first needed.
#[derive(Debug)]
pub(crate) struct Part {
    number: usize,
    block: Block,
    lanes_or_views: OnceLock<Decoded>,
    strings: OnceLock<StringTable>,
    singles: Singles,
}

impl Part {
    pub fn number(&self) -> usize {
        self.number
    }

    pub fn block(&self) -> &Block {
        &self.block
    }

    /// All values; byte strings as views.
    pub fn lanes_or_views(&self) -> Result<&Decoded> {
        made_once(&self.lanes_or_views, || self.decode(BytesForm::Views))
    }

    /// All values, if they have been decoded; byte strings as views.
    #[cfg(test)]
    pub fn known_views(&self) -> Option<&Decoded> {
        self.lanes_or_views.get()
    }

    /// Whether all strings are there, to be had in this form.
    pub fn knows_all(&self, form: &DecodedBytes) -> bool {
        match form {
            DecodedBytes::Views(_) => self.lanes_or_views.get().is_some(),
            _ => self.strings.get().is_some(),
        }
    }

    /// The strings that were got singly, before all were decoded.
    pub fn singles(&self) -> &Singles {
        &self.singles
    }

    /// All values, byte strings, to be gathered.
    pub fn strings(&self) -> Result<&StringTable> {
        made_once(&self.strings, || string_table(self.decode(BytesForm::Offsets32)?))
    }

    fn decode(&self, form: BytesForm) -> Result<Decoded> {
        let mut out = Decoded::new(self.block.physical(), form);
        self.block.decode(0..self.block.rows(), &mut out)?;
        out.learn_text();
        Ok(out)
    }

    /// The digest of the first `count` values.
    pub fn digest_of(&self, count: usize) -> Result<u64> {
        let mut digest = PrefixDigest::default();
        if *self.block.physical() == Physical::Bytes {
            let strings = self.strings()?;
            (0..count).for_each(|index| digest.string(strings.get(index)));
            return Ok(digest.value());
        }
        let lanes = &self.lanes_or_views()?.values;
        with_decoded_lanes!(lanes, lanes => lanes[..count].iter().for_each(|&lane| digest.lane(lane)), {
            return Err(Error::corrupt("shared part", 0, "holds neither lanes nor byte strings"));
        });
        Ok(digest.value())
    }
}

/// Decoded byte strings with 32-bit offsets, to be gathered.
pub(crate) fn string_table(decoded: Decoded) -> Result<StringTable> {
    match decoded.values {
        DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, bytes)) => StringTable::new(offsets, bytes),
        _ => None,
    }
    .ok_or_else(|| Error::corrupt("node", 0, "values that aren't byte strings with ascending offsets"))
}

/// The value of `cell`, made when first needed. A failure isn't kept: bytes that are missing may be supplied.
pub(crate) fn made_once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = make()?;
    Ok(cell.get_or_init(|| value))
}

/// The digest of a growing list of values.
#[derive(Clone, Default)]
pub(crate) struct PrefixDigest {
    state: Xxh3,
    scratch: Vec<u8>,
}

impl PrefixDigest {
    /// Adds a byte string: its `u32` length, then its bytes.
    pub fn string(&mut self, string: &[u8]) {
        self.state.update(&(string.len() as u32).to_le_bytes());
        self.state.update(string);
    }

    /// Adds a lane.
    pub fn lane<T: crate::Lane>(&mut self, lane: T) {
        self.scratch.clear();
        lane.write(&mut self.scratch);
        self.state.update(&self.scratch);
    }

    /// Adds a lane, given as its little-endian bytes.
    pub fn lane_bytes(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The digest of what was added so far.
    pub fn value(&self) -> u64 {
        self.state.digest()
    }
}
