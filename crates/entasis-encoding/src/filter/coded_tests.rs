//! Searches among codes give what the definition of predicates gives.

use super::bytes::BytesTest;
use super::coded::{Alphabet, CodedSearch, CodedStrings};
use crate::fsst::{SymbolError, SymbolTable};
use crate::random::Random;
use crate::simd::ESCAPE;
use crate::values::BitBuffer;
use crate::{Comparison, FloatOrder, Like, Predicate, Scalar};

/// Strings under a table, as a writer may encode them that takes any symbol that fits, and escapes where one would do.
struct Sample {
    table: SymbolTable,
    strings: Vec<Vec<u8>>,
    codes: Vec<u8>,
    ends: Vec<u32>,
}

fn table_of(symbols: &[Vec<u8>]) -> SymbolTable {
    let mut bytes = vec![symbols.len() as u8];
    bytes.extend(symbols.iter().map(|symbol| symbol.len() as u8));
    bytes.extend(symbols.concat());
    SymbolTable::from_bytes(&bytes).unwrap()
}

fn word(alphabet: &[&[u8]], most: usize, random: &mut Random) -> Vec<u8> {
    (0..random.below(most + 1)).flat_map(|_| random.pick(alphabet).to_vec()).collect()
}

impl Sample {
    fn new(alphabet: &[&[u8]], count: usize, random: &mut Random) -> Self {
        let mut symbols: Vec<Vec<u8>> = (0..random.below(80)).map(|_| word(alphabet, 6, random)).collect();
        symbols.iter_mut().for_each(|symbol| symbol.truncate(8));
        symbols.retain(|symbol| !symbol.is_empty());
        // Some codes look like bytes of the strings.
        symbols.sort_by_key(|symbol| symbol.len() % 3);
        let table = table_of(&symbols);
        let begin = word(alphabet, 12, random);
        let (mut strings, mut codes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let is_ours = random.below(3) == 0;
        for _ in 0..count {
            let mut string = if random.below(2) == 0 { begin.clone() } else { Vec::new() };
            string.extend(word(alphabet, 14, random));
            if is_ours {
                table.encoder().encode(&string, &mut codes);
            } else {
                let mut rest = string.as_slice();
                while !rest.is_empty() {
                    let fitting: Vec<usize> =
                        (0..symbols.len()).filter(|code| rest.starts_with(&symbols[*code])).collect();
                    if fitting.is_empty() || random.below(8) == 0 {
                        codes.extend([ESCAPE, rest[0]]);
                        rest = &rest[1..];
                    } else {
                        let code = random.pick(&fitting);
                        codes.push(code as u8);
                        rest = &rest[symbols[code].len()..];
                    }
                }
            }
            ends.push(codes.len() as u32);
            strings.push(string);
        }
        Self { table, strings, codes, ends }
    }

    fn coded(&self) -> CodedStrings<'_> {
        CodedStrings { alphabet: Alphabet::Symbols(&self.table), codes: &self.codes, ends: &self.ends }
    }

    /// A string, a part of one, or something else.
    fn literal(&self, alphabet: &[&[u8]], random: &mut Random) -> Vec<u8> {
        let string = random.pick(&self.strings);
        let (from, to) = (random.below(string.len() + 1), random.below(string.len() + 1));
        match random.below(5) {
            0 => string,
            1 => string[..to].to_vec(),
            2 => string[from.min(to)..from.max(to)].to_vec(),
            3 => [&string[..to], &[random.pick(&[0, 255])][..]].concat(),
            _ => word(alphabet, 4, random),
        }
    }

