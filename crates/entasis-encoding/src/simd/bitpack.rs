//! Bit-packing. A full vector lies transposed, as in FastLanes (Afroozeh and Boncz, VLDB 2023, §3): with `S = 1024 /
//! T::BITS` lanes, value `i` is in row `i / S` of lane `i % S`, and each lane packs its rows one after another, `width`
//! bits each, lowest bit first, into `width` words.
//!
//! ```text
//!              lane 0    lane 1          lane S-1
//!            ┌─────────┬─────────┬─────┬──────────┐
//!   word 0   │ row 0 … │ row 0 … │     │ row 0 …  │  128 bytes, words little-endian
//!   word 1   │         │         │     │          │  128 bytes
//!   …        │         │         │     │          │
//!   word W-1 │  … last │  … last │     │  … last  │  128 bytes
//!            └─────────┴─────────┴─────┴──────────┘
//! ```
//!
//! All lanes do the same at the same time, so that one loop over the rows, with shifts that are known only at run time,
//! serves every width and every register. A short vector (the last of a column) is packed value after value instead.

use super::level::{Kernel, Level, run_at};
use super::register::{Register, RegisterKernel, run_in_registers};
use crate::PackedLane;
use std::mem::MaybeUninit;

/// Values in a full vector.
pub const VECTOR_ROWS: usize = 1024;

/// Bytes in one row of words: 1,024 bits.
const ROW_BYTES: usize = 128;

/// Bytes that `row_count` values of `width` bits take: transposed for a full vector, sequential for a short one.
pub const fn packed_size_bytes(row_count: usize, width: u32) -> usize {
    (row_count * width as usize).div_ceil(8)
}

/// The lowest `width` bits set; `width` is from 1 to `T::BITS`.
#[inline(always)]
fn low_bits<T: PackedLane>(width: u32) -> T {
    T::from_u64(u64::MAX >> (64 - width))
}

/// Word `lane` of a row of words.
#[inline(always)]
fn word_of<T: PackedLane>(row: &[u8; ROW_BYTES], lane: usize) -> T {
    T::read(&row[lane * T::BYTES..(lane + 1) * T::BYTES])
}

#[inline(always)]
fn word_row(packed: &[u8], word: u32) -> &[u8; ROW_BYTES] {
    let start = word as usize * ROW_BYTES;
    packed[start..start + ROW_BYTES].try_into().expect("a row is ROW_BYTES long")
}

fn check_width<T: PackedLane>(width: u32) {
    assert!(width <= T::BITS, "a packed width of {width} bits in lanes of {} bits", T::BITS);
}

/// Appends `values`, a full vector, packed to the lowest `width` bits of each: `128 * width` bytes.
///
/// # Panics
/// If `values` are not [`VECTOR_ROWS`], or `width` is above `T::BITS`.
pub fn pack<T: PackedLane>(values: &[T], width: u32, out: &mut Vec<u8>) {
    pack_at(Level::detect(), values, width, out);
}

/// [`pack`] at a given level.
pub fn pack_at<T: PackedLane>(level: Level, values: &[T], width: u32, out: &mut Vec<u8>) {
    assert_eq!(values.len(), VECTOR_ROWS, "only a full vector is packed transposed");
    check_width::<T>(width);
    if width == 0 {
        return;
    }
    if width == T::BITS {
        return out.extend_from_slice(bytes_of(values));
    }
    let size_bytes = packed_size_bytes(VECTOR_ROWS, width);
    out.reserve(size_bytes);
    let kernel = Pack { values: values.as_ptr().cast(), width, packed: out.spare_capacity_mut().as_mut_ptr().cast() };
    // SAFETY: the kernel's lane is `T`, of which `values` holds a vector; `packed` has room for `width` rows of words.
    if unsafe { run_in_registers::<T>(level, kernel) } {
        // SAFETY: the kernel wrote all `width` rows.
        unsafe { out.set_len(out.len() + size_bytes) };
    } else {
        out.extend_from_slice(&bytes_of(&pack_portably(values, width))[..size_bytes]);
    }
}

