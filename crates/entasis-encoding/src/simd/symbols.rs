//! Expansion of one-byte codes into symbols of up to 8 bytes: every symbol is stored as 8 bytes, of which the next
//! store overwrites what is too much (Boncz, Neumann, Leis: FSST, VLDB 2020, §3).

use std::mem::MaybeUninit;

use super::Level;

/// The code that says that the next byte stands for itself.
pub const ESCAPE: u8 = 255;

/// The longest symbol, which is also what one store writes.
pub const SYMBOL_MAX_BYTES: usize = 8;

/// Why codes cannot be expanded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SymbolError {
    /// A string ends with an escape, without the byte that it announces.
    #[error("a string ends inside an escape")]
    TruncatedEscape,
    /// A code without a symbol.
    #[error("a code has no symbol")]
    UnknownCode,
    /// The strings are longer than the limit.
    #[error("decoded strings exceed {limit_bytes} bytes")]
    TooLong {
        /// The limit that was given.
        limit_bytes: usize,
    },
    /// The ends of strings fall, or lie beyond the codes.
    #[error("the ends of encoded strings are out of order or beyond the codes")]
    Ends,
}

/// Symbols by code, laid out for expansion.
#[derive(Clone)]
pub struct Symbols {
    /// The symbol's bytes, the first one lowest; zero beyond its length. Behind the symbols every byte by itself.
    pub(super) words: [u64; 512],
    /// 1 to 8; 0 for codes without a symbol.
    pub(super) lengths: [u8; 256],
    /// Codes from this one on have no symbol.
    pub(super) count: u8,
}

impl Symbols {
    /// Symbols for the codes from 0, or nothing if a symbol has not 1 to 8 bytes or there are more than 255.
    pub fn new<'a>(symbols: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut table = Self { words: [0; 512], lengths: [0; 256], count: 0 };
        (0..).zip(&mut table.words[256..]).for_each(|(byte, word)| *word = byte);
        for (code, symbol) in symbols.into_iter().enumerate() {
            if code >= usize::from(ESCAPE) || symbol.is_empty() || symbol.len() > SYMBOL_MAX_BYTES {
                return None;
            }
            let mut word = [0; SYMBOL_MAX_BYTES];
            word[..symbol.len()].copy_from_slice(symbol);
            table.words[code] = u64::from_le_bytes(word);
            table.lengths[code] = symbol.len() as u8;
            table.count += 1;
        }
        Some(table)
    }

    /// The symbol of `code`, its first byte lowest, and its length in bytes; the length is 0 where there is none.
    #[inline]
    pub fn get(&self, code: u8) -> (u64, usize) {
        (self.words[usize::from(code)], usize::from(self.lengths[usize::from(code)]))
    }

    /// Appends the strings that `codes` stand for: string `k` is encoded in the codes from `ends[k - 1]` (the first
    /// from 0) to below `ends[k]`. Appends to `out_ends` the length of `out` after each string, of which the low bits are kept.
    /// Appends at most `limit_bytes`.
    ///
    /// # Errors
    /// Any [`SymbolError`]; nothing is appended then.
    pub fn expand(
        &self,
        codes: &[u8],
        ends: &[u32],
        out: &mut Vec<u8>,
        limit_bytes: usize,
        out_ends: &mut Vec<i32>,
    ) -> Result<(), SymbolError> {
        self.expand_at(Level::detect(), codes, ends, out, limit_bytes, out_ends)
    }

    /// [`expand`](Self::expand) at a given level.
    ///
    /// # Errors
    /// As [`expand`](Self::expand).
    pub fn expand_at(
        &self,
        level: Level,
        codes: &[u8],
        ends: &[u32],
        out: &mut Vec<u8>,
        limit_bytes: usize,
        out_ends: &mut Vec<i32>,
    ) -> Result<(), SymbolError> {
        let Some(&last_end) = ends.last() else { return Ok(()) };
        let codes = codes.get(..last_end as usize).ok_or(SymbolError::Ends)?;
        if !super::ascends_at(level, ends) {
            return Err(SymbolError::Ends);
        }
        #[cfg(target_arch = "x86_64")]
        if level.or_scalar() == Level::Avx512 && codes.len() >= WORTHWHILE_CODES {
            // SAFETY: `or_scalar` returns this level only where the processor has its features.
            return unsafe { super::symbols_avx512::expand(self, codes, ends, out, limit_bytes, out_ends) };
        }
        self.check_known(codes)?;
        let string_count = out_ends.len();
        out_ends.reserve(ends.len());
        let result = self.expand_portably(codes, ends, out, limit_bytes, |end| out_ends.push(end as i32));
        if result.is_err() {
            out_ends.truncate(string_count);
        }
        result
    }

    /// As [`expand`](Self::expand), of known codes that end with the last string; `ends` must ascend. Calls `string_end` with the
    /// length of `out` after each string, before a fault is found too.
    fn expand_portably(
        &self,
        codes: &[u8],
        ends: &[u32],
        out: &mut Vec<u8>,
        limit_bytes: usize,
        mut string_end: impl FnMut(usize),
    ) -> Result<(), SymbolError> {
        // No more than eight bytes come from a code, so that a generous limit does not become an allocation. Places
        // have 32 bits.
        let limit = limit_bytes.min(codes.len().saturating_mul(SYMBOL_MAX_BYTES)).min(INSIDE_ESCAPE as usize - 1);
        out.reserve(limit + SYMBOL_MAX_BYTES);
        let start = out.len();
        let room = &mut out.spare_capacity_mut()[..limit + SYMBOL_MAX_BYTES];
        let mut expansion = Expansion { symbols: self, room, limit, size: 0 };

        // Strings end too often for a loop over each: codes are expanded as one stream, in blocks, and the ends of
        // strings are looked up among the places that the codes of a block had.
        let mut places = [0; BLOCK_CODES + 2];
        let mut block_start = 0;
        let mut ends = ends.iter().map(|&end| end as usize).peekable();
        loop {
            let next = expansion.push_block(codes, block_start, &mut places)?;
            while let Some(end) = ends.next_if(|&end| end <= next) {
                match places[end - block_start] {
                    INSIDE_ESCAPE => return Err(SymbolError::TruncatedEscape),
                    place => string_end(start + place as usize),
                }
            }
            if next == codes.len() {
                break;
            }
            block_start = next;
        }
        let size = expansion.size;
        // SAFETY: the blocks filled the first `size` bytes of the spare capacity, one behind the other.
        unsafe { out.set_len(start + size) };
        Ok(())
    }

    /// That every code has a symbol. Codes are looked at one by one only where a byte is none, which may be an escaped
    /// one.
    fn check_known(&self, codes: &[u8]) -> Result<(), SymbolError> {
        let is_unknown = |code: u8| code >= self.count && code != ESCAPE;
        if self.count == ESCAPE || !codes.iter().fold(false, |any, &code| any | is_unknown(code)) {
            return Ok(());
        }
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                codes.next();
            } else if is_unknown(code) {
                return Err(SymbolError::UnknownCode);
            }
        }
        Ok(())
    }
}

