//! The statistics of a column: one pass without branches where nothing is null, word by word elsewhere.

use arrow_buffer::i256;
use entasis_encoding::{Bits, Column, Fixed, Lanes, U256, Values};

use super::{Bound, ZONE_STRING_BYTES, ZONE_SUM_ROWS, Zone, ZoneValue};

/// Values that are looked at together: few enough to stay in the nearest cache, and for their sum not to overflow.
const STRIDE: usize = 1_024;

impl Zone {
    /// The zone of a block that holds `column`. `distinct` is what the encoder knows of the number of distinct values.
    pub fn of(column: &Column<'_>, distinct: Option<u64>) -> Self {
        let null_count = match (&column.values, column.validity) {
            (Values::Null, _) => column.rows,
            (_, None) => 0,
            (_, Some(validity)) => column.rows - validity.count_ones(),
        };
        let mut zone = Self { null_count: null_count as u64, ..Self::default() };
        if null_count == column.rows {
            return zone;
        }
        let validity = column.validity.filter(|_| null_count > 0);
        match &column.values {
            Values::Bool(bits) => zone.set_bool_range(bits, validity),
            Values::Fixed(fixed, lanes) => {
                zone.set_fixed_range(*fixed, lanes, validity);
                // It came at little cost, but in small blocks its bytes aren't worth it.
                if column.rows < ZONE_SUM_ROWS {
                    zone.sum = None;
                }
            }
            Values::Bytes(slices) => zone.set_bytes_range(slices, validity),
            Values::Null | Values::List(..) | Values::FixedList(..) | Values::Struct(_) => return zone,
        }
        zone.distinct = distinct;
        zone
    }

    fn set_exact(&mut self, min: ZoneValue, max: ZoneValue) {
        self.min = Some(Bound { value: min, is_exact: true });
        self.max = Some(Bound { value: max, is_exact: true });
    }

    fn set_bool_range(&mut self, bits: &Bits<'_>, validity: Option<Bits<'_>>) {
        let (mut any_true, mut any_false) = (false, false);
        for row in (0..bits.len()).step_by(64) {
            let count = (bits.len() - row).min(64);
            let valid = validity.map_or(u64::MAX >> (64 - count), |validity| validity.word(row));
            any_true |= bits.word(row) & valid != 0;
            any_false |= !bits.word(row) & valid != 0;
        }
        self.set_exact(ZoneValue::Bool(!any_false), ZoneValue::Bool(any_true));
    }

    fn set_fixed_range(&mut self, fixed: Fixed, lanes: &Lanes<'_>, validity: Option<Bits<'_>>) {
        macro_rules! integers {
            ($slice:ident, $native:ty, $variant:ident) => {{
                let to_native = |lane| lane as $native;
                let add = |lanes: &[_]| i128::from(lanes.iter().map(|&lane| i64::from(to_native(lane))).sum::<i64>());
                integers!($slice, $native, $variant, to_native, add)
            }};
            ($slice:ident, $native:ty, $variant:ident, $to_native:expr, $add:expr) => {{
                let ends = (<$native>::MAX, <$native>::MIN);
                let (min, max, sum) = range_and_sum($slice, validity, ends, $to_native, $add);
                self.set_exact(ZoneValue::$variant(min.into()), ZoneValue::$variant(max.into()));
                self.sum = Some(sum);
            }};
        }
        match (fixed, lanes) {
            (Fixed::U8, Lanes::L8(slice)) => integers!(slice, u8, UInt),
            (Fixed::U16, Lanes::L16(slice)) => integers!(slice, u16, UInt),
            (Fixed::U32, Lanes::L32(slice)) => integers!(slice, u32, UInt),
            (Fixed::U64, Lanes::L64(slice)) => {
                integers!(slice, u64, UInt, |lane| lane, |lanes| sum_by_halves(lanes, |lane| (lane >> 32) as i64))
            }
            (Fixed::I8, Lanes::L8(slice)) => integers!(slice, i8, Int),
            (Fixed::I16, Lanes::L16(slice)) => integers!(slice, i16, Int),
            (Fixed::I32, Lanes::L32(slice)) => integers!(slice, i32, Int),
            (Fixed::I64, Lanes::L64(slice)) => {
                let to_native = |lane| lane as i64;
                integers!(slice, i64, Int, to_native, |lanes| sum_by_halves(lanes, |lane| lane as i64 >> 32))
            }
            (Fixed::I128, Lanes::L128(slice)) => {
                let (min, max, _) = range_and_sum(slice, validity, (i128::MAX, i128::MIN), |lane| lane as i128, |_| 0);
                self.set_exact(ZoneValue::Int(min), ZoneValue::Int(max));
            }
            (Fixed::I256, Lanes::L256(slice)) => {
                let to_native = |lane: U256| (lane.high as i128, lane.low);
                let ends = ((i128::MAX, u128::MAX), (i128::MIN, 0));
                let (min, max, _) = range_and_sum(slice, validity, ends, to_native, |_| 0);
                let value = |(high, low)| ZoneValue::I256(i256::from_parts(low, high));
                self.set_exact(value(min), value(max));
            }
            (Fixed::F16, Lanes::L16(slice)) => {
                let to_float = |bits| f64::from(half::f16::from_bits(bits));
                self.set_float_range(f16_range(slice, validity), to_float);
            }
            (Fixed::F32, Lanes::L32(slice)) => {
                self.set_float_range(f32_range(slice, validity), |bits| f64::from(f32::from_bits(bits)));
            }
            (Fixed::F64, Lanes::L64(slice)) => self.set_float_range(f64_range(slice, validity), f64::from_bits),
            (fixed, lanes) => debug_assert!(false, "{fixed:?} in {lanes:?}"),
        }
    }

