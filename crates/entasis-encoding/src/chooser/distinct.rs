//! Distinct values: a code per row, codes given in order of first appearance.

use xxhash_rust::xxh3::xxh3_64;

use super::few::DistinctOfFew;
use crate::error::Result;
use crate::values::{Column, LaneAccess, Values};
use crate::{Lane, PackedLane, simd, with_lanes, with_packed_lane_of};

/// The fraction 2^64 / φ, made odd: a multiplier that spreads bits upwards.
pub(super) const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The distinct values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Distinct {
    /// One code per row.
    pub codes: Vec<u32>,
    /// For each code, the row at which its value first appears.
    pub first_rows: Vec<u32>,
}

impl Distinct {
    /// Finds the distinct values; `None` once more than `limit` are met, or where a column has no such notion.
    pub fn of(column: &Column<'_>, limit: usize) -> Option<Self> {
        Self::beyond_few(column, || DistinctOfFew::UNKNOWN, limit)
    }

    /// As [`Self::of`]; `None` also where they seem to be plainly more.
    pub fn unless_more(column: &Column<'_>, limit: usize) -> Option<Self> {
        Self::beyond_few(column, || DistinctOfFew::of(column), limit)
    }

    /// As [`Self::of`], where `few` tells what a few rows show.
    fn beyond_few(column: &Column<'_>, few: impl FnOnce() -> DistinctOfFew, limit: usize) -> Option<Self> {
        match &column.values {
            Values::Fixed(fixed, lanes) if fixed.size_bytes() <= 8 => with_packed_lane_of!(*fixed, T => {
                let lanes = <T as LaneAccess>::lent(lanes)?;
                match least_of_near(lanes, fixed.is_signed()) {
                    Some((least, span)) => distinct_near(lanes, least, span, limit),
                    None => distinct_lanes(lanes, few(), limit),
                }
            }, None),
            Values::Fixed(_, lanes) => with_lanes!(lanes, lanes => distinct_lanes(lanes, few(), limit)),
            Values::Bytes(strings) => {
                let few = few();
                if few.least > limit {
                    return None;
                }
                if !few.may_be_more_than(limit) {
                    return distinct(strings, |_, string| xxh3_64(string), same_strings, few.least, limit);
                }
                let mut hashes: Vec<u64> = Vec::with_capacity(strings.len());
                let hash = |string: &&[u8]| {
                    hashes.push(xxh3_64(string));
                    hashes[hashes.len() - 1]
                };
                let about = about_distinct(strings.iter().map(hash), few, limit)?;
                distinct(strings, |row, _| hashes[row], same_strings, about, limit)
            }
            _ => None,
        }
    }

    /// Calls `visit` with the column of distinct values.
    pub fn with_values<R>(&self, column: &Column<'_>, visit: impl FnOnce(&Column<'_>) -> Result<R>) -> Result<R> {
        let picked = |values| Column { rows: self.first_rows.len(), validity: None, values };
        match &column.values {
            Values::Fixed(fixed, lanes) => with_lanes!(lanes, lanes => {
                let values: Vec<_> = self.first_rows.iter().map(|&row| lanes[row as usize]).collect();
                visit(&picked(Values::Fixed(*fixed, LaneAccess::lanes(&values))))
            }),
            Values::Bytes(strings) => {
                let values: Vec<&[u8]> = self.first_rows.iter().map(|&row| strings[row as usize]).collect();
                visit(&picked(Values::Bytes(&values)))
            }
            other => visit(&picked(other.clone())),
        }
    }
}

/// A hash of a lane whose high bits are good.
pub(crate) fn hash_lane<T: Lane>(lane: &T) -> u64 {
    if T::BYTES <= 8 {
        return lane.low_bits().wrapping_mul(ODD);
    }
    let wide = lane.widen();
    let words = [wide.low as u64, (wide.low >> 64) as u64, wide.high as u64, (wide.high >> 64) as u64];
    // Each product's good bits go to where the next word's are, and its own on top.
    words[..T::BYTES / 8].iter().fold(0, |hash: u64, word| (hash.rotate_left(32) ^ word).wrapping_mul(ODD))
}

/// Equality of byte strings that is quick for those of different length, for those that are one and the same, and for those that end
/// differently, as most do.
#[inline]
pub(crate) fn same_string(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    if left.is_empty() || std::ptr::eq(left.as_ptr(), right.as_ptr()) {
        return true;
    }
    match (left.split_last_chunk::<8>(), right.split_last_chunk::<8>()) {
        (Some((left, left_end)), Some((right, right_end))) => left_end == right_end && left == right,
        _ => same_short(left, right),
    }
}

/// As [`same_string`], for rows.
#[inline]
fn same_strings(left: &&[u8], right: &&[u8]) -> bool {
    same_string(left, right)
}

