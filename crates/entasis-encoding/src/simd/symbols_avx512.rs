//! Expansion of codes into symbols with AVX-512: 64 codes at a time are told from escaped bytes and given the masks of their
//! symbols, by which eight symbols at a time are gathered, moved together in a register and stored.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::strings::ROOM;
use super::symbols::{ESCAPE, SymbolError, Symbols};

const _: () = assert!(ROOM >= REGISTER_CODES, "there is room for what the last store writes too much");

/// Codes in a register, and bytes of the symbols that are stored at once.
const REGISTER_CODES: usize = 64;
/// Symbols that are stored at once.
const GROUP_CODES: usize = 8;
/// Ends of strings in a register.
const REGISTER_ENDS: usize = 16;
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
struct Looked {
    codes: __m512i,
    /// As many low bits as the symbol of each code has bytes: none for escapes, for what lies behind the last code, and for codes
    /// without a symbol.
    masks: __m512i,
    /// Which are bytes behind an escape; what lies behind the last code may be one.
    literals: u64,
    /// Whether one has no symbol.
    unknown: bool,
}

/// The masks of all symbols, in registers.
struct Masks {
    quarters: [__m512i; 4],
    count: __m512i,
}

impl Masks {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    fn new(symbols: &Symbols) -> Self {
        // By length, which is at most 8.
        let masks = _mm512_broadcast_i32x4(_mm_set_epi64x(0xFF, 0x7F3F_1F0F_0703_0100));
        // SAFETY: each quarter of the 256 lengths fills a register.
        let lengths = |quarter: usize| unsafe { _mm512_loadu_epi8(symbols.lengths.as_ptr().add(quarter * 64).cast()) };
        let quarters = [0, 1, 2, 3].map(|quarter| _mm512_shuffle_epi8(masks, lengths(quarter)));
        Self { quarters, count: _mm512_set1_epi8(symbols.count as i8) }
    }

    /// Looks at the first 64 of `codes`, or at all.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    #[inline]
    fn look(&self, codes: &[u8], carry: &mut u64) -> Looked {
        let count = codes.len().min(REGISTER_CODES);
        let there = if count == REGISTER_CODES { u64::MAX } else { (1 << count) - 1 };
        // SAFETY: lanes behind the last code aren't read.
        let register = unsafe { _mm512_maskz_loadu_epi8(there, codes.as_ptr().cast()) };
        let escapes = _mm512_cmpeq_epi8_mask(register, _mm512_set1_epi8(ESCAPE as i8));
        let literals = escaped(escapes, carry);
        if count < REGISTER_CODES {
            *carry = literals >> count & 1;
        }
        let low = _mm512_permutex2var_epi8(self.quarters[0], register, self.quarters[1]);
        let high = _mm512_permutex2var_epi8(self.quarters[2], register, self.quarters[3]);
        let masks = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(register), high);
        let masks = _mm512_mask_mov_epi8(masks, literals, _mm512_set1_epi8(1));
        let unknown = _mm512_cmpge_epu8_mask(register, self.count) & !escapes & !literals & there;
        Looked { codes: register, masks: _mm512_maskz_mov_epi8(there, masks), literals, unknown: unknown != 0 }
    }
}

