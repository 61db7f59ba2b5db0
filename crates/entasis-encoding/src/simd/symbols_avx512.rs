//! Expansion of codes into symbols with AVX-512: 64 codes at a time are told from escaped bytes and given their places, so that
//! the stores don't wait for each other.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::strings::ROOM;
use super::symbols::{ESCAPE, SymbolError, Symbols};

const _: () = assert!(ROOM >= super::SYMBOL_MAX_BYTES, "there is room for what the last symbol writes too much");

/// Codes in a register.
const REGISTER_CODES: usize = 64;
/// Codes that are expanded between two looks at where strings end.
const BLOCK_CODES: usize = 8 * REGISTER_CODES;

/// Every second bit, from the lowest on.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Of up to 64 codes, which are bytes behind an escape: an escape that follows one is such a byte itself. Runs of escapes are
/// told apart by the parity of where they begin and end (Langdale, Lemire: Parsing gigabytes of JSON per second, VLDB Journal
/// 2019, §3.1.1). `carry` is 1 where the code before was an escape, and afterwards where the last of 64 is.
#[inline(always)]
fn escaped(escapes: u64, carry: &mut u64) -> u64 {
    let before = *carry;
    let escapes = escapes & !before;
    let follows = escapes << 1 | before;
    let odd_starts = escapes & !EVEN & !follows;
    let (even_ends, overflow) = odd_starts.overflowing_add(escapes);
    *carry = u64::from(overflow);
    (EVEN ^ even_ends << 1) & follows
}

/// What is known of 64 codes.
struct Codes {
    codes: __m512i,
    /// Bytes of each: none for escapes, for what lies behind the last code, and for codes without a symbol.
    lengths: __m512i,
    /// Which are bytes behind an escape.
    literals: u64,
    /// Whether one has no symbol.
    unknown: bool,
}

/// The lengths of all symbols, in registers.
struct Lengths {
    quarters: [__m512i; 4],
    count: __m512i,
}

impl Lengths {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    fn new(symbols: &Symbols) -> Self {
        // SAFETY: each quarter of the 256 lengths fills a register.
        let quarter = |quarter: usize| unsafe { _mm512_loadu_epi8(symbols.lengths.as_ptr().add(quarter * 64).cast()) };
        let quarters = [quarter(0), quarter(1), quarter(2), quarter(3)];
        Self { quarters, count: _mm512_set1_epi8(symbols.count as i8) }
    }

    /// Looks at the first 64 of `codes`, or at all.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    fn look(&self, codes: &[u8], carry: &mut u64) -> Codes {
        let count = codes.len().min(REGISTER_CODES);
        let there = if count == REGISTER_CODES { u64::MAX } else { (1 << count) - 1 };
        // SAFETY: lanes behind the last code aren't read.
        let register = unsafe { _mm512_maskz_loadu_epi8(there, codes.as_ptr().cast()) };
        let escapes = _mm512_cmpeq_epi8_mask(register, _mm512_set1_epi8(ESCAPE as i8));
        let literals = match (escapes, *carry) {
            (0, 0) => 0,
            _ => escaped(escapes, carry),
        };
        if count < REGISTER_CODES {
            *carry = literals >> count & 1;
        }
        let low = _mm512_permutex2var_epi8(self.quarters[0], register, self.quarters[1]);
        let high = _mm512_permutex2var_epi8(self.quarters[2], register, self.quarters[3]);
        let lengths = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(register), high);
        let lengths = _mm512_mask_mov_epi8(lengths, literals, _mm512_set1_epi8(1));
        let unknown = _mm512_cmpge_epu8_mask(register, self.count) & !escapes & !literals & there;
        Codes {
            codes: register,
            lengths: _mm512_maskz_mov_epi8(there, lengths),
            literals: literals & there,
            unknown: unknown != 0,
        }
    }
}

