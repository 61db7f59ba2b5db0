//! Decimals in floats: ALP (Afroozeh, Kuffó, Boncz: ALP: Adaptive Lossless floating-Point Compression, SIGMOD 2023,
//! §3.1). A float that was written as a decimal is an integer times a power of ten, and is multiplied by two powers one
//! after the other, `10^f · 10^-e` to decode and `10^e · 10^-f` to encode; each multiplication rounds. Floats and
//! signed integers are bit patterns in unsigned lanes. Operations are never fused, so that all levels give the same
//! bits.

use super::level::{Kernel, Level, run_at};
use crate::PackedLane;
use std::ops::{Add, Mul, Sub};

/// A lane as wide as a float: 32 or 64 bits.
pub trait FloatLane: PackedLane {
    /// The float that the lane's bits may stand for.
    type Float: Copy + Add<Output = Self::Float> + Sub<Output = Self::Float> + Mul<Output = Self::Float>;

    /// 1.5 times the power of two above which floats have no fraction. Added to a float below a third of it, it leaves
    /// in the lowest bits the integer nearest to the float, the even one of two as near.
    const ROUNDER: Self::Float;

    /// The float with these bits.
    fn to_float(self) -> Self::Float;
    /// The float's bits.
    fn from_float(float: Self::Float) -> Self;
    /// The float nearest to the signed integer with these bits, the even one of two as near.
    fn integer_to_float(self) -> Self::Float;
}

impl FloatLane for u64 {
    type Float = f64;

    const ROUNDER: f64 = 6_755_399_441_055_744.0;

    #[inline(always)]
    fn to_float(self) -> f64 {
        f64::from_bits(self)
    }

    #[inline(always)]
    fn from_float(float: f64) -> Self {
        float.to_bits()
    }

    /// In arithmetic that every level has in vectors: both halves become floats with no error, as the low bits of a
    /// power of two (2^84 for the high half, with 2^63 for its sign; 2^52 for the low half), and only their sum is
    /// rounded.
    #[inline(always)]
    fn integer_to_float(self) -> f64 {
        const HIGH: f64 = 19_342_813_113_834_066_795_298_816.0;
        const SIGN: f64 = 9_223_372_036_854_775_808.0;
        const LOW: f64 = 4_503_599_627_370_496.0;
        let high = f64::from_bits((self >> 32) ^ (HIGH + SIGN).to_bits());
        let low = f64::from_bits((self & 0xffff_ffff) | LOW.to_bits());
        (high - (HIGH + SIGN + LOW)) + low
    }
}

impl FloatLane for u32 {
    type Float = f32;

    const ROUNDER: f32 = 12_582_912.0;

    #[inline(always)]
    fn to_float(self) -> f32 {
        f32::from_bits(self)
    }

    #[inline(always)]
    fn from_float(float: f32) -> Self {
        float.to_bits()
    }

    #[inline(always)]
    fn integer_to_float(self) -> f32 {
        self.cast_signed() as f32
    }
}

/// What a float or integer is multiplied by: first one factor, then the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factors<F> {
    /// The first factor.
    pub multiply: F,
    /// The second factor.
    pub then: F,
}

impl<F: Copy + Mul<Output = F>> Factors<F> {
    #[inline(always)]
    fn apply(self, float: F) -> F {
        float * self.multiply * self.then
    }
}

#[inline(always)]
fn decode_value<T: FloatLane>(integer: T, factors: Factors<T::Float>) -> T {
    T::from_float(factors.apply(integer.integer_to_float()))
}

/// Any integer where the product is too large to be rounded, or no number.
#[inline(always)]
fn encode_value<T: FloatLane>(value: T, factors: Factors<T::Float>) -> T {
    T::from_float(factors.apply(value.to_float()) + T::ROUNDER).subtract(T::from_float(T::ROUNDER))
}

/// Appends the bits of `float(integer) · multiply · then`, rounded after each step, for each of the signed `integers`.
pub fn alp_decode<T: FloatLane>(integers: &[T], factors: Factors<T::Float>, out: &mut Vec<T>) {
    alp_decode_at(Level::detect(), integers, factors, out);
}

