//! Encoding: at every place the longest symbol that an index of two levels finds (FSST, §5.1).

use super::SymbolTable;
use crate::simd::{ESCAPE, SYMBOL_MAX_BYTES};

/// Slots of the index of long symbols; a power of two.
pub(super) const LONG_SLOTS: usize = 1024;

/// Symbols of three bytes and more, at most one in a slot (the paper's lossy perfect hash).
#[derive(Clone, Copy)]
struct LongSymbol {
    word: u64,
    /// The bits of an eight-byte word that are not the symbol's.
    unused_bits: u8,
    code: u8,
    length: u8,
}

impl LongSymbol {
    /// Matches no word: a word without its highest byte is never all ones.
    const NONE: Self = Self { word: u64::MAX, unused_bits: 8, code: ESCAPE, length: 0 };
}

/// A code and how many bytes of a string it stands for.
#[derive(Clone, Copy)]
pub(super) struct Match {
    pub(super) code: u8,
    pub(super) length: u8,
}

impl Match {
    const ESCAPE: Self = Self { code: ESCAPE, length: 1 };
}

/// A [`SymbolTable`] laid out for encoding: some 150 KiB.
pub struct Encoder {
    long: Box<[LongSymbol; LONG_SLOTS]>,
    /// By the next two bytes, the first one lowest: the symbol of two bytes or else of one.
    short: Box<[Match]>,
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
            short: vec![Match::ESCAPE; 1 << 16].into_boxed_slice(),
            single: [Match::ESCAPE; 256],
        };
        for (code, (word, length)) in table.symbols().enumerate() {
            let found = Match { code: code as u8, length: length as u8 };
            match length {
                1 => encoder.single[word as usize] = found,
                2 => encoder.short[word as usize] = found,
                _ => {
                    let slot = &mut encoder.long[long_slot(word)];
                    if usize::from(slot.length) < length {
                        *slot = LongSymbol {
                            word,
                            unused_bits: (64 - 8 * length) as u8,
                            code: found.code,
                            length: found.length,
                        };
                    }
                }
            }
        }
        for (bytes, found) in encoder.short.iter_mut().enumerate() {
            if found.length == 1 {
                *found = encoder.single[bytes & 0xff];
            }
        }
        encoder
    }

    /// The symbol at the head of `word`, eight bytes of a string with the first one lowest.
    #[inline(always)]
    fn find(&self, word: u64) -> Match {
        let long = &self.long[long_slot(word)];
        let short = self.short[word as usize & 0xffff];
        let is_long = word & (u64::MAX >> long.unused_bits) == long.word;
        // Both are looked up, to choose without a branch.
        if is_long { Match { code: long.code, length: long.length } } else { short }
    }

    /// The symbol at the head of `word`, the last `length` bytes of a string, with zeros behind them.
    #[inline(always)]
    fn find_near_end(&self, word: u64, length: usize) -> Match {
        let found = self.find(word);
        if usize::from(found.length) <= length {
            return found;
        }
        // A symbol that ends in zeros matched what is behind the end.
        let short = self.short[word as usize & 0xffff];
        if usize::from(short.length) <= length { short } else { self.single[word as usize & 0xff] }
    }

    /// Calls `each` with every symbol of `string` and its first byte, which is what an escape announces.
    #[inline(always)]
    pub(super) fn for_each_match(&self, string: &[u8], mut each: impl FnMut(Match, u8)) {
        let mut rest = string;
        while let Some(word) = rest.first_chunk::<SYMBOL_MAX_BYTES>() {
            let found = self.find(u64::from_le_bytes(*word));
            each(found, rest[0]);
            rest = &rest[usize::from(found.length)..];
        }
        let mut length = rest.len();
        let mut word = last_word(string, length);
        while length > 0 {
            let found = self.find_near_end(word, length);
            each(found, word as u8);
            length -= usize::from(found.length);
            word >>= 8 * found.length;
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
            codes[size] = found.code;
            // Kept only behind an escape; written always, to save a branch.
            codes[size + 1] = first;
            size += 1 + usize::from(found.code == ESCAPE);
        });
        out.extend_from_slice(&codes[..size]);
    }

    /// Bytes that [`Encoder::encode`] would append for `string`.
    pub fn encoded_size_bytes(&self, string: &[u8]) -> usize {
        let mut size_bytes = 0;
        self.for_each_match(string, |found, _| size_bytes += 1 + usize::from(found.code == ESCAPE));
        size_bytes
    }
}
