//! Predicates on values that aren't encoded, asked where they lie: nothing of them is copied but strings that a pattern is looked for in,
//! some at a time, and rows that fell aren't looked at.

use super::{
    BytesTest, DECODED_ROWS, Filter, FilterWork, Question, StringBounds, Test, Words, coded, extend_equal, merge_nulls,
    push_each,
};
use crate::error::{Error, Result};
use crate::values::{BitBuffer, Column, DecodedBytes, DecodedValues, Lanes, Values};
use crate::{Physical, Selection, VECTOR_ROWS, with_lanes};

/// If at most one of so many rows of a vector lives, each is asked by itself.
const FEW_SHARE: usize = 8;

/// Strings that are longer in the mean are searched by themselves, where they lie.
const MOST_TOGETHER_BYTES: usize = 1024;

impl Filter {
    /// The string that strings have to equal, or, if true, mustn't, and whether nulls pass; `None` if they are asked for something else.
    pub fn equal_string(&self) -> Option<(&[u8], bool, bool)> {
        match &self.question.test {
            Test::Bytes(test) => test.equal().map(|(text, negated)| (text, negated, self.question.nulls)),
            _ => None,
        }
    }

    /// The bounds that strings have to be within, or, if true, mustn't, and whether nulls pass; `None` if they are asked for something else.
    pub fn string_bounds(&self) -> Option<(StringBounds<'_>, bool, bool)> {
        match &self.question.test {
            Test::Bytes(test) => test.bounds().map(|bounds| (bounds, test.is_negated(), self.question.nulls)),
            _ => None,
        }
    }

    /// Keeps the rows of `selection` that pass, of values that aren't encoded and have as many rows.
    ///
    /// # Errors
    /// An invalid argument if the values are of another type than the filter's, or of another length than the selection, or if the filter is
    /// one of [`Filter::asking`].
    pub fn apply_lent(&self, column: &Column<'_>, selection: &mut Selection, work: &mut FilterWork) -> Result<()> {
        let question = &self.question;
        if column.rows != selection.rows() || column.values.physical() != question.physical {
            let what =
                format!("a filter of {} on {} values of {}", question.physical, column.rows, column.values.physical());
            return Err(Error::InvalidArgument(what));
        }
        if let Test::Asked(_) = question.test {
            return Err(Error::InvalidArgument("values that somebody else is asked about".into()));
        }
        let mut vector = 0;
        while vector < selection.vectors().len() {
            let alive = selection.count_in(vector);
            let few = |alive: usize| alive * FEW_SHARE <= VECTOR_ROWS;
            if few(alive) {
                let first = vector * VECTOR_ROWS;
                selection.retain(vector, |row| question.holds_lent(column, first + row));
                work.decoded_values += alive as u64;
                vector += 1;
                continue;
            }
            let most = (vector + DECODED_ROWS / VECTOR_ROWS).min(selection.vectors().len());
            let end = (vector + 1..most).find(|&next| few(selection.count_in(next))).unwrap_or(most);
            let first = vector * VECTOR_ROWS;
            let rows = (end * VECTOR_ROWS).min(column.rows) - first;
            let mut bits = std::mem::take(&mut work.bits);
            bits.truncate(0);
            question.answer_lent(column, first, rows, work, &mut bits)?;
            work.decoded_values += rows as u64;
            for (index, vector) in (vector..end).enumerate() {
                selection.intersect(vector, bits.bits().slice(index * VECTOR_ROWS, selection.vector_rows(vector)));
            }
            work.bits = bits;
            vector = end;
        }
        Ok(())
    }
}

impl Question {
    /// Whether one value passes.
    fn holds_lent(&self, column: &Column<'_>, row: usize) -> bool {
        if column.validity.is_some_and(|validity| !validity.get(row)) {
            return self.nulls;
        }
        match &column.values {
            Values::Null => self.nulls,
            Values::Bool(bits) => self.holds_bool(bits.get(row)),
            Values::Fixed(_, lanes) => with_lanes!(lanes, lanes => self.holds_lane(lanes[row])),
            Values::Bytes(slices) => self.holds_bytes(slices[row]),
            Values::List(..) | Values::FixedList(..) | Values::Struct(_) => self.verdict() == Some(true),
        }
    }

