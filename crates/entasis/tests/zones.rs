//! Zones against a naive oracle, and against hostile bytes.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_buffer::i256;
use arrow_schema::DataType;
use entasis::{
    WriteOptions, Writer,
    arrow::{physical_of, with_column},
    generate::{Generator, flat_types},
    zone::{Bound, ZONE_STRING_BYTES, ZONE_SUM_ROWS, Zone, ZoneValue},
};
use entasis_encoding::{Column, Fixed, Lanes, Physical, Values, wire::Reader};
use proptest::prelude::*;

/// The value of a row that isn't null.
fn value_of(column: &Column<'_>, row: usize) -> ZoneValue {
    match (&column.values, row) {
        (Values::Bool(bits), row) => ZoneValue::Bool(bits.get(row)),
        (Values::Bytes(slices), row) => ZoneValue::Bytes(slices[row].to_vec()),
        (Values::Fixed(fixed, lanes), row) => match (fixed, lanes) {
            (Fixed::I8, Lanes::L8(lanes)) => ZoneValue::Int((lanes[row] as i8).into()),
            (Fixed::I16, Lanes::L16(lanes)) => ZoneValue::Int((lanes[row] as i16).into()),
            (Fixed::I32, Lanes::L32(lanes)) => ZoneValue::Int((lanes[row] as i32).into()),
            (Fixed::I64, Lanes::L64(lanes)) => ZoneValue::Int((lanes[row] as i64).into()),
            (_, Lanes::L128(lanes)) => ZoneValue::Int(lanes[row] as i128),
            (_, Lanes::L256(lanes)) => ZoneValue::I256(i256::from_parts(lanes[row].low, lanes[row].high as i128)),
            (Fixed::F16, Lanes::L16(lanes)) => ZoneValue::Float(half::f16::from_bits(lanes[row]).into()),
            (Fixed::F32, Lanes::L32(lanes)) => ZoneValue::Float(f32::from_bits(lanes[row]).into()),
            (Fixed::F64, Lanes::L64(lanes)) => ZoneValue::Float(f64::from_bits(lanes[row])),
            (_, Lanes::L8(lanes)) => ZoneValue::UInt(lanes[row].into()),
            (_, Lanes::L16(lanes)) => ZoneValue::UInt(lanes[row].into()),
            (_, Lanes::L32(lanes)) => ZoneValue::UInt(lanes[row].into()),
            (_, Lanes::L64(lanes)) => ZoneValue::UInt(lanes[row]),
        },
        (other, _) => panic!("{other:?} has no order"),
    }
}

fn order(left: &ZoneValue, right: &ZoneValue) -> Ordering {
    match (left, right) {
        (ZoneValue::Float(left), ZoneValue::Float(right)) => left.total_cmp(right),
        (left, right) => left.partial_cmp(right).unwrap(),
    }
}

fn same_bits(left: &ZoneValue, right: &ZoneValue) -> bool {
    order(left, right) == Ordering::Equal
}

fn check_against_oracle(column: &Column<'_>, zone: &Zone) {
    let is_valid = |&row: &usize| {
        !matches!(column.values, Values::Null) && column.validity.is_none_or(|validity| validity.get(row))
    };
    let valid: Vec<usize> = (0..column.rows).filter(is_valid).collect();
    assert_eq!(zone.null_count, (column.rows - valid.len()) as u64);
    if matches!(column.values, Values::Null | Values::List(..) | Values::FixedList(..) | Values::Struct(_)) {
        assert_eq!(zone, &Zone { null_count: zone.null_count, ..Zone::default() });
        return;
    }
    let is_nan = |value: &ZoneValue| matches!(value, ZoneValue::Float(value) if value.is_nan());
    let (nans, mut values): (Vec<_>, Vec<_>) = valid.into_iter().map(|row| value_of(column, row)).partition(is_nan);
    assert_eq!(zone.nan_count, nans.len() as u64);
    check_sum(column.rows, &values, zone);
    values.sort_by(order);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else {
        assert!(zone.min.is_none() && zone.max.is_none());
        return;
    };
    let min = zone.min.as_ref().unwrap();
    assert!(min.value <= *least);
    assert_eq!(min.is_exact, same_bits(&min.value, least));
    match &zone.max {
        Some(max) => {
            assert!(max.value >= *greatest);
            assert_eq!(max.is_exact, same_bits(&max.value, greatest));
        }
        None => {
            let ZoneValue::Bytes(greatest) = greatest else { panic!("only byte strings drop a maximum") };
            assert!(greatest[..ZONE_STRING_BYTES].iter().all(|&byte| byte == 0xFF));
        }
    }
    check_shape(zone, least, greatest);
}

