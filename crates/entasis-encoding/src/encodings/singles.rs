//! Single strings of a large dictionary: where few of its values are asked for, only those are got, and kept for who asks next.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::dictionary::bad_code;
use super::strings::append_views;
use crate::error::{Error, Result};
use crate::values::{BytesForm, Decoded, DecodedBytes, DecodedValues};
use crate::views::Views;
use crate::{Physical, simd};

/// Of fewer values, all are decoded where any is asked for.
const FEW_OF: usize = 1024;
/// So many values are decoded, one after the other, in the time that one is got singly.
const SINGLE_COST: usize = 2;

/// So many of a dictionary's values may be got singly: as much again may be lost where all are decoded in the end.
fn most_singles(all: usize) -> usize {
    if all < FEW_OF { 0 } else { all / 2 / SINGLE_COST }
}

/// Of fewer values, all are searched whichever rows live.
const LIVING_OF: usize = 256;

/// Up to so many of a dictionary's values are searched alone; of more, all are.
pub(crate) fn most_living(all: usize) -> usize {
    if all < LIVING_OF { 0 } else { all / SINGLE_COST }
}

/// The strings that were got singly so far, until they are so many that all are sooner decoded.
#[derive(Debug, Default)]
pub(crate) struct Singles(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    values: Views,
    /// For each code 1 + where its string lies among the values, or 0; empty before the first was asked for.
    places: Vec<u32>,
    given_up: bool,
}

impl Singles {
    /// Appends the strings of `codes`, which are below `count`, of a dictionary with `all` values. Those that nobody has asked for yet are
    /// got: `get` appends them, for rows in ascending order. False, with nothing appended, where all values are sooner decoded.
    ///
    /// # Errors
    /// Those of `get`, and of a code that no value has.
    pub fn append<C: simd::Code>(
        &self,
        all: usize,
        get: impl FnOnce(&[u32], &mut Decoded) -> Result<()>,
        count: usize,
        codes: &[C],
        out: &mut Views,
    ) -> Result<bool> {
        if all < FEW_OF {
            return Ok(false);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.given_up {
            return Ok(false);
        }
        known.places.resize(all, 0);
        let mut fresh = Vec::new();
        for code in codes.iter().map(|code| code.index()) {
            match known.places[..count].get(code) {
                None => return Err(bad_code()),
                Some(0) => fresh.push(code as u32),
                Some(_) => {}
            }
        }
        fresh.sort_unstable();
        fresh.dedup();
        if known.values.len() + fresh.len() > most_singles(all) {
            *known = Known { given_up: true, ..Known::default() };
            return Ok(false);
        }
        if !fresh.is_empty() {
            let mut strings = Decoded::new(&Physical::Bytes, BytesForm::Views);
            get(&fresh, &mut strings)?;
            known.extend(&fresh, strings)?;
        }
        let places: Vec<u32> = codes.iter().map(|code| known.places[code.index()] - 1).collect();
        out.append_from(&known.values, |values, views| simd::gather(values, &places, views).map_err(|_| bad_code()))?;
        Ok(true)
    }

    /// Keeps the strings of `codes`, ascending, of a dictionary with `all` values, if there are none yet, and these aren't too many.
    pub fn keep(&self, all: usize, codes: &[u32], strings: Decoded) -> Result<()> {
        let DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, data)) = strings.values else {
            return Err(bad_code());
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.given_up || !known.values.is_empty() || codes.len() > most_singles(all) {
            return Ok(());
        }
        let lengths: Vec<u32> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
        let mut views = Views::default();
        append_views(&lengths, &Bytes::from(data), &mut views)?;
        known.places.resize(all, 0);
        known.extend(
            codes,
            Decoded { rows: codes.len(), validity: None, values: DecodedValues::Bytes(DecodedBytes::Views(views)) },
        )
    }

    /// Number of strings that were got so far, if they haven't become too many.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().values.len()
    }
}