    fn predicate(&self, alphabet: &[&[u8]], random: &mut Random) -> Predicate {
        let order = FloatOrder::Ieee;
        let negated = random.below(2) == 0;
        let mut literal = || self.literal(alphabet, random);
        let (one, other, third) = (literal(), literal(), literal());
        let many: Vec<Scalar> = (0..20).map(|_| Scalar::Bytes(literal())).collect();
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let comparison = random.pick(&[Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]);
        let bytes = |literal: &[u8]| Scalar::Bytes(literal.to_vec());
        match random.below(6) {
            0 => Predicate::Compare(comparison, bytes(&one), order),
            1 => Predicate::Between { low: bytes(&one), high: bytes(&other), negated, order },
            2 => Predicate::In { values: vec![bytes(&one), bytes(&other), bytes(&third)], negated, order },
            3 => Predicate::In { values: many, negated, order },
            kind => {
                let inner = if kind == 4 { &b"%"[..] } else { random.pick(&[&b"_"[..], b"__%", b"_%", b"%"]) };
                let ends = random.below(4);
                let begin = if ends & 1 == 0 { &b"%"[..] } else { b"" };
                let end = if ends & 2 == 0 { &b"%"[..] } else { b"" };
                let middle = match random.below(3) {
                    0 => [&one[..], inner, &other].concat(),
                    1 => [&one[..], inner, &other, b"%", &third].concat(),
                    _ => one,
                };
                let pattern = [begin, &middle[..], end].concat();
                Predicate::Like(Like { pattern, escape: random.pick(&[None, Some(b'\\')]), negated })
            }
        }
    }
}

#[test]
fn codes_answer_what_strings_do() {
    let alphabets: [&[&[u8]]; 4] = [
        &[b"a", b"a", b"a", b"b"],
        &[b"h", b"t", b"p", b"/", b"www.", b"com", b"\\", b"%", b"_"],
        &[&[0], &[0], &[255], &[255], &[1], &[254], b"a"],
        &["é".as_bytes(), "知".as_bytes(), b"a", b"_", &[0xC3], &[0xA9]],
    ];
    let mut random = Random::new(41);
    let (mut answered, mut passing, mut decoded, mut asked) = (0, 0, 0, 0);
    for round in 0..1_200 {
        let alphabet = alphabets[round % alphabets.len()];
        let count = [1, 3, 64, 65, 200][round % 5];
        let sample = Sample::new(alphabet, count, &mut random);
        let bytes = sample.strings.concat();
        let byte_ends: Vec<u32> = sample
            .strings
            .iter()
            .scan(0, |end, string| {
                *end += string.len() as u32;
                Some(*end)
            })
            .collect();
        let plain = CodedStrings { alphabet: Alphabet::Bytes, codes: &bytes, ends: &byte_ends };
        for strings in (0..8).map(|index| if index % 4 == 3 { plain } else { sample.coded() }) {
            let predicate = sample.predicate(alphabet, &mut random);
            let test = BytesTest::of(&predicate);
            if test.verdict().is_some() {
                continue;
            }
            asked += 1;
            let Some(mut search) = CodedSearch::new(&test, &strings) else { continue };
            let expected: Vec<bool> = sample.strings.iter().map(|string| test.holds(string)).collect();
            // What is learned from some strings holds for others.
            for _ in 0..2 {
                let mut out = BitBuffer::default();
                let found = search.answer(&test, &strings, usize::MAX, &mut out).unwrap();
                let got: Vec<bool> = out.bits().iter().collect();
                assert_eq!(got, expected, "{predicate} of {:?}", sample.strings);
                assert!(found <= count);
                decoded += found;
            }
            answered += count;
            passing += expected.iter().filter(|passes| **passes).count();
        }
    }
    assert!(answered > 300_000 && asked > 7_000, "{answered} strings, {asked} predicates");
    assert!(passing > answered / 10 && passing < answered * 9 / 10, "{passing} of {answered} pass");
    assert!(decoded < answered / 2, "{decoded} of {answered} are decoded");
}

#[test]
fn what_is_no_code_is_an_error_or_an_answer() {
    let mut random = Random::new(6);
    let mut errors = 0;
    for _ in 0..4_000 {
        let mut sample = Sample::new(&[b"a", b"b", b"ab", &[255]], 70, &mut random);
        for _ in 0..3 {
            if let Some(at) = sample.codes.len().checked_sub(1).map(|last| random.below(last + 1)) {
                let any = random.below(256) as u8;
                sample.codes[at] = random.pick(&[255, 255, 254, 0, any]);
            }
        }
        let strings = sample.coded();
        let predicate = sample.predicate(&[b"a", b"b"], &mut random);
        let test = BytesTest::of(&predicate);
        let mut out = BitBuffer::default();
        match CodedSearch::new(&test, &strings).map(|mut search| search.answer(&test, &strings, 100_000, &mut out)) {
            Some(Ok(_)) => assert_eq!(out.len(), 70),
            Some(Err(error)) => {
                assert_ne!(error, SymbolError::Ends);
                errors += 1;
            }
            None => {}
        }
    }
    assert!(errors > 100, "{errors} errors");
}
