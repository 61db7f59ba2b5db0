//! Whether the strings of a dictionary are better sorted: then neighbours share what they begin with.

use super::distinct::Distinct;
use super::statistics::sample_vectors;
use crate::encodings::bitpack::plan;
use crate::encodings::delta::differences;
use crate::encodings::prefix::shared_prefix;

/// Strings that are looked at to see what they share.
const LOOKED_AT: usize = 256;
/// The share of bytes that neighbours in order have in common, from which on sorting is tried.
const MIN_SHARED: f64 = 0.2;
/// Fewer bytes, all told, aren't worth it.
const MIN_BYTES: usize = 2048;
/// What a shared byte would take otherwise, about: long strings share it by phrases as well.
const SHORT_BYTE: f64 = 0.45;
const LONG_BYTE: f64 = 0.2;
/// Strings of so many bytes on average are long.
const LONG_BYTES: usize = 16;

/// The share of bytes that different strings have in common with the one before in order; more strings would have more.
pub(crate) fn shared_share(strings: &[&[u8]]) -> f64 {
    let count = strings.len().min(LOOKED_AT);
    let mut some: Vec<&[u8]> = (0..count).map(|index| strings[index * strings.len() / count]).collect();
    some.sort_unstable();
    some.dedup();
    let shared: usize = some.windows(2).map(|pair| shared_prefix(pair[0], pair[1])).sum();
    let bytes: usize = some.iter().map(|string| string.len()).sum();
    shared as f64 / bytes.max(1) as f64
}

/// The same with codes in the order of the values, if these `strings` become shorter by that than their codes become longer.
pub(crate) fn sorted(distinct: &Distinct, strings: &[&[u8]]) -> Option<Distinct> {
    let value = |code: usize| strings[distinct.first_rows[code] as usize];
    let values: Vec<&[u8]> = (0..distinct.first_rows.len()).map(value).collect();
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    if bytes < MIN_BYTES || shared_share(&values) < MIN_SHARED {
        return None;
    }
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_unstable_by_key(|&code| values[code as usize]);
    let shared = |order: &[u32]| -> usize {
        order.windows(2).map(|pair| shared_prefix(values[pair[0] as usize], values[pair[1] as usize])).sum()
    };
    let as_they_came: Vec<u32> = (0..values.len() as u32).collect();
    let byte = if bytes < LONG_BYTES * values.len() { SHORT_BYTE } else { LONG_BYTE };
    let saved = shared(&order).saturating_sub(shared(&as_they_came)) as f64 * byte;
    let mut rank = vec![0; values.len()];
    order.iter().zip(0..).for_each(|(&code, place)| rank[code as usize] = place);
    let codes: Vec<u32> = distinct.codes.iter().map(|&code| rank[code as usize]).collect();
    let first_rows = order.iter().map(|&code| distinct.first_rows[code as usize]).collect();
    (code_bytes(&codes) < code_bytes(&distinct.codes) + saved).then_some(Distinct { codes, first_rows })
}

/// Bytes that these codes take, about: packed, or as differences.
fn code_bytes(codes: &[u32]) -> f64 {
    let sample = sample_vectors(codes);
    let rows: usize = sample.iter().map(|vector| vector.len()).sum();
    let bytes = |vector: &&[u32]| {
        let packed = plan(vector, false).size_bytes();
        packed.min(plan(&differences(vector), true).size_bytes())
    };
    sample.iter().map(bytes).sum::<f64>() * codes.len() as f64 / rows.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::values::{Column, Values};

    #[test]
    fn paths_in_any_order_are_sorted_and_words_without_a_common_beginning_are_not() {
        let mut random = Random::new(21);
        let paths: Vec<String> = (0..800).map(|n| format!("/srv/data/{}/{}", n % 9, n * 7919 % 1009)).collect();
        let words: Vec<String> = (0..800).map(|_| format!("{:x}", random.next())).collect();
        for (values, is_sorted) in [(paths, true), (words, false)] {
            let strings: Vec<&[u8]> = (0..5000)
                .map(|_| random.pick(&values))
                .collect::<Vec<_>>()
                .leak()
                .iter()
                .map(|string| string.as_bytes())
                .collect();
            let column = Column { rows: strings.len(), validity: None, values: Values::Bytes(&strings) };
            let distinct = Distinct::of(&column, 5000).unwrap();
            let Some(sorted) = sorted(&distinct, &strings) else {
                assert!(!is_sorted);
                continue;
            };
            assert!(is_sorted);
            let value = |code: u32| strings[sorted.first_rows[code as usize] as usize];
            assert!((1..sorted.first_rows.len() as u32).all(|code| value(code - 1) < value(code)));
            assert!(sorted.codes.iter().zip(&strings).all(|(&code, &string)| value(code) == string));
        }
    }
}