/// Fewer codes aren't worth what is prepared for many.
#[cfg(target_arch = "x86_64")]
const WORTHWHILE_CODES: usize = 32;

/// Codes that are expanded between two looks at where strings end.
const BLOCK_CODES: usize = 512;

/// The place of a byte behind an escape, where no string ends.
const INSIDE_ESCAPE: u32 = u32::MAX;

/// Strings being expanded.
struct Expansion<'a> {
    symbols: &'a Symbols,
    /// `limit` bytes, and behind them those that the last symbol may write too much.
    room: &'a mut [MaybeUninit<u8>],
    limit: usize,
    /// Bytes of `room` that are filled: at most `limit`.
    size: usize,
}

impl Expansion<'_> {
    /// Expands the codes from `start` on, some [`BLOCK_CODES`] of them, and returns where the next code is. `places`
    /// then holds the size before each code of the block and before the next.
    #[inline(always)]
    fn push_block(
        &mut self,
        codes: &[u8],
        start: usize,
        places: &mut [u32; BLOCK_CODES + 2],
    ) -> Result<usize, SymbolError> {
        let block = &codes[start..codes.len().min(start + BLOCK_CODES)];
        let mut at = 0;
        loop {
            at = self.push_fours(block, at, places);
            places[at] = self.size as u32;
            // Near the end of the block or of the room, one code at a time.
            let Some(&code) = block.get(at) else { return Ok(start + at) };
            at += 1;
            if code == ESCAPE {
                // The byte may lie behind the block.
                let byte = codes.get(start + at).ok_or(SymbolError::TruncatedEscape)?;
                places[at] = INSIDE_ESCAPE;
                at += 1;
                self.room[self.size].write(*byte);
                self.size += 1;
            } else {
                let (word, length) = self.symbols.get(code);
                // SAFETY: `size` is at most `limit`, as it was before the block and is after every step.
                unsafe { self.store(self.size, word) };
                self.size += length;
            }
            if self.size > self.limit {
                return Err(SymbolError::TooLong { limit_bytes: self.limit });
            }
        }
    }

    /// Expands codes four at a time while that many and one more are left in `block` and all have room; returns where
    /// the next code is.
    #[inline(always)]
    fn push_fours(&mut self, block: &[u8], mut at: usize, places: &mut [u32; BLOCK_CODES + 2]) -> usize {
        let mut size = self.size;
        while let Some(five) = block.get(at..at + 5)
            && let Some(places) = places.get_mut(at..at + 5)
            && size + 4 * SYMBOL_MAX_BYTES <= self.limit
        {
            let escapes = escapes(u32::from_le_bytes([five[0], five[1], five[2], five[3]]));
            if escapes == 0 {
                for index in 0..4 {
                    let (word, length) = self.symbols.get(five[index]);
                    places[index] = size as u32;
                    // SAFETY: before each of the four, `size` is at most `limit - 8`.
                    unsafe { self.store(size, word) };
                    size += length;
                }
                at += 4;
                continue;
            }
            // Symbols behind the escape are written in vain and not counted: how many there are, no branch can predict.
            let escape = escapes.trailing_zeros() as usize / 8;
            for index in 0..3 {
                let (word, length) = self.symbols.get(five[index]);
                places[index] = size as u32;
                // SAFETY: as above.
                unsafe { self.store(size, word) };
                size += if index < escape { length } else { 0 };
            }
            places[escape] = size as u32;
            places[escape + 1] = INSIDE_ESCAPE;
            self.room[size].write(five[escape + 1]);
            size += 1;
            at += escape + 2;
        }
        self.size = size;
        at
    }

    /// # Safety
    /// `at` is at most `limit`.
    #[inline(always)]
    unsafe fn store(&mut self, at: usize, word: u64) {
        // SAFETY: `room` holds eight bytes from every place up to `limit`.
        unsafe { self.room.as_mut_ptr().add(at).cast::<u64>().write_unaligned(word) };
    }
}