/// Equality of byte strings of the same length, 1 to 7 bytes.
#[inline]
fn same_short(left: &[u8], right: &[u8]) -> bool {
    match (left.first_chunk::<4>(), right.first_chunk::<4>(), left.last_chunk::<4>(), right.last_chunk::<4>()) {
        (Some(left_first), Some(right_first), Some(left_last), Some(right_last)) => {
            left_first == right_first && left_last == right_last
        }
        _ => left[0] == right[0] && left[left.len() / 2] == right[right.len() / 2] && left.last() == right.last(),
    }
}

/// The least of lanes that lie so near to each other that each value between the least and the greatest can have a place, and how many
/// values those are.
fn least_of_near<T: PackedLane>(lanes: &[T], is_signed: bool) -> Option<(T, usize)> {
    let (least, greatest) = if is_signed { simd::min_max_signed(lanes) } else { simd::min_max(lanes) }?;
    let span = greatest.subtract(least).to_u64();
    (span < lanes.len().max(1 << u8::BITS) as u64).then(|| (least, span as usize + 1))
}

/// Finds distinct values by their distance from the least.
fn distinct_near<T: PackedLane>(values: &[T], least: T, span: usize, limit: usize) -> Option<Distinct> {
    const NONE: u32 = u32::MAX;
    let mut code_of = vec![NONE; span];
    let mut codes = Vec::with_capacity(values.len());
    let mut first_rows: Vec<u32> = Vec::new();
    for (row, value) in values.iter().enumerate() {
        let code = &mut code_of[value.subtract(least).to_u64() as usize];
        if *code == NONE {
            if first_rows.len() == limit {
                return None;
            }
            *code = first_rows.len() as u32;
            first_rows.push(row as u32);
        }
        codes.push(*code);
    }
    Some(Distinct { codes, first_rows })
}

/// About how many distinct values there are of which these are the hashes, one for each row; `None` where they are plainly more than
/// `limit`. Each hash has a bit, and values share bits as often as chance has it (Whang, Vander-Zanden and Taylor, TODS 15, 1990, linear
/// counting). That is quicker than telling values apart, and after one row of a few it is asked whether there is hope.
fn about_distinct(mut hashes: impl ExactSizeIterator<Item = u64>, few: DistinctOfFew, limit: usize) -> Option<usize> {
    /// As many bits as lie in the nearest cache.
    const BITS_LOG2: u32 = 18;
    /// After one row of so many, and of so few.
    const PARTS: [usize; 3] = [16, 4, 1];
    /// Chance errs far less.
    const MARGIN: f64 = 1.01;
    let rows = hashes.len();
    let mut bits = vec![0u64; 1 << (BITS_LOG2 - u64::BITS.ilog2())];
    let (mut looked_at, mut about) = (0, 0);
    for parts in PARTS {
        for hash in hashes.by_ref().take(rows / parts - looked_at) {
            let bit = ((hash ^ hash >> 29).wrapping_mul(ODD) >> (u64::BITS - BITS_LOG2)) as usize;
            bits[bit / 64] |= 1 << (bit % 64);
        }
        looked_at = rows / parts;
        let all = f64::from(1 << BITS_LOG2);
        let free = all - bits.iter().map(|word| f64::from(word.count_ones())).sum::<f64>();
        about = (all * (all / free.max(1.0)).ln()) as usize;
        if about as f64 > limit as f64 * MARGIN || (parts > 1 && few.is_hopeless(rows, parts, about, limit)) {
            return None;
        }
    }
    Some(about)
}

fn distinct_lanes<T: Lane>(lanes: &[T], few: DistinctOfFew, limit: usize) -> Option<Distinct> {
    if few.least > limit {
        return None;
    }
    let about = match few.may_be_more_than(limit) {
        true => about_distinct(lanes.iter().map(hash_lane), few, limit)?,
        false => few.least,
    };
    distinct(lanes, |_, lane| hash_lane(lane), |left, right| left == right, about, limit)
}

/// Finds distinct values by hash: that of a row and its value. They are about so many, or more.
fn distinct<T: Copy>(
    values: &[T],
    hash: impl Fn(usize, &T) -> u64,
    same: impl Fn(&T, &T) -> bool,
    about: usize,
    limit: usize,
) -> Option<Distinct> {
    // It grows with what it holds: where that is little, it stays in the nearest cache.
    let mut table = Table::with_room(about.min(limit));
    let mut codes = Vec::with_capacity(values.len());
    let mut first_rows: Vec<u32> = Vec::new();
    let mut last: Option<(T, u32)> = None;
    for (row, value) in values.iter().enumerate() {
        if let Some((previous, code)) = last
            && same(&previous, value)
        {
            codes.push(code);
            continue;
        }
        let code =
            table.find_or_insert(hash(row, value), |code| same(&values[first_rows[code as usize] as usize], value));
        if code as usize == first_rows.len() {
            if first_rows.len() == limit {
                return None;
            }
            first_rows.push(row as u32);
        }
        last = Some((*value, code));
        codes.push(code);
    }
    Some(Distinct { codes, first_rows })
}

/// An open-addressing table of codes by hash; the values themselves are the caller's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// (the high half of the hash, code + 1); 0 is free.
    slots: Vec<(u32, u32)>,
    used: u32,
}