/// Bytes that all of `codes` stand for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq")]
fn measure(masks: &Masks, codes: &[u8]) -> Result<usize, SymbolError> {
    let (mut sums, mut carry, mut unknown) = (_mm512_setzero_si512(), 0, false);
    for codes in codes.chunks(REGISTER_CODES) {
        let looked = masks.look(codes, &mut carry);
        sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(looked.masks));
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi1,bmi2,popcnt"
)]
pub(super) fn expand(
    symbols: &Symbols,
    codes: &[u8],
    ends: &[u32],
    out: &mut Vec<u8>,
    limit_bytes: usize,
    out_ends: &mut Vec<i32>,
) -> Result<(), SymbolError> {
    let masks = Masks::new(symbols);
    let total = measure(&masks, codes)?;
    if total > limit_bytes {
        return Err(SymbolError::TooLong { limit_bytes });
    }
    out.reserve(total + ROOM);
    out_ends.reserve(ends.len());
    let start = out.len();
    let (room, end_room) = (out.spare_capacity_mut(), &mut out_ends.spare_capacity_mut()[..ends.len()]);
    let (mut block, mut size, mut carry, mut block_start, mut ended) = (Block::new(), 0, 0, 0, 0);
    for codes in codes.chunks(BLOCK_CODES) {
        block.look(&masks, codes, &mut carry);
        // SAFETY: `measure` found all codes to stand for `total` bytes, for which and a whole register there is room; those before
        // the block stand for `size`.
        size = unsafe { block.store(symbols, codes.len(), room.as_mut_ptr().cast(), size) };
        let block_end = block_start + codes.len();
        // The ends ascend, and those below the block's codes were met before it.
        ended += block.place_ends(block_start..block_end, start, &ends[ended..], &mut end_room[ended..])?;
        block_start = block_end;
    }
    debug_assert!(size == total && ended == ends.len(), "the last string ends with the codes");
    // SAFETY: the stores filled the first `total` bytes of the spare capacity, one symbol behind the other. The ends ascend to that of
    // the codes, so that each lay in a block and was written.
    unsafe {
        out.set_len(start + total);
        out_ends.set_len(out_ends.len() + ends.len());
    }
    Ok(())
}

/// In [`Block::within`], says that a byte stands behind an escape.
const LITERAL: u8 = 0x80;

/// Some codes, and where their symbols go.
struct Block {
    /// Of each code among the symbols and literal bytes.
    indices: [u16; BLOCK_CODES],
    /// Of each group the masks of its symbols, a byte each.
    masks: [u64; BLOCK_CODES / GROUP_CODES],
    /// Where the symbols of each group go; at last where the next symbol goes.
    places: [u32; BLOCK_CODES / GROUP_CODES + 1],
    /// Of each code, and of the one behind them, bytes of the symbols before it in its group, and [`LITERAL`]; and what is read with
    /// those, four at a time.
    within: [u8; BLOCK_CODES + 4],
}

impl Block {
    fn new() -> Self {
        Self {
            indices: [0; BLOCK_CODES],
            masks: [0; BLOCK_CODES / GROUP_CODES],
            places: [0; BLOCK_CODES / GROUP_CODES + 1],
            within: [0; BLOCK_CODES + 4],
        }
    }