fn check_sum(rows: usize, values: &[ZoneValue], zone: &Zone) {
    let mut integers = values.iter().map(|value| match value {
        ZoneValue::Int(value) => Some(*value),
        ZoneValue::UInt(value) => Some(i128::from(*value)),
        _ => None,
    });
    match zone.sum {
        Some(sum) => assert_eq!(Some(sum), integers.try_fold(0i128, |sum, value| Some(sum.wrapping_add(value?)))),
        None => assert!(rows < ZONE_SUM_ROWS || values.is_empty() || !matches!(values[0], ZoneValue::UInt(_))),
    }
}

/// Bounds are as tight as the spec has them.
fn check_shape(zone: &Zone, least: &ZoneValue, greatest: &ZoneValue) {
    match (zone.min().unwrap(), least) {
        (ZoneValue::Bytes(min), ZoneValue::Bytes(least)) => {
            assert_eq!(min[..], least[..least.len().min(ZONE_STRING_BYTES)]);
        }
        (ZoneValue::Float(min), _) if *min == 0.0 => assert!(min.is_sign_negative()),
        (min, least) => assert!(same_bits(min, least)),
    }
    match (zone.max(), greatest) {
        (Some(ZoneValue::Bytes(max)), ZoneValue::Bytes(greatest)) => assert!(max.len() <= greatest.len().min(32)),
        (Some(ZoneValue::Float(max)), _) if *max == 0.0 => assert!(max.is_sign_positive()),
        (Some(max), greatest) => assert!(same_bits(max, greatest)),
        (None, _) => {}
    }
}

fn check_bytes(physical: &Physical, zone: &Zone) {
    let mut bytes = Vec::new();
    zone.write(physical, &mut bytes);
    let mut reader = Reader::new(&bytes);
    let back = Zone::read(physical, &mut reader).unwrap();
    assert_eq!((&back, reader.remaining()), (zone, 0));
    let mut again = Vec::new();
    back.write(physical, &mut again);
    assert_eq!(again, bytes, "also the signs of zeros come back");
    for cut in 0..bytes.len() {
        assert!(Zone::read(physical, &mut Reader::new(&bytes[..cut])).is_err(), "{zone} cut at {cut}");
    }
}

#[test]
fn zones_of_every_type_are_those_of_the_oracle() {
    for (index, data_type) in flat_types().into_iter().enumerate() {
        let physical = physical_of(&data_type).unwrap();
        for (round, rows) in [1, 2, 63, 64, 65, 300, 1_024, 1_025, ZONE_SUM_ROWS, 5_000].into_iter().enumerate() {
            for seed in 0..4 {
                let seed = (index * 1_000 + round * 10 + seed) as u64;
                let array = Generator::new(seed).array(&data_type, rows);
                with_column(&array, |column| {
                    let zone = Zone::of(column, (seed % 2 == 1).then_some(seed));
                    check_against_oracle(column, &zone);
                    check_bytes(&physical, &zone);
                })
                .unwrap_or_else(|error| panic!("{data_type}, seed {seed}: {error}"));
            }
        }
    }
}

#[test]
fn nested_columns_have_null_counts_only() {
    let mut generator = Generator::new(7);
    for _ in 0..100 {
        let data_type = generator.data_type(3);
        if matches!(data_type, DataType::List(_) | DataType::FixedSizeList(..) | DataType::Struct(_)) {
            let array = generator.array(&data_type, 200);
            let zone = with_column(&array, |column| Zone::of(column, Some(3))).unwrap();
            let expected = array.nulls().map_or(0, |nulls| nulls.null_count() as u64);
            assert_eq!(zone, Zone { null_count: expected, ..Zone::default() });
            check_bytes(&physical_of(&data_type).unwrap(), &zone);
        }
    }
}

#[test]
fn sums_of_the_widest_integers_are_exact() {
    let highs = vec![u64::MAX; 65_536];
    let lows = vec![i64::MIN as u64; 65_536];
    let sum_of = |fixed, lanes: &[u64]| {
        let values = Values::Fixed(fixed, Lanes::L64(lanes));
        Zone::of(&Column { rows: lanes.len(), validity: None, values }, None).sum
    };
    assert_eq!(sum_of(Fixed::U64, &highs), Some(i128::from(u64::MAX) * 65_536));
    assert_eq!(sum_of(Fixed::I64, &lows), Some(i128::from(i64::MIN) * 65_536));
    assert_eq!(sum_of(Fixed::I64, &highs), Some(-65_536));
}

fn bytes_zone(values: &[&[u8]]) -> Zone {
    with_column(&BinaryArray::from_iter_values(values), |column| Zone::of(column, None)).unwrap()
}

