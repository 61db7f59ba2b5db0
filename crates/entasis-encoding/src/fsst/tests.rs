//! Tables, encoding and decoding against each other.

use super::*;
use crate::simd::{ESCAPE, SymbolError};
use proptest::prelude::*;

/// Text in which words repeat, as a stand-in for columns of strings.
fn text(string_count: usize) -> Vec<String> {
    let words = ["https://", "www.", "example", ".com/", "columns", "?page=", "Ärger", "0001", "\0\0\0\0", "z"];
    let numbers = crate::simd::test_values::random(11);
    numbers
        .take(string_count)
        .map(|number| (0..number % 12).map(|place| words[(number >> (4 * place + 8)) as usize % words.len()]).collect())
        .collect()
}

fn train(strings: &[impl AsRef<[u8]>]) -> SymbolTable {
    SymbolTable::train(&strings.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// Encodes all, decodes them one by one and together, and returns the size of the codes.
fn encoded_size_if_it_comes_back(table: &SymbolTable, strings: &[impl AsRef<[u8]>]) -> usize {
    let encoder = table.encoder();
    let (mut codes, mut ends) = (Vec::new(), Vec::new());
    for string in strings {
        let (string, start) = (string.as_ref(), codes.len());
        encoder.encode(string, &mut codes);
        assert_eq!(codes.len() - start, encoder.encoded_size_bytes(string));
        assert!(codes.len() - start <= 2 * string.len());
        ends.push(codes.len() as u32);
        let mut out = Vec::new();
        let end = (codes.len() - start) as u32;
        table.decode_many(&codes[start..], &[end], &mut out, &mut Vec::new(), string.len()).unwrap();
        assert_eq!(out, string);
    }
    let (mut codes_of_many, mut ends_of_many) = (b"head".to_vec(), vec![4]);
    let strings_of_many: Vec<&[u8]> = strings.iter().map(AsRef::as_ref).collect();
    encoder.encode_many(&strings_of_many, &mut codes_of_many, &mut ends_of_many);
    assert_eq!((&codes_of_many[4..], &ends_of_many[1..]), (&codes[..], &ends[..]));
    let (mut out, mut out_ends) = (b"head".to_vec(), vec![4]);
    table.decode_many(&codes, &ends, &mut out, &mut out_ends, usize::MAX).unwrap();
    for (bounds, string) in out_ends.windows(2).zip(strings) {
        assert_eq!(&out[bounds[0] as usize..bounds[1] as usize], string.as_ref());
    }
    assert_eq!(out_ends.len(), 1 + strings.len());
    codes.len()
}

#[test]
fn text_comes_back_and_shrinks() {
    let strings = text(5000);
    let table = train(&strings);
    let size: usize = strings.iter().map(String::len).sum();
    let encoded = encoded_size_if_it_comes_back(&table, &strings);
    assert!(3 * encoded < size, "{size} bytes became {encoded}");
}

#[test]
fn training_is_reproducible() {
    let bytes = |strings: &[String]| {
        let mut bytes = Vec::new();
        train(strings).to_bytes(&mut bytes);
        bytes
    };
    assert_eq!(bytes(&text(3000)), bytes(&text(3000)));
    // Nothing is left of what the thread was trained on before.
    let others = [vec!["\u{ff}".repeat(900)], (0..2000).map(|number| format!("{number:x}/{number}")).collect(), vec![]];
    let trained_here = others.each_ref().map(|other| (bytes(other), bytes(&text(3000))));
    let trained_afresh =
        others.each_ref().map(|other| std::thread::scope(|scope| scope.spawn(|| bytes(other)).join().unwrap()));
    for ((other, first), afresh) in trained_here.into_iter().zip(trained_afresh) {
        assert_eq!((other, first), (afresh, bytes(&text(3000))));
    }
}

#[test]
fn training_is_given_up_only_where_symbols_leave_plainly_more() {
    let nibbles = |step| {
        let numbers = crate::simd::test_values::random(12).take(40_000);
        numbers.enumerate().map(|(row, number)| (number % 16) as u8 * u8::from(row % step == 0)).collect::<Vec<u8>>()
    };
    let (random, sparse, text) = (nibbles(1), nibbles(5), text(5000));
    // Where symbols of a few bytes leave about as little as they can, longer ones may do far better.
    let inputs: [(Vec<&[u8]>, bool); 3] = [
        (random.chunks(1024).collect(), true),
        (sparse.chunks(1024).collect(), false),
        (text.iter().map(String::as_bytes).collect(), false),
    ];
    for (strings, is_given_up) in inputs {
        let bytes = |table: &SymbolTable| {
            let mut bytes = Vec::new();
            table.to_bytes(&mut bytes);
            bytes
        };
        let table = SymbolTable::train(&strings);
        let ratio = table.ratio(&strings);
        let patient = SymbolTable::train_unless_more(&strings, ratio).map(|table| bytes(&table));
        assert_eq!(patient, Some(bytes(&table)), "{ratio}");
        assert_eq!(SymbolTable::train_unless_more(&strings, ratio / 3.0).is_none(), is_given_up, "{ratio}");
    }
}

#[test]
fn hard_inputs_come_back() {
    let random: Vec<u8> = crate::simd::test_values::random(3).map(|number| number as u8).take(40_000).collect();
    let inputs: [Vec<&[u8]>; 6] = [
        vec![],
        vec![b""; 20_000],
        vec![&[0; 1000], &[0; 7], &[0], &[]],
        random.chunks(100).collect(),
        vec![&random],
        vec![&[ESCAPE; 300], &[ESCAPE, 0, ESCAPE]],
    ];
    for strings in inputs {
        encoded_size_if_it_comes_back(&train(&strings), &strings);
        // A table that was trained on other strings, and one without any symbol.
        encoded_size_if_it_comes_back(&train(&text(50)), &strings);
        encoded_size_if_it_comes_back(&SymbolTable::from_bytes(&[0]).unwrap(), &strings);
    }
}

#[test]
fn tables_survive_storage() {
    let table = train(&text(1000));
    let mut bytes = Vec::new();
    table.to_bytes(&mut bytes);
    let parsed = SymbolTable::from_bytes(&bytes).unwrap();
    assert_eq!(parsed.symbol_count(), table.symbol_count());
    assert!(parsed.symbols().eq(table.symbols()));
    for end in 0..bytes.len() {
        assert_eq!(SymbolTable::from_bytes(&bytes[..end]).err(), Some(TableError::Truncated));
    }
    bytes.extend([1, 2]);
    assert_eq!(SymbolTable::from_bytes(&bytes).err(), Some(TableError::Trailing { excess_bytes: 2 }));
    assert_eq!(SymbolTable::from_bytes(&[1, 0]).err(), Some(TableError::Length));
    assert_eq!(SymbolTable::from_bytes(&[1, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]).err(), Some(TableError::Length));
    assert_eq!(
        SymbolTable::from_bytes(&[[255; 256].as_slice(), &[1; 255 * 255]].concat()).err(),
        Some(TableError::Length)
    );
}

#[test]
fn a_failed_decoding_leaves_everything_as_it_was() {
    let table = SymbolTable::from_bytes(&[1, 2, b'a', b'b']).unwrap();
    let (mut out, mut out_ends) = (b"x".to_vec(), vec![1]);
    let mut decode = |codes: &[u8], ends: &[u32], limit| {
        let result = table.decode_many(codes, ends, &mut out, &mut out_ends, limit);
        assert_eq!((out.as_slice(), out_ends.as_slice()), (&b"x"[..], &[1][..]));
        result
    };
    assert_eq!(decode(&[0, 0, ESCAPE], &[1, 3], 99), Err(SymbolError::TruncatedEscape));
    assert_eq!(decode(&[0, ESCAPE, 0], &[2, 3], 99), Err(SymbolError::TruncatedEscape));
    assert_eq!(decode(&[0, 1], &[1, 2], 99), Err(SymbolError::UnknownCode));
    assert_eq!(decode(&[0, 0], &[1, 2], 3), Err(SymbolError::TooLong { limit_bytes: 3 }));
    assert_eq!(decode(&[0, 0], &[2, 1], 9), Err(SymbolError::Ends));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_strings_come_back(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..60)) {
        encoded_size_if_it_comes_back(&train(&strings), &strings);
    }

    #[test]
    fn strings_of_few_letters_come_back(strings in prop::collection::vec("[ab\0]{0,40}", 0..60)) {
        encoded_size_if_it_comes_back(&train(&strings), &strings);
    }

    #[test]
    fn any_codes_are_decoded_or_refused(
        table in prop::collection::vec(any::<u8>(), 0..60),
        codes in prop::collection::vec(prop_oneof![0u8..6, any::<u8>(), Just(ESCAPE)], 0..1500),
        mut ends in prop::collection::vec(0u32..1600, 0..10),
        limit in 0usize..3000,
    ) {
        let table = SymbolTable::from_bytes(&table).unwrap_or(SymbolTable::from_bytes(&[2, 1, 8, 1, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap());
        if limit % 2 == 0 {
            ends.sort_unstable();
        }
        let (mut out, mut out_ends) = (Vec::new(), Vec::new());
        match table.decode_many(&codes, &ends, &mut out, &mut out_ends, limit) {
            Ok(()) => prop_assert!(out.len() <= limit && out_ends.len() == ends.len() && ends.is_sorted()),
            Err(_) => prop_assert!(out.is_empty() && out_ends.is_empty()),
        }
    }
}

#[test]
fn strings_made_when_they_are_picked_give_the_same_symbols() {
    let strings: Vec<String> = (0..9000).map(|row| format!("{}-{:x}", row * 7919 % 10_007, row * row)).collect();
    let strings: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
    let about_bytes = strings.iter().map(|string| string.len()).sum();
    let (picked, ratio) = SymbolTable::train_picked(strings.len(), about_bytes, |row| strings[row]).unwrap();
    let trained = SymbolTable::train(&strings);
    let bytes_of = |table: &SymbolTable| {
        let mut bytes = Vec::new();
        table.to_bytes(&mut bytes);
        bytes
    };
    assert_eq!((bytes_of(&picked), ratio), (bytes_of(&trained), trained.ratio(&strings)));
    assert!(SymbolTable::train_picked(3, 30, |row| strings[row]).is_none());
}
