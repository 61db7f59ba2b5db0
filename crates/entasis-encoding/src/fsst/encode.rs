//! Encoding: at every place the longest symbol that an index of two levels finds (FSST, §5.1).

use super::SymbolTable;
use crate::simd::{ESCAPE, SYMBOL_MAX_BYTES};

/// Slots of the index of long symbols; a power of two.
pub(super) const LONG_SLOTS: usize = 1024;

/// A code in the low byte, and in the high byte how many bytes of a string it stands for: one number, so that one is
/// chosen from two without a branch.
#[derive(Clone, Copy)]
pub(super) struct Match(u16);

impl Match {
    const ESCAPE: Self = Self::new(ESCAPE, 1);

    const fn new(code: u8, length: usize) -> Self {
        Self((length as u16) << 8 | code as u16)
    }

    #[inline(always)]
    pub(super) fn code(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    pub(super) fn length(self) -> usize {
        usize::from(self.0 >> 8)
    }

    /// `other` where `condition` holds, else this. By arithmetic: a branch would be mispredicted, and of a conditional
    /// move the compiler makes one of addresses, before the load, which lengthens the way from symbol to symbol.
    #[inline(always)]
    fn or_if(self, condition: bool, other: Self) -> Self {
        Self(self.0 ^ ((self.0 ^ other.0) & u16::from(condition).wrapping_neg()))
    }

    /// Bytes that encode it: an escape has its byte behind it.
    #[inline(always)]
    pub(super) fn encoded_bytes(self) -> usize {
        1 + usize::from(self.code() == ESCAPE)
    }
}

/// Symbols of three bytes and more, at most one in a slot (the paper's lossy perfect hash).
#[derive(Clone, Copy)]
struct LongSymbol {
    word: u64,
    found: Match,
    /// The bits of an eight-byte word that are the symbol's.
    mask: u64,
}

impl LongSymbol {
    /// Matches no word: a word without its highest byte is never all ones.
    const NONE: Self = Self { word: u64::MAX, found: Match::ESCAPE, mask: u64::MAX >> 8 };
}

/// A [`SymbolTable`] laid out for encoding: some 150 KiB.
pub struct Encoder {
    long: Box<[LongSymbol; LONG_SLOTS]>,
    /// By the next two bytes, the first one lowest: the symbol of two bytes or else of one.
    short: Box<[Match; 1 << 16]>,
    /// By the last byte of a string.
    single: [Match; 256],
}

/// The slot of symbols that begin with the lowest three bytes of `word`.
#[inline(always)]
pub(super) fn long_slot(word: u64) -> usize {
    let hash = (word as u32 & 0xff_ffff).wrapping_mul(0x9e37_79b1);
    (hash >> (32 - LONG_SLOTS.ilog2())) as usize
}

/// The last `length` bytes of `string`, fewer than 8, the first one lowest, and zeros behind them.
#[inline(always)]
fn last_word(string: &[u8], length: usize) -> u64 {
    if length == 0 {
        return 0;
    }
    if let Some(word) = string.last_chunk::<8>() {
        return u64::from_le_bytes(*word) >> (64 - 8 * length);
    }
    // The string is shorter than a word; two reads that overlap cover it.
    let at = 8 * length;
    match (string.first_chunk::<4>(), string.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (at - 32)
        }
        _ => {
            let byte = |index: usize| u64::from(string[index]) << (8 * index);
            byte(0) | byte(length / 2) | byte(length - 1)
        }
    }
}

impl Encoder {
    pub(super) fn new(table: &SymbolTable) -> Self {
        let mut encoder = Self {
            long: Box::new([LongSymbol::NONE; LONG_SLOTS]),
            short: Box::new([Match::ESCAPE; 1 << 16]),
            single: [Match::ESCAPE; 256],
        };
        encoder.index(table);
        encoder
    }

    /// Makes this an encoder of other symbols.
    pub(super) fn reset(&mut self, table: &SymbolTable) {
        self.long.fill(LongSymbol::NONE);
        self.single.fill(Match::ESCAPE);
        self.index(table);
    }

    /// Fills an index that has no symbols, `short` aside.
    fn index(&mut self, table: &SymbolTable) {
        let symbols = || table.symbols().enumerate().map(|(code, (word, length))| (code as u8, word, length));
        for (code, word, _) in symbols().filter(|&(.., length)| length == 1) {
            self.single[word as usize] = Match::new(code, 1);
        }
        self.short.chunks_exact_mut(256).for_each(|by_first| by_first.copy_from_slice(&self.single));
        for (code, word, length) in symbols().filter(|&(.., length)| length > 1) {
            let found = Match::new(code, length);
            if length == 2 {
                self.short[word as usize] = found;
                continue;
            }
            let slot = &mut self.long[long_slot(word)];
            if slot.found.length() < length {
                *slot = LongSymbol { word, found, mask: u64::MAX >> (64 - 8 * length) };
            }
        }
    }

    /// The symbol at the head of `word`, eight bytes of a string with the first one lowest.
    #[inline(always)]
    pub(super) fn find(&self, word: u64) -> Match {
        let long = &self.long[long_slot(word)];
        let short = self.short[word as usize & 0xffff];
        let is_long = word & long.mask == long.word;
        short.or_if(is_long, long.found)
    }

    /// The symbol at the head of `word`, the last `length` bytes of a string, with zeros behind them.
    #[inline(always)]
    pub(super) fn find_near_end(&self, word: u64, length: usize) -> Match {
        let found = self.find(word);
        if found.length() <= length {
            return found;
        }
        // A symbol that ends in zeros matched what is behind the end.
        let short = self.short[word as usize & 0xffff];
        if short.length() <= length { short } else { self.single[word as usize & 0xff] }
    }

    /// Calls `each` with every symbol of `string` and its first byte, which is what an escape announces.
    #[inline(always)]
    pub(super) fn for_each_match(&self, string: &[u8], mut each: impl FnMut(Match, u8)) {
        let mut rest = string;
        while let Some(word) = rest.first_chunk::<SYMBOL_MAX_BYTES>() {
            let word = u64::from_le_bytes(*word);
            let found = self.find(word);
            each(found, word as u8);
            rest = &rest[found.length()..];
        }
        let mut length = rest.len();
        let mut word = last_word(string, length);
        while length > 0 {
            let found = self.find_near_end(word, length);
            each(found, word as u8);
            length -= found.length();
            word >>= 8 * found.length();
        }
    }

    /// Appends the codes of `string`: at most twice as many bytes.
    pub fn encode(&self, string: &[u8], out: &mut Vec<u8>) {
        // Codes collect in a small buffer, which has no capacity to look after.
        const BUFFER_BYTES: usize = 256;
        let mut codes = [0; BUFFER_BYTES];
        let mut size = 0;
        self.for_each_match(string, |found, first| {
            if size > BUFFER_BYTES - 2 {
                out.extend_from_slice(&codes[..size]);
                size = 0;
            }
            codes[size] = found.code();
            // Kept only behind an escape; written always, to save a branch.
            codes[size + 1] = first;
            size += found.encoded_bytes();
        });
        out.extend_from_slice(&codes[..size]);
    }

    /// Bytes that [`Encoder::encode`] would append for `string`.
    pub fn encoded_size_bytes(&self, string: &[u8]) -> usize {
        let mut size_bytes = 0;
        self.for_each_match(string, |found, _| size_bytes += found.encoded_bytes());
        size_bytes
    }
}
