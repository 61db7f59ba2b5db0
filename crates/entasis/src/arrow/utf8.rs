//! Byte strings that turn out to be UTF-8.
//!
//! Arrow's own constructors check views one by one and know no vector instructions. Here, whole buffers are checked at
//! once: where a buffer is ASCII, so is every string in it; where it is UTF-8, only the ends of strings remain to be
//! looked at. Strings of buffers that are neither are checked one by one, for what lies between them doesn't count.

use arrow_array::{BinaryViewArray, GenericBinaryArray, GenericStringArray, OffsetSizeTrait, StringViewArray};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use simdutf8::basic::from_utf8;

use crate::Result;

fn not_utf8() -> ArrowError {
    ArrowError::InvalidArgumentError("a string isn't UTF-8".to_owned())
}

/// The same array as strings, if all of its bytes are UTF-8 and no character is cut in two.
#[allow(unsafe_code, reason = "the bytes have been checked")]
pub(super) fn to_strings<O: OffsetSizeTrait>(binaries: GenericBinaryArray<O>) -> Result<GenericStringArray<O>> {
    let (offsets, bytes, nulls) = binaries.into_parts();
    if !bytes.is_ascii() {
        from_utf8(&bytes).map_err(|_| not_utf8())?;
        if !offsets.iter().fold(true, |all, offset| all & is_boundary(&bytes, offset.as_usize())) {
            return Err(not_utf8().into());
        }
    }
    // SAFETY: offsets ascend within the bytes, as the binary array has it. The bytes are ASCII, or they are UTF-8 and
    // every offset is a boundary of characters: so each string is UTF-8.
    Ok(unsafe { GenericStringArray::new_unchecked(offsets, bytes, nulls) })
}

/// The same views as strings, if every one is UTF-8.
#[allow(unsafe_code, reason = "the bytes have been checked")]
pub(super) fn to_string_views(binaries: BinaryViewArray) -> Result<StringViewArray> {
    check_views(&binaries)?;
    // SAFETY: every view was checked to be UTF-8, those under nulls too.
    Ok(unsafe { binaries.to_string_view_unchecked() })
}

/// True if a character begins at `at`, or if the bytes end there; `bytes` must be UTF-8.
#[inline]
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    // Bytes inside of characters are 0x80 to 0xBF.
    bytes.get(at).map_or(at == bytes.len(), |&byte| byte as i8 >= -0x40)
}

/// Strings of at most this length lie in their views.
const INLINE_BYTES: u32 = 12;

/// The highest bits of the bytes of a string inside its view.
const INLINE_HIGH_BITS: u128 = 0x80808080_80808080_80808080_00000000;

/// What is known of all of a buffer.
#[derive(Clone, Copy)]
enum Content {
    Ascii,
    Utf8,
    Unknown,
}

fn check_views(array: &BinaryViewArray) -> Result<(), ArrowError> {
    let far_bytes: u64 = array.views().iter().map(|&view| u64::from(far_length(view))).sum();
    let contents: Vec<Content> = array.data_buffers().iter().map(|buffer| content_of(buffer, far_bytes)).collect();
    for (row, &view) in array.views().iter().enumerate() {
        let is_utf8 = if far_length(view) == 0 {
            view & INLINE_HIGH_BITS == 0 || from_utf8(array.value(row)).is_ok()
        } else {
            let buffer = (view >> 64) as u32 as usize;
            match contents[buffer] {
                Content::Ascii => true,
                Content::Utf8 => {
                    let bytes = &array.data_buffers()[buffer];
                    let start = (view >> 96) as usize;
                    is_boundary(bytes, start) & is_boundary(bytes, start + view as u32 as usize)
                }
                Content::Unknown => from_utf8(array.value(row)).is_ok(),
            }
        };
        if !is_utf8 {
            return Err(not_utf8());
        }
    }
    Ok(())
}

/// Length of a string that lies in a buffer; 0 for one that lies in its view.
fn far_length(view: u128) -> u32 {
    let length = view as u32;
    if length > INLINE_BYTES { length } else { 0 }
}

