//! Gathering byte strings from a dictionary.

use super::Code;

/// Why strings can't be gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatherError {
    /// The code at this index has no value.
    BadCode(usize),
    /// Together the strings are longer than the bound.
    TooLong,
    /// The offsets don't fit their type.
    OffsetOverflow,
}

/// An offset into the bytes of strings.
pub trait Offset: Copy {
    /// The offset, if it fits.
    fn of(end: usize) -> Option<Self>;
    /// Keeps the low bits; for offsets known to fit.
    fn wrap(end: usize) -> Self;
}

macro_rules! offsets {
    ($($offset:ty),*) => {$(
        impl Offset for $offset {
            fn of(end: usize) -> Option<Self> {
                Self::try_from(end).ok()
            }

            #[inline(always)]
            fn wrap(end: usize) -> Self {
                end as Self
            }
        }
    )*};
}

offsets!(i32, i64);

/// Strings of at most this many bytes are copied in one step; what is copied too much is overwritten by the next.
const STEP: usize = 32;

/// Appends the strings of `codes`: string `c` is `data[offsets[c]..offsets[c + 1]]`. Appends one offset per string. The
/// strings together must not be longer than `bound_bytes`. Offsets must ascend within `data`, else this panics.
pub fn gather_strings<C: Code, O: Offset>(
    offsets: &[i32],
    data: &[u8],
    codes: &[C],
    bound_bytes: u64,
    out_offsets: &mut Vec<O>,
    out: &mut Vec<u8>,
) -> Result<(), GatherError> {
    let count = offsets.len() - 1;
    if codes.iter().fold(0, |most, code| code.index().max(most)) >= count {
        return match codes.iter().position(|&code| code.index() >= count) {
            Some(index) => Err(GatherError::BadCode(index)),
            None => Ok(()),
        };
    }
    assert_offsets(offsets, data, codes);
    let bounds = |code: C| {
        // SAFETY: every code is below `count`, as was found above, and there is one offset more.
        let (start, stop) = unsafe { (*offsets.get_unchecked(code.index()), *offsets.get_unchecked(code.index() + 1)) };
        (start as usize, stop as usize)
    };
    let total: u64 = codes.iter().map(|&code| (bounds(code).1 - bounds(code).0) as u64).sum();
    if total > bound_bytes {
        return Err(GatherError::TooLong);
    }
    let end = out.len() + total as usize;
    if O::of(end).is_none() {
        return Err(GatherError::OffsetOverflow);
    }
    out.reserve(total as usize + STEP);
    out_offsets.reserve(codes.len());
    let mut position = out.len();
    let (destination, ends) = (out.as_mut_ptr(), out_offsets.spare_capacity_mut());
    for (&code, end) in codes.iter().zip(ends) {
        let (start, stop) = bounds(code);
        // SAFETY: `start..stop` lies in `data` (asserted above) and the sum of all lengths plus a step was reserved. The wide
        // copy reads a step from `start` only if that lies in `data`, and writes at most a step past the string's begin.
        unsafe {
            let (from, to) = (data.as_ptr().add(start), destination.add(position));
            if stop - start <= STEP && start + STEP <= data.len() {
                std::ptr::copy_nonoverlapping(from, to, STEP);
            } else {
                std::ptr::copy_nonoverlapping(from, to, stop - start);
            }
        }
        position += stop - start;
        end.write(O::wrap(position));
    }
    debug_assert_eq!(position, end);
    // SAFETY: the loop wrote every byte up to `position`, within the reserved capacity, and one offset per code.
    unsafe {
        out.set_len(position);
        out_offsets.set_len(out_offsets.len() + codes.len());
    }
    Ok(())
}

/// Asserts that the offsets ascend within `data`: all of them where most will be used, else those of the codes.
fn assert_offsets<C: Code>(offsets: &[i32], data: &[u8], codes: &[C]) {
    let ascend = |pair: &[i32]| 0 <= pair[0] && pair[0] <= pair[1] && pair[1] as usize <= data.len();
    let good = if codes.len() * 4 >= offsets.len() {
        offsets.windows(2).fold(true, |all, pair| all & ascend(pair))
    } else {
        codes.iter().all(|code| ascend(&offsets[code.index()..code.index() + 2]))
    };
    assert!(good, "offsets ascend within the data");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_those_of_the_oracle() {
        let strings: Vec<Vec<u8>> = (0..300usize).map(|n| vec![n as u8; n * 7 % 41]).collect();
        let data = strings.concat();
        let mut offsets = vec![0i32];
        strings.iter().for_each(|string| offsets.push(offsets[offsets.len() - 1] + string.len() as i32));
        let codes: Vec<u16> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) % 300) as u16).collect();
        let expected: Vec<u8> = codes.iter().flat_map(|&code| strings[code as usize].clone()).collect();
        let (mut out_offsets, mut out) = (vec![0i64], Vec::new());
        gather_strings(&offsets, &data, &codes, expected.len() as u64, &mut out_offsets, &mut out).unwrap();
        assert_eq!(out, expected);
        let lengths: Vec<i64> = out_offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(lengths, codes.iter().map(|&code| strings[code as usize].len() as i64).collect::<Vec<_>>());
        let bound = expected.len() as u64 - 1;
        assert_eq!(
            gather_strings(&offsets, &data, &codes, bound, &mut out_offsets, &mut out),
            Err(GatherError::TooLong)
        );
        assert_eq!(
            gather_strings(&offsets, &data, &[1u16, 300], u64::MAX, &mut out_offsets, &mut out),
            Err(GatherError::BadCode(1))
        );
    }
}
