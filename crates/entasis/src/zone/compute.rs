//! The statistics of a column: one pass without branches where nothing is null, word by word elsewhere.

use std::ops::Range;

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
                if column.rows >= ZONE_SUM_ROWS {
                    zone.sum = sum_of(*fixed, lanes, validity);
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
                let (min, max) = range_of($slice, validity, <$native>::MAX, <$native>::MIN, |lane| lane as $native);
                self.set_exact(ZoneValue::$variant(min.into()), ZoneValue::$variant(max.into()));
            }};
        }
        match (fixed, lanes) {
            (Fixed::U8, Lanes::L8(slice)) => integers!(slice, u8, UInt),
            (Fixed::U16, Lanes::L16(slice)) => integers!(slice, u16, UInt),
            (Fixed::U32, Lanes::L32(slice)) => integers!(slice, u32, UInt),
            (Fixed::U64, Lanes::L64(slice)) => integers!(slice, u64, UInt),
            (Fixed::I8, Lanes::L8(slice)) => integers!(slice, i8, Int),
            (Fixed::I16, Lanes::L16(slice)) => integers!(slice, i16, Int),
            (Fixed::I32, Lanes::L32(slice)) => integers!(slice, i32, Int),
            (Fixed::I64, Lanes::L64(slice)) => integers!(slice, i64, Int),
            (Fixed::I128, Lanes::L128(slice)) => integers!(slice, i128, Int),
            (Fixed::I256, Lanes::L256(slice)) => {
                let key = |lane: U256| (lane.high as i128, lane.low);
                let ends = ((i128::MAX, u128::MAX), (i128::MIN, 0));
                let (min, max) = range_of(slice, validity, ends.0, ends.1, key);
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

/// Visits the valid rows as ranges of at most [`STRIDE`] rows: long ones where whole words are valid.
fn for_each_valid_range(rows: usize, validity: Option<Bits<'_>>, mut visit: impl FnMut(Range<usize>)) {
    let Some(validity) = validity else {
        return (0..rows).step_by(STRIDE).for_each(|start| visit(start..rows.min(start + STRIDE)));
    };
    for start in (0..rows).step_by(64) {
        let mut word = validity.word(start);
        let mut at = start;
        while word != 0 {
            let skipped = word.trailing_zeros();
            word >>= skipped;
            let taken = word.trailing_ones();
            at += skipped as usize;
            visit(at..at + taken as usize);
            at += taken as usize;
            word = word.checked_shr(taken).unwrap_or(0);
        }
    }
}

/// Least and greatest of the valid lanes, of which there is at least one; `top` and `bottom` are the ends of the type.
#[inline(always)]
fn range_of<L: Copy, N: Copy + PartialOrd>(
    lanes: &[L],
    validity: Option<Bits<'_>>,
    top: N,
    bottom: N,
    to_native: impl Fn(L) -> N,
) -> (N, N) {
    let (mut min, mut max) = (top, bottom);
    for_each_valid_range(lanes.len(), validity, |rows| {
        for &lane in &lanes[rows] {
            let value = to_native(lane);
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
        }
    });
    (min, max)
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
            let (mut valid_count, mut nan_count) = (0, 0);
            for_each_valid_range(lanes.len(), validity, |rows| {
                valid_count += rows.len() as u64;
                let mut nans: $bits = 0;
                for chunk in lanes[rows].chunks(64) {
                    for &bits in chunk {
                        let is_nan = bits & (<$bits>::MAX >> 1) > $infinity;
                        let key = to_key(bits);
                        min = min.min(if is_nan { <$key>::MAX } else { key });
                        max = max.max(if is_nan { <$key>::MIN } else { key });
                        nans += <$bits>::from(is_nan);
                    }
                }
                nan_count += u64::from(nans);
            });
            // The keys of infinities are no ends of the type, so that `min` and `max` were met unless all is NaN.
            let ends = (nan_count < valid_count).then(|| (to_key(min as $bits) as $bits, to_key(max as $bits) as $bits));
            FloatRange { ends, nan_count }
        }
    )*};
}

float_ranges! {
    f16_range: u16 as i16, infinity 0x7C00;
    f32_range: u32 as i32, infinity 0x7F80_0000;
    f64_range: u64 as i64, infinity 0x7FF0_0000_0000_0000;
}

/// Sum of the valid integers of up to 64 bits; `None` for everything else.
fn sum_of(fixed: Fixed, lanes: &Lanes<'_>, validity: Option<Bits<'_>>) -> Option<i128> {
    let mut sum = 0i128;
    macro_rules! add {
        ($slice:ident, $native:ty) => {
            for_each_valid_range($slice.len(), validity, |rows| {
                sum += i128::from($slice[rows].iter().map(|&lane| i64::from(lane as $native)).sum::<i64>());
            })
        };
    }
    match (fixed, lanes) {
        (Fixed::U8, Lanes::L8(slice)) => add!(slice, u8),
        (Fixed::U16, Lanes::L16(slice)) => add!(slice, u16),
        (Fixed::U32, Lanes::L32(slice)) => add!(slice, u32),
        (Fixed::I8, Lanes::L8(slice)) => add!(slice, i8),
        (Fixed::I16, Lanes::L16(slice)) => add!(slice, i16),
        (Fixed::I32, Lanes::L32(slice)) => add!(slice, i32),
        (Fixed::U64 | Fixed::I64, Lanes::L64(slice)) => for_each_valid_range(slice.len(), validity, |rows| {
            // Halves apart, so that neither sum overflows 64 bits.
            let slice = &slice[rows];
            let low = slice.iter().map(|&lane| lane & 0xFFFF_FFFF).sum::<u64>();
            let high = if fixed == Fixed::I64 {
                slice.iter().map(|&lane| lane as i64 >> 32).sum::<i64>()
            } else {
                slice.iter().map(|&lane| (lane >> 32) as i64).sum::<i64>()
            };
            sum += i128::from(low) + (i128::from(high) << 32);
        }),
        _ => return None,
    }
    Some(sum)
}

/// Least and greatest of the valid byte strings; most are told apart by their first eight bytes.
fn bytes_range<'a>(slices: &[&'a [u8]], validity: Option<Bits<'_>>) -> Option<(&'a [u8], &'a [u8])> {
    let mut range: Option<(u64, &[u8], u64, &[u8])> = None;
    for_each_valid_range(slices.len(), validity, |rows| {
        for &slice in &slices[rows] {
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
