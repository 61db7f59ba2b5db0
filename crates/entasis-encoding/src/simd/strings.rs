//! Gathering byte strings from a dictionary.

use std::mem::MaybeUninit;

use super::runs::{RunError, check_runs};
use super::{Code, Runs};

/// Why strings can't be gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatherError {
    /// The code at this index has no value.
    BadCode(usize),
    /// Together the strings are longer than the bound.
    TooLong,
    /// The offsets don't fit their type.
    OffsetOverflow,
    /// The runs can't be expanded.
    Runs(RunError),
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

/// Strings are copied in steps of this many bytes; what is copied too much is overwritten by the next.
pub(super) const STEP: usize = 32;
/// Longer strings are copied by the system's routine.
const LONG: usize = 8 * STEP;

/// Byte strings to be gathered: string `c` is `data[offsets[c]..offsets[c + 1]]`. Offsets must ascend within `data`, else
/// gathering panics.
#[derive(Debug, Clone, Copy)]
pub struct StringTable<'a> {
    /// One more than there are strings.
    pub offsets: &'a [i32],
    /// The strings' bytes, best with [`COPY_BYTES`](super::COPY_BYTES) more behind them: the last strings are then copied as
    /// quickly as the others.
    pub data: &'a [u8],
}

impl StringTable<'_> {
    /// Appends the strings of `codes`, or with `runs`, which has an end per code, each as often as its run has rows. Appends one
    /// offset per string. The strings together must not be longer than `bound_bytes`.
    ///
    /// # Errors
    /// [`GatherError`]; nothing is appended then.
    pub fn gather<C: Code, O: Offset>(
        &self,
        codes: &[C],
        runs: Option<&Runs<'_>>,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        let count = self.offsets.len() - 1;
        if codes.iter().fold(0, |most, code| code.index().max(most)) >= count {
            return match codes.iter().position(|&code| code.index() >= count) {
                Some(index) => Err(GatherError::BadCode(index)),
                None => Ok(()),
            };
        }
        assert_offsets(self.offsets, self.data, codes);
        match runs {
            None => self.gather_each(codes, bound_bytes, out_offsets, out),
            Some(runs) => {
                check_runs(codes.len(), runs.ends, runs.start, runs.row_count).map_err(GatherError::Runs)?;
                self.gather_runs(codes, runs, bound_bytes, out_offsets, out)
            }
        }
    }

    /// Where the string of a code lies. The code must have been checked.
    #[inline(always)]
    fn bounds<C: Code>(&self, code: C) -> (usize, usize) {
        debug_assert!(code.index() + 1 < self.offsets.len());
        // SAFETY: `gather` found every code to be below the number of strings, and there is one offset more.
        let (start, stop) =
            unsafe { (*self.offsets.get_unchecked(code.index()), *self.offsets.get_unchecked(code.index() + 1)) };
        (start as usize, stop as usize)
    }

    fn gather_each<C: Code, O: Offset>(
        &self,
        codes: &[C],
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        let total = codes.iter().map(|&code| (self.bounds(code).1 - self.bounds(code).0) as u64).sum();
        make_room::<O>(total, bound_bytes, out)?;
        out_offsets.reserve(codes.len());
        let mut position = out.len();
        let (destination, ends) = (out.as_mut_ptr(), out_offsets.spare_capacity_mut());
        for (&code, end) in codes.iter().zip(ends) {
            let (start, stop) = self.bounds(code);
            // SAFETY: the string lies in `data` and the sum of all lengths plus a step was reserved.
            unsafe { self.copy(start, stop, destination.add(position)) };
            position += stop - start;
            end.write(O::wrap(position));
        }
        // SAFETY: the loop wrote every byte up to `position`, within the reserved capacity, and one offset per code.
        unsafe {
            out.set_len(position);
            out_offsets.set_len(out_offsets.len() + codes.len());
        }
        Ok(())
    }

    fn gather_runs<C: Code, O: Offset>(
        &self,
        codes: &[C],
        runs: &Runs<'_>,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        let rows_of = |ends: &[u32]| {
            let (start, row_count) = (runs.start, runs.row_count);
            let end = |end: u32| row_count.min((end - start) as usize);
            let mut before = 0;
            ends.iter()
                .map(move |&run_end| end(run_end) - std::mem::replace(&mut before, end(run_end)))
                .collect::<Vec<_>>()
        };
        let run_rows = rows_of(runs.ends);
        let length = |code: C| (self.bounds(code).1 - self.bounds(code).0) as u64;
        let total = codes.iter().zip(&run_rows).map(|(&code, &rows)| length(code).saturating_mul(rows as u64));
        make_room::<O>(total.fold(0, u64::saturating_add), bound_bytes, out)?;
        out_offsets.reserve(runs.row_count);
        let mut position = out.len();
        let (destination, ends) = (out.as_mut_ptr(), out_offsets.spare_capacity_mut());
        let mut row = 0;
        for (&code, &rows) in codes.iter().zip(&run_rows) {
            let (start, stop) = self.bounds(code);
            if start == stop {
                ends[row..row + rows].fill(MaybeUninit::new(O::wrap(position)));
            } else {
                for end in &mut ends[row..row + rows] {
                    // SAFETY: the string lies in `data` and the sum of all lengths plus a step was reserved.
                    unsafe { self.copy(start, stop, destination.add(position)) };
                    position += stop - start;
                    end.write(O::wrap(position));
                }
            }
            row += rows;
        }
        debug_assert_eq!(row, runs.row_count);
        // SAFETY: the loop wrote every byte up to `position`, within the reserved capacity, and one offset per row: the runs
        // reach the last one, as was checked.
        unsafe {
            out.set_len(position);
            out_offsets.set_len(out_offsets.len() + runs.row_count);
        }
        Ok(())
    }

    /// Copies the bytes `start..stop` of `data` to `to`, and perhaps up to a step more.
    ///
    /// # Safety
    /// `start..stop` lies in `data`. `to` has room for as many bytes and a step.
    #[inline(always)]
    unsafe fn copy(&self, start: usize, stop: usize, to: *mut u8) {
        // SAFETY: as the caller says; whole steps are read only if they lie in `data`, and the last reaches less than a step
        // beyond the string.
        unsafe {
            let from = self.data.as_ptr().add(start);
            if stop - start <= LONG && stop + STEP <= self.data.len() {
                std::ptr::copy_nonoverlapping(from, to, STEP);
                for at in (STEP..stop - start).step_by(STEP) {
                    std::ptr::copy_nonoverlapping(from.add(at), to.add(at), STEP);
                }
            } else {
                std::ptr::copy_nonoverlapping(from, to, stop - start);
            }
        }
    }
}

