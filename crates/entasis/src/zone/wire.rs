//! Zones as bytes.

use arrow_buffer::i256;
use entasis_encoding::{
    Fixed, Physical,
    wire::{Reader, WireError, write_bytes, write_signed, write_varint},
};

use super::{Bound, ZONE_STRING_BYTES, Zone, ZoneValue};

const RANGE: u8 = 1;
const MIN_EXACT: u8 = 1 << 1;
const MAX_EXACT: u8 = 1 << 2;
const MAX_DROPPED: u8 = 1 << 3;
const MAX_IS_MIN: u8 = 1 << 4;
const NAN_COUNT: u8 = 1 << 5;
const SUM: u8 = 1 << 6;
const DISTINCT: u8 = 1 << 7;

impl Zone {
    /// Appends the zone of a block of type `physical`.
    pub fn write(&self, physical: &Physical, out: &mut Vec<u8>) {
        out.push(self.flags());
        write_varint(self.null_count, out);
        if self.nan_count > 0 {
            write_varint(self.nan_count, out);
        }
        if let Some(min) = &self.min {
            let max = self.max.as_ref().filter(|max| !is_same(&min.value, &max.value));
            write_range(physical, &min.value, max.map(|max| &max.value), out);
        }
        if let Some(sum) = self.sum {
            write_bytes(shortest(&sum.to_le_bytes()), out);
        }
        if let Some(distinct) = self.distinct {
            write_varint(distinct, out);
        }
    }

    fn flags(&self) -> u8 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let range = match (&self.min, &self.max) {
            (None, _) => 0,
            (Some(min), None) => RANGE | MAX_DROPPED | flag(min.is_exact, MIN_EXACT),
            (Some(min), Some(max)) => {
                RANGE
                    | flag(min.is_exact, MIN_EXACT)
                    | flag(max.is_exact, MAX_EXACT)
                    | flag(is_same(&min.value, &max.value), MAX_IS_MIN)
            }
        };
        range
            | flag(self.nan_count > 0, NAN_COUNT)
            | flag(self.sum.is_some(), SUM)
            | flag(self.distinct.is_some(), DISTINCT)
    }

    /// Reads the zone of a block of type `physical`. What a zone of that type can't hold is an error, as is a minimum
    /// over the maximum.
    pub fn read(physical: &Physical, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = WireError(reader.position());
        let flags = reader.u8()?;
        if flags & !allowed_flags(physical) != 0 || !are_consistent(flags) {
            return Err(at);
        }
        let mut zone = Self { null_count: reader.varint()?, ..Self::default() };
        if flags & NAN_COUNT != 0 {
            zone.nan_count = reader.varint()?;
        }
        if flags & RANGE != 0 {
            let (min, max) = read_range(physical, flags, reader)?;
            zone.min = Some(Bound { value: min, is_exact: flags & MIN_EXACT != 0 });
            zone.max = max.map(|value| Bound { value, is_exact: flags & MAX_EXACT != 0 });
        }
        if flags & SUM != 0 {
            zone.sum = Some(read_i128(reader)?);
        }
        if flags & DISTINCT != 0 {
            zone.distinct = Some(reader.varint()?);
        }
        Ok(zone)
    }
}

/// Flags that zones of a type may have.
fn allowed_flags(physical: &Physical) -> u8 {
    const ENDS: u8 = RANGE | MIN_EXACT | MAX_EXACT | MAX_IS_MIN;
    match physical {
        Physical::Bool => ENDS | DISTINCT,
        Physical::Fixed(fixed) if fixed.is_float() => ENDS | NAN_COUNT | DISTINCT,
        Physical::Fixed(_) => ENDS | SUM | DISTINCT,
        Physical::Bytes => ENDS | MAX_DROPPED | DISTINCT,
        Physical::Null | Physical::List(_) | Physical::FixedList(..) | Physical::Struct(_) => 0,
    }
}

