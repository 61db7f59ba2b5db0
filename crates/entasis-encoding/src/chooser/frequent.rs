//! The value that most rows have, where there is one: what `Sparse` leaves out, and what makes codes of a dictionary sparse.

use super::distinct::Distinct;
use super::statistics::{Statistics, frequencies};
use crate::encodings::alp::decimal_bytes;
use crate::encodings::bitpack::plan;
use crate::encodings::roaring::{VECTOR_WORDS, Words, container_bytes};
use crate::simd::{self, Within};
use crate::values::{BitBuffer, LaneAccess, Values};
use crate::{PackedLane, VECTOR_ROWS, with_lanes, with_packed_lane_of};

/// Rows that are looked at to find it.
const LOOKED_AT: usize = 128;
/// It has at least one of so many of them.
const LEAST_SHARE: usize = 4;

/// The most frequent value of a column, as a few rows show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frequent {
    /// A row that has the value.
    pub row: usize,
    /// Rows that have another.
    pub other_rows: f64,
    /// Bytes that it takes to say which, about.
    pub which_bytes: f64,
}

impl Frequent {
    /// Looks for it, among the codes of the distinct values if they are known; `None` where no value has a good share of the rows.
    pub fn of(statistics: &Statistics<'_>, distinct: Option<&Distinct>) -> Option<Self> {
        match (&statistics.column.values, distinct) {
            (Values::Fixed(fixed, lanes), _) => with_packed_lane_of!(
                *fixed,
                T => find(<T as LaneAccess>::lent(lanes)?, other_lanes),
                with_lanes!(lanes, lanes => find(lanes, others))
            ),
            // Codes are compared more quickly.
            (Values::Bytes(_), Some(distinct)) => find(&distinct.codes, other_lanes),
            (Values::Bytes(strings), None) => find(strings, others),
            _ => None,
        }
    }
}

/// A row with the value that most of a few rows have, if those are enough.
fn candidate<T: Copy + Ord>(values: &[T]) -> Option<usize> {
    let count = values.len().min(LOOKED_AT);
    let mut some: Vec<(T, usize)> =
        (0..count).map(|index| index * values.len() / count).map(|row| (values[row], row)).collect();
    some.sort_unstable_by_key(|pair| pair.0);
    let most = some.chunk_by(|left, right| left.0 == right.0).max_by_key(|equal| equal.len())?;
    (most.len() * LEAST_SHARE >= count).then_some(most[0].1)
}

/// Which values of a vector aren't this one.
fn others<T: Copy + Eq>(vector: &[T], value: T) -> Words {
    let mut words = [0; VECTOR_WORDS];
    for (word, values) in words.iter_mut().zip(vector.chunks(64)) {
        *word = values.iter().rev().fold(0, |word, &next| word << 1 | u64::from(next != value));
    }
    words
}

/// As [`others`], of lanes.
fn other_lanes<T: PackedLane>(vector: &[T], value: T) -> Words {
    let mut equal = BitBuffer::default();
    simd::within(vector, &[Within { first: value, span: T::default() }], false, &mut equal);
    std::array::from_fn(|word| match vector.len().saturating_sub(word * 64) {
        0 => 0,
        rows => !equal.bits().word(word * 64) & u64::MAX >> (64 - rows.min(64)),
    })
}

fn find<T: Copy + Ord>(values: &[T], others: impl Fn(&[T], T) -> Words) -> Option<Frequent> {
    let row = candidate(values)?;
    let value = values[row];
    let (mut other_rows, mut which_bytes) = (0, 0);
    for vector in values.chunks(VECTOR_ROWS) {
        let words = others(vector, value);
        other_rows += words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        // A container, what the head says of it, and a rank.
        which_bytes += container_bytes(&words, vector.len()) + 4;
    }
    Some(Frequent { row, other_rows: other_rows as f64, which_bytes: which_bytes as f64 + 24.0 })
}

/// Bytes that the lanes take which aren't the frequent one, about; `may_cascade` says that they can be more than packed.
pub(crate) fn other_lane_bytes(statistics: &Statistics<'_>, frequent: &Frequent, may_cascade: bool) -> Option<f64> {
    let lanes = statistics.lanes()?;
    with_packed_lane_of!(lanes.fixed, T => {
        let value = <T as LaneAccess>::lent(lanes.all())?[frequent.row];
        let others: Vec<T> = lanes.sample::<T>().into_iter().flatten().copied().filter(|&lane| lane != value).collect();
        let vectors: Vec<&[T]> = others.chunks(VECTOR_ROWS).collect();
        let mut bytes: f64 = vectors.iter().map(|vector| plan(vector, lanes.fixed.is_signed()).size_bytes()).sum();
        if may_cascade {
            bytes = bytes.min(code_bytes(&others)).min(decimal_bytes(lanes.fixed, &vectors).unwrap_or(bytes));
        }
        Some(bytes * frequent.other_rows / others.len().max(1) as f64)
    }, Some(lanes.fixed.size_bytes() as f64 * frequent.other_rows))
}

/// Bytes that these values take as codes of a dictionary, about.
fn code_bytes<T: PackedLane>(values: &[T]) -> f64 {
    let words: Vec<u64> = values.iter().map(|value| value.to_u64()).collect();
    let distinct = frequencies(&words).count();
    let code_bits = (distinct.max(2) as f64).log2().ceil();
    values.len() as f64 * code_bits / 8.0 + (distinct * T::BYTES) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Column, Lanes};
    use crate::{Fixed, random::Random};

    fn frequent(values: &[u64]) -> Option<Frequent> {
        let column =
            Column { rows: values.len(), validity: None, values: Values::Fixed(Fixed::U64, Lanes::L64(values)) };
        Frequent::of(&Statistics::new(&column), None)
    }

    #[test]
    fn lanes_are_told_apart_as_values_are() {
        let mut random = Random::new(10);
        for rows in [0, 1, 63, 64, 65, 700, VECTOR_ROWS] {
            let values: Vec<u32> = (0..rows).map(|_| random.below(3) as u32).collect();
            assert_eq!(other_lanes(&values, 1), others(&values, 1), "{rows} rows");
        }
    }

    #[test]
    fn it_is_found_where_it_has_a_good_share() {
        let mut random = Random::new(9);
        let mut values: Vec<u64> = (0..20_000).map(|_| if random.below(10) == 0 { random.next() } else { 7 }).collect();
        let found = frequent(&values).unwrap();
        assert_eq!(values[found.row], 7);
        assert!((1700.0..2300.0).contains(&found.other_rows), "{found:?}");
        assert!((1700.0..3000.0).contains(&found.which_bytes), "{found:?}");
        values.iter_mut().for_each(|value| *value = random.next() % 5);
        assert_eq!(frequent(&values), None);
        assert_eq!(frequent(&[]), None);
    }
}