/// The highest bit of each byte that is [`ESCAPE`], and perhaps of bytes above the lowest such (Warren, Hacker's
/// Delight, §6-1, on the complement).
#[inline(always)]
fn escapes(four: u32) -> u32 {
    (!four).wrapping_sub(0x0101_0101) & four & 0x8080_8080
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values;
    use proptest::prelude::*;

    fn symbols() -> (Vec<Vec<u8>>, Symbols) {
        let symbols: Vec<Vec<u8>> = (0..200u8).map(|code| vec![code; 1 + usize::from(code) % 8]).collect();
        let table = Symbols::new(symbols.iter().map(Vec::as_slice)).unwrap();
        (symbols, table)
    }

    /// Expands one string by the definition.
    fn expand_naively(symbols: &[Vec<u8>], codes: &[u8]) -> Result<Vec<u8>, SymbolError> {
        let (mut out, mut codes) = (Vec::new(), codes.iter());
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                out.push(*codes.next().ok_or(SymbolError::TruncatedEscape)?);
            } else {
                out.extend_from_slice(symbols.get(usize::from(code)).ok_or(SymbolError::UnknownCode)?);
            }
        }
        Ok(out)
    }

    proptest! {
        #[test]
        fn strings_are_those_of_the_definition(
            strings in prop::collection::vec(prop::collection::vec(prop_oneof![20 => 0u8..200, 3 => Just(255), 1 => 250u8..255], 0..200), 0..30),
            shortage in 0usize..40,
        ) {
            let (list, table) = symbols();
            let codes = strings.concat();
            let ends: Vec<u32> = strings.iter().scan(0, |end, string| {
                *end += string.len() as u32;
                Some(*end)
            }).collect();
            let expected: Result<Vec<Vec<u8>>, _> = strings.iter().map(|codes| expand_naively(&list, codes)).collect();
            let (mut out, mut out_ends) = (b"before".to_vec(), Vec::new());
            let Ok(expected) = expected else {
                for level in Level::available() {
                    prop_assert!(table.expand_at(level, &codes, &ends, &mut out, 10_000, &mut out_ends).is_err());
                    prop_assert_eq!(&out, b"before");
                }
                return Ok(());
            };
            let whole = [&b"before"[..], &expected.concat()].concat();
            let size = whole.len() - 6;
            // With exactly enough, with more, and with too little.
            let limits = [size, size + shortage, usize::MAX, size.saturating_sub(shortage)];
            for (limit, level) in limits.into_iter().flat_map(|limit| Level::available().into_iter().map(move |level| (limit, level))) {
                out_ends.clear();
                let result = table.expand_at(level, &codes, &ends, &mut out, limit, &mut out_ends);
                if limit < size {
                    prop_assert_eq!(result, Err(SymbolError::TooLong { limit_bytes: limit }));
                    prop_assert_eq!(&out, b"before");
                    continue;
                }
                prop_assert_eq!(result, Ok(()));
                prop_assert_eq!(&out, &whole);
                let mut at = 6;
                let ends_match = expected.iter().zip(&out_ends).all(|(string, &end)| { at += string.len(); at == end as usize });
                prop_assert!(ends_match && out_ends.len() == strings.len());
                out.truncate(6);
            }
        }
    }

    /// Codes of short strings, empty ones among them, of which a block has many; strings end where registers and blocks do.
    #[test]
    fn ends_of_many_short_strings_are_those_of_the_definition() {
        let (list, table) = symbols();
        for longest in [1, 2, 7, 64] {
            let code =
                |word: u64| if word.is_multiple_of(9) { vec![ESCAPE, word as u8] } else { vec![(word % 200) as u8] };
            let words: Vec<u64> = test_values::random(longest).take(5000).collect();
            let strings: Vec<Vec<u8>> = words
                .chunk_by(|left, _| left >> 32 & 3 != 0)
                .flat_map(|words| words.chunks(longest as usize))
                .map(|words| words.iter().flat_map(|&word| code(word)).collect())
                .flat_map(|string| [string, Vec::new()])
                .collect();
            let (mut ends, mut expected, mut expected_ends) = (vec![0], b"before".to_vec(), vec![6]);
            for string in &strings {
                ends.push(ends[ends.len() - 1] + string.len() as u32);
                expected.extend(expand_naively(&list, string).unwrap());
                expected_ends.push(expected.len() as i32);
            }
            for level in Level::available() {
                let (mut out, mut out_ends) = (b"before".to_vec(), Vec::new());
                table.expand_at(level, &strings.concat(), &ends, &mut out, usize::MAX, &mut out_ends).unwrap();
                assert!(out == expected && out_ends == expected_ends, "up to {longest} codes at {level:?}");
            }
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        let (_, table) = symbols();
        let expand =
            |codes: &[u8], ends: &[u32], limit| table.expand(codes, ends, &mut Vec::new(), limit, &mut Vec::new());
        assert_eq!(expand(&[1, ESCAPE, 7], &[2, 3], 99), Err(SymbolError::TruncatedEscape));
        assert_eq!(expand(&[1, 200], &[2], 99), Err(SymbolError::UnknownCode));
        assert_eq!(expand(&[1; 100], &[100], 199), Err(SymbolError::TooLong { limit_bytes: 199 }));
        assert_eq!(expand(&[ESCAPE, 1], &[2], 0), Err(SymbolError::TooLong { limit_bytes: 0 }));
        assert_eq!(expand(&[1, 1], &[2, 1], 99), Err(SymbolError::Ends));
        assert_eq!(expand(&[1, 1], &[3], 99), Err(SymbolError::Ends));
        assert_eq!(expand(&[], &[], 0), Ok(()));
    }

    #[test]
    fn faults_among_many_codes_are_found_on_every_level() {
        let (_, table) = symbols();
        for (level, count) in
            Level::available().into_iter().flat_map(|level| [63, 64, 512, 513].map(|count| (level, count)))
        {
            let expand = |codes: &[u8], ends: &[u32]| {
                table.expand_at(level, codes, ends, &mut Vec::new(), 9999, &mut Vec::new())
            };
            let (good, end) = (vec![7; count], count as u32);
            let with = |at: usize, code| {
                good.iter().enumerate().map(|(index, &good)| if index == at { code } else { good }).collect::<Vec<_>>()
            };
            assert_eq!(expand(&good, &[end, end]), Ok(()));
            assert_eq!(expand(&good, &[5, 4, end]), Err(SymbolError::Ends));
            assert_eq!(expand(&good, &[end, end - 1]), Err(SymbolError::Ends));
            assert_eq!(expand(&with(count - 1, ESCAPE), &[end]), Err(SymbolError::TruncatedEscape));
            assert_eq!(expand(&with(40, ESCAPE), &[end]), Ok(()));
            assert_eq!(expand(&with(40, ESCAPE), &[41, end]), Err(SymbolError::TruncatedEscape));
            assert_eq!(expand(&with(40, 200), &[end]), Err(SymbolError::UnknownCode));
        }
    }

    #[test]
    fn tables_hold_only_short_symbols_below_the_escape() {
        assert!(Symbols::new([&[][..]]).is_none());
        assert!(Symbols::new([&[1; 9][..]]).is_none());
        assert!(Symbols::new([&[1][..]; 256]).is_none());
        let table = Symbols::new([&[1, 2][..]; 255]).unwrap();
        assert_eq!(table.get(254), (0x0201, 2));
        assert_eq!(table.get(ESCAPE), (0, 0));
    }

    #[test]
    fn escapes_are_found_in_every_place() {
        for bytes in test_values::random(9).take(10_000) {
            // Bytes of 254 and 255 more often than chance has them.
            let four = (bytes as u32) | (bytes >> 32) as u32 | 0x7e7e_7e7e;
            let first = four.to_le_bytes().iter().position(|&code| code == ESCAPE);
            let found = escapes(four);
            assert_eq!((found != 0).then(|| found.trailing_zeros() as usize / 8), first, "{four:x}");
        }
    }
}