/// The values' bytes, which are little-endian on every target that this module compiles for.
fn bytes_of<T: PackedLane>(values: &[T]) -> &[u8] {
    // SAFETY: `T` is one of the packed lanes: plain integers without padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

struct Pack {
    values: *const u8,
    /// Below the lane's bits.
    width: u32,
    packed: *mut u8,
}

impl RegisterKernel for Pack {
    #[inline(always)]
    unsafe fn run<R: Register>(self) {
        let bits = R::Lane::BITS;
        // SAFETY: rows of values below `bits` lie in `values`, rows of words below `width` in `packed`; the caller
        // vouches for the processor.
        unsafe {
            let mask = R::splat(low_bits(self.width));
            let push = R::shift(self.width);
            for part in (0..ROW_BYTES).step_by(R::BYTES) {
                // The values of the unfinished word, in order, fill the highest `waiting_bits` of `recent`.
                let mut recent = R::splat(R::Lane::default());
                let (mut word, mut waiting_bits) = (0, 0);
                for row in 0..bits {
                    let value = R::load(self.values.add(row as usize * ROW_BYTES + part)).and(mask);
                    // Every row writes the word as if it were complete; the last to write a word is right.
                    let complete = R::funnel(recent, value, R::shift(bits - waiting_bits));
                    complete.store(self.packed.add(word * ROW_BYTES + part));
                    recent = R::funnel(recent, value, push);
                    waiting_bits += self.width;
                    if waiting_bits >= bits {
                        waiting_bits -= bits;
                        word += 1;
                    }
                }
            }
        }
    }
}

/// The packed words of a full vector, in the first `width * VECTOR_ROWS / T::BITS` of the array.
fn pack_portably<T: PackedLane>(values: &[T], width: u32) -> [T; VECTOR_ROWS] {
    let lanes = VECTOR_ROWS / T::BITS as usize;
    let mask = low_bits::<T>(width);
    // Zeros, so that rows are merged into their words one after another.
    let mut words = [T::default(); VECTOR_ROWS];
    for row in 0..T::BITS {
        let values = &values[row as usize * lanes..][..lanes];
        let (word, shift) = (row * width / T::BITS, row * width % T::BITS);
        let (low, high) = words[word as usize * lanes..].split_at_mut(lanes);
        for (low, &value) in low.iter_mut().zip(values) {
            *low = *low | ((value & mask) << shift);
        }
        if shift + width > T::BITS {
            for (high, &value) in high[..lanes].iter_mut().zip(values) {
                *high = (value & mask) >> (T::BITS - shift);
            }
        }
    }
    words
}

/// Appends the [`VECTOR_ROWS`] values `reference + v` (wrapping) for the values `v` that [`pack`] packed to `width`
/// bits.
///
/// # Panics
/// If `packed` is not `128 * width` bytes, or `width` is above `T::BITS`.
pub fn unpack<T: PackedLane>(packed: &[u8], width: u32, reference: T, out: &mut Vec<T>) {
    unpack_at(Level::detect(), packed, width, reference, out);
}

/// [`unpack`] at a given level.
pub fn unpack_at<T: PackedLane>(level: Level, packed: &[u8], width: u32, reference: T, out: &mut Vec<T>) {
    check_width::<T>(width);
    assert_eq!(packed.len(), packed_size_bytes(VECTOR_ROWS, width), "bytes of a full vector packed to {width} bits");
    if width == 0 {
        out.resize(out.len() + VECTOR_ROWS, reference);
        return;
    }
    out.reserve(VECTOR_ROWS);
    let start = out.len();
    let room = &mut out.spare_capacity_mut()[..VECTOR_ROWS];
    let kernel = Unpack { packed, width, reference: reference.to_u64(), values: room.as_mut_ptr().cast() };
    // SAFETY: the kernel's lane is `T`; `packed` holds `width` rows and `values` has room for `T::BITS` rows of `T`.
    if !unsafe { run_in_registers::<T>(level, kernel) } {
        unpack_portably(packed, width, reference, room);
    }
    // SAFETY: both ways write all `VECTOR_ROWS` values of `room`, which begins at the old length.
    unsafe { out.set_len(start + VECTOR_ROWS) };
}

struct Unpack<'a> {
    packed: &'a [u8],
    width: u32,
    reference: u64,
    values: *mut u8,
}