/// Looks at a whole buffer, unless the strings are so few that looking at each is less work.
fn content_of(buffer: &Buffer, far_bytes: u64) -> Content {
    if buffer.len() as u64 > far_bytes {
        Content::Unknown
    } else if buffer.is_ascii() {
        Content::Ascii
    } else if from_utf8(buffer).is_ok() {
        Content::Utf8
    } else {
        Content::Unknown
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{LargeStringArray, StringArray};
    use arrow_buffer::{OffsetBuffer, ScalarBuffer};

    use super::*;
    use crate::generate::Generator;

    /// Bytes that are UTF-8 often, and offsets that cut characters sometimes.
    fn random_bytes(generator: &mut Generator) -> (Vec<u8>, Vec<i32>) {
        let characters = ["a", "exactly thirteen", "ü", "日本語の文字列です", "🜁", "\u{10FFFF}"];
        let ascii_only = generator.chance(30);
        let mut bytes = Vec::new();
        let mut offsets = vec![0];
        for _ in 0..generator.below(40) {
            for _ in 0..generator.below(4) {
                let character = characters[generator.below(if ascii_only { 2 } else { 6 })];
                bytes.extend_from_slice(character.as_bytes());
            }
            offsets.push(bytes.len() as i32);
        }
        if generator.chance(30) && offsets.len() > 2 && !bytes.is_empty() {
            let which = 1 + generator.below(offsets.len() - 2);
            let (low, high) = (offsets[which - 1], offsets[which + 1]);
            offsets[which] = low + generator.below((high - low) as usize + 1) as i32;
        }
        if generator.chance(30) && !bytes.is_empty() {
            let at = generator.below(bytes.len());
            bytes[at] = generator.next_u64() as u8;
        }
        (bytes, offsets)
    }

    #[test]
    fn strings_with_offsets_are_accepted_where_arrow_accepts_them() {
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..3_000 {
            let (bytes, offsets) = random_bytes(&mut Generator::new(seed));
            let wide: Vec<i64> = offsets.iter().map(|&offset| offset.into()).collect();
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            let expected = StringArray::try_new(offsets.clone(), bytes.clone().into(), None);
            let found = to_strings(GenericBinaryArray::<i32>::new(offsets, bytes.clone().into(), None));
            assert_eq!(found.is_ok(), expected.is_ok(), "seed {seed}");
            let wide = GenericBinaryArray::<i64>::new(OffsetBuffer::new(wide.into()), bytes.into(), None);
            assert_eq!(to_strings(wide).is_ok(), expected.is_ok(), "seed {seed}");
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found, expected);
                    accepted += 1;
                }
                _ => refused += 1,
            }
        }
        assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
        assert_eq!(to_strings(GenericBinaryArray::<i64>::new_null(3)).ok(), Some(LargeStringArray::new_null(3)));
    }

    #[test]
    fn views_are_accepted_where_arrow_accepts_them() {
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..3_000 {
            let mut generator = Generator::new(seed);
            let (bytes, offsets) = random_bytes(&mut generator);
            let used_percent = if generator.chance(50) { 100 } else { 40 };
            let pairs: Vec<_> = offsets.windows(2).filter(|_| generator.chance(used_percent)).collect();
            let views: Vec<u128> = pairs
                .into_iter()
                .map(|pair| {
                    let (start, value) = (pair[0] as u32, &bytes[pair[0] as usize..pair[1] as usize]);
                    arrow_array::builder::make_view(value, 0, start)
                })
                .collect();
            let buffers = vec![Buffer::from_vec(bytes)];
            let views = ScalarBuffer::from(views);
            let expected = StringViewArray::try_new(views.clone(), buffers.clone(), None);
            let found = to_string_views(BinaryViewArray::new(views, buffers, None));
            assert_eq!(found.is_ok(), expected.is_ok(), "seed {seed}");
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found, expected);
                    accepted += 1;
                }
                _ => refused += 1,
            }
        }
        assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
    }
}
