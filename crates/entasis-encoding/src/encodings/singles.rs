//! Single strings of a large dictionary: where few of its values are asked for, only those are got, and kept for who asks next.

use std::sync::{Mutex, PoisonError};

use super::dictionary::bad_code;
use crate::error::{Error, Result};
use crate::values::{BytesForm, Decoded, DecodedBytes, DecodedValues};
use crate::views::Views;
use crate::{Physical, simd};

/// Of fewer values, all are decoded where any is asked for.
const FEW_OF: usize = 4096;
/// So many values are decoded, one after the other, in the time that one is got singly.
const SINGLE_COST: usize = 2;

/// So many of a dictionary's values may be got singly: as much again may be lost where all are decoded in the end.
pub(crate) fn most_singles(all: usize) -> usize {
    if all < FEW_OF { 0 } else { all / 2 / SINGLE_COST }
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