impl RegisterKernel for Unpack<'_> {
    #[inline(always)]
    unsafe fn run<R: Register>(self) {
        let bits = R::Lane::BITS;
        let last_word = self.width - 1;
        // SAFETY: rows of words up to `last_word` lie in `packed`, rows of values below `bits` in `values`; the caller
        // vouches for the processor.
        unsafe {
            let mask = R::splat(low_bits(self.width));
            let reference = R::splat(R::Lane::from_u64(self.reference));
            for row in 0..bits {
                let bit = row * self.width;
                let (word, shift) = (bit / bits, R::shift(bit % bits));
                // Where a value ends with its word, nothing is taken of the next one, and there may be none.
                let low = self.packed.as_ptr().add(word as usize * ROW_BYTES);
                let high = self.packed.as_ptr().add((word + 1).min(last_word) as usize * ROW_BYTES);
                let values = self.values.add(row as usize * ROW_BYTES);
                for part in 0..ROW_BYTES / R::BYTES {
                    let at = part * R::BYTES;
                    let packed = R::funnel(R::load(low.add(at)), R::load(high.add(at)), shift);
                    packed.and(mask).add(reference).store(values.add(at));
                }
            }
        }
    }
}

/// Fills `values`, a full vector.
fn unpack_portably<T: PackedLane>(packed: &[u8], width: u32, reference: T, values: &mut [MaybeUninit<T>]) {
    let lanes = VECTOR_ROWS / T::BITS as usize;
    let mask = low_bits::<T>(width);
    let mut bit = 0;
    for values in values.chunks_exact_mut(lanes) {
        let (word, shift) = (bit / T::BITS, bit % T::BITS);
        let low = word_row(packed, word);
        if shift + width <= T::BITS {
            for (lane, value) in values.iter_mut().enumerate() {
                value.write(((word_of::<T>(low, lane) >> shift) & mask).add(reference));
            }
        } else {
            let high = word_row(packed, word + 1);
            for (lane, value) in values.iter_mut().enumerate() {
                let low = word_of::<T>(low, lane) >> shift;
                let high = word_of::<T>(high, lane) << (T::BITS - shift);
                value.write(((low | high) & mask).add(reference));
            }
        }
        bit += width;
    }
}

/// Appends `values` packed one after another to the lowest `width` bits of each, lowest bit first:
/// `values.len() * width / 8` bytes, rounded up.
///
/// # Panics
/// If `width` is above `T::BITS`.
pub fn pack_short<T: PackedLane>(values: &[T], width: u32, out: &mut Vec<u8>) {
    check_width::<T>(width);
    if width == 0 {
        return;
    }
    let mask: T = low_bits(width);
    let end = out.len() + packed_size_bytes(values.len(), width);
    out.reserve(end - out.len());
    // Fewer than 8 bits wait between values, so that 64 more always fit.
    let (mut waiting, mut waiting_bits) = (0u128, 0);
    for &value in values {
        waiting |= u128::from((value & mask).to_u64()) << waiting_bits;
        waiting_bits += width;
        let whole_bytes = (waiting_bits / 8) as usize;
        out.extend_from_slice(&waiting.to_le_bytes()[..whole_bytes]);
        waiting >>= 8 * whole_bytes;
        waiting_bits %= 8;
    }
    if waiting_bits > 0 {
        out.push(waiting as u8);
    }
}

/// Appends the `row_count` values `reference + v` (wrapping) for the values `v` that [`pack_short`] packed to `width`
/// bits.
///
/// # Panics
/// If `packed` is not [`packed_size_bytes`] long, or `width` is above `T::BITS`.
pub fn unpack_short<T: PackedLane>(packed: &[u8], width: u32, reference: T, row_count: usize, out: &mut Vec<T>) {
    unpack_short_at(Level::detect(), packed, width, reference, row_count, out);
}

