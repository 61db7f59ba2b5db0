//! Strings that aren't encoded, told by their views: these have a string's length and its first four bytes, or all of it.

use std::cmp::Ordering;
use std::ops::Bound;

use arrow_array::{Array, ArrayRef, BinaryViewArray, builder::make_view, cast::AsArray};
use arrow_data::MAX_INLINE_VIEW_LEN;
use arrow_schema::DataType;
use entasis_encoding::{BitBuffer, Filter, Selection};

/// Rows of an array that pass, if it is of views and the filter asks which strings are equal to one, or within bounds, or aren't. Of rows that
/// aren't alive it says anything.
pub(crate) fn told_by_views(filter: &Filter, array: &ArrayRef, selection: &Selection) -> Option<BitBuffer> {
    let views = || match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().clone().to_binary_view()),
        DataType::BinaryView => Some(array.as_binary_view().clone()),
        _ => None,
    };
    let (passes, is_negated, nulls) = if let Some((text, is_negated, nulls)) = filter.equal_string() {
        (equal_to(&views()?, text), is_negated, nulls)
    } else if let Some(((low, high), is_negated, nulls)) = filter.string_bounds() {
        (within(&views()?, low, high, selection), is_negated, nulls)
    } else {
        return None;
    };
    let validity = array.nulls().map(|nulls| nulls.inner().bit_chunks().iter_padded().collect::<Vec<u64>>());
    let mut out = BitBuffer::default();
    for (index, own) in passes.into_iter().enumerate() {
        let valid = validity.as_ref().map_or(u64::MAX, |words| words[index]);
        let own = if is_negated { !own } else { own };
        out.extend_word(own & valid | if nulls { !valid } else { 0 }, (array.len() - index * 64).min(64));
    }
    Some(out)
}

/// A bit for each string, in words of 64.
fn equal_to(array: &BinaryViewArray, text: &[u8]) -> Vec<u64> {
    let wanted = make_view(text, 0, 0);
    let is_inline = text.len() <= MAX_INLINE_VIEW_LEN as usize;
    let words = array.views().chunks(64).enumerate().map(|(word, views)| {
        // Length and first four bytes, and where it is inline the rest.
        let is_alike = |view: u128| if is_inline { view == wanted } else { view as u64 == wanted as u64 };
        let alike = word_of(views, is_alike);
        let is_it = |row: usize| is_inline || array.value(word * 64 + row) == text;
        retained(alike, is_it)
    });
    words.collect()
}

/// Likewise.
fn within(array: &BinaryViewArray, low: Bound<&[u8]>, high: Bound<&[u8]>, selection: &Selection) -> Vec<u64> {
    let is_above = |string: &[u8], tie: Ordering| match low {
        Bound::Included(low) => tie.then_with(|| string.cmp(low)).is_ge(),
        Bound::Excluded(low) => tie.then_with(|| string.cmp(low)).is_gt(),
        Bound::Unbounded => true,
    };
    let is_below = |string: &[u8], tie: Ordering| match high {
        Bound::Included(high) => tie.then_with(|| string.cmp(high)).is_le(),
        Bound::Excluded(high) => tie.then_with(|| string.cmp(high)).is_lt(),
        Bound::Unbounded => true,
    };
    let head_of_bound = |bound: Bound<&[u8]>| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => Some(head_of(make_view(bound, 0, 0))),
        Bound::Unbounded => None,
    };
    let (low_head, high_head) = (head_of_bound(low), head_of_bound(high));
    // Where a bound begins as the string does, the rest tells.
    let (least, most) = (low_head.unwrap_or(0), high_head.unwrap_or(u32::MAX));
    let alive = selection.to_bits();
    let words = array.views().chunks(64).enumerate().map(|(word, views)| {
        let inside = word_of(views, |view| (least..=most).contains(&head_of(view)));
        let ties = word_of(views, |view| Some(head_of(view)) == low_head || Some(head_of(view)) == high_head);
        let is_within = |row: usize| {
            let (string, head) = (array.value(word * 64 + row), head_of(views[row]));
            is_above(string, head.cmp(&least)) && is_below(string, head.cmp(&most))
        };
        inside & !ties | retained(inside & ties & alive.bits().word(word * 64), is_within)
    });
    words.collect()
}

/// The first four bytes of a string, in the order of strings; of shorter ones with zeros behind.
fn head_of(view: u128) -> u32 {
    ((view >> 32) as u32).swap_bytes()
}

/// A bit for each of up to 64 views.
fn word_of(views: &[u128], is: impl Fn(u128) -> bool) -> u64 {
    views.iter().enumerate().fold(0, |word, (bit, view)| word | u64::from(is(*view)) << bit)
}

/// The bits of `word` for which `is` is true.
fn retained(word: u64, is: impl Fn(usize) -> bool) -> u64 {
    let (mut left, mut kept) = (word, word);
    while left != 0 {
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        if !is(bit) {
            kept &= !(1 << bit);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{StringArray, StringViewArray};
    use entasis_encoding::{Comparison, FilterWork, FloatOrder, Like, Physical, Predicate, Scalar};

    use super::*;
    use crate::blocks::filter_array;

    #[test]
    fn views_are_compared_as_the_strings_that_they_show() {
        let texts = [
            "",
            "\0",
            "a",
            "a\0",
            "a\0\0\0\0",
            "Go",
            "Google",
            "Google, Inc.",
            "Google, Inc.!",
            "Google, Inc. and others",
            "Goofy, Inc. and others",
            "Gooz",
            "\u{10ffff}x",
        ];
        let some = |row: usize| (!row.is_multiple_of(11)).then(|| texts[row * row % 31 % texts.len()]);
        let strings = StringArray::from_iter((0..5_000).map(some));
        let views = StringViewArray::from_iter(strings.iter());
        let scalar = |text: &str| Scalar::Bytes(text.as_bytes().to_vec());
        let order = FloatOrder::default;
        let mut predicates = Vec::new();
        for text in texts {
            predicates.extend(Comparison::ALL.map(|one| Predicate::Compare(one, scalar(text), order())));
            predicates.extend([false, true].map(|negated| {
                Predicate::Like(Like { pattern: [text.as_bytes(), b"%"].concat(), escape: None, negated })
            }));
            predicates.extend(["Google", "a"].iter().flat_map(|other| {
                let between =
                    |negated| Predicate::Between { low: scalar(text), high: scalar(other), negated, order: order() };
                [false, true].map(between)
            }));
        }
        let mut told = 0;
        for (first, rows) in [(0, 5_000), (0, 0), (3, 4_096), (1_031, 777)] {
            let [strings, views]: [ArrayRef; 2] =
                [Arc::new(strings.slice(first, rows)), Arc::new(views.slice(first, rows))];
            for predicate in &predicates {
                let filter = Filter::new(predicate, &Physical::Bytes);
                let thirds = Selection::from_bits(&(0..rows).map(|row| row % 3 == 0).collect());
                told += usize::from(told_by_views(&filter, &views, &thirds).is_some());
                let answers = [&strings, &views].map(|array| {
                    let mut selection = thirds.clone();
                    filter_array(&filter, array, &mut selection, &mut FilterWork::default()).unwrap();
                    selection
                });
                assert_eq!(answers[0], answers[1], "{predicate} of {rows} rows from {first}");
            }
        }
        assert!(told > 4 * 11 * texts.len(), "{told}");
    }
}
