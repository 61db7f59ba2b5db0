//! Arrays → lent columns → decoded values → arrays, with a naive copy where encoding and decoding will be.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_schema::{DataType, Field, Schema};
use entasis::{
    arrow::{ColumnNode, Split, Strings, empty_array, empty_decoded, shred, target_type, to_arrow, with_column},
    compare::{first_array_difference, first_difference},
    generate::{Generator, flat_types, nested_types},
};
use entasis_encoding::{Column, Decoded, DecodedBytes, DecodedValues, Lanes, Values, Views};

/// Appends `column` to `out`, value by value.
fn copy(column: &Column<'_>, out: &mut Decoded) {
    out.rows += column.rows;
    out.validity = column.validity.map(|bits| bits.iter().collect());
    match (&column.values, &mut out.values) {
        (Values::Null, DecodedValues::Null) => {}
        (Values::Bool(bits), DecodedValues::Bool(out)) => bits.iter().for_each(|bit| out.push(bit)),
        (Values::Fixed(_, Lanes::L8(lanes)), DecodedValues::L8(out)) => out.extend_from_slice(lanes),
        (Values::Fixed(_, Lanes::L16(lanes)), DecodedValues::L16(out)) => out.extend_from_slice(lanes),
        (Values::Fixed(_, Lanes::L32(lanes)), DecodedValues::L32(out)) => out.extend_from_slice(lanes),
        (Values::Fixed(_, Lanes::L64(lanes)), DecodedValues::L64(out)) => out.extend_from_slice(lanes),
        (Values::Fixed(_, Lanes::L128(lanes)), DecodedValues::L128(out)) => out.extend_from_slice(lanes),
        (Values::Fixed(_, Lanes::L256(lanes)), DecodedValues::L256(out)) => out.extend_from_slice(lanes),
        (Values::Bytes(slices), DecodedValues::Bytes(out)) => slices.iter().for_each(|slice| push(slice, out)),
        (Values::List(offsets, child), DecodedValues::List(out, out_child)) => {
            out.extend(offsets[1..].iter().map(|&offset| u64::from(offset)));
            copy(child, out_child);
        }
        (Values::FixedList(_, child), DecodedValues::FixedList(_, out)) => copy(child, out),
        (Values::Struct(fields), DecodedValues::Struct(out)) => {
            fields.iter().zip(out).for_each(|(field, out)| copy(field, out));
        }
        (values, out) => panic!("{values:?} into {out:?}"),
    }
}

