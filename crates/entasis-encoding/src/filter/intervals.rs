//! Predicates on lanes, as intervals of their bit patterns.
//!
//! The patterns of a lane of *n* bits lie on a circle of 2ⁿ, in the order of the values that they stand for: unsigned and signed
//! integers as they are, floats by a [key](order_key) that puts them in IEEE's total order. On that circle every comparison is one
//! interval, its negation the rest of the circle: `≠ x` is the interval from behind x around to before it. Whether a value is
//! within takes one subtraction and one comparison, and what subtracts a reference from all values subtracts it from the
//! interval's beginning.

use std::cmp::Ordering;

use crate::predicate::{Comparison, FloatOrder, Predicate, Scalar};
use crate::{Fixed, U256};

/// Neighbouring patterns on the circle: `first` and the `span` behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub first: u128,
    pub span: u128,
}

/// What passes, for lanes of one type of at most 128 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intervals {
    /// Bits of the lane.
    bits: u32,
    /// They are of [keys](order_key) instead of patterns.
    pub keyed: bool,
    /// Disjoint, ascending by their beginning; only the last may reach around.
    pub list: Vec<Interval>,
}

/// A float's pattern as a signed integer of the same width that lies in IEEE 754's total order; its own inverse.
pub(crate) fn order_key(pattern: u128, bits: u32) -> u128 {
    let sign = pattern >> (bits - 1) & 1;
    pattern ^ (sign.wrapping_neg() & mask(bits) >> 1)
}

fn mask(bits: u32) -> u128 {
    u128::MAX >> (128 - bits)
}

/// The values that a literal is compared with, from the least to the greatest, by their number; what is unordered comes behind.
struct Line {
    fixed: Fixed,
    bits: u32,
    order: FloatOrder,
    /// Pattern or key of number 0.
    first: u128,
    /// The greatest number of a value that is ordered.
    last: u128,
}

impl Line {
    fn new(fixed: Fixed, order: FloatOrder) -> Self {
        let bits = fixed.size_bytes() as u32 * 8;
        let least = 1u128 << (bits - 1);
        let infinity = match fixed {
            Fixed::F16 => 0x7C00,
            Fixed::F32 => u128::from(f32::INFINITY.to_bits()),
            _ => u128::from(f64::INFINITY.to_bits()),
        };
        let minus_infinity = order_key(infinity | least, bits);
        let (first, last) = match order {
            _ if !fixed.is_float() && !fixed.is_signed() => (0, mask(bits)),
            _ if !fixed.is_float() => (least, mask(bits)),
            FloatOrder::Total => (least, mask(bits)),
            // NaNs of both signs follow on +∞, around the circle.
            FloatOrder::NanGreatest => (minus_infinity, mask(bits)),
            FloatOrder::Ieee => (minus_infinity, infinity.wrapping_sub(minus_infinity) & mask(bits)),
        };
        Line { fixed, bits, order, first, last }
    }

    fn value(&self, number: u128) -> Scalar {
        let key = self.first.wrapping_add(number) & mask(self.bits);
        let pattern = if self.fixed.is_float() { order_key(key, self.bits) } else { key };
        Scalar::from_lane(self.fixed, U256 { low: pattern, high: 0 })
    }