/// [`alp_decode`] at a given level.
pub fn alp_decode_at<T: FloatLane>(level: Level, integers: &[T], factors: Factors<T::Float>, out: &mut Vec<T>) {
    run_at(level, Decode { integers, factors, out });
}

struct Decode<'a, T: FloatLane> {
    integers: &'a [T],
    factors: Factors<T::Float>,
    out: &'a mut Vec<T>,
}

impl<T: FloatLane> Kernel for Decode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.out.extend(self.integers.iter().map(|&integer| decode_value(integer, self.factors)));
    }
}

/// Appends for each of the floats `values` the signed integer nearest to `value · multiply · then` by the factors
/// `encode`, and to `exceptions` the indexes in `values`, rising, of those that [`alp_decode`] would not give back bit
/// for bit by the factors `decode`: fractions that are left, more than 50 bits of digits (21 in 32-bit lanes), −0.0,
/// infinities and NaN. The integer of an exception is that of the first value that is none, or 0.
pub fn alp_encode<T: FloatLane>(
    values: &[T],
    encode: Factors<T::Float>,
    decode: Factors<T::Float>,
    out: &mut Vec<T>,
    exceptions: &mut Vec<u32>,
) {
    alp_encode_at(Level::detect(), values, encode, decode, out, exceptions);
}

/// [`alp_encode`] at a given level.
pub fn alp_encode_at<T: FloatLane>(
    level: Level,
    values: &[T],
    encode: Factors<T::Float>,
    decode: Factors<T::Float>,
    out: &mut Vec<T>,
    exceptions: &mut Vec<u32>,
) {
    let (start, first_exception) = (out.len(), exceptions.len());
    run_at(level, Encode { values, encode, decode, out, exceptions });
    // Exceptions rise: the first value that is none is where their list first skips an index.
    let integers = &mut out[start..];
    let exceptions = &exceptions[first_exception..];
    let skipped =
        exceptions.iter().enumerate().position(|(index, &at)| index != at as usize).unwrap_or(exceptions.len());
    let filler = integers.get(skipped).copied().unwrap_or_default();
    for &exception in exceptions {
        integers[exception as usize] = filler;
    }
}

struct Encode<'a, T: FloatLane> {
    values: &'a [T],
    encode: Factors<T::Float>,
    decode: Factors<T::Float>,
    out: &'a mut Vec<T>,
    exceptions: &'a mut Vec<u32>,
}