#[test]
fn long_strings_are_cut_down_and_up() {
    let bound = |bytes: &[u8], is_exact| Some(Bound { value: ZoneValue::Bytes(bytes.to_vec()), is_exact });
    let exact = [b'x'; 32];
    assert_eq!(bytes_zone(&[&exact]).max, bound(&exact, true));
    let long = [b'x'; 33];
    let zone = bytes_zone(&[&long]);
    assert_eq!(zone.min, bound(&exact, false));
    assert_eq!(zone.max, bound(&[&exact[..31], b"y"].concat(), false));
    let carried = [&b"ab"[..], &[0xFF; 40]].concat();
    assert_eq!(bytes_zone(&[&carried]).max, bound(b"ac", false));
    let highest = [0xFF; 33];
    let zone = bytes_zone(&[&highest, b""]);
    assert_eq!((zone.min.clone(), zone.max.clone()), (bound(b"", true), None));
    check_bytes(&Physical::Bytes, &zone);
}

#[test]
fn the_prefix_of_strings_does_not_decide_alone() {
    let zone = bytes_zone(&[b"abcdefgh\0", b"abcdefgh", b"abcdefgh\0\0", b"abc\0\0", b"abc"]);
    assert_eq!(zone.min(), Some(&ZoneValue::Bytes(b"abc".to_vec())));
    assert_eq!(zone.max(), Some(&ZoneValue::Bytes(b"abcdefgh\0\0".to_vec())));
}

fn physical_types() -> Vec<Physical> {
    let mut types: Vec<Physical> = Fixed::ALL.into_iter().map(Physical::Fixed).collect();
    types.extend([Physical::Null, Physical::Bool, Physical::Bytes, Physical::List(Box::new(Physical::Bool))]);
    types
}

proptest! {
    #[test]
    fn any_bytes_give_a_zone_that_comes_back_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        flags in any::<u8>(),
    ) {
        let bytes = [&[flags][..], &bytes].concat();
        for physical in physical_types() {
            if let Ok(zone) = Zone::read(&physical, &mut Reader::new(&bytes)) {
                let mut out = Vec::new();
                zone.write(&physical, &mut out);
                prop_assert_eq!(&Zone::read(&physical, &mut Reader::new(&out)).unwrap(), &zone);
                prop_assert!(!zone.to_string().is_empty());
            }
        }
    }

    #[test]
    fn byte_strings_lie_within_their_zone(
        values in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xFE, 0xFF]), 0..40), 1..50),
    ) {
        let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let column = Column { rows: slices.len(), validity: None, values: Values::Bytes(&slices) };
        let zone = Zone::of(&column, None);
        check_against_oracle(&column, &zone);
        check_bytes(&Physical::Bytes, &zone);
    }

    #[test]
    fn floats_lie_within_their_zone(bits in prop::collection::vec(any::<u64>(), 1..200), zero in any::<bool>()) {
        let lanes: Vec<u64> = bits.into_iter().map(|bits| if zero { bits & (1 << 63) } else { bits }).collect();
        let values = Values::Fixed(Fixed::F64, Lanes::L64(&lanes));
        let column = Column { rows: lanes.len(), validity: None, values };
        let zone = Zone::of(&column, None);
        check_against_oracle(&column, &zone);
        check_bytes(&Physical::Fixed(Fixed::F64), &zone);
    }
}

/// Another number for every number, far from those of its neighbours.
fn scattered(number: i64) -> i64 {
    let mixed = (number + 1).wrapping_mul(0x1E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0x3F58_476D_1CE4_E5B9)
}

#[test]
fn zones_know_about_how_many_values_are_distinct() {
    let few = StringArray::from_iter_values((0..5_000).map(|row| format!("{}", row % 40)));
    let gaps = Int64Array::from_iter((0..5_000).map(|row| (row % 3 == 0).then(|| scattered(row / 3 * 37 % 100))));
    let unique = UInt64Array::from_iter_values((0..5_000u64).map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    let columns: [(&str, ArrayRef); 3] =
        [("few", Arc::new(few)), ("gaps", Arc::new(gaps)), ("unique", Arc::new(unique))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = Writer::new(Vec::new(), batch.schema(), WriteOptions::default()).unwrap();
    writer.write(&batch).unwrap();
    let reader = entasis::Reader::from_bytes(writer.finish().unwrap().0.into()).unwrap();
    let distinct = |column| reader.column(column).unwrap().chunks[0].blocks[0].zone.distinct;
    assert_eq!((distinct(0), distinct(1), distinct(2)), (Some(40), Some(100), None));
}