/// Bytes that all of `codes` stand for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn measure(lengths: &Lengths, codes: &[u8]) -> Result<usize, SymbolError> {
    let (mut sums, mut carry, mut unknown) = (_mm512_setzero_si512(), 0, false);
    for codes in codes.chunks(REGISTER_CODES) {
        let looked = lengths.look(codes, &mut carry);
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(looked.lengths, _mm512_setzero_si512()));
        unknown |= looked.unknown;
    }
    match (unknown, carry) {
        (true, _) => Err(SymbolError::UnknownCode),
        (_, 1) => Err(SymbolError::TruncatedEscape),
        _ => Ok(_mm512_reduce_add_epi64(sums) as usize),
    }
}

/// As [`Symbols::expand`], of codes that end with the last string; `ends` must ascend.
///
/// # Errors
/// As [`Symbols::expand`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) fn expand(
    symbols: &Symbols,
    codes: &[u8],
    ends: &[u32],
    out: &mut Vec<u8>,
    limit_bytes: usize,
    out_ends: &mut Vec<i32>,
) -> Result<(), SymbolError> {
    let lengths = Lengths::new(symbols);
    let total = measure(&lengths, codes)?;
    if total > limit_bytes {
        return Err(SymbolError::TooLong { limit_bytes });
    }
    // More room than one symbol: kernels that put strings together want some bytes behind them.
    out.reserve(total + ROOM);
    out_ends.reserve(ends.len());
    let start = out.len();
    let (room, end_room) = (out.spare_capacity_mut(), &mut out_ends.spare_capacity_mut()[..ends.len()]);
    let mut block =
        Block { places: [0; BLOCK_CODES + 1], indices: [0; BLOCK_CODES], literals: [0; BLOCK_CODES / 64 + 1] };
    let (mut size, mut carry, mut block_start) = (0, 0, 0);
    let mut strings = ends.iter().zip(end_room).peekable();
    for codes in codes.chunks(BLOCK_CODES) {
        let begin = size;
        for (register, codes) in codes.chunks(REGISTER_CODES).enumerate() {
            let looked = lengths.look(codes, &mut carry);
            size += block.place(register, &looked, size - begin);
        }
        let registers = codes.len().div_ceil(REGISTER_CODES);
        // SAFETY: `measure` found all codes to stand for `total` bytes, for which and one more symbol there is room.
        unsafe { block.store(symbols, registers, room.as_mut_ptr().add(begin)) };
        block.places[codes.len()] = (size - begin) as u32;
        block.literals[codes.len() / 64] &= !(u64::MAX << (codes.len() % 64));
        block.literals[codes.len() / 64] |= carry << (codes.len() % 64);
        let (block_end, mut inside) = ((block_start + codes.len()) as u32, 0);
        while let Some((&end, place)) = strings.next_if(|(end, _)| **end <= block_end) {
            let at = end as usize - block_start;
            inside |= block.literals[at / 64] >> (at % 64);
            place.write((start + begin + block.places[at] as usize) as i32);
        }
        if inside & 1 == 1 {
            return Err(SymbolError::TruncatedEscape);
        }
        block_start += codes.len();
    }
    debug_assert!(size == total && strings.next().is_none(), "the last string ends with the codes");
    // SAFETY: the stores filled the first `total` bytes of the spare capacity, one symbol behind the other. The ends ascend to that of
    // the codes, so that each lay in a block and was written.
    unsafe {
        out.set_len(start + total);
        out_ends.set_len(out_ends.len() + ends.len());
    }
    Ok(())
}

/// Where the symbols of some codes go.
struct Block {
    /// Of each code, and behind them where the next symbol goes, from the block's beginning.
    places: [u32; BLOCK_CODES + 1],
    /// Of each code among the symbols and literal bytes.
    indices: [u16; BLOCK_CODES],
    /// A bit per code, set for bytes behind an escape.
    literals: [u64; BLOCK_CODES / 64 + 1],
}