impl Known {
    /// Keeps the strings of these codes.
    fn extend(&mut self, codes: &[u32], mut strings: Decoded) -> Result<()> {
        strings.learn_text();
        let DecodedValues::Bytes(DecodedBytes::Views(strings)) = strings.values else { return Err(bad_code()) };
        if strings.len() != codes.len() {
            return Err(bad_code());
        }
        let first = self.values.len() as u32 + 1;
        self.values.append_from(&strings, |from, to| {
            to.extend_from_slice(from);
            Ok::<(), Error>(())
        })?;
        codes.iter().zip(first..).for_each(|(&code, place)| self.places[code as usize] = place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::values::{BitBuffer, Column, Values};
    use crate::{
        Block, ChunkEncoder, EncodeOptions, Filter, FilterWork, Like, Limits, Parts, Predicate, Scalar, Selection,
    };

    /// Searches of some rows: of none, few, runs and many, of dictionaries large and small, with nulls and without.
    #[test]
    fn searches_of_living_rows_are_those_of_their_values() {
        let mut random = Random::new(41);
        let mut spared = 0;
        for (distinct, nulls) in [(9000, false), (9000, true), (700, false), (40, true)] {
            let rows = 20_000;
            let names: Vec<String> = (0..distinct)
                .map(|n| format!("https://example.com/{}/catalog/{n}?q={}", n % 17, n * 7919 % 1009))
                .collect();
            let codes: Vec<usize> = (0..rows).map(|_| random.below(distinct)).collect();
            let strings: Vec<&[u8]> = codes.iter().map(|&code| names[code].as_bytes()).collect();
            let valid: BitBuffer = (0..rows).map(|row| !nulls || row % 5 != 2).collect();
            let column = Column { rows, validity: nulls.then(|| valid.bits()), values: Values::Bytes(&strings) };
            let options = EncodeOptions { required: Some(6), ..EncodeOptions::default() };
            let encoded = ChunkEncoder::new(Physical::Bytes, options).encode(&column, true, &mut |_| Ok(0)).unwrap();
            for pattern in ["%/catalog/1%", "%q=77", "%nowhere%", "%/3/%q=1_2%"] {
                let like = Like { pattern: pattern.as_bytes().to_vec(), escape: None, negated: distinct == 700 };
                let predicate = Predicate::Like(like);
                for kind in 0..5 {
                    let alive: BitBuffer = (0..rows)
                        .map(|row| match kind {
                            0 => row == 17,
                            1 => random.below(20) == 0,
                            2 => (3000..4500).contains(&row),
                            3 => random.below(10) > 0,
                            _ => row % 1024 < 3,
                        })
                        .collect();
                    let block =
                        Block::open(encoded.bytes.clone().into(), &Parts::new(), None, &Limits::default()).unwrap();
                    let (mut selection, mut work) = (Selection::from_bits(&alive), FilterWork::default());
                    Filter::new(&predicate, &Physical::Bytes).apply(&block, &mut selection, &mut work).unwrap();
                    let holds = |row: usize| {
                        let value = valid.bits().get(row).then(|| Scalar::Bytes(strings[row].to_vec()));
                        alive.bits().get(row) && predicate.holds(value.as_ref())
                    };
                    let expected: Vec<usize> = (0..rows).filter(|&row| holds(row)).collect();
                    assert_eq!(selection.iter().collect::<Vec<_>>(), expected, "{pattern} of {distinct}, kind {kind}");
                    let mut out = Decoded::new(&Physical::Bytes, BytesForm::Views);
                    block.select(&selection, &mut out).unwrap();
                    for (index, &row) in expected.iter().enumerate() {
                        assert_eq!(out.scalar(&Physical::Bytes, index), Some(Scalar::Bytes(strings[row].to_vec())));
                    }
                    spared += usize::from((1..distinct as u64 / 2).contains(&work.decoded_values));
                }
            }
        }
        assert!(spared > 20, "{spared} searches had to look at few values");
    }
}
