//! The symbols, their bytes in a file, and decoding.

use super::{Encoder, train};
use crate::simd::{ESCAPE, SYMBOL_MAX_BYTES, SymbolError, Symbols};

/// Symbols of 1 to 8 bytes by code.
///
/// ```text
/// ┌───────────┬────────────────────┬──────────────────────────────┐
/// │ count: u8 │ lengths: count × u8 │ bytes of all symbols in turn │
/// └───────────┴────────────────────┴──────────────────────────────┘
/// ```
#[derive(Clone)]
pub struct SymbolTable {
    symbols: Symbols,
    symbol_count: usize,
}

/// Why bytes are no symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The bytes end before the table does.
    #[error("a symbol table is cut short")]
    Truncated,
    /// More bytes than the table has.
    #[error("{excess_bytes} bytes behind a symbol table")]
    Trailing {
        /// How many.
        excess_bytes: usize,
    },
    /// A symbol of no or of more than 8 bytes.
    #[error("a symbol has not 1 to {SYMBOL_MAX_BYTES} bytes")]
    Length,
}

impl SymbolTable {
    /// The table that encodes a sample of `strings` best, as far as three rounds of the paper's algorithm (§4) find it.
    /// The same strings give the same table.
    pub fn train(strings: &[&[u8]]) -> Self {
        train::train(strings)
    }

    /// As [`Self::train`]; `None` where it shows early that [`Self::ratio`] would plainly be more than `most_ratio`.
    pub(crate) fn train_unless_more(strings: &[&[u8]], most_ratio: f64) -> Option<Self> {
        train::train_unless_more(strings, most_ratio)
    }

    /// As [`Self::train`], and what [`Self::ratio`] then gives, for so many strings that are made when they are looked at; `None` unless
    /// these are plainly some of more: of `about_bytes`.
    pub fn train_picked<'a>(
        count: usize,
        about_bytes: usize,
        string: impl Fn(usize) -> &'a [u8],
    ) -> Option<(Self, f64)> {
        (about_bytes > 2 * train::SAMPLE_BYTES).then(|| train::train_picked(count, string))
    }

    /// A table of these symbols, by code; nothing if a symbol has not 1 to 8 bytes or there are more than 255.
    pub(super) fn new<'a>(symbols: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<Self> {
        let symbol_count = symbols.len();
        Some(Self { symbols: Symbols::new(symbols)?, symbol_count })
    }

    /// Symbols in the table: codes from this one to 254 mean nothing.
    pub fn symbol_count(&self) -> usize {
        self.symbol_count
    }

    /// The symbol of `code`, its first byte lowest, and its length in bytes; the length is 0 where there is none.
    #[inline(always)]
    pub(crate) fn symbol(&self, code: u8) -> (u64, usize) {
        self.symbols.get(code)
    }

    /// Each symbol in the order of codes: its bytes, the first one lowest, and its length in bytes.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (u64, usize)> {
        (0..self.symbol_count).map(|code| self.symbols.get(code as u8))
    }

    /// Encoded bytes per byte of such strings, as a sample of them shows.
    pub fn ratio(&self, strings: &[&[u8]]) -> f64 {
        train::ratio(self, strings)
    }

    /// As [`Self::ratio`], for strings that are made when they are looked at, of more bytes than a sample has.
    pub(crate) fn ratio_picked<'a>(&self, count: usize, string: impl Fn(usize) -> &'a [u8]) -> f64 {
        train::ratio_picked(self, count, string)
    }

    /// Lends an encoder that uses these symbols, in memory that the thread keeps for the next; `visit` may not ask for another.
    pub fn with_encoder<R>(&self, visit: impl FnOnce(&Encoder) -> R) -> R {
        train::with_encoder(self, visit)
    }

    /// An encoder that uses these symbols.
    pub fn encoder(&self) -> Encoder {
        Encoder::new(self)
    }

    /// Appends many strings, of at most `limit_bytes` together, of which string `k` is encoded in the codes from
    /// `encoded_ends[k - 1]` (the first from 0) to below `encoded_ends[k]`. Appends to `out_ends` where each string
    /// ends in `out`, counted from the beginning of `out`.
    ///
    /// # Errors
    /// Any [`SymbolError`], [`SymbolError::TooLong`] also where an end is beyond `i32`; nothing is appended then.
    pub fn decode_many(
        &self,
        codes: &[u8],
        encoded_ends: &[u32],
        out: &mut Vec<u8>,
        out_ends: &mut Vec<i32>,
        limit_bytes: usize,
    ) -> Result<(), SymbolError> {
        let addressable_bytes = (i32::MAX as usize).saturating_sub(out.len());
        self.symbols.expand(codes, encoded_ends, out, limit_bytes.min(addressable_bytes), out_ends)
    }

    /// Appends the table as it is stored.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(self.symbol_count as u8);
        out.extend(self.symbols().map(|(_, length)| length as u8));
        for (word, length) in self.symbols() {
            out.extend_from_slice(&word.to_le_bytes()[..length]);
        }
    }

    /// The table that `bytes`, all of them, store.
    ///
    /// # Errors
    /// [`TableError`] where they are not what [`SymbolTable::to_bytes`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TableError> {
        let (&symbol_count, rest) = bytes.split_first().ok_or(TableError::Truncated)?;
        let (lengths, mut rest) = rest.split_at_checked(symbol_count.into()).ok_or(TableError::Truncated)?;
        let mut symbols = Vec::with_capacity(ESCAPE.into());
        for &length in lengths {
            let (symbol, behind) = rest.split_at_checked(length.into()).ok_or(TableError::Truncated)?;
            symbols.push(symbol);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(TableError::Trailing { excess_bytes: rest.len() });
        }
        Self::new(symbols.into_iter()).ok_or(TableError::Length)
    }
}
