//! Aggregates held against the definition, value by value, and against what they may decode.

use std::cmp::Ordering;

use bytes::Bytes;

use super::{AggregateWork, Aggregates, Wanted};
use crate::chooser::chunk::{decoded_size_bytes, finished};
use crate::chooser::{EncodeOptions, Encoder};
use crate::encodings::REGISTRY;
use crate::predicate::{FloatOrder, Scalar};
use crate::testing::{Cell, Owned, Random, Shape, cells_of_column};
use crate::values::Column;
use crate::{Block, Fixed, Limits, Parts, Physical, Selection, VECTOR_ROWS};

impl Aggregates {
    /// Counts one value in: the definition.
    fn add(&mut self, cell: &Cell, physical: &Physical, wanted: Wanted) {
        if *cell == Cell::Null {
            self.null_count += 1;
            return;
        }
        self.count += 1;
        let Some(value) = cell.scalar(physical) else { return };
        match (&value, &mut self.sum) {
            (Scalar::Float(float), _) if float.is_nan() => {
                self.nan_count += u64::from(wanted.min || wanted.max);
                return;
            }
            (Scalar::Int(int), Some(sum)) => *sum += int,
            _ => {}
        }
        let is = |known: &Option<Scalar>, ordering| {
            known.as_ref().is_none_or(|known| value.compare(known, FloatOrder::Total) == Some(ordering))
        };
        if wanted.min && is(&self.min, Ordering::Less) {
            self.min = Some(value.clone());
        }
        if wanted.max && is(&self.max, Ordering::Greater) {
            self.max = Some(value);
        }
    }

    /// Whether all is the same, down to the sign of a zero.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// What is wanted of these values, one by one.
pub(crate) fn naive<'c>(cells: impl Iterator<Item = &'c Cell>, physical: &Physical, wanted: Wanted) -> Aggregates {
    let summed = matches!(physical, Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8);
    let mut found = Aggregates { sum: (wanted.sum && summed).then_some(0), ..Aggregates::default() };
    cells.for_each(|cell| found.add(cell, physical, wanted));
    found
}

/// Holds aggregates of some rows, and of the others together with these, against the definition.
pub(crate) fn check_aggregates(block: &Block, expected: &[Cell], random: &mut Random) {
    let flip = |random: &mut Random| random.below(2) == 0;
    let mut work = AggregateWork::default();
    for density in [0, 1, 60, 119, 120] {
        let wanted = Wanted { min: flip(random), max: flip(random), sum: flip(random) };
        let skipped = random.below(6);
        let lives = |row: usize, roll: usize| row / VECTOR_ROWS != skipped && roll < density;
        let some = Selection::from_bits(&(0..expected.len()).map(|row| lives(row, random.below(120))).collect());
        let context = || format!("{} of {}, {wanted:?}, {density}", block.cascade().words(), block.physical());
        let mut found = Aggregates::default();
        block.aggregate(&some, wanted, &mut work, &mut found).unwrap();
        let cells = some.iter().map(|row| &expected[row]);
        let by_definition = naive(cells, block.physical(), wanted);
        assert!(found.is_same(&by_definition), "{}: {found:?} instead of {by_definition:?}", context());
        let mut others = Selection::all(expected.len());
        others.subtract(&some);
        let mut merged = Aggregates::default();
        block.aggregate(&others, wanted, &mut work, &mut merged).unwrap();
        merged.merge(found.clone());
        block.aggregate(&others, wanted, &mut work, &mut found).unwrap();
        let by_definition = naive(expected.iter(), block.physical(), wanted);
        assert!(found.is_same(&by_definition), "{}: {found:?} instead of {by_definition:?}", context());
        assert!(merged.is_same(&by_definition), "{}: {merged:?} instead of {by_definition:?}", context());
    }
}

/// Holds aggregates of values that were never encoded against the definition.
pub(crate) fn check_lent_aggregates(column: &Column<'_>, expected: &[Cell], physical: &Physical) {
    for wanted in [Wanted::COUNT, Wanted { sum: true, ..Wanted::COUNT }, Wanted::ALL] {
        let mut found = Aggregates::default();
        column.aggregate(wanted, &mut AggregateWork::default(), &mut found);
        let by_definition = naive(expected.iter(), physical, wanted);
        assert!(found.is_same(&by_definition), "{physical}, {wanted:?}: {found:?} instead of {by_definition:?}");
    }
}

