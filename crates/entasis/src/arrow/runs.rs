//! Run-end encoded arrays from decoded values: neighbours that are equal make a run.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, PrimitiveArray, make_array,
    types::{ArrowPrimitiveType, Int16Type, Int32Type, Int64Type},
};
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use entasis_encoding::{Decoded, with_decoded_lanes};

use super::{
    output::to_arrow,
    rows::{is_valid, push_row},
};
use crate::{Error, Result};

/// A run-end encoded array of `decoded` rows; one whose run ends don't reach the last row is an error. Nulls become runs even
/// where the values have none: they may lie under those of a parent.
pub(super) fn to_runs(decoded: Decoded, data_type: &DataType, run_ends: &Field, values: &Field) -> Result<ArrayRef> {
    let rows = decoded.rows;
    let starts = starts_of_runs(&decoded)?;
    let mut picked = decoded.empty_like();
    picked.extend_picked(&decoded, starts.iter().copied())?;
    let run_values = to_arrow(picked, values.data_type())?;
    let ends = starts.iter().copied().skip(1).chain((rows > 0).then_some(rows));
    let ends = match run_ends.data_type() {
        DataType::Int16 => ends_of::<Int16Type>(ends)?,
        DataType::Int32 => ends_of::<Int32Type>(ends)?,
        _ => ends_of::<Int64Type>(ends)?,
    };
    let builder = ArrayData::builder(data_type.clone()).len(rows);
    Ok(make_array(builder.child_data(vec![ends.to_data(), run_values.to_data()]).build()?))
}

/// The rows that differ from the row before.
fn starts_of_runs(decoded: &Decoded) -> Result<Vec<usize>> {
    let validity = decoded.validity.as_ref();
    let of_lanes = with_decoded_lanes!(
        &decoded.values,
        lanes => Some(starts(decoded.rows, |row| {
            let (valid_before, valid) = (is_valid(validity, row - 1), is_valid(validity, row));
            Ok(valid_before != valid || (valid && lanes[row - 1] != lanes[row]))
        })),
        None
    );
    let (mut before, mut here) = (Vec::new(), Vec::new());
    of_lanes.unwrap_or_else(|| {
        starts(decoded.rows, |row| {
            if row == 1 {
                push_row(decoded, 0, &mut here)?;
            }
            std::mem::swap(&mut before, &mut here);
            here.clear();
            push_row(decoded, row, &mut here)?;
            Ok(before != here)
        })
    })
}

/// The first row, and those after it that `is_start`.
fn starts(rows: usize, mut is_start: impl FnMut(usize) -> Result<bool>) -> Result<Vec<usize>> {
    let mut starts = Vec::new();
    for row in 0..rows {
        if row == 0 || is_start(row)? {
            starts.push(row);
        }
    }
    Ok(starts)
}

fn ends_of<T: ArrowPrimitiveType>(ends: impl Iterator<Item = usize>) -> Result<ArrayRef> {
    let end = |end: usize| {
        T::Native::from_usize(end).ok_or_else(|| {
            let what = format!("{end} rows don't fit run ends of type {}: read fewer rows at once", T::DATA_TYPE);
            Error::InvalidArgument(what)
        })
    };
    Ok(Arc::new(PrimitiveArray::<T>::from_iter_values(ends.map(end).collect::<Result<Vec<_>>>()?)))
}

/// The most rows that run ends among the columns of a type can number, those inside of lists apart.
pub fn most_rows(data_type: &DataType) -> usize {
    match data_type {
        DataType::RunEndEncoded(run_ends, _) => match run_ends.data_type() {
            DataType::Int16 => i16::MAX as usize,
            DataType::Int32 => i32::MAX as usize,
            _ => usize::MAX,
        },
        DataType::Struct(fields) => fields.iter().map(|field| most_rows(field.data_type())).min().unwrap_or(usize::MAX),
        DataType::Union(fields, _) => {
            fields.iter().map(|(_, field)| most_rows(field.data_type())).min().unwrap_or(usize::MAX)
        }
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, RunArray, StringArray};
    use entasis_encoding::{DecodedBytes, DecodedValues};

    use super::*;

    fn runs_of(run_ends: DataType, values: DataType, decoded: Decoded) -> Result<ArrayRef> {
        let fields = [Field::new("ends", run_ends, false), Field::new("of", values, true)].map(Arc::new);
        let data_type = DataType::RunEndEncoded(fields[0].clone(), fields[1].clone());
        let array = to_runs(decoded, &data_type, &fields[0], &fields[1])?;
        assert_eq!(array.data_type(), &data_type);
        array.to_data().validate_full().unwrap();
        Ok(array)
    }

    #[test]
    fn equal_neighbours_are_one_run_and_so_are_nulls() {
        let values = DecodedValues::L32(vec![7, 7, 8, 9, 9, 9]);
        let validity = Some([true, true, false, false, true, true].into_iter().collect());
        let array = runs_of(DataType::Int16, DataType::Int32, Decoded { rows: 6, validity, values }).unwrap();
        let array = array.as_any().downcast_ref::<RunArray<Int16Type>>().unwrap();
        assert_eq!(array.run_ends().values(), [2, 4, 6]);
        assert_eq!(array.values().as_ref(), &Int32Array::from(vec![Some(7), None, Some(9)]));

        let texts = DecodedBytes::Offsets32(vec![0, 1, 2, 3, 3], b"aab".to_vec());
        let decoded = Decoded { rows: 4, validity: None, values: DecodedValues::Bytes(texts) };
        let array = runs_of(DataType::Int64, DataType::Utf8, decoded).unwrap();
        let array = array.as_any().downcast_ref::<RunArray<Int64Type>>().unwrap();
        assert_eq!(array.run_ends().values(), [2, 3, 4]);
        assert_eq!(array.values().as_ref(), &StringArray::from(vec!["a", "b", ""]));
    }

    #[test]
    fn no_rows_are_no_runs_and_too_many_an_error() {
        let zeros = |rows| Decoded { rows, validity: None, values: DecodedValues::L32(vec![0; rows]) };
        assert_eq!(runs_of(DataType::Int16, DataType::Int32, zeros(0)).unwrap().len(), 0);
        assert_eq!(runs_of(DataType::Int16, DataType::Int32, zeros(32_767)).unwrap().len(), 32_767);
        let error = runs_of(DataType::Int16, DataType::Int32, zeros(32_768)).unwrap_err().to_string();
        assert!(error.contains("read fewer rows"), "{error}");
    }

    #[test]
    fn the_narrowest_run_ends_limit_the_rows() {
        let runs = |ends| {
            let values = Arc::new(Field::new("values", DataType::Int32, true));
            Field::new("runs", DataType::RunEndEncoded(Arc::new(Field::new("run_ends", ends, false)), values), true)
        };
        let fields = vec![runs(DataType::Int64), runs(DataType::Int16), runs(DataType::Int32)];
        assert_eq!(most_rows(&DataType::Struct(vec![fields[0].clone()].into())), usize::MAX);
        assert_eq!(most_rows(&DataType::Struct(vec![fields[2].clone()].into())), i32::MAX as usize);
        assert_eq!(most_rows(&DataType::Struct(fields.into())), 32_767);
    }
}
