//! Selections: the rows that are still alive, kept per vector.

use std::ops::Range;

use crate::VECTOR_ROWS;
use crate::values::{BitBuffer, Bits};

const WORDS: usize = VECTOR_ROWS / 64;

/// What is alive of one vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VectorSelection {
    /// No row.
    None,
    /// Every row.
    All,
    /// The rows whose bit is set; never all, never none, and bits past the vector's end are clear.
    Mask(Box<[u64; WORDS]>),
}

/// The rows that are still alive among `rows` rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    rows: usize,
    vectors: Vec<VectorSelection>,
}

impl Selection {
    /// Every one of `rows` rows.
    pub fn all(rows: usize) -> Self {
        Self { rows, vectors: vec![VectorSelection::All; rows.div_ceil(VECTOR_ROWS)] }
    }

    /// None of `rows` rows.
    pub fn none(rows: usize) -> Self {
        Self { rows, vectors: vec![VectorSelection::None; rows.div_ceil(VECTOR_ROWS)] }
    }

    /// The rows whose bit is set.
    pub fn from_bits(bits: &BitBuffer) -> Self {
        let mut selection = Self::all(bits.len());
        for vector in 0..selection.vectors.len() {
            let rows = selection.vector_rows(vector);
            selection.intersect(vector, bits.bits().slice(vector * VECTOR_ROWS, rows));
        }
        selection
    }

    /// A bit for each row, set where it is alive.
    pub fn to_bits(&self) -> BitBuffer {
        let mut bits = BitBuffer::default();
        self.extend_bits(0..self.vectors.len(), &mut bits);
        bits
    }

    /// Appends a bit for each row of some vectors, set where it is alive.
    pub(crate) fn extend_bits(&self, vectors: Range<usize>, out: &mut BitBuffer) {
        for vector in vectors {
            let rows = self.vector_rows(vector);
            for (word, row) in self.words(vector).into_iter().zip((0..rows).step_by(64)) {
                out.extend_word(word, (rows - row).min(64));
            }
        }
    }

    /// Rows, alive or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// One entry per vector.
    pub fn vectors(&self) -> &[VectorSelection] {
        &self.vectors
    }

    /// Rows of vector `vector`: 1,024, but for the last.
    pub fn vector_rows(&self, vector: usize) -> usize {
        (self.rows - vector * VECTOR_ROWS).min(VECTOR_ROWS)
    }

    /// Rows alive.
    pub fn count(&self) -> usize {
        (0..self.vectors.len()).map(|vector| self.count_in(vector)).sum()
    }

    /// True if `row` is alive.
    pub fn contains(&self, row: usize) -> bool {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        match &self.vectors[row / VECTOR_ROWS] {
            VectorSelection::None => false,
            VectorSelection::All => true,
            VectorSelection::Mask(words) => words[row % VECTOR_ROWS / 64] >> (row % 64) & 1 == 1,
        }
    }