    /// Appends a bit for each of `count` values from `first`, set where it passes.
    fn answer_lent(
        &self,
        column: &Column<'_>,
        first: usize,
        count: usize,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let Some(validity) = column.validity else { return self.answer_valid_lent(column, first, count, work, out) };
        let mut found = BitBuffer::default();
        self.answer_valid_lent(column, first, count, work, &mut found)?;
        merge_nulls(found.bits(), validity.slice(first, count), self.nulls, out);
        Ok(())
    }

    /// [`Question::answer_lent`], as if nothing were null.
    fn answer_valid_lent(
        &self,
        column: &Column<'_>,
        first: usize,
        count: usize,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let rows = first..first + count;
        match (&column.values, &self.test) {
            (Values::Null, _) => out.extend_constant(self.nulls, count),
            (_, Test::Always(verdict)) => out.extend_constant(*verdict, count),
            (Values::Bool(bits), Test::Bool { set, .. }) => extend_equal(bits.slice(first, count), *set, out),
            (Values::Fixed(_, lanes), _) => match lanes {
                Lanes::L8(lanes) => self.answer_lanes(&lanes[rows], out)?,
                Lanes::L16(lanes) => self.answer_lanes(&lanes[rows], out)?,
                Lanes::L32(lanes) => self.answer_lanes(&lanes[rows], out)?,
                Lanes::L64(lanes) => self.answer_lanes(&lanes[rows], out)?,
                Lanes::L128(lanes) => push_each(count, out, |row| self.holds_lane(lanes[first + row])),
                Lanes::L256(lanes) => push_each(count, out, |row| self.holds_lane(lanes[first + row])),
            },
            (Values::Bytes(slices), Test::Bytes(test)) => {
                let slices = &slices[rows];
                if test.pattern().is_some() && answer_together(test, slices, work, out) {
                    return Ok(());
                }
                let mut words = Words::new(out);
                test.each(count, |row| slices[row], |passes| words.push(passes));
                words.finish();
            }
            _ => return Err(Error::InvalidArgument("values of another type than the question's".into())),
        }
        Ok(())
    }
}