    /// The number of the first value of which `is_before` isn't true; `None` if it is true of all.
    fn first_not(&self, is_before: impl Fn(Ordering) -> bool, literal: &Scalar) -> Option<u128> {
        let holds = |number| self.value(number).compare(literal, self.order).is_some_and(&is_before);
        if holds(self.last) {
            return None;
        }
        let (mut low, mut high) = (0, self.last);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// The numbers of the values that compare so with the literal. `NotEqual` is for the caller to negate.
    fn compare(&self, comparison: Comparison, literal: &Scalar) -> Option<(u128, u128)> {
        // Unordered with everything: a NaN under IEEE's rules.
        self.value(0).compare(literal, self.order)?;
        let not_less = self.first_not(Ordering::is_lt, literal);
        let greater = self.first_not(Ordering::is_le, literal);
        let before = |number: Option<u128>| match number {
            None => Some(self.last),
            Some(number) => number.checked_sub(1),
        };
        match comparison {
            Comparison::Less => Some((0, before(not_less)?)),
            Comparison::LessOrEqual => Some((0, before(greater)?)),
            Comparison::Greater => Some((greater?, self.last)),
            Comparison::GreaterOrEqual => Some((not_less?, self.last)),
            Comparison::Equal | Comparison::NotEqual => {
                let (first, last) = (not_less?, before(greater)?);
                (first <= last).then_some((first, last))
            }
        }
    }
}

impl Intervals {
    /// What passes `predicate` among lanes of type `fixed`; `None` for those of 256 bits.
    pub fn of(predicate: &Predicate, fixed: Fixed) -> Option<Self> {
        if fixed == Fixed::I256 {
            return None;
        }
        let numbers = |line: &Line, comparison, literal: &Scalar| line.compare(comparison, literal).into_iter();
        let (line, mut ranges, negated): (Line, Vec<(u128, u128)>, bool) = match predicate {
            Predicate::Compare(comparison, literal, order) => {
                let line = Line::new(fixed, *order);
                let ranges = numbers(&line, *comparison, literal).collect();
                (line, ranges, *comparison == Comparison::NotEqual)
            }
            Predicate::In { values, negated, order } => {
                let line = Line::new(fixed, *order);
                let ranges = values.iter().flat_map(|literal| numbers(&line, Comparison::Equal, literal)).collect();
                (line, ranges, *negated)
            }
            Predicate::Between { low, high, negated, order } => {
                let line = Line::new(fixed, *order);
                let ranges = if *negated {
                    let below = numbers(&line, Comparison::Less, low);
                    below.chain(numbers(&line, Comparison::Greater, high)).collect()
                } else {
                    let from = line.compare(Comparison::GreaterOrEqual, low);
                    let to = line.compare(Comparison::LessOrEqual, high);
                    let both = from.zip(to).map(|((first, _), (_, last))| (first, last));
                    both.filter(|(first, last)| first <= last).into_iter().collect()
                };
                (line, ranges, false)
            }
            Predicate::IsNull => (Line::new(fixed, FloatOrder::Total), Vec::new(), false),
            Predicate::IsNotNull => (Line::new(fixed, FloatOrder::Total), Vec::new(), true),
            Predicate::Like(like) => (Line::new(fixed, FloatOrder::Total), Vec::new(), like.negated),
        };
        ranges.sort_unstable();
        let whole = mask(line.bits);
        let merged = merge(ranges);
        let passing = if negated { gaps(&merged, whole) } else { merged };
        let interval = |(first, last): (u128, u128)| Interval {
            first: line.first.wrapping_add(first) & whole,
            span: last - first,
        };
        let mut list: Vec<Interval> = passing.into_iter().map(interval).collect();
        join_around(&mut list, whole);
        list.sort_unstable_by_key(|interval| interval.first);
        Some(Intervals { bits: line.bits, keyed: fixed.is_float(), list })
    }

    /// The unsigned integers of type `fixed` whose bit is set, where they form at most `most` intervals.
    pub fn of_bits(bits: crate::values::Bits<'_>, fixed: Fixed, most: usize) -> Option<Self> {
        let mut list: Vec<Interval> = Vec::new();
        let mut last = false;
        for number in 0..bits.len() {
            let is_set = bits.get(number);
            match list.last_mut() {
                Some(interval) if is_set && last => interval.span += 1,
                _ if is_set => list.push(Interval { first: number as u128, span: 0 }),
                _ => {}
            }
            if list.len() > most {
                return None;
            }
            last = is_set;
        }
        Some(Intervals { bits: fixed.size_bytes() as u32 * 8, keyed: false, list })
    }