impl Block {
    /// Notes places and indices of register `register`, whose first symbol goes to `from`; its bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    #[inline]
    fn place(&mut self, register: usize, looked: &Codes, from: usize) -> usize {
        let zero = _mm512_setzero_si512();
        // Sums in each group of eight, of which the highest byte holds that of all: at most 64.
        let mut sums = looked.lengths;
        sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<8>(sums));
        sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<16>(sums));
        sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<32>(sums));
        let within = _mm512_sub_epi8(sums, looked.lengths);
        let groups = _mm512_srli_epi64::<56>(sums);
        let mut behind = groups;
        behind = _mm512_add_epi64(behind, _mm512_alignr_epi64::<7>(behind, zero));
        behind = _mm512_add_epi64(behind, _mm512_alignr_epi64::<6>(behind, zero));
        behind = _mm512_add_epi64(behind, _mm512_alignr_epi64::<4>(behind, zero));
        let before = _mm512_sub_epi64(behind, groups);
        let size = _mm_extract_epi64::<1>(_mm512_extracti64x2_epi64::<3>(behind)) as usize;
        let from = _mm512_set1_epi32(from as i32);
        let halves = |bytes: __m512i| {
            let high = _mm512_extracti64x4_epi64::<1>(bytes);
            [_mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)), _mm512_cvtepu8_epi16(high)]
        };
        let (within, codes) = (halves(within), halves(looked.codes));
        // The sum before its group for each code: eight codes a group.
        let first_groups = _mm512_srli_epi16::<3>(_mm512_set_epi16(
            31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4,
            3, 2, 1, 0,
        ));
        for half in 0..2 {
            let group = _mm512_add_epi16(first_groups, _mm512_set1_epi16(4 * half as i16));
            let sums = _mm512_permutexvar_epi16(_mm512_slli_epi16::<2>(group), before);
            let places = _mm512_add_epi16(within[half], sums);
            let high = _mm512_extracti64x4_epi64::<1>(places);
            let places = [_mm512_cvtepu16_epi32(_mm512_castsi512_si256(places)), _mm512_cvtepu16_epi32(high)];
            let literals = (looked.literals >> (32 * half)) as u32;
            let literal = _mm512_set1_epi16(256);
            let indices = _mm512_mask_add_epi16(codes[half], literals, codes[half], literal);
            let at = register * REGISTER_CODES + 32 * half;
            let into = &mut self.places[at..at + 32];
            // SAFETY: 32 places and 32 indices are written.
            unsafe {
                _mm512_storeu_epi32(into.as_mut_ptr().cast(), _mm512_add_epi32(places[0], from));
                _mm512_storeu_epi32(into.as_mut_ptr().add(16).cast(), _mm512_add_epi32(places[1], from));
                _mm512_storeu_epi16(self.indices[at..at + 32].as_mut_ptr().cast(), indices);
            }
        }
        self.literals[register] = looked.literals;
        size
    }

    /// Stores the symbols of some registers, each from its place in `to` on; what one writes too much, the next overwrites. Not
    /// inlined, so that it isn't compiled for AVX-512: scattered by that, the stores take twice as long.
    ///
    /// # Safety
    /// There is room for all symbols and one more, and no index is 512 or more.
    #[inline(never)]
    unsafe fn store(&self, symbols: &Symbols, registers: usize, to: *mut MaybeUninit<u8>) {
        let indices = self.indices.as_chunks::<REGISTER_CODES>().0;
        let places = self.places.as_chunks::<REGISTER_CODES>().0;
        for (indices, places) in indices.iter().zip(places).take(registers) {
            for (&index, &place) in indices.iter().zip(places) {
                // SAFETY: as the caller says.
                unsafe {
                    let word = *symbols.words.get_unchecked(usize::from(index));
                    to.add(place as usize).cast::<u64>().write_unaligned(word);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values;

    #[test]
    fn bytes_behind_escapes_are_those_of_the_definition() {
        let mut carry = 0;
        let mut before = false;
        for word in test_values::random(4).take(20_000) {
            // Many escapes, few, and all.
            let escapes = match word % 4 {
                0 => u64::MAX,
                1 => word,
                2 => word & word.rotate_left(13) & word.rotate_left(29),
                _ => word | word.rotate_left(31),
            };
            let mut expected = 0;
            for bit in 0..64 {
                expected |= u64::from(before) << bit;
                before = !before && escapes >> bit & 1 == 1;
            }
            assert_eq!(escaped(escapes, &mut carry), expected, "{escapes:x}");
            assert_eq!(carry == 1, before);
        }
    }
}