/// [`unpack_short`] at a given level.
pub fn unpack_short_at<T: PackedLane>(
    level: Level,
    packed: &[u8],
    width: u32,
    reference: T,
    row_count: usize,
    out: &mut Vec<T>,
) {
    check_width::<T>(width);
    assert_eq!(packed.len(), packed_size_bytes(row_count, width), "bytes of {row_count} values of {width} bits");
    if width == 0 {
        out.resize(out.len() + row_count, reference);
        return;
    }
    run_at(level, UnpackShort { packed, width, reference, row_count, out });
}

struct UnpackShort<'a, T> {
    packed: &'a [u8],
    /// Not 0.
    width: u32,
    reference: T,
    row_count: usize,
    out: &'a mut Vec<T>,
}

impl<T: PackedLane> Kernel for UnpackShort<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// Bits that a word has of a value, wherever in its first byte that begins.
        const WORD_BITS: u32 = 57;
        let Self { packed, width, reference, row_count, out } = self;
        // Values that begin in a byte with seven more behind it.
        let in_words = match packed.len().checked_sub(7) {
            Some(bytes @ 1..) if width <= WORD_BITS => row_count.min((bytes * 8 - 1) / width as usize + 1),
            _ => 0,
        };
        let mask: T = low_bits(width);
        out.extend((0..in_words).map(|index| {
            let bit = index * width as usize;
            // SAFETY: the value begins in a byte that has seven more behind it.
            let word = u64::from_le(unsafe { packed.as_ptr().add(bit / 8).cast::<u64>().read_unaligned() });
            (T::from_u64(word >> (bit % 8)) & mask).add(reference)
        }));
        out.extend((in_words..row_count).map(|index| sequential_value::<T>(packed, width, index).add(reference)));
    }
}

/// Value `index` of a sequentially packed vector; `width` is not 0.
#[inline(always)]
fn sequential_value<T: PackedLane>(packed: &[u8], width: u32, index: usize) -> T {
    let bit = index * width as usize;
    let tail = &packed[bit / 8..];
    // A value touches at most 9 bytes.
    let window = match tail.first_chunk::<16>() {
        Some(window) => u128::from_le_bytes(*window),
        None => {
            let mut window = [0; 16];
            window[..tail.len()].copy_from_slice(tail);
            u128::from_le_bytes(window)
        }
    };
    T::from_u64((window >> (bit % 8)) as u64) & low_bits(width)
}