/// Copies strings back to back and searches them all at once; false, and nothing is appended, where each is better searched by itself.
fn answer_together(test: &BytesTest, slices: &[&[u8]], work: &mut FilterWork, out: &mut BitBuffer) -> bool {
    let total: usize = slices.iter().map(|slice| slice.len()).sum();
    if total > slices.len() * MOST_TOGETHER_BYTES {
        return false;
    }
    let mut scratch = work.scratch(&Physical::Bytes);
    let mut is_answered = false;
    if let DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, data)) = &mut scratch.values {
        data.reserve(total);
        for slice in slices {
            data.extend_from_slice(slice);
            offsets.push(data.len() as i32);
        }
        is_answered = coded::answer_plain(test, offsets, data, out);
    }
    work.give_back(scratch);
    is_answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, Random, Shape, cells_of_column};
    use crate::{Comparison, Fixed, FloatOrder, Like, Predicate, Scalar};

    const TYPES: [Physical; 8] = [
        Physical::Null,
        Physical::Bool,
        Physical::Fixed(Fixed::I16),
        Physical::Fixed(Fixed::U64),
        Physical::Fixed(Fixed::F64),
        Physical::Fixed(Fixed::I128),
        Physical::Fixed(Fixed::I256),
        Physical::Bytes,
    ];

    fn predicates(literals: &[Scalar]) -> Vec<Predicate> {
        let order = FloatOrder::Ieee;
        let mut all = vec![Predicate::IsNull, Predicate::IsNotNull];
        for literal in literals {
            all.push(Predicate::Compare(Comparison::LessOrEqual, literal.clone(), order));
            all.push(Predicate::Compare(Comparison::NotEqual, literal.clone(), order));
            if let Scalar::Bytes(text) = literal {
                let empty = Scalar::Bytes(Vec::new());
                all.push(Predicate::Compare(Comparison::NotEqual, empty.clone(), order));
                all.push(Predicate::Compare(Comparison::Greater, empty.clone(), order));
                all.push(Predicate::In { values: vec![empty], negated: false, order });
                let middle = text.get(1..3.min(text.len())).unwrap_or(b"%").to_vec();
                let pattern = [&b"%"[..], &middle, &b"%"[..]].concat();
                all.push(Predicate::Like(Like { pattern, escape: None, negated: false }));
                all.push(Predicate::Like(Like { pattern: text.clone(), escape: Some(b'\\'), negated: true }));
            }
        }
        all.push(Predicate::In { values: literals.to_vec(), negated: true, order });
        all
    }

    #[test]
    fn values_answer_as_the_definition_says() {
        let mut random = Random::new(7);
        for physical in &TYPES {
            for shape in [Shape::Few, Shape::Outliers, Shape::Extremes] {
                let rows = 3_000 + random.below(4_000);
                let owned = Owned::generate(physical, shape, rows, random.below(2) == 0, &mut random);
                let column = owned.column();
                let scalars: Vec<Option<Scalar>> =
                    cells_of_column(&column).iter().map(|cell| cell.scalar(physical)).collect();
                let literals: Vec<Scalar> = scalars.iter().flatten().take(4).cloned().collect();
                // All rows, many, few, and few of some vectors.
                let alive: [fn(usize) -> bool; 4] =
                    [|_| true, |row| row % 3 > 0, |row| row % 97 == 5, |row| row < 1_000 || row % 500 == 7];
                for (predicate, alive) in predicates(&literals).iter().flat_map(|one| alive.map(|alive| (one, alive))) {
                    let (filter, mut work) = (Filter::new(predicate, physical), FilterWork::default());
                    let mut selection = Selection::from_bits(&(0..rows).map(alive).collect());
                    filter.apply_lent(&column, &mut selection, &mut work).unwrap();
                    let expected = (0..rows).filter(|&row| alive(row) && predicate.holds(scalars[row].as_ref()));
                    assert!(selection.iter().eq(expected), "{predicate} of {physical}, {shape:?}");
                }
            }
        }
    }

    #[test]
    fn long_strings_are_searched_where_they_lie() {
        let texts: Vec<Vec<u8>> =
            (0..600).map(|row| [vec![b'x'; 3_000], row.to_string().into_bytes()].concat()).collect();
        let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let column = Column { rows: slices.len(), validity: None, values: Values::Bytes(&slices) };
        let like = Predicate::Like(Like { pattern: b"%x59%".to_vec(), escape: None, negated: false });
        let mut selection = Selection::all(slices.len());
        let mut work = FilterWork::default();
        Filter::new(&like, &Physical::Bytes).apply_lent(&column, &mut selection, &mut work).unwrap();
        assert_eq!(selection.iter().collect::<Vec<_>>(), [vec![59], (590..600).collect()].concat());
    }

    #[test]
    fn other_types_and_lengths_are_refused() {
        let column = Column { rows: 2, validity: None, values: Values::Fixed(Fixed::I64, Lanes::L64(&[1, 2])) };
        let filter = |physical| Filter::new(&Predicate::IsNull, &physical);
        let apply =
            |filter: &Filter, rows| filter.apply_lent(&column, &mut Selection::all(rows), &mut FilterWork::default());
        assert!(apply(&filter(Physical::Fixed(Fixed::I64)), 2).is_ok());
        assert!(matches!(apply(&filter(Physical::Fixed(Fixed::I64)), 3), Err(Error::InvalidArgument(_))));
        assert!(matches!(apply(&filter(Physical::Bytes), 2), Err(Error::InvalidArgument(_))));
    }
}