/// Makes room in `out` for `total` bytes and a step.
pub(super) fn make_room<O: Offset>(total: u64, bound_bytes: u64, out: &mut Vec<u8>) -> Result<(), GatherError> {
    if total > bound_bytes {
        return Err(GatherError::TooLong);
    }
    let end = usize::try_from(total).ok().and_then(|total| out.len().checked_add(total));
    match end {
        Some(end) if O::of(end).is_some() => {
            out.reserve(total as usize + STEP);
            Ok(())
        }
        _ => Err(GatherError::OffsetOverflow),
    }
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
        let strings: Vec<Vec<u8>> = (0..300usize).map(|n| vec![n as u8; n * 7 % 411]).collect();
        let data = strings.concat();
        let mut offsets = vec![0i32];
        strings.iter().for_each(|string| offsets.push(offsets[offsets.len() - 1] + string.len() as i32));
        let codes: Vec<u16> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) % 300) as u16).collect();
        let expected: Vec<u8> = codes.iter().flat_map(|&code| strings[code as usize].clone()).collect();
        let (mut out_offsets, mut out) = (vec![0i64], Vec::new());
        let table = StringTable { offsets: &offsets, data: &data };
        table.gather(&codes, None, expected.len() as u64, &mut out_offsets, &mut out).unwrap();
        assert_eq!(out, expected);
        let lengths: Vec<i64> = out_offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(lengths, codes.iter().map(|&code| strings[code as usize].len() as i64).collect::<Vec<_>>());
        let bound = expected.len() as u64 - 1;
        let mut gather = |codes: &[u16], bound| table.gather(codes, None, bound, &mut out_offsets, &mut out);
        assert_eq!(gather(&codes, bound), Err(GatherError::TooLong));
        assert_eq!(gather(&[1u16, 300], u64::MAX), Err(GatherError::BadCode(1)));
    }

    #[test]
    fn strings_of_runs_are_those_of_their_rows() {
        let table = StringTable { offsets: &[0, 0, 3, 5, 45], data: &[b'x'; 45] };
        let codes = [1u8, 0, 3, 2, 0, 1];
        let ends = [12u32, 13, 80, 81, 300, 301];
        for (start, row_count) in [(10, 291), (10, 0), (11, 1), (10, 70), (10, 200)] {
            let row_codes: Vec<u8> =
                (start..start + row_count).map(|row| codes[ends.iter().position(|&end| row < end).unwrap()]).collect();
            let (mut expected_offsets, mut expected) = (vec![2], vec![7, 7]);
            table.gather(&row_codes, None, u64::MAX, &mut expected_offsets, &mut expected).unwrap();
            let (mut offsets, mut out) = (vec![2], vec![7, 7]);
            let runs = Runs { ends: &ends, start, row_count: row_count as usize };
            table.gather(&codes, Some(&runs), expected.len() as u64 - 2, &mut offsets, &mut out).unwrap();
            assert_eq!((offsets, out), (expected_offsets, expected), "{row_count} rows from {start}");
        }
        let fails = |codes: &[u8], start, row_count, bound| {
            let runs = Runs { ends: &ends[..codes.len()], start, row_count };
            table.gather(codes, Some(&runs), bound, &mut vec![0i32], &mut Vec::new()).unwrap_err()
        };
        assert_eq!(fails(&codes, 10, 291, 100), GatherError::TooLong);
        assert_eq!(fails(&[1, 4], 10, 2, 100), GatherError::BadCode(1));
        assert!(matches!(fails(&codes, 10, 292, u64::MAX), GatherError::Runs(_)));
        assert!(matches!(fails(&codes, 12, 5, u64::MAX), GatherError::Runs(_)));
    }
}