/// The value at `index` of a vector of `row_count` values packed to `width` bits: by [`pack`] where `row_count` is
/// [`VECTOR_ROWS`], else by [`pack_short`]. No reference is added.
///
/// # Panics
/// If `index` is not below `row_count`, `packed` is not [`packed_size_bytes`] long, or `width` is above `T::BITS`.
pub fn unpack_one<T: PackedLane>(packed: &[u8], width: u32, index: usize, row_count: usize) -> T {
    check_width::<T>(width);
    assert!(index < row_count, "row {index} of a vector of {row_count}");
    assert_eq!(packed.len(), packed_size_bytes(row_count, width), "bytes of {row_count} values of {width} bits");
    if width == 0 {
        return T::default();
    }
    if row_count != VECTOR_ROWS {
        return sequential_value(packed, width, index);
    }
    let lanes = VECTOR_ROWS / T::BITS as usize;
    let (row, lane) = (index / lanes, index % lanes);
    let bit = row as u32 * width;
    let (word, shift) = (bit / T::BITS, bit % T::BITS);
    let low = word_of::<T>(word_row(packed, word), lane) >> shift;
    if shift + width <= T::BITS {
        return low & low_bits(width);
    }
    (low | (word_of::<T>(word_row(packed, word + 1), lane) << (T::BITS - shift))) & low_bits(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::{self, for_each_lane};
    use proptest::prelude::*;

    /// Bit `bit` of a packed value, by the layout's definition.
    fn packed_bit<T: PackedLane>(packed: &[u8], width: u32, index: usize, bit: u32, row_count: usize) -> u64 {
        let position = if row_count == VECTOR_ROWS {
            let lanes = VECTOR_ROWS / T::BITS as usize;
            let bit_of_lane = (index / lanes) as u32 * width + bit;
            let word = (bit_of_lane / T::BITS) as usize * lanes + index % lanes;
            word * T::BITS as usize + (bit_of_lane % T::BITS) as usize
        } else {
            index * width as usize + bit as usize
        };
        u64::from(packed[position / 8] >> (position % 8) & 1)
    }

    fn unpack_naively<T: PackedLane>(packed: &[u8], width: u32, reference: T, row_count: usize) -> Vec<T> {
        let value = |index| (0..width).map(|bit| packed_bit::<T>(packed, width, index, bit, row_count) << bit).sum();
        (0..row_count).map(|index| T::from_u64(value(index)).add(reference)).collect()
    }

    fn every_width_comes_back<T: PackedLane>() {
        for width in 0..=T::BITS {
            for values in test_values::adversarial::<T>(VECTOR_ROWS) {
                let reduced = |value: T| if width == 0 { T::default() } else { value & low_bits(width) };
                let reference = values[7];
                let expected: Vec<T> = values.iter().map(|&value| reduced(value).add(reference)).collect();
                for level in Level::available() {
                    // The prefix leaves the packed bytes at an odd address.
                    let mut packed = vec![0xa5];
                    pack_at(level, &values, width, &mut packed);
                    assert_eq!(packed.len(), 1 + 128 * width as usize);
                    let mut out = vec![T::default(); 3];
                    unpack_at(level, &packed[1..], width, reference, &mut out);
                    assert_eq!(out[..3], [T::default(); 3]);
                    assert_eq!(out[3..], expected, "width {width} at {level:?}");
                    for index in [0, 1, 511, 700, 1023] {
                        let value = unpack_one::<T>(&packed[1..], width, index, VECTOR_ROWS);
                        assert_eq!(value.add(reference), expected[index]);
                    }
                }
            }
        }
    }

    #[test]
    fn full_vectors_of_every_width_come_back_on_every_level() {
        for_each_lane!(every_width_comes_back);
    }

    fn bits_lie_as_documented<T: PackedLane>() {
        let values = &test_values::adversarial::<T>(VECTOR_ROWS)[0];
        for width in 0..=T::BITS {
            for row_count in [0, 1, 3, 8, 77, VECTOR_ROWS - 1, VECTOR_ROWS] {
                let (mut packed, mut out) = (Vec::new(), Vec::new());
                if row_count == VECTOR_ROWS {
                    pack(values, width, &mut packed);
                    unpack(&packed, width, values[0], &mut out);
                } else {
                    pack_short(&values[..row_count], width, &mut packed);
                    unpack_short(&packed, width, values[0], row_count, &mut out);
                    for level in Level::available() {
                        let mut again = Vec::new();
                        unpack_short_at(level, &packed, width, values[0], row_count, &mut again);
                        assert_eq!(again, out, "{row_count} of width {width} at {level:?}");
                    }
                }
                assert_eq!(packed.len(), packed_size_bytes(row_count, width));
                assert_eq!(out, unpack_naively(&packed, width, values[0], row_count), "{row_count} of width {width}");
            }
        }
    }

    #[test]
    fn unpacking_agrees_with_the_definition_of_both_layouts() {
        for_each_lane!(bits_lie_as_documented);
    }

    proptest! {
        #[test]
        fn short_vectors_come_back(values in prop::collection::vec(any::<u64>(), 0..200), width in 0u32..=64) {
            let reduced: Vec<u64> = values.iter().map(|value| if width == 0 { 0 } else { value & low_bits::<u64>(width) }).collect();
            let (mut packed, mut out) = (Vec::new(), Vec::new());
            pack_short(&values, width, &mut packed);
            unpack_short(&packed, width, 0, values.len(), &mut out);
            prop_assert_eq!(&out, &reduced);
            for (index, &value) in reduced.iter().enumerate() {
                prop_assert_eq!(unpack_one::<u64>(&packed, width, index, values.len()), value);
            }
        }
    }

    #[test]
    #[should_panic(expected = "bytes of a full vector")]
    fn too_few_bytes_are_refused() {
        unpack::<u32>(&[0; 127], 1, 0, &mut Vec::new());
    }
}