    /// The rows alive, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.vectors.len()).flat_map(move |vector| {
            let start = vector * VECTOR_ROWS;
            self.vector_iter(vector).map(move |row| start + row)
        })
    }

    /// The rows alive in one vector, counted from its start.
    pub fn vector_iter(&self, vector: usize) -> impl Iterator<Item = usize> + '_ {
        let alive = self.words(vector);
        alive.into_iter().enumerate().flat_map(|(index, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Rows alive in one vector.
    pub fn count_in(&self, vector: usize) -> usize {
        match &self.vectors[vector] {
            VectorSelection::None => 0,
            VectorSelection::All => self.vector_rows(vector),
            VectorSelection::Mask(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Keeps the rows of one vector that are alive and whose bit is set; there is a bit per row.
    pub(crate) fn intersect(&mut self, vector: usize, bits: Bits<'_>) {
        let mut words = std::array::from_fn(|index| bits.word(index * 64));
        if let VectorSelection::Mask(alive) = &self.vectors[vector] {
            words.iter_mut().zip(alive.iter()).for_each(|(word, alive)| *word &= alive);
        }
        if self.vectors[vector] != VectorSelection::None {
            self.set(vector, words);
        }
    }

    fn words(&self, vector: usize) -> [u64; WORDS] {
        match &self.vectors[vector] {
            VectorSelection::None => [0; WORDS],
            VectorSelection::Mask(words) => **words,
            VectorSelection::All => {
                let rows = self.vector_rows(vector);
                std::array::from_fn(|index| match rows.saturating_sub(index * 64) {
                    0 => 0,
                    left if left >= 64 => u64::MAX,
                    left => (1 << left) - 1,
                })
            }
        }
    }

    /// Keeps the rows of one vector that are alive and for which `keep` is true.
    pub fn retain(&mut self, vector: usize, mut keep: impl FnMut(usize) -> bool) {
        let mut words = self.words(vector);
        for (index, word) in words.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if !keep(index * 64 + bit as usize) {
                    *word &= !(1 << bit);
                }
            }
        }
        self.set(vector, words);
    }

    /// Keeps those of the rows alive whose bit is set: bit `k` is that of the `k`th of them.
    ///
    /// # Panics
    /// If there isn't a bit for each.
    pub fn keep(&mut self, passed: Bits<'_>) {
        assert_eq!(passed.len(), self.count(), "bits for the rows alive");
        let mut asked = 0;
        for vector in 0..self.vectors.len() {
            if self.vectors[vector] == VectorSelection::None {
                continue;
            }
            let mut words = self.words(vector);
            for word in &mut words {
                let alive = word.count_ones() as usize;
                *word = deposit(passed.word(asked), *word);
                asked += alive;
            }
            self.set(vector, words);
        }
    }

    /// These rows, counted among those that are alive in `others`, which has as many rows: a selection of as many rows as those are. `None`
    /// if one of them isn't alive there.
    pub fn among(&self, others: &Selection) -> Option<Selection> {
        assert_eq!(self.rows, others.rows, "selections of different length");
        let mut bits = BitBuffer::default();
        for vector in 0..self.vectors.len() {
            if others.vectors[vector] == VectorSelection::None && self.vectors[vector] == VectorSelection::None {
                continue;
            }
            for (own, other) in self.words(vector).into_iter().zip(others.words(vector)) {
                if own & !other != 0 {
                    return None;
                }
                bits.extend_word(extract(own, other), other.count_ones() as usize);
            }
        }
        Some(Self::from_bits(&bits))
    }

    /// Replaces what is alive of one vector; bits past its end must be clear.
    fn set(&mut self, vector: usize, words: [u64; WORDS]) {
        let alive: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        self.vectors[vector] = match alive {
            0 => VectorSelection::None,
            alive if alive == self.vector_rows(vector) => VectorSelection::All,
            _ => VectorSelection::Mask(Box::new(words)),
        };
    }

    /// Empties one vector.
    pub fn clear(&mut self, vector: usize) {
        self.vectors[vector] = VectorSelection::None;
    }

    /// True if no row is alive.
    pub fn is_empty(&self) -> bool {
        self.vectors.iter().all(|vector| *vector == VectorSelection::None)
    }

    /// Adds the rows that are alive in `other`, which has as many rows.
    pub fn union(&mut self, other: &Selection) {
        self.combine(other, |own, other| own | other);
    }

    /// Removes the rows that are alive in `other`, which has as many rows.
    pub fn subtract(&mut self, other: &Selection) {
        self.combine(other, |own, other| own & !other);
    }

    /// Keeps the first `count` of the rows that are alive.
    pub fn truncate(&mut self, count: usize) {
        let mut left = count;
        for vector in 0..self.vectors.len() {
            let alive = self.count_in(vector);
            if alive > left {
                let mut kept = 0..left;
                self.retain(vector, |_| kept.next().is_some());
            }
            left = left.saturating_sub(alive);
        }
    }

    /// Exchanges what is alive of `vectors` with as many vectors of `other` from `at`. Vectors that take each other's place are
    /// equally long, which is for the caller to see to: those of a block and of the rows that it holds are.
    pub fn swap(&mut self, vectors: Range<usize>, other: &mut Selection, at: usize) {
        debug_assert!(
            vectors.clone().all(|vector| self.vector_rows(vector) == other.vector_rows(at + vector - vectors.start))
        );
        let count = vectors.len();
        self.vectors[vectors].swap_with_slice(&mut other.vectors[at..at + count]);
    }

    fn combine(&mut self, other: &Selection, of: impl Fn(u64, u64) -> u64) {
        assert_eq!(self.rows, other.rows, "selections of different length");
        for vector in 0..self.vectors.len() {
            let (own, others) = (self.words(vector), other.words(vector));
            self.set(vector, std::array::from_fn(|index| of(own[index], others[index])));
        }
    }
}

/// The lowest bits, one after the other, at the places that `mask` has.
fn deposit(bits: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return bits;
    }
    let (mut places, mut left, mut out) = (mask, bits, 0);
    while places != 0 {
        let place = places & places.wrapping_neg();
        out |= place & (left & 1).wrapping_neg();
        left >>= 1;
        places ^= place;
    }
    out
}

/// The bits at the places that `mask` has, one after the other.
fn extract(bits: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return bits;
    }
    let (mut places, mut count, mut out) = (mask, 0, 0);
    while places != 0 {
        let place = places & places.wrapping_neg();
        out |= u64::from(bits & place != 0) << count;
        count += 1;
        places ^= place;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_canonical() {
        for rows in [0, 1, 63, 64, 65, 1023, 1024, 1025, 3000] {
            assert_eq!(Selection::all(rows).count(), rows);
            assert_eq!(Selection::none(rows).count(), 0);
            assert_eq!(Selection::from_bits(&(0..rows).map(|_| true).collect()), Selection::all(rows));
            assert_eq!(Selection::from_bits(&(0..rows).map(|_| false).collect()), Selection::none(rows));
            let thirds = Selection::from_bits(&(0..rows).map(|row| row % 3 == 0).collect());
            assert_eq!(thirds.iter().collect::<Vec<_>>(), (0..rows).step_by(3).collect::<Vec<_>>());
            assert!((0..rows).all(|row| thirds.contains(row) == (row % 3 == 0)));
            assert_eq!(thirds.to_bits(), (0..rows).map(|row| row % 3 == 0).collect());
            assert_eq!(Selection::all(rows).to_bits(), (0..rows).map(|_| true).collect());
        }
    }

    #[test]
    fn rows_are_counted_among_others() {
        for rows in [0, 1, 64, 100, 1_024, 2_500, 5_000] {
            let of = |alive: &dyn Fn(usize) -> bool| Selection::from_bits(&(0..rows).map(alive).collect());
            let others = of(&|row| row % 3 != 1 && !(1_024..2_048).contains(&row));
            for own in [of(&|row| others.contains(row) && row % 5 == 0), others.clone(), Selection::none(rows)] {
                let among: BitBuffer = others.iter().map(|row| own.contains(row)).collect();
                assert_eq!(own.among(&others).unwrap(), Selection::from_bits(&among));
                assert_eq!(own.among(&Selection::all(rows)).unwrap(), own);
            }
            assert_eq!(Selection::all(rows).among(&others).is_some(), others == Selection::all(rows));
        }
    }

    #[test]
    fn sets_are_combined() {
        let rows = 2_500;
        let of = |alive: &dyn Fn(usize) -> bool| Selection::from_bits(&(0..rows).map(alive).collect());
        let (thirds, late) = (of(&|row| row % 3 == 0), of(&|row| row >= 1_024));
        let mut either = thirds.clone();
        either.union(&late);
        assert_eq!(either, of(&|row| row % 3 == 0 || row >= 1_024));
        either.subtract(&late);
        assert_eq!(either, of(&|row| row % 3 == 0 && row < 1_024));
        let mut first = thirds.clone();
        first.truncate(700);
        assert_eq!(first, of(&|row| row % 3 == 0 && row < 2_100));
        first.truncate(0);
        assert!(first.is_empty() && !thirds.is_empty());
        let mut block = Selection::none(1_476);
        either.swap(1..3, &mut block, 0);
        assert!(block.is_empty());
        let mut late = late;
        late.swap(1..3, &mut block, 0);
        assert!(late.is_empty() && block == Selection::all(1_476));
    }

    #[test]
    fn bits_of_the_living_keep_as_closures_do() {
        for (rows, step) in [(1, 1), (64, 1), (3_000, 1), (3_000, 2), (2_048, 7), (5_000, 1_500)] {
            let alive = Selection::from_bits(&(0..rows).map(|row| row % step == 0 && row / 1_024 != 1).collect());
            let passes = |row: usize| row * 2_654_435_761 % 7 < 3;
            let bits: BitBuffer = alive.iter().map(passes).collect();
            let (mut kept, mut retained) = (alive.clone(), alive.clone());
            kept.keep(bits.bits());
            for vector in 0..retained.vectors().len() {
                retained.retain(vector, |row| passes(vector * VECTOR_ROWS + row));
            }
            assert_eq!(kept, retained, "{rows} rows, one in {step}");
        }
    }

    #[test]
    fn retain_only_ever_removes() {
        let mut selection = Selection::from_bits(&(0..2000).map(|row| row % 2 == 0).collect());
        selection.retain(1, |row| row % 4 != 0);
        let expected: Vec<usize> =
            (0..2000).filter(|row| row % 2 == 0 && (*row < 1024 || (row - 1024) % 4 != 0)).collect();
        assert_eq!(selection.iter().collect::<Vec<_>>(), expected);
        selection.clear(0);
        assert_eq!(selection.vectors()[0], VectorSelection::None);
    }
}