impl Table {
    /// A table for so many codes, which grows where there are more.
    pub fn with_room(codes: usize) -> Self {
        Self { slots: vec![(0, 0); (2 * codes + 1).next_power_of_two().max(256)], used: 0 }
    }

    /// The code with this hash for which `equal` holds.
    pub fn find(&self, hash: u64, equal: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() { None } else { self.look_up(hash, equal).ok() }
    }

    /// As [`Table::find`]; what isn't found is given the next code.
    pub fn find_or_insert(&mut self, hash: u64, equal: impl FnMut(u32) -> bool) -> u32 {
        if (self.used as usize + 1) * 2 > self.slots.len() {
            let larger = vec![(0, 0); (self.slots.len() * 2).max(256)];
            let old = std::mem::replace(&mut self.slots, larger);
            old.into_iter().filter(|slot| slot.1 != 0).for_each(|slot| self.place(slot));
        }
        self.look_up(hash, equal).unwrap_or_else(|free| {
            self.used += 1;
            self.slots[free] = ((hash >> u32::BITS) as u32, self.used);
            self.used - 1
        })
    }

    /// The code with this hash for which `equal` holds, or else the free slot where it belongs; the table has one.
    fn look_up(&self, hash: u64, mut equal: impl FnMut(u32) -> bool) -> std::result::Result<u32, usize> {
        let (mask, tag) = (self.slots.len() - 1, (hash >> u32::BITS) as u32);
        let mut slot = tag as usize & mask;
        loop {
            match self.slots[slot] {
                (_, 0) => return Err(slot),
                (found, code) if found == tag && equal(code - 1) => return Ok(code - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn place(&mut self, entry: (u32, u32)) {
        let mask = self.slots.len() - 1;
        let mut slot = entry.0 as usize & mask;
        while self.slots[slot].1 != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Lanes;
    use crate::{BLOCK_ROWS, Fixed};

    #[test]
    fn bits_tell_about_how_many_there_are_and_when_there_are_too_many() {
        let mut random = crate::random::Random::new(23);
        for distinct in [1, 100, 5000, 60_000] {
            let scattered: Vec<u64> = (0..distinct).map(|_| random.next()).collect();
            let regular: Vec<u64> = (0..distinct).map(|row| row * 1000).collect();
            for values in [scattered, regular] {
                let rows: Vec<u64> = (0..BLOCK_ROWS).map(|row| values[row % values.len()]).collect();
                let about = |limit| about_distinct(rows.iter().map(hash_lane), DistinctOfFew::UNKNOWN, limit);
                let found = about(BLOCK_ROWS).unwrap();
                assert!(found.abs_diff(values.len()) * 100 <= values.len(), "{found} of {distinct}");
                assert_eq!((about(found), about(found * 49 / 50)), (Some(found), None));
            }
        }
    }

    #[test]
    fn codes_are_those_of_the_oracle() {
        let values: Vec<u64> = (0..5000u64).map(|n| n.wrapping_mul(n) % 701).collect();
        let column = Column { rows: 5000, validity: None, values: Values::Fixed(Fixed::U64, Lanes::L64(&values)) };
        let mut seen: Vec<u64> = Vec::new();
        let expected: Vec<u32> = values
            .iter()
            .map(|value| {
                let code = seen.iter().position(|other| other == value).unwrap_or_else(|| {
                    seen.push(*value);
                    seen.len() - 1
                });
                code as u32
            })
            .collect();
        let distinct = Distinct::of(&column, 5000).unwrap();
        assert_eq!(distinct.codes, expected);
        assert_eq!(distinct.first_rows.iter().map(|&row| values[row as usize]).collect::<Vec<_>>(), seen);
        assert_eq!(Distinct::of(&column, seen.len() - 1), None);
        assert!(Distinct::of(&column, seen.len()).is_some());
        let narrow: Vec<u16> = values.iter().map(|&value| value as u16).collect();
        for rows in [5000, BLOCK_ROWS] {
            let lanes: Vec<u16> = narrow.iter().copied().cycle().take(rows).collect();
            let column = Column { rows, validity: None, values: Values::Fixed(Fixed::U16, Lanes::L16(&lanes)) };
            let distinct = Distinct::of(&column, seen.len()).unwrap();
            assert_eq!(distinct.codes, expected.iter().copied().cycle().take(rows).collect::<Vec<_>>());
            assert_eq!(Distinct::of(&column, seen.len() - 1), None);
        }
        let tiny: Vec<u8> = values.iter().map(|&value| value as u8).collect();
        let column = Column { rows: 5000, validity: None, values: Values::Fixed(Fixed::U8, Lanes::L8(&tiny)) };
        let Distinct { codes, first_rows } = Distinct::of(&column, 256).unwrap();
        assert!(codes.iter().zip(&tiny).all(|(&code, value)| tiny[first_rows[code as usize] as usize] == *value));
        assert!(first_rows.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