impl<T: FloatLane> Kernel for Encode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// Values between two looks at whether there was an exception.
        const PIECE_ROWS: usize = 64;
        let Self { values, encode, decode, out, exceptions } = self;
        for (piece_index, piece) in values.chunks(PIECE_ROWS).enumerate() {
            let start = out.len();
            out.extend(piece.iter().map(|&value| encode_value(value, encode)));
            let integers = &out[start..];
            let differs = |(&integer, &value): (&T, &T)| decode_value(integer, decode) != value;
            let any = integers.iter().zip(piece).fold(false, |any, pair| any | differs(pair));
            if any {
                let rows = integers.iter().zip(piece).enumerate().filter(|(_, pair)| differs(*pair));
                exceptions.extend(rows.map(|(row, _)| (piece_index * PIECE_ROWS + row) as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values;
    use proptest::prelude::*;

    fn extremes() -> Vec<u64> {
        let near = |value: u64| [value.wrapping_sub(1), value, value.wrapping_add(1)];
        let mut values: Vec<u64> = (0..64).flat_map(|bit| near(1 << bit)).collect();
        values.extend(values.clone().into_iter().map(u64::wrapping_neg));
        values.extend(test_values::random(2).take(5000));
        values.extend(test_values::random(3).take(5000).map(|number| number >> (number % 64)));
        values
    }

    #[test]
    fn every_integer_becomes_the_nearest_float() {
        for integer in extremes() {
            let expected = integer.cast_signed() as f64;
            assert_eq!(integer.integer_to_float().to_bits(), expected.to_bits(), "{integer:x}");
        }
    }

    #[test]
    fn decoding_is_the_same_on_every_level() {
        let integers = extremes();
        let narrow: Vec<u32> = integers.iter().map(|&integer| integer as u32).collect();
        for (multiply, then) in [(1.0, 1.0), (1.0, 1e-2), (1e3, 1e-14), (1e18, 1e-18)] {
            let expected: Vec<u64> =
                integers.iter().map(|&integer| (integer.cast_signed() as f64 * multiply * then).to_bits()).collect();
            let narrow_factors = Factors { multiply: multiply as f32, then: then as f32 };
            let narrow_value = |&integer: &u32| {
                (integer.cast_signed() as f32 * narrow_factors.multiply * narrow_factors.then).to_bits()
            };
            let narrow_expected: Vec<u32> = narrow.iter().map(narrow_value).collect();
            for level in Level::available() {
                let mut out = vec![9];
                alp_decode_at(level, &integers, Factors { multiply, then }, &mut out);
                assert_eq!(out[1..], expected, "{level:?}");
                let mut out = vec![9];
                alp_decode_at(level, &narrow, narrow_factors, &mut out);
                assert_eq!(out[1..], narrow_expected, "{level:?}");
            }
        }
    }

    /// Checks an encoding on every level: same bits, lossless outside of exceptions, and exceptions only where needed.
    fn check_encoding<T: FloatLane>(
        values: &[T],
        encode: Factors<T::Float>,
        decode: Factors<T::Float>,
    ) -> (Vec<T>, Vec<u32>) {
        let (mut expected, mut expected_exceptions) = (Vec::new(), Vec::new());
        for (row, &value) in values.iter().enumerate() {
            let integer = encode_value(value, encode);
            if decode_value(integer, decode) != value {
                expected_exceptions.push(row as u32);
            }
            expected.push(integer);
        }
        let regular = (0..values.len()).find(|&row| !expected_exceptions.contains(&(row as u32)));
        let filler = regular.map_or(T::default(), |row| expected[row]);
        for &exception in &expected_exceptions {
            expected[exception as usize] = filler;
        }
        for level in Level::available() {
            let (mut out, mut exceptions) = (vec![T::default()], vec![3]);
            alp_encode_at(level, values, encode, decode, &mut out, &mut exceptions);
            assert_eq!((&out[1..], &exceptions[1..]), (&expected[..], &expected_exceptions[..]), "{level:?}");
        }
        (expected, expected_exceptions)
    }

    #[test]
    fn decimals_become_integers_and_the_rest_exceptions() {
        let mut values: Vec<u64> = (-500..500).map(|cents| (f64::from(cents) / 100.0).to_bits()).collect();
        let wrong = [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 0.123_456_789, 5e-324, 3e15];
        for (index, value) in wrong.into_iter().enumerate() {
            values.insert(index * 100, value.to_bits());
        }
        let (encode, decode) = (Factors { multiply: 1e14, then: 1e-12 }, Factors { multiply: 1e12, then: 1e-14 });
        let (integers, exceptions) = check_encoding(&values, encode, decode);
        assert_eq!(exceptions, [0, 100, 200, 300, 400, 500, 600, 700]);
        assert_eq!(integers[1].cast_signed(), -500);
        assert_eq!(integers[0], integers[1]);
    }

    #[test]
    fn only_exceptions_give_zeros() {
        let unity = Factors { multiply: 1.0, then: 1.0 };
        let (integers, exceptions) = check_encoding(&[f64::NAN.to_bits(); 70], unity, unity);
        assert_eq!((integers, exceptions.len()), (vec![0; 70], 70));
    }

    proptest! {
        #[test]
        fn any_floats_are_encoded_alike(values in prop::collection::vec(any::<u64>(), 0..200), exponent in 0i32..18) {
            let (up, down) = (10f64.powi(exponent), 10f64.powi(-exponent));
            check_encoding(&values, Factors { multiply: up, then: 1.0 }, Factors { multiply: 1.0, then: down });
            let narrow: Vec<u32> = values.iter().map(|&value| value as u32).collect();
            let (up, down) = (up as f32, down as f32);
            check_encoding(&narrow, Factors { multiply: up, then: 1.0 }, Factors { multiply: 1.0, then: down });
        }
    }
}