fn are_consistent(flags: u8) -> bool {
    let has_range = flags & RANGE != 0 || flags & (MIN_EXACT | MAX_EXACT | MAX_DROPPED | MAX_IS_MIN) == 0;
    let drops_max = flags & MAX_DROPPED == 0 || flags & (MAX_EXACT | MAX_IS_MIN) == 0;
    has_range && drops_max
}

/// Equal to the bit: zeros of different signs are different ends.
fn is_same(min: &ZoneValue, max: &ZoneValue) -> bool {
    match (min, max) {
        (ZoneValue::Float(min), ZoneValue::Float(max)) => min.to_bits() == max.to_bits(),
        (min, max) => min == max,
    }
}

fn write_range(physical: &Physical, min: &ZoneValue, max: Option<&ZoneValue>, out: &mut Vec<u8>) {
    match (min, max) {
        (ZoneValue::UInt(min), max) => {
            write_varint(*min, out);
            if let Some(ZoneValue::UInt(max)) = max {
                write_varint(max - min, out);
            }
        }
        (ZoneValue::Int(min), max) if *physical != Physical::Fixed(Fixed::I128) => {
            write_signed(*min as i64, out);
            if let Some(ZoneValue::Int(max)) = max {
                write_varint((max - min) as u64, out);
            }
        }
        (min, max) => [Some(min), max].into_iter().flatten().for_each(|value| write_value(physical, value, out)),
    }
}

fn write_value(physical: &Physical, value: &ZoneValue, out: &mut Vec<u8>) {
    match value {
        ZoneValue::Bool(value) => out.push(u8::from(*value)),
        ZoneValue::Int(value) => write_bytes(shortest(&value.to_le_bytes()), out),
        ZoneValue::UInt(value) => write_varint(*value, out),
        ZoneValue::I256(value) => write_bytes(shortest(&value.to_le_bytes()), out),
        ZoneValue::Bytes(value) => write_bytes(value, out),
        ZoneValue::Float(value) => {
            let bytes = match physical {
                Physical::Fixed(Fixed::F16) => half::f16::from_f64(*value).to_be_bytes().to_vec(),
                Physical::Fixed(Fixed::F32) => (*value as f32).to_be_bytes().to_vec(),
                _ => value.to_be_bytes().to_vec(),
            };
            let kept = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            out.push(kept as u8);
            out.extend_from_slice(&bytes[..kept]);
        }
    }
}

/// The fewest leading bytes of a little-endian two's complement that say its value: those after them repeat the sign
/// of the last; zero needs none.
fn shortest(bytes: &[u8]) -> &[u8] {
    let mut kept = bytes.len();
    while kept > 0 {
        let sign_before = if kept > 1 { bytes[kept - 2] >> 7 } else { 0 };
        let repeats_sign = bytes[kept - 1] == if sign_before == 1 { 0xFF } else { 0 };
        if !repeats_sign {
            break;
        }
        kept -= 1;
    }
    &bytes[..kept]
}

/// Bytes of a little-endian two's complement, lengthened to N.
fn read_lengthened<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], WireError> {
    let at = WireError(reader.position());
    let bytes = reader.bytes()?;
    let sign = bytes.last().map_or(0, |last| last >> 7);
    let mut lengthened = [if sign == 1 { 0xFF } else { 0 }; N];
    lengthened.get_mut(..bytes.len()).ok_or(at)?.copy_from_slice(bytes);
    Ok(lengthened)
}

fn read_i128(reader: &mut Reader<'_>) -> Result<i128, WireError> {
    read_lengthened(reader).map(i128::from_le_bytes)
}

