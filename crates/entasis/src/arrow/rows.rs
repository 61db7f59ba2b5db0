//! Rows of decoded values of any type, as bytes: to tell them apart where a type's layout names each value once.

use entasis_encoding::{BitBuffer, Decoded, DecodedBytes, DecodedValues};

use crate::{Error, Result};

/// Appends bytes that are equal exactly for equal values, whatever lies under nulls.
pub(super) fn push_row(decoded: &Decoded, row: usize, out: &mut Vec<u8>) -> Result<()> {
    if !is_valid(decoded.validity.as_ref(), row) || matches!(decoded.values, DecodedValues::Null) {
        out.push(0);
        return Ok(());
    }
    out.push(1);
    match &decoded.values {
        DecodedValues::Null => {}
        DecodedValues::Bool(bits) => out.push(u8::from(bits.bits().get(row))),
        DecodedValues::L8(lanes) => out.push(lanes[row]),
        DecodedValues::L16(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        DecodedValues::L32(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        DecodedValues::L64(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        DecodedValues::L128(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        DecodedValues::L256(lanes) => {
            out.extend_from_slice(&lanes[row].low.to_le_bytes());
            out.extend_from_slice(&lanes[row].high.to_le_bytes());
        }
        DecodedValues::Bytes(bytes) => push_bytes(bytes, row, out)?,
        DecodedValues::List(offsets, child) => {
            let items = offsets[row] as usize..offsets[row + 1] as usize;
            out.extend_from_slice(&items.len().to_le_bytes());
            items.into_iter().try_for_each(|item| push_row(child, item, out))?;
        }
        DecodedValues::FixedList(size, child) => {
            let size = *size as usize;
            (row * size..(row + 1) * size).try_for_each(|item| push_row(child, item, out))?;
        }
        DecodedValues::Struct(fields) => fields.iter().try_for_each(|field| push_row(field, row, out))?,
    }
    Ok(())
}

/// Whether a row has a value.
pub(super) fn is_valid(validity: Option<&BitBuffer>, row: usize) -> bool {
    validity.is_none_or(|validity| validity.bits().get(row))
}

/// Appends the length and the bytes of a byte string.
fn push_bytes(bytes: &DecodedBytes, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let found = match bytes {
        DecodedBytes::Offsets32(offsets, bytes) => bytes.get(offsets[row] as usize..offsets[row + 1] as usize),
        DecodedBytes::Offsets64(offsets, bytes) => bytes.get(offsets[row] as usize..offsets[row + 1] as usize),
        DecodedBytes::Views(_) => {
            bytes.with(row, |string| {
                out.extend_from_slice(&string.len().to_le_bytes());
                out.extend_from_slice(string);
            });
            return Ok(());
        }
    };
    let bytes = found.ok_or_else(|| Error::InvalidArgument(format!("byte string {row} ends behind its buffer")))?;
    out.extend_from_slice(&bytes.len().to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use entasis_encoding::Views;

    use super::*;

    fn decoded(rows: usize, values: DecodedValues) -> Decoded {
        Decoded { rows, validity: None, values }
    }

    fn bytes_of(decoded: &Decoded, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        push_row(decoded, row, &mut out).unwrap();
        out
    }

    /// Views of "short", of a text twice, and of another.
    fn texts() -> DecodedValues {
        let buffer = Bytes::from_static(b"a text of some length|a text of some length|another of that length");
        let far = |start: usize| {
            let prefix = u32::from_le_bytes(*buffer[start..].first_chunk().unwrap());
            21 | u128::from(prefix) << 32 | (start as u128) << 96
        };
        let short = u128::from_le_bytes(*b"\x05\0\0\0short\0\0\0\0\0\0\0");
        let views = vec![short, far(0), far(22), far(44)];
        DecodedValues::Bytes(DecodedBytes::Views(Views::new(views, vec![buffer]).unwrap()))
    }

    #[test]
    fn rows_have_equal_bytes_exactly_if_they_are_equal() {
        let texts = decoded(4, texts());
        assert_eq!(bytes_of(&texts, 1), bytes_of(&texts, 2));
        assert_ne!(bytes_of(&texts, 0), bytes_of(&texts, 1));
        assert_ne!(bytes_of(&texts, 2), bytes_of(&texts, 3));

        let mut floats = decoded(4, DecodedValues::L64([0.0f64, -0.0, f64::NAN, f64::NAN].map(f64::to_bits).to_vec()));
        floats.validity = Some([true, true, true, false].into_iter().collect());
        assert_ne!(bytes_of(&floats, 0), bytes_of(&floats, 1));
        assert_ne!(bytes_of(&floats, 2), bytes_of(&floats, 3));

        // ["short"], [], [a text], [a text] and, as fixed lists, pairs of them.
        let lists = decoded(4, DecodedValues::List(vec![0, 1, 1, 2, 3], Box::new(texts.clone())));
        assert_eq!(bytes_of(&lists, 2), bytes_of(&lists, 3));
        assert!((1..4).all(|row| bytes_of(&lists, 0) != bytes_of(&lists, row)));
        let pairs = decoded(2, DecodedValues::FixedList(2, Box::new(texts.clone())));
        assert_ne!(bytes_of(&pairs, 0), bytes_of(&pairs, 1));

        let structs = decoded(4, DecodedValues::Struct(vec![lists, decoded(4, DecodedValues::Null)]));
        assert_eq!(bytes_of(&structs, 2), bytes_of(&structs, 3));
    }

    #[test]
    fn what_lies_under_nulls_does_not_count() {
        let validity = || Some([false, false].into_iter().collect());
        let numbers = Decoded { rows: 2, validity: validity(), values: DecodedValues::L8(vec![1, 2]) };
        assert_eq!(bytes_of(&numbers, 0), bytes_of(&numbers, 1));
        let structs = decoded(2, DecodedValues::Struct(vec![decoded(2, DecodedValues::L8(vec![1, 2]))]));
        assert_ne!(bytes_of(&structs, 0), bytes_of(&structs, 1));
        assert_eq!(bytes_of(&Decoded { validity: validity(), ..structs.clone() }, 0), [0]);
    }
}
