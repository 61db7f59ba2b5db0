//! Gathering byte strings from a dictionary.

use std::mem::MaybeUninit;

use super::level::{Kernel, Level, run_at};
use super::runs::{RunError, check_runs, expand_runs_at};
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
/// What kernels may write behind the last string.
pub(super) const ROOM: usize = 2 * STEP;
/// Longer strings are copied by the system's routine.
const LONG: usize = 8 * STEP;
/// A run of so many rows is copied from what has been copied of it already.
const MANY_ROWS: usize = 16;
/// So much of a run is copied at once: it lies in the first cache.
const CHUNK: usize = 4096;

/// Byte strings to be gathered.
#[derive(Clone)]
pub struct StringTable {
    /// One more than there are strings; ascending from 0 or above to at most the data's length without [`ROOM`].
    offsets: Vec<i32>,
    data: Vec<u8>,
    longest: usize,
}

impl std::fmt::Debug for StringTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StringTable({} strings of at most {} bytes)", self.len(), self.longest)
    }
}

impl StringTable {
    /// The strings `data[offsets[i]..offsets[i + 1]]`; `None` unless there is an offset and all ascend within `data`.
    pub fn new(offsets: Vec<i32>, mut data: Vec<u8>) -> Option<Self> {
        let (&first, &last) = offsets.first().zip(offsets.last())?;
        if first < 0 || !super::ascends(&offsets) || last as usize > data.len() {
            return None;
        }
        let lengths = offsets.iter().zip(&offsets[1..]).map(|(left, right)| right - left);
        let longest = lengths.max().unwrap_or(0) as usize;
        data.reserve_exact(ROOM);
        data.resize(data.len() + ROOM, 0);
        Some(Self { offsets, data, longest })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True without strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`. Panics if there is none.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.data[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Bytes that the strings and their offsets take.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&self.offsets[..]) + self.data.len() - ROOM
    }

    /// Appends the strings of `codes`, or with `runs`, which has an end per code, each as often as its run has rows. Appends one
    /// offset per string. Codes must be below `count`, and the strings together not longer than `bound_bytes`. Panics if there are
    /// fewer than `count` strings.
    ///
    /// # Errors
    /// [`GatherError`]; nothing is appended then.
    pub fn gather<C: Code, O: Offset>(
        &self,
        count: usize,
        codes: &[C],
        runs: Option<&Runs<'_>>,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        self.gather_at(Level::detect(), count, codes, runs, bound_bytes, out_offsets, out)
    }

    /// [`gather`](Self::gather) at a given level.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    #[allow(clippy::too_many_arguments, reason = "`gather` and its level")]
    pub fn gather_at<C: Code, O: Offset>(
        &self,
        level: Level,
        count: usize,
        codes: &[C],
        runs: Option<&Runs<'_>>,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        assert!(count <= self.len(), "no more codes than strings");
        if let Some(runs) = runs {
            check_runs(codes.len(), runs.ends, runs.start, runs.row_count).map_err(GatherError::Runs)?;
        }
        let facts = run_at(level, Measure { table: self, count, codes, runs });
        let Some(Facts { total, successors }) = facts else {
            return Err(GatherError::BadCode(codes.iter().position(|code| code.index() >= count).unwrap_or(0)));
        };
        make_room::<O>(total, bound_bytes, out)?;
        let row_count = runs.map_or(codes.len(), |runs| runs.row_count);
        out_offsets.reserve(row_count);
        let start = out.len();
        let place =
            Place { start, out: out.spare_capacity_mut(), ends: &mut out_offsets.spare_capacity_mut()[..row_count] };
        let size = match runs {
            // Spans of eight and more.
            None if successors * 8 >= codes.len() * 7 => run_at(level, CopySpans { table: self, codes, place }),
            None => run_at(level, CopyEach { table: self, codes, place }),
            Some(runs) if self.longest <= ROOM && row_count < codes.len() * MANY_ROWS => {
                // So short are the runs that a code for each row costs less than a loop for each run.
                let mut each = Vec::new();
                expand_runs_at(level, codes, runs.ends, runs.start, row_count, &mut each).map_err(GatherError::Runs)?;
                run_at(level, CopyEach { table: self, codes: &each, place })
            }
            Some(runs) => run_at(level, CopyRuns { table: self, codes, runs, place }),
        };
        debug_assert_eq!(size as u64, total);
        // SAFETY: the kernel wrote `size` bytes, one behind the other, and one offset per row.
        unsafe {
            out.set_len(start + size);
            out_offsets.set_len(out_offsets.len() + row_count);
        }
        Ok(())
    }

    /// Where the string of a code lies. The code must have been checked.
    #[inline(always)]
    fn bounds<C: Code>(&self, code: C) -> (usize, usize) {
        debug_assert!(code.index() < self.len());
        // SAFETY: `Measure` found every code to be below the number of strings, and there is one offset more.
        let (start, stop) =
            unsafe { (*self.offsets.get_unchecked(code.index()), *self.offsets.get_unchecked(code.index() + 1)) };
        (start as usize, stop as usize)
    }

    #[inline(always)]
    fn length<C: Code>(&self, code: C) -> usize {
        let (start, stop) = self.bounds(code);
        stop - start
    }

    /// Copies the bytes `start..stop` to `to`, and up to [`STEP`] more.
    ///
    /// # Safety
    /// `start..stop` is the place of strings. `to` has room for as many bytes and [`ROOM`].
    #[inline(always)]
    unsafe fn copy(&self, start: usize, stop: usize, to: *mut u8) {
        // SAFETY: as the caller says; there are `ROOM` bytes behind the strings, and a step begins within the string.
        unsafe {
            let from = self.data.as_ptr().add(start);
            if stop - start <= LONG {
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

/// What is known of strings before they are copied.
struct Facts {
    /// Bytes of all.
    total: u64,
    /// Codes that are one above the one before.
    successors: usize,
}

/// Finds [`Facts`]; `None` where a code has no string.
struct Measure<'a, C> {
    table: &'a StringTable,
    count: usize,
    codes: &'a [C],
    runs: Option<&'a Runs<'a>>,
}

impl<C: Code> Kernel for Measure<'_, C> {
    type Output = Option<Facts>;

    #[inline(always)]
    fn run(self) -> Option<Facts> {
        let Self { table, count, codes, runs } = self;
        let highest = codes.iter().fold(C::default(), |highest, &code| highest.max(code));
        if highest.index() >= count && !codes.is_empty() {
            return None;
        }
        let Some(runs) = runs else {
            let next = codes.get(1..).unwrap_or_default();
            let one = C::from_u64(1);
            let successors =
                codes.iter().zip(next).map(|(&code, &next)| u32::from(next.subtract(code) == one)).sum::<u32>();
            let total = codes.iter().map(|&code| table.length(code) as u64).sum();
            return Some(Facts { total, successors: successors as usize });
        };
        let mut row = 0;
        let bytes = codes.iter().zip(runs.ends).map(|(&code, &end)| {
            let rows = runs.rows_to(end) - std::mem::replace(&mut row, runs.rows_to(end));
            (table.length(code) as u64).saturating_mul(rows as u64)
        });
        Some(Facts { total: bytes.fold(0, u64::saturating_add), successors: 0 })
    }
}

/// Where strings go: `out` has room for all of them and [`ROOM`], `ends` for one offset each. Offsets count from `start` bytes before
/// `out`.
struct Place<'a, O> {
    start: usize,
    out: &'a mut [MaybeUninit<u8>],
    ends: &'a mut [MaybeUninit<O>],
}

/// Copies string after string; the bytes of all.
struct CopyEach<'a, C, O> {
    table: &'a StringTable,
    codes: &'a [C],
    place: Place<'a, O>,
}

impl<C: Code, O: Offset> Kernel for CopyEach<'_, C, O> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        match self.table.longest {
            0..=16 => self.copy_short::<16>(),
            17..=STEP => self.copy_short::<STEP>(),
            33..=ROOM => self.copy_short::<ROOM>(),
            _ => self.copy_any(),
        }
    }
}

impl<C: Code, O: Offset> CopyEach<'_, C, O> {
    /// No string is longer than `BYTES`, so that all are copied alike.
    #[inline(always)]
    fn copy_short<const BYTES: usize>(self) -> usize {
        let Self { table, codes, place: Place { start, out, ends } } = self;
        let (from, to, mut position) = (table.data.as_ptr(), out.as_mut_ptr().cast::<u8>(), 0);
        for (&code, end) in codes.iter().zip(ends) {
            let (first, stop) = table.bounds(code);
            // SAFETY: at most `ROOM` bytes from the beginning of a string lie in `data` and have room in `out`.
            unsafe { std::ptr::copy_nonoverlapping(from.add(first), to.add(position), BYTES) };
            position += stop - first;
            end.write(O::wrap(start + position));
        }
        position
    }

    #[inline(always)]
    fn copy_any(self) -> usize {
        let Self { table, codes, place: Place { start, out, ends } } = self;
        let (to, mut position) = (out.as_mut_ptr().cast::<u8>(), 0);
        for (&code, end) in codes.iter().zip(ends) {
            let (first, stop) = table.bounds(code);
            // SAFETY: there is room for all strings and `ROOM` bytes.
            unsafe { table.copy(first, stop, to.add(position)) };
            position += stop - first;
            end.write(O::wrap(start + position));
        }
        position
    }
}

/// As [`CopyEach`] where most codes follow the one before: their strings lie one behind the other already.
struct CopySpans<'a, C, O> {
    table: &'a StringTable,
    codes: &'a [C],
    place: Place<'a, O>,
}

impl<C: Code, O: Offset> Kernel for CopySpans<'_, C, O> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self { table, mut codes, place: Place { start, out, mut ends } } = self;
        let (to, mut position) = (out.as_mut_ptr().cast::<u8>(), 0);
        while let Some(&code) = codes.first() {
            let first = code.index();
            let span =
                codes.iter().enumerate().position(|(row, code)| code.index() != first + row).unwrap_or(codes.len());
            // The codes were checked, the last of the span too.
            let offsets = &table.offsets[first..=first + span];
            let (from, stop) = (offsets[0] as usize, offsets[span] as usize);
            // SAFETY: the strings of a span lie one behind the other, and there is room for all.
            unsafe { table.copy(from, stop, to.add(position)) };
            let (filled, rest) = ends.split_at_mut(span);
            for (end, &offset) in filled.iter_mut().zip(&offsets[1..]) {
                end.write(O::wrap(start + position + (offset as usize - from)));
            }
            position += stop - from;
            (codes, ends) = (&codes[span..], rest);
        }
        position
    }
}

/// Copies the string of each run as often as it has rows; the bytes of all. The runs must have been checked.
struct CopyRuns<'a, C, O> {
    table: &'a StringTable,
    codes: &'a [C],
    runs: &'a Runs<'a>,
    place: Place<'a, O>,
}

impl<C: Code, O: Offset> Kernel for CopyRuns<'_, C, O> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self { table, codes, runs, place: Place { start, out, ends } } = self;
        let (to, mut position, mut row) = (out.as_mut_ptr().cast::<u8>(), 0, 0);
        for (&code, &end) in codes.iter().zip(runs.ends) {
            let (first, stop) = table.bounds(code);
            let (length, end) = (stop - first, runs.rows_to(end));
            // SAFETY: there is room for the strings of all rows and `ROOM` bytes.
            unsafe {
                let at = to.add(position);
                if length > 0 && end - row < MANY_ROWS {
                    for index in 0..end - row {
                        table.copy(first, stop, at.add(index * length));
                    }
                } else if length > 0 {
                    table.copy(first, stop, at);
                    repeat(at, length, (end - row) * length);
                }
            }
            for (index, end) in ends[row..end].iter_mut().enumerate() {
                end.write(O::wrap(start + position + (index + 1) * length));
            }
            position += (end - row) * length;
            row = end;
        }
        debug_assert_eq!(row, runs.row_count);
        position
    }
}

/// Fills `total` bytes at `at` with copies of the first `length`, of which it is a multiple.
///
/// # Safety
/// There are `total` bytes, of which the first `length`, at least one, are initialised.
#[inline(always)]
unsafe fn repeat(at: *mut u8, length: usize, total: usize) {
    let (mut done, mut chunk) = (length, length);
    while done < total {
        let more = chunk.min(total - done);
        // SAFETY: the first `done` bytes are initialised, of which `chunk` are no more; what is written ends at `total` at most.
        unsafe { std::ptr::copy_nonoverlapping(at, at.add(done), more) };
        done += more;
        if chunk < CHUNK {
            chunk = done;
        }
    }
}

/// Makes room in `out` for `total` bytes and [`ROOM`].
pub(super) fn make_room<O: Offset>(total: u64, bound_bytes: u64, out: &mut Vec<u8>) -> Result<(), GatherError> {
    if total > bound_bytes {
        return Err(GatherError::TooLong);
    }
    let end = usize::try_from(total).ok().and_then(|total| out.len().checked_add(total));
    match end {
        Some(end) if O::of(end).is_some() => {
            out.reserve(total as usize + ROOM);
            Ok(())
        }
        _ => Err(GatherError::OffsetOverflow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(strings: &[Vec<u8>]) -> StringTable {
        let ends = strings.iter().scan(0, |end, string| {
            *end += string.len() as i32;
            Some(*end)
        });
        StringTable::new(std::iter::once(0).chain(ends).collect(), strings.concat()).unwrap()
    }

    /// Strings of all lengths up to `longest`.
    fn strings(longest: usize) -> Vec<Vec<u8>> {
        (0..300usize).map(|n| vec![n as u8; n * 7 % (longest + 1)]).collect()
    }

    #[test]
    fn strings_are_those_of_the_oracle_on_every_level() {
        let random = |n: u32| n.wrapping_mul(2_654_435_761) % 300;
        for longest in [0, 1, 16, 17, 32, 33, 64, 65, 256, 257, 700] {
            let strings = strings(longest);
            let table = table_of(&strings);
            let shapes: [Vec<u16>; 4] = [
                (0..1000).map(|n| random(n) as u16).collect(),
                (0..1000).map(|n| (n % 300) as u16).collect(),
                (0..1000).map(|n| if n % 40 == 0 { random(n) as u16 } else { (n % 300) as u16 }).collect(),
                Vec::new(),
            ];
            for (codes, level) in
                shapes.iter().flat_map(|codes| Level::available().into_iter().map(move |l| (codes, l)))
            {
                let expected: Vec<u8> = codes.iter().flat_map(|&code| strings[code as usize].clone()).collect();
                let (mut offsets, mut out) = (vec![3i64], b"...".to_vec());
                let bound = expected.len() as u64;
                table.gather_at(level, 300, codes, None, bound, &mut offsets, &mut out).unwrap();
                assert_eq!(out[3..], expected, "up to {longest} bytes at {level:?}");
                let lengths: Vec<i64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                assert_eq!(lengths, codes.iter().map(|&code| strings[code as usize].len() as i64).collect::<Vec<_>>());
                if bound > 0 {
                    let short = table.gather_at(level, 300, codes, None, bound - 1, &mut offsets, &mut out);
                    assert_eq!(short, Err(GatherError::TooLong));
                }
                let wrong = table.gather_at(level, 200, &[1u16, 200], None, u64::MAX, &mut offsets, &mut out);
                assert_eq!(wrong, Err(GatherError::BadCode(1)));
                assert_eq!(out.len(), 3 + expected.len());
            }
        }
    }

    #[test]
    fn strings_of_runs_are_those_of_their_rows_on_every_level() {
        for (longest, level) in
            [1, 30, 80, 5000].into_iter().flat_map(|l| Level::available().into_iter().map(move |n| (l, n)))
        {
            let table = table_of(&[vec![], vec![b'a'; longest], vec![b'b'; longest / 2], vec![b'c'; 3]]);
            let codes = [1u8, 0, 3, 2, 0, 1];
            let ends = [12u32, 13, 80, 81, 300, 301];
            for (start, row_count) in [(10, 291), (10, 0), (11, 1), (10, 70), (10, 200)] {
                let row_codes: Vec<u8> = (start..start + row_count)
                    .map(|row| codes[ends.iter().position(|&end| row < end).unwrap()])
                    .collect();
                let (mut expected_offsets, mut expected) = (vec![2], vec![7, 7]);
                table.gather_at(level, 4, &row_codes, None, u64::MAX, &mut expected_offsets, &mut expected).unwrap();
                let (mut offsets, mut out) = (vec![2], vec![7, 7]);
                let runs = Runs { ends: &ends, start, row_count: row_count as usize };
                let bound = expected.len() as u64 - 2;
                table.gather_at(level, 4, &codes, Some(&runs), bound, &mut offsets, &mut out).unwrap();
                assert_eq!((offsets, out), (expected_offsets, expected), "{row_count} rows from {start} at {level:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let table = table_of(&[vec![], vec![b'x'; 3], vec![b'x'; 2], vec![b'x'; 40]]);
        let ends = [12u32, 13, 80, 81, 300, 301];
        let fails = |codes: &[u8], start, row_count, bound| {
            let runs = Runs { ends: &ends[..codes.len()], start, row_count };
            table.gather(4, codes, Some(&runs), bound, &mut vec![0i32], &mut Vec::new()).unwrap_err()
        };
        let codes = [1u8, 0, 3, 2, 0, 1];
        assert_eq!(fails(&codes, 10, 291, 100), GatherError::TooLong);
        assert_eq!(fails(&[1, 4], 10, 2, 100), GatherError::BadCode(1));
        assert!(matches!(fails(&codes, 10, 292, u64::MAX), GatherError::Runs(_)));
        assert!(matches!(fails(&codes, 12, 5, u64::MAX), GatherError::Runs(_)));
        for offsets in [vec![], vec![0, 2, 1], vec![-1, 2], vec![0, 4]] {
            assert!(StringTable::new(offsets.clone(), vec![0; 3]).is_none(), "{offsets:?}");
        }
    }
}