    fn set_float_range<B: Copy>(&mut self, range: FloatRange<B>, to_float: impl Fn(B) -> f64) {
        self.nan_count = range.nan_count;
        let Some((min, max)) = range.ends else {
            return;
        };
        let bound = |found: f64, zero: f64| {
            let value = if found == 0.0 { zero } else { found };
            Some(Bound { value: ZoneValue::Float(value), is_exact: value.to_bits() == found.to_bits() })
        };
        self.min = bound(to_float(min), -0.0);
        self.max = bound(to_float(max), 0.0);
    }

    fn set_bytes_range(&mut self, slices: &[&[u8]], validity: Option<Bits<'_>>) {
        let Some((min, max)) = bytes_range(slices, validity) else {
            return;
        };
        let kept = |value: &[u8]| value[..value.len().min(ZONE_STRING_BYTES)].to_vec();
        self.min = Some(Bound { value: ZoneValue::Bytes(kept(min)), is_exact: min.len() <= ZONE_STRING_BYTES });
        self.max = if max.len() <= ZONE_STRING_BYTES {
            Some(Bound { value: ZoneValue::Bytes(kept(max)), is_exact: true })
        } else {
            above(kept(max)).map(|value| Bound { value: ZoneValue::Bytes(value), is_exact: false })
        };
    }
}

/// The shortest byte string above all that begin with `prefix`; `None` if there is none.
fn above(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    prefix.truncate(last + 1);
    prefix[last] += 1;
    Some(prefix)
}

/// Visits the valid values, at most [`STRIDE`] at a time: where they lie if all of a word are valid, and packed together
/// without branches if only some are.
#[inline(always)]
fn for_each_valid<T: Copy + Default>(values: &[T], validity: Option<Bits<'_>>, mut visit: impl FnMut(&[T])) {
    let Some(validity) = validity else {
        return values.chunks(STRIDE).for_each(visit);
    };
    for (index, chunk) in values.chunks(64).enumerate() {
        let mut word = validity.word(64 * index);
        if word == u64::MAX >> (64 - chunk.len()) {
            visit(chunk);
        } else if word != 0 {
            let mut packed = [T::default(); 64];
            let mut count = 0;
            for &value in chunk {
                packed[count % 64] = value;
                count += (word & 1) as usize;
                word >>= 1;
            }
            visit(&packed[..count]);
        }
    }
}