    /// Whether every value passes, or none; `None` where that depends.
    pub fn verdict(&self) -> Option<bool> {
        match self.list.as_slice() {
            [] => Some(false),
            [one] if one.span == mask(self.bits) => Some(true),
            _ => None,
        }
    }

    /// Whether a pattern passes.
    pub fn contains(&self, pattern: u128) -> bool {
        let place = if self.keyed { order_key(pattern, self.bits) } else { pattern };
        self.list.iter().any(|interval| place.wrapping_sub(interval.first) & mask(self.bits) <= interval.span)
    }

    /// [`Intervals::contains`], quicker where there are many.
    pub fn search(&self, pattern: u128) -> bool {
        let place = if self.keyed { order_key(pattern, self.bits) } else { pattern };
        let behind = self.list.partition_point(|interval| interval.first <= place);
        // What begins behind all of them may lie within the one that reaches around.
        let candidate = if behind == 0 { self.list.last() } else { self.list.get(behind - 1) };
        candidate.is_some_and(|interval| place.wrapping_sub(interval.first) & mask(self.bits) <= interval.span)
    }

    /// What passes among signed integers of 64 bits where this passes among those of 128.
    pub fn narrowed(&self) -> Self {
        let (domain, domain_span) = (i128::from(i64::MIN) as u128, u128::from(u64::MAX));
        let mut ranges = Vec::new();
        for interval in &self.list {
            let offset = interval.first.wrapping_sub(domain);
            let (last, reaches_around) = offset.overflowing_add(interval.span);
            if offset <= domain_span {
                ranges.push((offset, if reaches_around { domain_span } else { last.min(domain_span) }));
            }
            if reaches_around {
                ranges.push((0, last.min(domain_span)));
            }
        }
        ranges.sort_unstable();
        let pattern = |offset: u128| domain.wrapping_add(offset) & mask(64);
        let interval = |(first, last): (u128, u128)| Interval { first: pattern(first), span: last - first };
        let mut list: Vec<Interval> = merge(ranges).into_iter().map(interval).collect();
        join_around(&mut list, mask(64));
        list.sort_unstable_by_key(|interval| interval.first);
        Intervals { bits: 64, keyed: false, list }
    }

    /// What passes among the signed integers that stand for floats of the same width, the greater for the greater one.
    pub fn of_ascending(&self, float_of: impl Fn(u128) -> u128) -> Self {
        let (whole, least) = (mask(self.bits), 1u128 << (self.bits - 1));
        // Integers and floats by their number, from the least.
        let pattern = |number: u128| number.wrapping_add(least) & whole;
        let place = |number: u128| order_key(float_of(pattern(number)), self.bits).wrapping_sub(least) & whole;
        let first = |is_before: &dyn Fn(u128) -> bool| {
            let (mut low, mut high) = (0, whole + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if is_before(place(middle)) { low = middle + 1 } else { high = middle }
            }
            low
        };
        let mut ranges = Vec::new();
        for interval in &self.list {
            let start = interval.first.wrapping_sub(least) & whole;
            let end = start + interval.span;
            let places = if end <= whole {
                [Some((start, end)), None]
            } else {
                [Some((start, whole)), Some((0, end - whole - 1))]
            };
            for (least, greatest) in places.into_iter().flatten() {
                let (from, to) = (first(&|place| place < least), first(&|place| place <= greatest));
                if from < to {
                    ranges.push((from, to - 1));
                }
            }
        }
        ranges.sort_unstable();
        let interval = |(first, last): (u128, u128)| Interval { first: pattern(first), span: last - first };
        let mut list: Vec<Interval> = merge(ranges).into_iter().map(interval).collect();
        join_around(&mut list, whole);
        list.sort_unstable_by_key(|interval| interval.first);
        Intervals { bits: self.bits, keyed: false, list }
    }