fn read_range(
    physical: &Physical,
    flags: u8,
    reader: &mut Reader<'_>,
) -> Result<(ZoneValue, Option<ZoneValue>), WireError> {
    let at = WireError(reader.position());
    let has_max = flags & (MAX_DROPPED | MAX_IS_MIN) == 0;
    let (min, max) = match physical {
        Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8 => {
            read_integers(*fixed, has_max, reader)?
        }
        _ => {
            let min = read_value(physical, reader)?;
            (min, if has_max { Some(read_value(physical, reader)?) } else { None })
        }
    };
    let max = if flags & MAX_IS_MIN != 0 { Some(min.clone()) } else { max };
    let is_range = max.as_ref().is_none_or(|max| min <= *max);
    // A zero is the lesser one in a minimum and the greater one in a maximum.
    let zeros_are_right = match (&min, &max) {
        (ZoneValue::Float(min), Some(ZoneValue::Float(max))) => {
            (*min != 0.0 || min.is_sign_negative()) && (*max != 0.0 || max.is_sign_positive())
        }
        _ => true,
    };
    if is_range && zeros_are_right { Ok((min, max)) } else { Err(at) }
}

/// Integers of up to 64 bits: the minimum, and the maximum as what it is above the minimum.
fn read_integers(
    fixed: Fixed,
    has_max: bool,
    reader: &mut Reader<'_>,
) -> Result<(ZoneValue, Option<ZoneValue>), WireError> {
    let at = WireError(reader.position());
    let bits = 8 * fixed.size_bytes() as u32;
    let (min, lowest, highest) = if fixed.is_signed() {
        (i128::from(reader.signed()?), -(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (i128::from(reader.varint()?), 0, (1i128 << bits) - 1)
    };
    let max = if has_max { Some(min + i128::from(reader.varint()?)) } else { None };
    if min < lowest || max.unwrap_or(min) > highest {
        return Err(at);
    }
    let value = |value: i128| if fixed.is_signed() { ZoneValue::Int(value) } else { ZoneValue::UInt(value as u64) };
    Ok((value(min), max.map(value)))
}

fn read_value(physical: &Physical, reader: &mut Reader<'_>) -> Result<ZoneValue, WireError> {
    let at = WireError(reader.position());
    Ok(match physical {
        Physical::Bool => match reader.u8()? {
            0 => ZoneValue::Bool(false),
            1 => ZoneValue::Bool(true),
            _ => return Err(at),
        },
        Physical::Fixed(Fixed::I128) => ZoneValue::Int(read_i128(reader)?),
        Physical::Fixed(Fixed::I256) => ZoneValue::I256(i256::from_le_bytes(read_lengthened(reader)?)),
        Physical::Fixed(fixed) => {
            let mut bytes = [0; 8];
            let kept = reader.u8()? as usize;
            if kept > fixed.size_bytes() {
                return Err(at);
            }
            bytes[..kept].copy_from_slice(reader.take(kept)?);
            let bits = u64::from_be_bytes(bytes);
            let value = match fixed {
                Fixed::F16 => f64::from(half::f16::from_bits((bits >> 48) as u16)),
                Fixed::F32 => f64::from(f32::from_bits((bits >> 32) as u32)),
                _ => f64::from_bits(bits),
            };
            if value.is_nan() {
                return Err(at);
            }
            ZoneValue::Float(value)
        }
        Physical::Bytes => {
            let bytes = reader.bytes()?;
            if bytes.len() > ZONE_STRING_BYTES {
                return Err(at);
            }
            ZoneValue::Bytes(bytes.to_vec())
        }
        Physical::Null | Physical::List(_) | Physical::FixedList(..) | Physical::Struct(_) => return Err(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twos_complement_is_as_short_as_can_be_and_comes_back() {
        let cases: [(i128, usize); 9] =
            [(0, 0), (1, 1), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i128::MAX, 16), (i128::MIN, 16)];
        for (value, length) in cases {
            let bytes = value.to_le_bytes();
            assert_eq!(shortest(&bytes).len(), length, "{value}");
            let mut out = Vec::new();
            write_bytes(shortest(&bytes), &mut out);
            assert_eq!(read_i128(&mut Reader::new(&out)), Ok(value));
        }
    }

    #[test]
    fn bytes_on_disk_are_those_of_the_spec() {
        let written = |zone: Zone, physical| {
            let mut out = Vec::new();
            zone.write(&physical, &mut out);
            out
        };
        let exact = |value| Some(Bound { value, is_exact: true });
        let about = |value| Some(Bound { value, is_exact: false });
        let signed = Zone { null_count: 300, sum: Some(-200), ..Zone::default() };
        let signed = Zone { min: exact(ZoneValue::Int(-3)), max: exact(ZoneValue::Int(200)), ..signed };
        let expected = [0b0100_0111, 0xAC, 2, 5, 0xCB, 1, 2, 0x38, 0xFF];
        assert_eq!(written(signed, Physical::Fixed(Fixed::I64)), expected);
        let floats = Zone { nan_count: 2, min: exact(ZoneValue::Float(-0.0)), ..Zone::default() };
        let floats = Zone { max: about(ZoneValue::Float(0.0)), ..floats };
        assert_eq!(written(floats, Physical::Fixed(Fixed::F64)), [0b0010_0011, 0, 2, 1, 0x80, 0]);
        let same = ZoneValue::Bytes(b"ab".to_vec());
        let constant =
            Zone { min: exact(same.clone()), max: exact(same.clone()), distinct: Some(1), ..Zone::default() };
        assert_eq!(written(constant, Physical::Bytes), [0b1001_0111, 0, 2, b'a', b'b', 1]);
        let dropped = Zone { min: about(same), ..Zone::default() };
        assert_eq!(written(dropped, Physical::Bytes), [0b0000_1001, 0, 2, b'a', b'b']);
        let half = Zone { min: exact(ZoneValue::Float(1.0)), max: exact(ZoneValue::Float(1.5)), ..Zone::default() };
        assert_eq!(written(half, Physical::Fixed(Fixed::F16)), [0b0000_0111, 0, 1, 0x3C, 1, 0x3E]);
    }

    #[test]
    fn what_no_zone_can_hold_is_refused() {
        let cases: [(Physical, &[u8]); 17] = [
            (Physical::Bytes, &[MIN_EXACT, 0]),
            (Physical::Bytes, &[RANGE | MAX_DROPPED | MAX_IS_MIN, 0, 0]),
            (Physical::Bytes, &[RANGE | MAX_DROPPED | MAX_EXACT, 0, 0]),
            (Physical::Bytes, &[RANGE, 0, 1, b'b', 1, b'a']),
            (Physical::Bytes, &[RANGE, 0, 0, 40]),
            (Physical::Bytes, &[NAN_COUNT, 0, 1]),
            (Physical::Bytes, &[SUM, 0, 1, 1]),
            (Physical::Null, &[RANGE, 0, 0, 0]),
            (Physical::List(Box::new(Physical::Bool)), &[DISTINCT, 0, 0]),
            (Physical::Bool, &[RANGE, 0, 2, 2]),
            (Physical::Bool, &[RANGE, 0, 1, 0]),
            (Physical::Fixed(Fixed::I8), &[RANGE | MAX_DROPPED, 0, 1]),
            (Physical::Fixed(Fixed::I8), &[RANGE, 0, 0, 128, 1]),
            (Physical::Fixed(Fixed::U8), &[RANGE, 0, 255, 1, 1]),
            (Physical::Fixed(Fixed::F32), &[RANGE, 0, 5, 0, 0, 0, 0, 0, 0]),
            (Physical::Fixed(Fixed::F32), &[RANGE | MAX_IS_MIN, 0, 3, 0x7F, 0xC0, 1]),
            (Physical::Fixed(Fixed::F64), &[RANGE, 0, 0, 1, 0x80]),
        ];
        for (physical, bytes) in cases {
            assert!(Zone::read(&physical, &mut Reader::new(bytes)).is_err(), "{physical} {bytes:?}");
        }
        let long = [&[RANGE | MAX_DROPPED, 0, 33][..], &[b'x'; 33]].concat();
        assert!(Zone::read(&Physical::Bytes, &mut Reader::new(&long)).is_err());
        let wide = [&[SUM, 0, 17][..], &[1; 17]].concat();
        assert!(Zone::read(&Physical::Fixed(Fixed::I64), &mut Reader::new(&wide)).is_err());
    }
}