/// Least and greatest of the valid lanes, of which there is at least one, and what `add` makes of all of them. `ends`
/// are the greatest and the least value of the type.
#[inline(always)]
fn range_and_sum<L: Copy + Default, N: Copy + PartialOrd>(
    lanes: &[L],
    validity: Option<Bits<'_>>,
    ends: (N, N),
    to_native: impl Fn(L) -> N,
    add: impl Fn(&[L]) -> i128,
) -> (N, N, i128) {
    let (mut min, mut max) = ends;
    let mut sum = 0;
    for_each_valid(lanes, validity, |lanes| {
        let (mut low, mut high) = ends;
        for &lane in lanes {
            let value = to_native(lane);
            low = if value < low { value } else { low };
            high = if value > high { value } else { high };
        }
        min = if low < min { low } else { min };
        max = if high > max { high } else { max };
        sum += add(lanes);
    });
    (min, max, sum)
}

/// Sum of 64-bit lanes, their halves apart: neither sum overflows 64 bits within a stride.
fn sum_by_halves(lanes: &[u64], to_high: impl Fn(u64) -> i64) -> i128 {
    let low = lanes.iter().map(|&lane| lane & 0xFFFF_FFFF).sum::<u64>();
    let high = lanes.iter().map(|&lane| to_high(lane)).sum::<i64>();
    i128::from(low) + (i128::from(high) << 32)
}

/// Bits of the least and the greatest of the floats that aren't NaN, −0.0 being below +0.0.
struct FloatRange<B> {
    ends: Option<(B, B)>,
    nan_count: u64,
}

macro_rules! float_ranges {
    ($($name:ident: $bits:ty as $key:ty, infinity $infinity:expr;)*) => {$(
        fn $name(lanes: &[$bits], validity: Option<Bits<'_>>) -> FloatRange<$bits> {
            // Order of the keys is order of the floats: negative ones have all bits but the sign flipped.
            let to_key = |bits: $bits| (bits ^ ((bits as $key >> (<$key>::BITS - 1)) as $bits >> 1)) as $key;
            let (mut min, mut max) = (<$key>::MAX, <$key>::MIN);
            let mut nan_count = 0;
            for_each_valid(lanes, validity, |lanes| {
                let (mut low, mut high) = (<$key>::MAX, <$key>::MIN);
                // Fits: a stride is far shorter than the largest of even the narrowest lanes.
                let mut nans: $bits = 0;
                for &bits in lanes {
                    let is_nan = bits & (<$bits>::MAX >> 1) > $infinity;
                    let key = to_key(bits);
                    low = low.min(if is_nan { <$key>::MAX } else { key });
                    high = high.max(if is_nan { <$key>::MIN } else { key });
                    nans += <$bits>::from(is_nan);
                }
                (min, max) = (min.min(low), max.max(high));
                nan_count += u64::from(nans);
            });
            // The ends of the type are keys of NaNs: they stay only where nothing but NaN was met.
            let ends = (min != <$key>::MAX).then(|| (to_key(min as $bits) as $bits, to_key(max as $bits) as $bits));
            FloatRange { ends, nan_count }
        }
    )*};
}

float_ranges! {
    f16_range: u16 as i16, infinity 0x7C00;
    f32_range: u32 as i32, infinity 0x7F80_0000;
    f64_range: u64 as i64, infinity 0x7FF0_0000_0000_0000;
}

/// Least and greatest of the valid byte strings; most are told apart by their first eight bytes.
fn bytes_range<'a>(slices: &[&'a [u8]], validity: Option<Bits<'_>>) -> Option<(&'a [u8], &'a [u8])> {
    let mut range: Option<(u64, &[u8], u64, &[u8])> = None;
    for_each_valid(slices, validity, |slices| {
        for &slice in slices {
            let prefix = prefix_of(slice);
            let Some((min_prefix, min, max_prefix, max)) = &mut range else {
                range = Some((prefix, slice, prefix, slice));
                continue;
            };
            if prefix < *min_prefix || prefix == *min_prefix && slice < *min {
                (*min_prefix, *min) = (prefix, slice);
            }
            if prefix > *max_prefix || prefix == *max_prefix && slice > *max {
                (*max_prefix, *max) = (prefix, slice);
            }
        }
    });
    range.map(|(_, min, _, max)| (min, max))
}

/// The first eight bytes as a number whose order is theirs; what is missing counts as zeros.
fn prefix_of(slice: &[u8]) -> u64 {
    match slice.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => slice.iter().enumerate().fold(0, |prefix, (index, &byte)| prefix | u64::from(byte) << (56 - 8 * index)),
    }
}
