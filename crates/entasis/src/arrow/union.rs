//! Unions, as structs: a type id a row, and the children beside it.
//!
//! A child of a sparse union has a value in every row; those of rows of other types become null. A child of a dense union is
//! a list with one item in its own rows and none in others, so that its values are those of its rows, in their order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, GenericListArray, StructArray, UInt8Array, UnionArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, UnionFields, UnionMode};
use arrow_select::nullif::nullif;
use entasis_encoding::{Decoded, DecodedValues};

use super::{
    output::{mismatch, to_arrow},
    plain::{gather, plain_array, plain_field},
};
use crate::{Error, Result};

/// The type ids, then the children.
pub(super) fn plain_fields(fields: &UnionFields, mode: UnionMode) -> Fields {
    let ids = Arc::new(Field::new("type_ids", DataType::UInt8, false));
    let child = |(_, field): (i8, &FieldRef)| match mode {
        UnionMode::Sparse => plain_field(field),
        UnionMode::Dense => Arc::new(Field::new(field.name(), DataType::List(plain_field(field)), true)),
    };
    [ids].into_iter().chain(fields.iter().map(child)).collect()
}

fn plain_union(
    fields: &UnionFields,
    mode: UnionMode,
    union: &UnionArray,
    child: impl Fn(i8, &FieldRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let ids: ArrayRef = Arc::new(union.type_ids().iter().map(|&id| id as u8).collect::<UInt8Array>());
    let children = fields.iter().map(|(id, field)| child(id, field));
    let columns = [Ok(ids)].into_iter().chain(children).collect::<Result<_>>()?;
    Ok(Arc::new(StructArray::try_new(plain_fields(fields, mode), columns, None)?))
}

/// Every child with nulls in the rows of other types.
pub(super) fn plain_sparse(fields: &UnionFields, union: &UnionArray) -> Result<ArrayRef> {
    plain_union(fields, UnionMode::Sparse, union, |id, _| {
        let others: BooleanArray = union.type_ids().iter().map(|&other| Some(other != id)).collect();
        let child = union.child(id);
        match child.data_type() {
            // Plain intervals are zeros where they are null: they have to know.
            DataType::Interval(_) => plain_array(&nullif(child, &others)?),
            // So have structs of dictionaries and runs, whose nulls are null throughout; but unions can't be null.
            DataType::Dictionary(..) | DataType::RunEndEncoded(..) if !are_unions(child.data_type()) => {
                let own = others.iter().zip(0..).map(|(other, row)| (other == Some(false)).then_some(row));
                gather(&plain_array(child)?, &own.collect())
            }
            _ => Ok(nullif(&plain_array(child)?, &others)?),
        }
    })
}

/// Whether the rows of a type are unions, which are shared by runs if at all.
fn are_unions(data_type: &DataType) -> bool {
    match data_type {
        DataType::RunEndEncoded(_, values) => are_unions(values.data_type()),
        other => matches!(other, DataType::Union(..)),
    }
}

/// Every child as lists of one item, or none.
pub(super) fn plain_dense(fields: &UnionFields, union: &UnionArray) -> Result<ArrayRef> {
    let Some(offsets) = union.offsets() else {
        return Err(Error::InvalidArgument("a dense union without offsets".to_owned()));
    };
    let ids = union.type_ids();
    plain_union(fields, UnionMode::Dense, union, |id, field| {
        let lengths = OffsetBuffer::<i32>::from_lengths(ids.iter().map(|&other| usize::from(other == id)));
        let own = ids.iter().zip(offsets).filter(|&(&other, _)| other == id).map(|(_, &offset)| offset as u64);
        let first = own.clone().next().unwrap_or(0);
        let count = lengths[ids.len()] as usize;
        let items = match own.clone().eq(first..first + count as u64) {
            true => plain_array(&union.child(id).slice(first as usize, count))?,
            false => gather(&plain_array(union.child(id))?, &own.collect())?,
        };
        Ok(Arc::new(GenericListArray::<i32>::try_new(plain_field(field), lengths, items, None)?))
    })
}

/// A union of `rows` rows, from what was decoded of its type ids and children. Offsets of dense unions ascend.
pub(super) fn from_decoded(
    fields: &UnionFields,
    mode: UnionMode,
    decoded: Vec<Decoded>,
    rows: usize,
) -> Result<ArrayRef> {
    let mut decoded = decoded.into_iter();
    let ids: ScalarBuffer<i8> = match decoded.next().map(|ids| ids.values) {
        Some(DecodedValues::L8(ids)) if ids.len() == rows => ids.into_iter().map(|id| id as i8).collect(),
        _ => {
            return Err(Error::InvalidArgument(format!("there aren't as many type ids as the {rows} rows of a union")));
        }
    };
    let mut offsets = vec![0; rows];
    let child = |((id, field), decoded): ((i8, &FieldRef), Decoded)| {
        let (own_rows, values) = match (mode, decoded) {
            (UnionMode::Sparse, decoded) => (None, decoded),
            (UnionMode::Dense, Decoded { values: DecodedValues::List(ends, items), .. }) => {
                place(id, &ids, &ends, &mut offsets)?;
                (Some(items.rows), *items)
            }
            (UnionMode::Dense, Decoded { values, .. }) => return Err(mismatch(&values, field.data_type())),
        };
        let child = to_arrow(values, field.data_type())?;
        let has_null = || match own_rows {
            Some(_) => child.logical_null_count() > 0,
            None => ids.iter().zip(0..).any(|(&other, row)| other == id && child.is_null(row)),
        };
        if !field.is_nullable() && has_null() {
            return Err(Error::InvalidArgument(format!(
                "nulls in the field {:?} of a union, which has none",
                field.name()
            )));
        }
        Ok(child)
    };
    let children = fields.iter().zip(decoded).map(child).collect::<Result<_>>()?;
    let offsets = (mode == UnionMode::Dense).then(|| offsets.into());
    Ok(Arc::new(UnionArray::try_new(fields.clone(), ids, offsets, children)?))
}

/// Says for each row of the type `id` where its value is among those of the type. `ends` are the offsets of lists, which
/// must have one item in these rows and none in others.
fn place(id: i8, ids: &[i8], ends: &[u64], offsets: &mut [i32]) -> Result<()> {
    let wrong = |row: usize| Error::InvalidArgument(format!("row {row} of a union doesn't have one value of its type"));
    if ends.len() != ids.len() + 1 {
        return Err(wrong(ids.len()));
    }
    for (row, pair) in ends.windows(2).enumerate() {
        let is_own = ids[row] == id;
        if pair[1].checked_sub(pair[0]) != Some(u64::from(is_own)) {
            return Err(wrong(row));
        }
        if is_own {
            offsets[row] = i32::try_from(pair[0]).map_err(|_| wrong(row))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray, cast::AsArray};
    use entasis_encoding::DecodedBytes;

    use super::*;

    fn fields() -> UnionFields {
        let fields = [Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, false)];
        UnionFields::try_new([5, 0], fields).unwrap()
    }

    fn decoded(rows: usize, values: DecodedValues) -> Decoded {
        Decoded { rows, validity: None, values }
    }

    #[test]
    fn dense_unions_keep_what_rows_refer_to_in_their_order() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(10), None, Some(12), Some(13)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let (ids, offsets) = (vec![5, 0, 5, 5, 0, 5], vec![3, 1, 0, 3, 1, 1]);
        let union = UnionArray::try_new(fields(), ids.into(), Some(offsets.into()), vec![numbers, texts]).unwrap();
        let union: ArrayRef = Arc::new(union.slice(1, 5));
        let plain = plain_array(&union).unwrap();
        let plain = plain.as_struct();
        assert_eq!(plain.column(0).as_ref(), &UInt8Array::from(vec![0, 5, 5, 0, 5]));
        let (numbers, texts) = (plain.column(1).as_list::<i32>(), plain.column(2).as_list::<i32>());
        assert_eq!(numbers.value_offsets(), [0, 0, 1, 2, 2, 3]);
        assert_eq!(numbers.values().as_ref(), &Int32Array::from(vec![Some(10), Some(13), None]));
        assert_eq!(texts.value_offsets(), [0, 1, 1, 1, 2, 2]);
        assert_eq!(texts.values().as_ref(), &StringArray::from(vec!["b", "b"]));
    }

    #[test]
    fn sparse_unions_lose_what_no_row_shows() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(10), None, Some(12), Some(13)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
        let union = UnionArray::try_new(fields(), vec![5, 5, 0, 5].into(), None, vec![numbers, texts]).unwrap();
        let union: ArrayRef = Arc::new(union.slice(1, 3));
        let plain = plain_array(&union).unwrap();
        let plain = plain.as_struct();
        assert_eq!(plain.column(0).as_ref(), &UInt8Array::from(vec![5, 0, 5]));
        assert_eq!(plain.column(1).as_ref(), &Int32Array::from(vec![None, None, Some(13)]));
        assert_eq!(plain.column(2).as_ref(), &StringArray::from(vec![None, Some("c"), None]));
    }

    #[test]
    fn ids_and_lists_that_do_not_fit_are_errors() {
        let dense = |ids: Vec<u8>, ends: [Vec<u64>; 2]| {
            let [first, second] = ends;
            let count = |ends: &[u64]| ends.last().map_or(0, |&end| end as usize);
            let numbers = decoded(count(&first), DecodedValues::L32(vec![7; count(&first)]));
            let offsets = (0..=count(&second) as i32).collect();
            let texts = DecodedBytes::Offsets32(offsets, vec![b'x'; count(&second)]);
            let texts = decoded(count(&second), DecodedValues::Bytes(texts));
            let rows = ids.len();
            let children = vec![
                decoded(rows, DecodedValues::L8(ids)),
                decoded(rows, DecodedValues::List(first, Box::new(numbers))),
                decoded(rows, DecodedValues::List(second, Box::new(texts))),
            ];
            from_decoded(&fields(), UnionMode::Dense, children, rows)
        };
        let whole = dense(vec![5, 0, 5], [vec![0, 1, 1, 2], vec![0, 0, 1, 1]]).unwrap();
        assert_eq!(whole.as_union().offsets().unwrap().as_ref(), [0, 0, 1]);
        assert!(dense(vec![5, 0, 4], [vec![0, 1, 1, 1], vec![0, 0, 1, 1]]).is_err(), "no type has this id");
        assert!(dense(vec![5, 0, 0xFF], [vec![0, 1, 1, 1], vec![0, 0, 1, 1]]).is_err(), "a negative id");
        assert!(dense(vec![5, 0, 5], [vec![0, 1, 1, 1], vec![0, 0, 1, 1]]).is_err(), "a row without a value");
        assert!(dense(vec![5, 0, 5], [vec![0, 1, 2, 3], vec![0, 0, 1, 1]]).is_err(), "a row with two values");
        assert!(dense(vec![5, 0, 5], [vec![0, 1, 1, 3], vec![0, 0, 1, 1]]).is_err(), "two values of one type");
        assert!(dense(vec![5, 0, 5], [vec![0, 1, 1], vec![0, 0, 1]]).is_err(), "fewer lists than rows");
        let numbers = decoded(2, DecodedValues::L32(vec![1, 2]));
        let bytes = DecodedBytes::Offsets32(vec![0, 0, 0], vec![]);
        let validity = Some([true, false].into_iter().collect());
        let texts = Decoded { rows: 2, validity, values: DecodedValues::Bytes(bytes) };
        let sparse = |ids: Vec<u8>| {
            let ids = decoded(2, DecodedValues::L8(ids));
            from_decoded(&fields(), UnionMode::Sparse, vec![ids, numbers.clone(), texts.clone()], 2)
        };
        assert!(sparse(vec![0, 5]).is_ok(), "nulls in rows of other types don't count");
        assert!(sparse(vec![5, 0]).is_err(), "a null in a field without nulls");
        assert!(sparse(vec![0]).is_err() && sparse(vec![0, 6]).is_err());
    }
}
