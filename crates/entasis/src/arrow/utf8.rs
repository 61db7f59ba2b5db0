//! Byte strings that turn out to be UTF-8.
//!
//! Arrow's own constructors check strings one by one and know no vector instructions. Here, whole buffers are checked at
//! once: where a buffer is ASCII, so is every string in it; where it is UTF-8, only the ends of strings remain to be
//! looked at. Of views, the block knows what has been checked already.

use arrow_array::{BinaryViewArray, GenericBinaryArray, GenericStringArray, OffsetSizeTrait, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use entasis_encoding::Views;
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

/// Views as strings, if every one is UTF-8.
#[allow(unsafe_code, reason = "the views lie in their buffers, and the bytes have been checked")]
pub(super) fn to_string_views(mut views: Views, nulls: Option<NullBuffer>) -> Result<StringViewArray> {
    if !views.are_text() {
        return Err(not_utf8().into());
    }
    check_nulls(&views, nulls.as_ref())?;
    let (views, buffers) = lent(views);
    // SAFETY: `Views` are views that lie in their buffers, with the prefixes that they have there. Every one was checked to be UTF-8,
    // those under nulls too. There are as many nulls as views.
    Ok(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
}

/// Views as byte strings.
#[allow(unsafe_code, reason = "the views lie in their buffers")]
pub(super) fn to_binary_views(views: Views, nulls: Option<NullBuffer>) -> Result<BinaryViewArray> {
    check_nulls(&views, nulls.as_ref())?;
    let (views, buffers) = lent(views);
    // SAFETY: `Views` are views that lie in their buffers, with the prefixes that they have there. There are as many nulls as views.
    Ok(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
}

fn check_nulls(views: &Views, nulls: Option<&NullBuffer>) -> Result<(), ArrowError> {
    match nulls {
        Some(nulls) if nulls.len() != views.len() => {
            Err(ArrowError::InvalidArgumentError(format!("{} views, but validity of {}", views.len(), nulls.len())))
        }
        _ => Ok(()),
    }
}

fn lent(views: Views) -> (ScalarBuffer<u128>, Vec<Buffer>) {
    let (views, buffers) = views.into_parts();
    (ScalarBuffer::from(views), buffers.into_iter().map(Buffer::from).collect())
}

/// True if a character begins at `at`, or if the bytes end there; `bytes` must be UTF-8.
#[inline]
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    // Bytes inside of characters are 0x80 to 0xBF.
    bytes.get(at).map_or(at == bytes.len(), |&byte| byte as i8 >= -0x40)
}

#[cfg(test)]
mod tests {
    use arrow_array::{LargeStringArray, StringArray};
    use arrow_buffer::OffsetBuffer;

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
}