    /// Notes indices and masks of at most [`BLOCK_CODES`] codes and what lies before each in its group. `carry` is as for [`escaped`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bitalg")]
    #[inline]
    fn look(&mut self, masks: &Masks, codes: &[u8], carry: &mut u64) {
        for (register, codes) in codes.chunks(REGISTER_CODES).enumerate() {
            let looked = masks.look(codes, carry);
            let lengths = _mm512_popcnt_epi8(looked.masks);
            // Sums in each group of eight: at most 64.
            let mut sums = lengths;
            sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<8>(sums));
            sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<16>(sums));
            sums = _mm512_add_epi8(sums, _mm512_slli_epi64::<32>(sums));
            let before = _mm512_sub_epi8(sums, lengths);
            let before = _mm512_mask_add_epi8(before, looked.literals, before, _mm512_set1_epi8(LITERAL as i8));
            let index = |half: __m256i, literals: u32| {
                let codes = _mm512_cvtepu8_epi16(half);
                _mm512_mask_add_epi16(codes, literals, codes, _mm512_set1_epi16(256))
            };
            let low = index(_mm512_castsi512_si256(looked.codes), looked.literals as u32);
            let high = index(_mm512_extracti64x4_epi64::<1>(looked.codes), (looked.literals >> 32) as u32);
            let (at, group) = (register * REGISTER_CODES, register * REGISTER_CODES / GROUP_CODES);
            let indices = &mut self.indices[at..at + REGISTER_CODES];
            let (masks, within) = (&mut self.masks[group..group + 8], &mut self.within[at..at + REGISTER_CODES]);
            // SAFETY: the slices are as long as what is written: two registers, one, and one.
            unsafe {
                _mm512_storeu_epi16(indices.as_mut_ptr().cast(), low);
                _mm512_storeu_epi16(indices.as_mut_ptr().add(32).cast(), high);
                _mm512_storeu_epi64(masks.as_mut_ptr().cast(), looked.masks);
                _mm512_storeu_epi8(within.as_mut_ptr().cast(), before);
            }
        }
        if codes.len().is_multiple_of(REGISTER_CODES) {
            self.within[codes.len()] = (*carry as u8) * LITERAL;
        }
    }

    /// Stores the symbols of the first `count` codes from `to + at` on, and notes where; where the next goes.
    ///
    /// # Safety
    /// There is room for all symbols and a register more, and every index is below 512.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    #[inline]
    unsafe fn store(&mut self, symbols: &Symbols, count: usize, to: *mut u8, mut at: usize) -> usize {
        let groups = count.next_multiple_of(REGISTER_CODES) / GROUP_CODES;
        let indices = self.indices.as_chunks::<GROUP_CODES>().0;
        for ((&mask, indices), place) in self.masks[..groups].iter().zip(indices).zip(&mut self.places) {
            // SAFETY: as the caller says; eight indices have 128 bits.
            unsafe {
                let indices = _mm512_cvtepu16_epi64(_mm_loadu_epi16(indices.as_ptr().cast()));
                let words = _mm512_i64gather_epi64::<8>(indices, symbols.words.as_ptr().cast());
                _mm512_storeu_epi8(to.add(at).cast(), _mm512_maskz_compress_epi8(mask, words));
            }
            *place = at as u32;
            at += mask.count_ones() as usize;
        }
        self.places[groups] = at as u32;
        at
    }

    /// Notes where those strings end whose ends, which ascend from `codes.start` on, are at most `codes.end`; how many there are.
    /// `codes` are those of the block, `start` is what places count from.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    #[inline]
    fn place_ends(
        &self,
        codes: Range<usize>,
        start: usize,
        ends: &[u32],
        out: &mut [MaybeUninit<i32>],
    ) -> Result<usize, SymbolError> {
        let (mut ended, mut inside) = (0, 0);
        let block_start = _mm512_set1_epi32(codes.start as i32);
        for (ends, out) in ends.chunks(REGISTER_ENDS).zip(out.chunks_mut(REGISTER_ENDS)) {
            let there = u16::MAX >> (REGISTER_ENDS - ends.len());
            // SAFETY: lanes behind the last end are neither read nor written. Ends in the block are at most `BLOCK_CODES` behind its
            // start, where there are places for each group and one more, and four bytes from each code on and the one behind.
            let here = unsafe {
                let ends = _mm512_maskz_loadu_epi32(there, ends.as_ptr().cast());
                let here = _mm512_mask_cmple_epu32_mask(there, ends, _mm512_set1_epi32(codes.end as i32));
                let (zero, at) = (_mm512_setzero_si512(), _mm512_sub_epi32(ends, block_start));
                let groups = _mm512_srli_epi32::<{ GROUP_CODES.ilog2() }>(at);
                let places = _mm512_mask_i32gather_epi32::<4>(zero, here, groups, self.places.as_ptr().cast());
                let within = _mm512_mask_i32gather_epi32::<1>(zero, here, at, self.within.as_ptr().cast());
                inside |= _mm512_test_epi32_mask(within, _mm512_set1_epi32(LITERAL.into()));
                let within = _mm512_and_si512(within, _mm512_set1_epi32((!LITERAL).into()));
                let places = _mm512_add_epi32(_mm512_add_epi32(places, within), _mm512_set1_epi32(start as i32));
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), here, places);
                here
            };
            ended += here.count_ones() as usize;
            if here != u16::MAX {
                break;
            }
        }
        if inside == 0 { Ok(ended) } else { Err(SymbolError::TruncatedEscape) }
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