fn push(value: &[u8], out: &mut DecodedBytes) {
    match out {
        DecodedBytes::Offsets32(offsets, bytes) => {
            bytes.extend_from_slice(value);
            offsets.push(bytes.len() as i32);
        }
        DecodedBytes::Offsets64(offsets, bytes) => {
            bytes.extend_from_slice(value);
            offsets.push(bytes.len() as i64);
        }
        DecodedBytes::Views(strings) => {
            let (mut views, mut buffers) = std::mem::take(strings).into_parts();
            let mut view = [0; 16];
            view[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
            if value.len() <= 12 {
                view[4..4 + value.len()].copy_from_slice(value);
            } else {
                view[4..8].copy_from_slice(&value[..4]);
                view[8..12].copy_from_slice(&(buffers.len() as u32).to_le_bytes());
                buffers.push(value.to_vec().into());
            }
            views.push(u128::from_le_bytes(view));
            *strings = Views::new(views, buffers).unwrap();
        }
    }
}

fn round_trip(array: &dyn Array, target: &DataType) -> ArrayRef {
    let mut decoded = empty_decoded(target).unwrap();
    with_column(array, |column| copy(column, &mut decoded)).unwrap();
    to_arrow(decoded, target).unwrap_or_else(|error| panic!("{target}: {error}"))
}

fn check(array: &ArrayRef, strings: Strings, context: &str) {
    let target = target_type(array.data_type(), strings);
    let back = round_trip(array, &target);
    back.to_data().validate_full().unwrap();
    assert_eq!(back.data_type(), &target, "{context}");
    let difference = first_array_difference(array, &back).unwrap();
    assert!(difference.is_none(), "{context}: {}", difference.unwrap());
    assert_eq!(array.logical_null_count(), back.logical_null_count(), "{context}");
    if &target == array.data_type() && !matches!(target, DataType::Dictionary(..)) {
        assert!(arrow_equal(array, &back), "{context}: Arrow sees a difference in {target}");
    }
}

/// Arrow's own equality where it is bit for bit: it holds NaNs for unequal, looks at dictionaries' keys, and at values of
/// sparse unions in rows of other types.
fn arrow_equal(left: &ArrayRef, right: &ArrayRef) -> bool {
    let type_text = left.data_type().to_string();
    let is_another = ["Float", "Dictionary", "Union(Sparse"].iter().any(|word| type_text.contains(word));
    is_another || left.to_data() == right.to_data()
}

#[test]
fn every_flat_type_comes_back() {
    for (index, data_type) in flat_types().into_iter().enumerate() {
        for rows in [0, 1, 2, 63, 64, 65, 1_000, 1_025] {
            for round in 0..4 {
                let seed = (index * 10_000 + rows * 4 + round) as u64;
                let array = Generator::new(seed).array(&data_type, rows);
                for strings in [Strings::AsStored, Strings::Views, Strings::Offsets] {
                    check(&array, strings, &format!("{data_type}, {rows} rows, seed {seed}, {strings:?}"));
                }
            }
        }
    }
}

#[test]
fn every_nested_type_comes_back() {
    for (index, data_type) in nested_types().into_iter().enumerate() {
        for rows in [0, 1, 64, 1_025] {
            let array = Generator::new((index * 10_000 + rows) as u64).array(&data_type, rows);
            for strings in [Strings::AsStored, Strings::Views, Strings::Offsets] {
                check(&array, strings, &format!("{data_type}, {rows} rows, {strings:?}"));
            }
        }
    }
}

#[test]
fn nested_types_come_back() {
    for seed in 0..400 {
        let mut generator = Generator::new(seed);
        let data_type = loop {
            match generator.data_type(4) {
                nested if nested.is_nested() => break nested,
                _ => continue,
            }
        };
        let rows = generator.below(200);
        let array = generator.array(&data_type, rows);
        let strings = [Strings::AsStored, Strings::Views, Strings::Offsets][seed as usize % 3];
        check(&array, strings, &format!("{data_type}, {rows} rows, seed {seed}"));
    }
}

#[test]
fn batches_come_back_through_shredding() {
    for seed in 0..100 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(6);
        let batch = {
            let rows = generator.below(150);
            generator.batch(&schema, rows)
        };
        let column_back = |(node, array): (&ColumnNode, &ArrayRef)| {
            let mut leaves = node.columns().into_iter();
            let parts = node.split(array).unwrap().into_iter().map(|part| {
                let leaf = leaves.next().unwrap();
                match part {
                    Split::Leaf(values) => Split::Leaf(round_trip(&values, leaf.field.data_type())),
                    validity => validity,
                }
            });
            node.assemble(&mut parts.collect::<Vec<_>>().into_iter()).unwrap()
        };
        let nodes = shred(&schema).unwrap();
        let columns = nodes.iter().zip(batch.columns()).map(column_back).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let back = RecordBatch::try_new_with_options(schema, columns, &options).unwrap();
        assert_eq!(first_difference(&batch, &back).unwrap(), None, "seed {seed}");
    }
}

#[test]
fn empty_arrays_of_every_type_are_made() {
    for data_type in flat_types().into_iter().chain(nested_types()) {
        assert_eq!(empty_array(&data_type).unwrap().to_data(), new_empty_array(&data_type).to_data());
        assert_eq!(to_arrow(empty_decoded(&data_type).unwrap(), &data_type).unwrap().len(), 0);
    }
}

#[test]
fn a_change_of_one_value_is_found_where_it_is() {
    let mut found = 0;
    for seed in 0..400 {
        let mut generator = Generator::new(seed);
        let data_type = generator.data_type(3);
        let left = generator.array(&data_type, 100);
        let row = generator.below(100);
        let other = generator.array(&data_type, 1);
        let parts = [left.slice(0, row), other.clone(), left.slice(row + 1, 99 - row)];
        if data_type.to_string().contains("Int8,") {
            continue; // The keys of joined dictionaries may not fit 8 bits.
        }
        let right = arrow_select::concat::concat(&parts.each_ref().map(|part| part.as_ref())).unwrap();
        let same = first_array_difference(&left.slice(row, 1), &other).unwrap();
        let difference = first_array_difference(&left, &right).unwrap();
        assert_eq!(difference.as_ref().map(|found| found.row), same.as_ref().map(|_| row), "seed {seed}, {data_type}");
        if let (Some(difference), Some(same)) = (difference, same) {
            assert_eq!((difference.column, difference.left), (same.column, same.left), "seed {seed}, {data_type}");
            found += 1;
        }
    }
    assert!(found > 100, "only {found} cases had a difference");
}

#[test]
fn tables_that_differ_as_wholes_say_how() {
    let batch = |name: &str, array: ArrayRef| {
        let schema = Schema::new(vec![Field::new(name, array.data_type().clone(), true)]);
        RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap()
    };
    let mut generator = Generator::new(1);
    let numbers = generator.array(&DataType::Int32, 3);
    let left = batch("a", numbers.clone());
    let text = |right: &RecordBatch| first_difference(&left, right).unwrap().unwrap().to_string();
    assert!(text(&batch("b", numbers.clone())).contains("column \"b\" on the right"));
    assert!(text(&batch("a", numbers.slice(0, 2))).contains("2 rows on the right"));
    assert!(text(&batch("a", generator.array(&DataType::Date32, 3))).contains("type Date32 on the right"));
}