/// A block of these values whose root is the encoding of this name, and the values.
fn block_of(encoding: &str, physical: &Physical, shape: Shape, rows: usize) -> (Block, Vec<Cell>) {
    let owned = Owned::generate(physical, shape, rows, false, &mut Random::new(31));
    let column = owned.column();
    let encoding = REGISTRY.iter().find(|other| other.name() == encoding).unwrap();
    let node = Encoder::forcing(&EncodeOptions::default(), encoding.id()).root(&column).unwrap();
    let block = finished(&node, physical, decoded_size_bytes(&column, false), false);
    let block = Block::open(Bytes::from(block.bytes), &Parts::new(), None, &Limits::default()).unwrap();
    (block, cells_of_column(&column))
}

#[test]
fn what_encodings_can_tell_isnt_decoded() {
    let fixed = Physical::Fixed;
    for (encoding, physical, shape) in [
        ("Constant", fixed(Fixed::I64), Shape::Constant),
        ("Constant", Physical::Bytes, Shape::Constant),
        ("Run", fixed(Fixed::I32), Shape::Runs),
        ("Dictionary", Physical::Bytes, Shape::Few),
        ("BitPacking", fixed(Fixed::U32), Shape::Narrow),
        ("BitPacking", fixed(Fixed::I64), Shape::Outliers),
        ("Alp", fixed(Fixed::F64), Shape::Decimals),
        ("Narrow", fixed(Fixed::I128), Shape::Narrow),
    ] {
        let rows = 20_000;
        let (block, cells) = block_of(encoding, &physical, shape, rows);
        let (mut work, mut found) = (AggregateWork::default(), Aggregates::default());
        block.aggregate(&Selection::all(rows), Wanted::ALL, &mut work, &mut found).unwrap();
        assert!(found.is_same(&naive(cells.iter(), &physical, Wanted::ALL)), "{encoding} of {physical}");
        assert_eq!(work.decoded_values, 0, "{} of {physical}", block.cascade().words());
        assert!(work.reduced_values <= rows as u64 + 1000, "{}: {work:?}", block.cascade().words());
    }
}

#[test]
fn vectors_within_the_known_range_arent_unpacked() {
    let rows = 20_000;
    let wanted = Wanted { min: true, max: true, sum: false };
    let (block, _) = block_of("BitPacking", &Physical::Fixed(Fixed::U32), Shape::Narrow, rows);
    let known =
        |min, max| Aggregates { min: Some(Scalar::Int(min)), max: Some(Scalar::Int(max)), ..Aggregates::default() };
    for (mut known, unpacked) in
        [(known(-1, i128::MAX), 0), (known(-1, 0), rows as u64), (Aggregates::default(), rows as u64)]
    {
        let mut work = AggregateWork::default();
        block.aggregate(&Selection::all(rows), wanted, &mut work, &mut known).unwrap();
        assert_eq!(known.count, rows as u64);
        assert_eq!(work.reduced_values, unpacked);
    }
}

#[test]
fn counting_touches_no_value() {
    for (encoding, physical) in [("BitPacking", Physical::Fixed(Fixed::I64)), ("Fsst", Physical::Bytes)] {
        let (block, cells) = block_of(encoding, &physical, Shape::Scattered, 3000);
        let thirds = Selection::from_bits(&(0..3000).map(|row| row % 3 == 0).collect());
        let (mut work, mut found) = (AggregateWork::default(), Aggregates::default());
        block.aggregate(&thirds, Wanted::COUNT, &mut work, &mut found).unwrap();
        assert_eq!((found.count, cells.len()), (1000, 3000));
        assert_eq!((work.decoded_values, work.reduced_values), (0, 0));
    }
}

#[test]
fn a_selection_of_another_length_is_refused() {
    let (block, _) = block_of("Constant", &Physical::Fixed(Fixed::I64), Shape::Constant, 10);
    let mut found = Aggregates::default();
    let refused = block.aggregate(&Selection::all(11), Wanted::ALL, &mut AggregateWork::default(), &mut found);
    assert!(matches!(refused, Err(crate::Error::InvalidArgument(_))));
}