    /// Whether all of the patterns from `first` to `span` behind it pass, or none; `None` where some do, or that isn't plain.
    pub fn settles(&self, first: u128, span: u128) -> Option<bool> {
        let distance = |from: u128, to: u128| to.wrapping_sub(from) & mask(self.bits);
        let covers = |interval: &Interval| {
            let start = distance(interval.first, first);
            start <= interval.span && span <= interval.span - start
        };
        // Neither begins within the other.
        let is_apart = |interval: &Interval| {
            distance(interval.first, first) > interval.span && distance(first, interval.first) > span
        };
        if self.keyed {
            return self.verdict();
        }
        if self.list.iter().any(covers) {
            return Some(true);
        }
        self.list.iter().all(is_apart).then_some(false)
    }
}

/// Ranges, ascending by their beginning, as few as there can be.
fn merge(ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// What lies between the ranges, before the first and behind the last up to `end`.
fn gaps(ranges: &[(u128, u128)], end: u128) -> Vec<(u128, u128)> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = Some(0);
    for &(first, last) in ranges {
        if let Some(begin) = next.filter(|begin| *begin < first) {
            gaps.push((begin, first - 1));
        }
        next = last.checked_add(1);
    }
    gaps.extend(next.filter(|begin| *begin <= end).map(|begin| (begin, end)));
    gaps
}

/// Makes one of the first and the last where they touch around the circle.
fn join_around(list: &mut Vec<Interval>, whole: u128) {
    let [first, .., last] = list.as_slice() else { return };
    let joined = Interval { first: last.first, span: last.span + 1 + first.span };
    if last.first.wrapping_add(last.span).wrapping_add(1) & whole == first.first {
        list.pop();
        list[0] = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(fixed: Fixed) -> Vec<Scalar> {
        if fixed.is_float() {
            let floats = [
                f64::NAN,
                -f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                1.0,
                -1.5,
                0.1,
                65504.0,
                1e300,
                5e-324,
            ];
            floats.into_iter().map(Scalar::Float).collect()
        } else {
            let ints =
                [0, 1, -1, 7, 127, 128, -128, -129, 255, 256, 65_535, i128::from(i64::MAX), i128::from(u64::MAX)];
            ints.into_iter().chain([i128::MIN, i128::MAX]).map(Scalar::Int).collect()
        }
    }

    fn patterns(fixed: Fixed) -> Vec<u128> {
        let bits = fixed.size_bytes() as u32 * 8;
        let mut patterns: Vec<u128> = if bits <= 16 { (0..1 << bits).collect() } else { Vec::new() };
        for shift in 0..bits {
            for near in [-2i128, -1, 0, 1, 2] {
                patterns.push((1u128 << shift).wrapping_add(near as u128) & mask(bits));
                patterns.push((1u128 << shift | 1 << (bits - 1)).wrapping_add(near as u128) & mask(bits));
            }
        }
        for float in [f64::NAN, 0.0, 1.0, -1.5, 0.1, f64::INFINITY, f64::NEG_INFINITY, 65504.0] {
            patterns.push(match fixed {
                Fixed::F32 => (float as f32).to_bits().into(),
                Fixed::F64 => float.to_bits().into(),
                _ => 0,
            });
        }
        patterns
    }

    #[test]
    fn intervals_hold_what_the_predicate_holds_of() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        for fixed in Fixed::ALL.into_iter().filter(|fixed| *fixed != Fixed::I256) {
            let mut predicates = vec![Predicate::IsNull, Predicate::IsNotNull];
            for order in [FloatOrder::Ieee, FloatOrder::NanGreatest, FloatOrder::Total] {
                for low in literals(fixed) {
                    for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
                        predicates.push(Predicate::Compare(comparison, low.clone(), order));
                    }
                    for negated in [false, true] {
                        let values = vec![low.clone(), literals(fixed)[4].clone(), literals(fixed)[6].clone()];
                        predicates.push(Predicate::In { values, negated, order });
                        for high in literals(fixed).into_iter().step_by(3) {
                            predicates.push(Predicate::Between { low: low.clone(), high, negated, order });
                        }
                    }
                }
            }
            let patterns = if fixed.size_bytes() == 2 {
                patterns(fixed).into_iter().step_by(7).collect()
            } else {
                patterns(fixed)
            };
            for predicate in predicates {
                let intervals = Intervals::of(&predicate, fixed).unwrap();
                for &pattern in &patterns {
                    let value = Scalar::from_lane(fixed, U256 { low: pattern, high: 0 });
                    let holds = predicate.holds(Some(&value));
                    assert_eq!(intervals.contains(pattern), holds, "{fixed:?} {predicate:?} {value:?}");
                    assert_eq!(intervals.search(pattern), holds, "{fixed:?} {predicate:?} {value:?}");
                    let narrow = pattern as i128 as i64;
                    if fixed == Fixed::I128 && i128::from(narrow) == pattern as i128 {
                        assert_eq!(intervals.narrowed().contains(u128::from(narrow as u64)), holds, "{predicate:?}");
                    }
                    if let Some(verdict) = intervals.verdict() {
                        assert_eq!(verdict, holds, "{fixed:?} {predicate:?} {value:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn comparisons_are_one_interval() {
        for fixed in [Fixed::I32, Fixed::U8, Fixed::F64, Fixed::I128] {
            let literal = if fixed.is_float() { Scalar::Float(2.5) } else { Scalar::Int(3) };
            for comparison in [Comparison::Equal, Comparison::NotEqual, Comparison::Less, Comparison::GreaterOrEqual] {
                for order in [FloatOrder::Ieee, FloatOrder::NanGreatest] {
                    let predicate = Predicate::Compare(comparison, literal.clone(), order);
                    assert_eq!(Intervals::of(&predicate, fixed).unwrap().list.len(), 1, "{fixed:?} {predicate:?}");
                }
            }
        }
    }

    #[test]
    fn integers_that_stand_for_floats_pass_where_these_do() {
        let float_of =
            |integer: u128| u128::from(half::f16::from_f64(f64::from(integer as u16 as i16) * 0.37).to_bits());
        let order = FloatOrder::NanGreatest;
        let mut predicates = Vec::new();
        for low in literals(Fixed::F16) {
            for comparison in [Comparison::Equal, Comparison::NotEqual, Comparison::Less, Comparison::GreaterOrEqual] {
                predicates.push(Predicate::Compare(comparison, low.clone(), order));
            }
            predicates.push(Predicate::Between { low, high: Scalar::Float(37.0), negated: true, order });
        }
        for predicate in predicates {
            let floats = Intervals::of(&predicate, Fixed::F16).unwrap();
            let integers = floats.of_ascending(float_of);
            for integer in 0..1 << 16 {
                assert_eq!(
                    integers.contains(integer),
                    floats.contains(float_of(integer)),
                    "{predicate:?} of {integer}"
                );
            }
        }
    }

    #[test]
    fn what_settles_holds_of_every_pattern() {
        let predicate = |low, high, negated| {
            let (low, high) = (Scalar::Int(low), Scalar::Int(high));
            Predicate::Between { low, high, negated, order: FloatOrder::Ieee }
        };
        for (low, high) in [(-100, -90), (-5, 5), (0, 0), (100, 127), (-128, 127), (5, 4)] {
            for negated in [false, true] {
                let intervals = Intervals::of(&predicate(low, high, negated), Fixed::I8).unwrap();
                for first in 0..256u128 {
                    for span in [0, 1, 3, 15, 63, 200, 255] {
                        let passing: Vec<bool> =
                            (0..=span).map(|step| intervals.contains((first + step) & 0xFF)).collect();
                        if let Some(verdict) = intervals.settles(first, span) {
                            assert!(passing.iter().all(|passes| *passes == verdict), "{low} {high} {first} {span}");
                        }
                    }
                }
            }
        }
    }
}
