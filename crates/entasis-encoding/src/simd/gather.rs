//! Values by their codes in a dictionary. The values are read by plain loads: gather instructions are no faster on the
//! processors that have them, and much slower where their microcode is mended against data sampling.

use super::level::{Kernel, Level, run_at};
use crate::Lane;

/// A position in a dictionary, as it is packed: 8, 16 or 32 bits.
pub trait Code: crate::PackedLane {
    /// The position.
    fn index(self) -> usize;
}

macro_rules! codes {
    ($($code:ty),*) => {$(
        impl Code for $code {
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

codes!(u8, u16, u32);

/// Appends `dictionary[code]` for each of `codes`.
///
/// # Errors
/// The index in `codes` of the first code that is not below `dictionary.len()`; nothing is appended then.
pub fn gather<T: Lane, C: Code>(dictionary: &[T], codes: &[C], out: &mut Vec<T>) -> Result<(), usize> {
    gather_at(Level::detect(), dictionary, codes, out)
}

/// [`gather`] at a given level.
///
/// # Errors
/// As [`gather`].
pub fn gather_at<T: Lane, C: Code>(level: Level, dictionary: &[T], codes: &[C], out: &mut Vec<T>) -> Result<(), usize> {
    out.reserve(codes.len());
    run_at(level, Gather { dictionary, codes, out })
}

struct Gather<'a, T, C> {
    dictionary: &'a [T],
    codes: &'a [C],
    /// Has room for a value per code.
    out: &'a mut Vec<T>,
}

impl<T: Lane, C: Code> Kernel for Gather<'_, T, C> {
    type Output = Result<(), usize>;

    #[inline(always)]
    fn run(self) -> Result<(), usize> {
        let Self { dictionary, codes, out } = self;
        let highest = codes.iter().fold(C::default(), |highest, &code| highest.max(code));
        if highest.index() >= dictionary.len() {
            return codes.iter().position(|code| code.index() >= dictionary.len()).map_or(Ok(()), Err);
        }
        let room = &mut out.spare_capacity_mut()[..codes.len()];
        for (value, code) in room.iter_mut().zip(codes) {
            // SAFETY: no code is above `highest`, which is below the dictionary's length.
            value.write(unsafe { *dictionary.get_unchecked(code.index()) });
        }
        // SAFETY: the loop wrote a value for every code.
        unsafe { out.set_len(out.len() + codes.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;
    use crate::simd::test_values;

    fn agrees_with_indexing<T: Lane, C: Code>(value: impl Fn(u64) -> T) {
        let numbers: Vec<u64> = test_values::random(5).take(1024).collect();
        for dictionary_size in [1, 2, 255, 256, 300, 65_536] {
            let dictionary: Vec<T> = (0..dictionary_size).map(&value).collect();
            let reachable = dictionary_size.min(1 << C::BITS.min(40));
            for row_count in [0, 1, 63, 65, 1000, 1024] {
                let codes: Vec<C> = numbers[..row_count].iter().map(|number| C::from_u64(number % reachable)).collect();
                let expected: Vec<T> = codes.iter().map(|code| dictionary[code.index()]).collect();
                for level in Level::available() {
                    let mut out = vec![value(1)];
                    gather_at(level, &dictionary, &codes, &mut out).unwrap();
                    assert_eq!(out[1..], expected, "{row_count} of {dictionary_size} at {level:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_those_of_the_codes_on_every_level() {
        fn with_codes<T: Lane>(value: impl Fn(u64) -> T + Copy) {
            agrees_with_indexing::<T, u8>(value);
            agrees_with_indexing::<T, u16>(value);
            agrees_with_indexing::<T, u32>(value);
        }
        with_codes(|number| number as u8);
        with_codes(|number| number as u16);
        with_codes(|number| number as u32 ^ 0xa5a5);
        with_codes(|number| number << 40 | number);
        with_codes(|number| u128::from(number) << 70 | 3);
        with_codes(|number| U256 { low: u128::from(number), high: 7 << 100 });
    }

    #[test]
    fn a_code_beyond_the_dictionary_is_named_and_nothing_appended() {
        for level in Level::available() {
            let mut codes = vec![3u16; 500];
            codes[77] = 4;
            codes[400] = u16::MAX;
            let mut out = Vec::new();
            assert_eq!(gather_at(level, &[1u64, 2, 3, 4], &codes, &mut out), Err(77));
            assert_eq!(gather_at::<u64, u8>(level, &[], &[0], &mut out), Err(0));
            assert_eq!(gather_at::<u64, u8>(level, &[], &[], &mut out), Ok(()));
            assert!(out.is_empty());
        }
    }
}
