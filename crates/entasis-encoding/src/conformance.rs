//! One suite for every entry of the registry: whatever the encoding, each way to the values gives what went in.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::aggregate::{check_aggregates, check_lent_aggregates};
use crate::block::head::EncodedNode;
use crate::chooser::chunk::{decoded_size_bytes, finished};
use crate::chooser::{EncodeOptions, Encoder, Statistics};
use crate::encodings::{
    Encoding, REGISTRY, bitpack::BitPacking, dictionary::Dictionary, nested::FixedList, plain::Plain, strings::Strings,
};
use crate::testing::{Cell, Hashed, Owned, Random, Shape, cells_of, cells_of_column, made_node};
use crate::values::{BitBuffer, Column, DecodedValues, Values};
use crate::{
    Block, BytesForm, ChunkEncoder, Comparison, Decoded, Error, Filter, FilterWork, Fixed, FloatOrder,
    HEAD_PREFIX_BYTES, Lane, Like, Limits, Parts, Physical, Predicate, Profile, Scalar, Selection, with_decoded_lanes,
};

const ROWS: [usize; 9] = [0, 1, 2, 9, 1023, 1024, 1025, 2500, 5000];

/// Every physical type that a block of this version can have, nested ones included.
fn physicals() -> Vec<Physical> {
    let mut all = vec![Physical::Null, Physical::Bool, Physical::Bytes];
    all.extend(Fixed::ALL.map(Physical::Fixed));
    let item = Box::new(Physical::Fixed(Fixed::I32));
    all.push(Physical::List(item.clone()));
    all.push(Physical::List(Box::new(Physical::Struct(vec![
        Physical::Bytes,
        Physical::Bool,
        Physical::List(item.clone()),
    ]))));
    all.push(Physical::FixedList(3, Box::new(Physical::Fixed(Fixed::F32))));
    all.push(Physical::FixedList(0, item));
    all.push(Physical::Struct(vec![Physical::Fixed(Fixed::F64), Physical::Bytes]));
    all.push(Physical::List(Box::new(Physical::Null)));
    all
}

fn open(node: &EncodedNode, physical: &Physical, decoded_bytes: u64) -> Block {
    let block = finished(node, physical, decoded_bytes, false);
    Block::open(Bytes::from(block.bytes), &Parts::new(), None, &Limits::default()).unwrap()
}

/// Holds rows of a block that was opened by its head, and is supplied with what it says that it lacks, against what went in.
fn check_supplied(bytes: &[u8], expected: &[Cell], random: &mut Random) {
    let head = &bytes[..Block::head_size_bytes(&bytes[..bytes.len().min(HEAD_PREFIX_BYTES)]).unwrap()];
    let block =
        Block::open_head(head, bytes.len() as u64, &Parts::new(), None, &Limits { decoded_bytes: u64::MAX }).unwrap();
    let supply = |ranges: Vec<Range<u64>>| {
        let bytes_of = |range: &Range<u64>| &bytes[range.start as usize..range.end as usize];
        assert!(!ranges.is_empty());
        ranges.iter().for_each(|range| block.supply(range.start, bytes_of(range)).unwrap());
    };
    for count in [0, 1, 3, 40].into_iter().filter(|&count| count == 0 || !expected.is_empty()) {
        let picked: Vec<u32> = (0..count).map(|_| random.below(expected.len()) as u32).collect();
        // A node that remembers its failures would lack the same bytes for ever.
        let rounds =
            (0..50).map_while(|_| Some(block.missing_for(&picked).unwrap()).filter(|missing| !missing.is_empty()));
        let rounds = rounds.map(supply).count();
        assert!(rounds < 50, "{} lacks the same bytes again and again", block.cascade().words());
        for form in [BytesForm::Offsets32, BytesForm::Views] {
            let got = loop {
                let mut out = Decoded::new(block.physical(), form);
                match block.get(&picked, &mut out) {
                    Err(Error::Missing(missing)) => supply(missing),
                    got => break got.map(|()| out).unwrap(),
                }
            };
            assert_eq!(cells_of(&got), picked.iter().map(|&row| expected[row as usize].clone()).collect::<Vec<_>>());
        }
    }
}

/// Holds every operation of a block against what went in.
fn check(block: &Block, expected: &[Cell], random: &mut Random) {
    let rows = expected.len();
    assert_eq!(block.rows(), rows);
    block.verify().unwrap();
    for form in [BytesForm::Offsets32, BytesForm::Offsets64, BytesForm::Views] {
        let mut out = Decoded::new(block.physical(), form);
        block.decode(0..rows, &mut out).unwrap();
        assert_eq!(cells_of(&out), expected, "whole, {form:?}");
        let mut out = Decoded::new(block.physical(), form);
        let mut wanted = Vec::new();
        for _ in 0..4 {
            let start = random.below(rows + 1);
            let range = start..start + random.below(rows - start + 1);
            wanted.extend_from_slice(&expected[range.clone()]);
            block.decode(range, &mut out).unwrap();
        }
        assert_eq!(cells_of(&out), wanted, "ranges, {form:?}");
        if rows > 0 {
            let picked: Vec<u32> = (0..20).map(|_| random.below(rows) as u32).collect();
            let mut out = Decoded::new(block.physical(), form);
            block.get(&picked, &mut out).unwrap();
            assert_eq!(cells_of(&out), picked.iter().map(|&row| expected[row as usize].clone()).collect::<Vec<_>>());
        }
        for density in [1, 50, 99] {
            let selection = Selection::from_bits(&(0..rows).map(|_| random.below(100) < density).collect());
            let mut out = Decoded::new(block.physical(), form);
            block.select(&selection, &mut out).unwrap();
            assert_eq!(cells_of(&out), selection.iter().map(|row| expected[row].clone()).collect::<Vec<_>>());
        }
    }
    check_lent(block, random);
    check_questions(block, expected, random);
}

/// What a block lends is what it decodes to.
fn check_lent(block: &Block, random: &mut Random) {
    fn lane_bytes(decoded: &Decoded) -> Vec<u8> {
        assert_eq!(decoded.validity, None, "nothing that is lent is null");
        let mut bytes = Vec::new();
        match &decoded.values {
            DecodedValues::FixedList(_, items) => return lane_bytes(items),
            lanes => {
                with_decoded_lanes!(lanes, lanes => lanes.iter().for_each(|lane| lane.write(&mut bytes)), panic!())
            }
        }
        bytes
    }
    let start = random.below(block.rows() + 1);
    let range = start..start + random.below(block.rows() - start + 1);
    let lent = block.lend(range.clone()).unwrap();
    assert_eq!(block.lends(), lent.is_some());
    if let Some(lent) = lent {
        let mut out = Decoded::new(block.physical(), BytesForm::Offsets32);
        block.decode(range, &mut out).unwrap();
        assert_eq!(lent, lane_bytes(&out));
    }
}

#[test]
fn lanes_that_lie_as_they_are_are_lent() {
    let mut random = Random::new(12);
    let lent = |physical: &Physical, id: u8, nulls: bool, random: &mut Random| {
        let owned = Owned::generate(physical, Shape::Scattered, 3000, nulls, random);
        let node = Encoder::forcing(&EncodeOptions::default(), id).root(&owned.column()).unwrap();
        open(&node, physical, decoded_size_bytes(&owned.column(), false)).lends()
    };
    let floats = Physical::Fixed(Fixed::F32);
    let embeddings = Physical::FixedList(5, Box::new(Physical::FixedList(2, Box::new(floats.clone()))));
    for fixed in Fixed::ALL {
        assert!(lent(&Physical::Fixed(fixed), Plain.id(), false, &mut random), "{fixed:?}");
    }
    assert!(lent(&embeddings, FixedList.id(), false, &mut random));
    assert!(!lent(&embeddings, FixedList.id(), true, &mut random), "nulls aren't lent");
    assert!(!lent(&floats, BitPacking.id(), false, &mut random));
    assert!(!lent(&Physical::Bytes, Strings.id(), false, &mut random));
}

fn check_questions(block: &Block, expected: &[Cell], random: &mut Random) {
    let rows = expected.len();
    let scalar = |row: usize| expected[row].scalar(block.physical());
    let literal = if rows == 0 { None } else { scalar(random.below(rows)) }.unwrap_or(Scalar::Int(3));
    let order = FloatOrder::NanGreatest;
    let other = if rows == 0 { None } else { scalar(random.below(rows)) }.unwrap_or(Scalar::Int(9));
    let mut predicates = vec![
        Predicate::IsNull,
        Predicate::IsNotNull,
        Predicate::Compare(Comparison::LessOrEqual, literal.clone(), order),
        Predicate::Compare(Comparison::NotEqual, literal.clone(), FloatOrder::Ieee),
        Predicate::In { values: vec![literal.clone()], negated: false, order },
        Predicate::Compare(Comparison::Greater, literal.clone(), FloatOrder::Total),
        Predicate::In {
            values: (0..20).map(|step| Scalar::Int(step * 7)).chain([other.clone()]).collect(),
            negated: true,
            order,
        },
        Predicate::Between { low: literal.clone(), high: other, negated: false, order: FloatOrder::Ieee },
        Predicate::Between { low: literal.clone(), high: literal.clone(), negated: true, order },
    ];
    if let Scalar::Bytes(text) = &literal {
        let middle = &text[text.len() / 3..text.len().div_ceil(2)];
        for comparison in [Comparison::Equal, Comparison::NotEqual, Comparison::Greater] {
            predicates.push(Predicate::Compare(comparison, Scalar::Bytes(Vec::new()), order));
        }
        for (negated, pattern) in [
            (false, [b"%", middle, b"%"].concat()),
            (true, [middle, b"_%"].concat()),
            (false, [middle, b"%"].concat()),
            (true, [b"%", middle].concat()),
            (false, [b"%", middle, b"%", middle, b"%"].concat()),
        ] {
            predicates.push(Predicate::Like(Like { pattern, escape: Some(0), negated }));
        }
    }
    let mut work = FilterWork::default();
    for predicate in predicates {
        // Dense, with vectors of a few rows and of none between.
        let densities = [random.below(4), random.below(4), random.below(4)];
        let lives = |row: usize, roll: usize| match densities[row / crate::VECTOR_ROWS % 3] {
            0 => roll == 0,
            1 => false,
            2 => true,
            _ => roll > 30,
        };
        let before = Selection::from_bits(&(0..rows).map(|row| lives(row, random.below(120))).collect());
        let mut after = before.clone();
        Filter::new(&predicate, block.physical()).apply(block, &mut after, &mut work).unwrap();
        let wanted: Vec<usize> = before
            .iter()
            .filter(|&row| match (&expected[row], &predicate) {
                (Cell::Null, Predicate::IsNull) => true,
                (Cell::Null, _) | (_, Predicate::IsNull) => false,
                (_, Predicate::IsNotNull) => true,
                _ => scalar(row).is_some_and(|value| predicate.holds(Some(&value))),
            })
            .collect();
        // Nested values have no scalars; only nulls can be asked for.
        if wanted.len() == after.count()
            || !matches!(block.physical(), Physical::List(_) | Physical::FixedList(..) | Physical::Struct(_))
        {
            assert_eq!(after.iter().collect::<Vec<_>>(), wanted, "{predicate:?}");
        }
    }
    check_asking(block, expected, random);
    check_aggregates(block, expected, random);
}

/// Somebody else is asked what no node understands: of no more values than were announced.
fn check_asking(block: &Block, expected: &[Cell], random: &mut Random) {
    let form = [BytesForm::Offsets32, BytesForm::Offsets64, BytesForm::Views][random.below(3)];
    let (nulls, percent) = (random.below(2) == 0, [3, 50, 100][random.below(3)]);
    let ask = Arc::new(Hashed { physical: block.physical().clone(), form, forbidden: None });
    let (filter, mut work) = (Filter::asking(ask.clone(), nulls, block.physical()), FilterWork::default());
    let before = Selection::from_bits(&expected.iter().map(|_| random.below(100) < percent).collect());
    let (announced, mut after) = (filter.ask_count(block), before.clone());
    filter.apply(block, &mut after, &mut work).unwrap();
    let passes = |row: &usize| if expected[*row] == Cell::Null { nulls } else { ask.holds(&expected[*row]) };
    assert_eq!(after.iter().collect::<Vec<_>>(), before.iter().filter(passes).collect::<Vec<_>>());
    assert!(work.asked_values <= (announced.own + announced.shared) as u64, "{} of {announced:?}", work.asked_values);
    let left = filter.ask_count(block);
    assert!(left.shared == 0 || work.asked_values == 0, "shared values are asked about once: {left:?}");
}

#[test]
fn every_encoding_keeps_every_value_on_every_path() {
    let mut random = Random::new(7);
    let options = EncodeOptions::default();
    let mut exercised = vec![0; REGISTRY.len()];
    for physical in physicals() {
        for shape in Shape::ALL {
            // Each combination meets a third of the row counts; all are met by every type and encoding.
            let third = random.below(3);
            for (case, &rows) in ROWS.iter().enumerate().filter(|(case, _)| case % 3 == third) {
                let nulls = case % 2 == 0;
                let owned = Owned::generate(&physical, shape, rows, nulls, &mut random);
                let expected = cells_of_column(&owned.column());
                check_lent_aggregates(&owned.column(), &expected, &physical);
                for encoding in REGISTRY {
                    let column = owned.column();
                    let node = match Encoder::forcing(&options, encoding.id()).root(&column) {
                        Ok(node) => node,
                        Err(Error::InvalidArgument(_)) => continue,
                        Err(error) => panic!("{} of {physical}: {error}", encoding.name()),
                    };
                    node.visit(&mut |node| {
                        exercised[REGISTRY.iter().position(|e| e.id() == node.encoding).unwrap()] += 1
                    });
                    let decoded_bytes = decoded_size_bytes(&column, false);
                    check(&open(&node, &physical, decoded_bytes), &expected, &mut random);
                    let bytes = finished(&node, &physical, decoded_bytes, false).bytes;
                    check_supplied(&bytes, &expected, &mut random);
                }
            }
        }
    }
    for (encoding, times) in REGISTRY.iter().zip(exercised) {
        // Large needs a region; it has a test of its own.
        assert!(times > 20 || encoding.name() == "Large", "{} was exercised {times} times", encoding.name());
    }
}

#[test]
fn blocks_of_a_chunk_share_a_dictionary() {
    let mut random = Random::new(11);
    for physical in [Physical::Bytes, Physical::Fixed(Fixed::F64), Physical::Fixed(Fixed::I128)] {
        let columns: Vec<Owned> =
            (0..4).map(|block| Owned::generate(&physical, Shape::Few, 3000, block % 2 == 1, &mut random)).collect();
        let mut chunk = ChunkEncoder::new(physical.clone(), EncodeOptions::default());
        let blocks: Vec<_> =
            columns.iter().map(|owned| chunk.encode(&owned.column(), false, &mut |_| Ok(0)).unwrap()).collect();
        let mut parts = Parts::new();
        for part in chunk.finish().unwrap() {
            parts.push(Block::open(part.bytes.into(), &Parts::new(), None, &Limits::default()).unwrap());
        }
        assert_eq!(parts.len(), 1, "{physical}");
        for (block, owned) in blocks.iter().zip(&columns) {
            let opened = Block::open(block.bytes.clone().into(), &parts, None, &Limits::default()).unwrap();
            assert!(opened.cascade().words().contains("Dictionary"));
            check(&opened, &cells_of_column(&owned.column()), &mut random);
            let missing = Block::open(block.bytes.clone().into(), &Parts::new(), None, &Limits::default());
            assert!(matches!(missing, Err(Error::Corrupt { .. })), "without its part: {missing:?}");
        }
        // A part with other values is found out by the digest.
        let other = Owned::generate(&physical, Shape::Scattered, 3000, false, &mut random);
        let mut wrong = ChunkEncoder::new(physical.clone(), EncodeOptions::default());
        let part = wrong.encode(&other.column(), true, &mut |_| Ok(0)).unwrap();
        let mut parts = Parts::new();
        parts.push(Block::open(part.bytes.into(), &Parts::new(), None, &Limits::default()).unwrap());
        let opened = Block::open(blocks[0].bytes.clone().into(), &parts, None, &Limits::default()).unwrap();
        assert!(matches!(opened.verify(), Err(Error::Corrupt { .. })));
    }
}

/// Of a large dictionary of strings, few rows need only theirs: those are got singly, until decoding all values would have cost as much.
#[test]
fn few_rows_look_up_only_their_strings() {
    let mut random = Random::new(44);
    let texts: Vec<String> = (0..8_000).map(|value| format!("{}, text number {value}", value * 7919 % 8_000)).collect();
    for (nulls, shares) in [(false, true), (true, true), (false, false), (true, false)] {
        let options = EncodeOptions { required: Some(Dictionary.id()), ..EncodeOptions::default() };
        let mut chunk = ChunkEncoder::new(Physical::Bytes, options);
        let blocks = [(); 2].map(|()| {
            let rows: Vec<&[u8]> = (0..40_000).map(|_| texts[random.below(texts.len())].as_bytes()).collect();
            let valid: BitBuffer = rows.iter().map(|_| !nulls || random.below(3) > 0).collect();
            let validity = nulls.then(|| valid.bits());
            let column = Column { rows: rows.len(), validity, values: Values::Bytes(&rows) };
            (chunk.encode(&column, !shares, &mut |_| Ok(0)).unwrap().bytes, cells_of_column(&column))
        });
        let part_bytes: Vec<Vec<u8>> = chunk.finish().unwrap().into_iter().map(|part| part.bytes).collect();
        assert_eq!(part_bytes.len(), usize::from(shares));
        for one_in in [3_000, 200, 30, 3] {
            let mut parts = Parts::new();
            for bytes in &part_bytes {
                parts.push(Block::open(bytes.clone().into(), &Parts::new(), None, &Limits::default()).unwrap());
            }
            for (bytes, expected) in &blocks {
                let block = Block::open(bytes.clone().into(), &parts, None, &Limits::default()).unwrap();
                let alive: BitBuffer = expected.iter().map(|_| random.below(one_in) == 0).collect();
                let selection = Selection::from_bits(&alive);
                let expected: Vec<Cell> = selection.iter().map(|row| expected[row].clone()).collect();
                for form in [BytesForm::Views, BytesForm::Views, BytesForm::Offsets32] {
                    let mut out = Decoded::new(&Physical::Bytes, form);
                    block.select(&selection, &mut out).unwrap();
                    assert_eq!(cells_of(&out), expected, "nulls: {nulls}, shared: {shares}, one in {one_in}");
                }
            }
            if shares {
                let part = parts.get(0, &Physical::Bytes).unwrap();
                assert!(part.known_views().is_some() || part.singles().len() > 0);
                // In between it depends on how many are null.
                assert!(one_in == 30 || part.known_views().is_none() == (one_in > 30), "one in {one_in}");
            }
        }
    }
}

/// A shared dictionary is asked once for all blocks whose codes are of a type, also where it has grown beyond what the first ones can say.
#[test]
fn a_filter_asks_a_shared_dictionary_once() {
    let texts: Vec<String> =
        (0..9_000).map(|row| format!("value number {}", row * 7 % 100 + row / 3_000 * 150)).collect();
    let mut chunk = ChunkEncoder::new(Physical::Bytes, EncodeOptions::default());
    let strings: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let blocks: Vec<_> = strings
        .chunks(3_000)
        .chain(strings[..6_000].chunks(3_000))
        .map(|rows| {
            let column = Column { rows: rows.len(), validity: None, values: Values::Bytes(rows) };
            (rows, chunk.encode(&column, false, &mut |_| Ok(0)).unwrap().bytes)
        })
        .collect();
    let mut parts = Parts::new();
    for part in chunk.finish().unwrap() {
        parts.push(Block::open(part.bytes.into(), &Parts::new(), None, &Limits::default()).unwrap());
    }
    let values = parts.get(0, &Physical::Bytes).unwrap().block().rows() as u64;
    assert_eq!(values, 300, "values of the dictionary");
    for literal in ["value number 7", "value number 399", "value number 2"] {
        let predicate = Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Bytes(literal.into()), FloatOrder::Ieee);
        let (filter, mut work) = (Filter::new(&predicate, &Physical::Bytes), FilterWork::default());
        for (rows, bytes) in &blocks {
            let block = Block::open(bytes.clone().into(), &parts, None, &Limits::default()).unwrap();
            let mut selection = Selection::all(rows.len());
            filter.apply(&block, &mut selection, &mut work).unwrap();
            let expected: Vec<usize> = (0..rows.len()).filter(|row| rows[*row] >= literal.as_bytes()).collect();
            assert_eq!(selection.iter().collect::<Vec<_>>(), expected, "{literal}");
        }
        // Every code, and the dictionary once for codes of a byte and once for those of two.
        let codes: usize = blocks.iter().map(|(rows, _)| rows.len()).sum();
        let values = work.decoded_values - codes as u64;
        assert!((300..=600).contains(&values), "{values} values of the dictionary decoded");
    }
}

/// The chooser follows what it chose for the block before, or doesn't where the values changed; both give back what went in.
#[test]
fn blocks_that_follow_one_another_keep_every_value() {
    let mut random = Random::new(12);
    for physical in physicals() {
        for pair in Shape::ALL.chunks(2) {
            let shapes = [pair[0], pair[0], pair[0], pair[1], pair[1], pair[0]];
            let columns = shapes.map(|shape| Owned::generate(&physical, shape, 1100, shape == pair[0], &mut random));
            let mut chunk = ChunkEncoder::new(physical.clone(), EncodeOptions::default());
            let blocks =
                columns.each_ref().map(|owned| chunk.encode(&owned.column(), false, &mut |_| Ok(0)).unwrap().bytes);
            let mut parts = Parts::new();
            for part in chunk.finish().unwrap() {
                parts.push(Block::open(part.bytes.into(), &Parts::new(), None, &Limits::default()).unwrap());
            }
            for (bytes, owned) in blocks.into_iter().zip(&columns) {
                let block = Block::open(bytes.into(), &parts, None, &Limits::default()).unwrap();
                check(&block, &cells_of_column(&owned.column()), &mut random);
            }
        }
    }
}

#[test]
fn large_values_lie_outside() {
    struct Region(Vec<u8>);
    impl crate::LargeValues for Region {
        fn fetch(&self, offset: u64, size_bytes: u64) -> crate::Result<Bytes> {
            let range = offset as usize..(offset + size_bytes) as usize;
            self.0.get(range).map(Bytes::copy_from_slice).ok_or_else(|| Error::LargeValue("beyond the region".into()))
        }
    }
    let mut random = Random::new(13);
    let mut owned = Owned::generate(&Physical::Bytes, Shape::Scattered, 1500, true, &mut random);
    owned.set_bytes(3, vec![7; 20_000]);
    owned.set_bytes(1400, (0..70_000u32).map(|n| n as u8).collect());
    let column = owned.column();
    let mut region = Vec::new();
    let mut chunk = ChunkEncoder::new(Physical::Bytes, EncodeOptions::default());
    let mut put = |value: &[u8]| {
        region.extend_from_slice(value);
        Ok((region.len() - value.len()) as u64)
    };
    let block = chunk.encode(&column, true, &mut put).unwrap();
    assert!(block.bytes.len() < 40_000, "large values aren't in the block");
    assert_eq!(region.len(), 90_000);
    let open = |region: Vec<u8>| {
        let region = Arc::new(Region(region));
        Block::open(block.bytes.clone().into(), &Parts::new(), Some(region), &Limits::default()).unwrap()
    };
    check(&open(region.clone()), &cells_of_column(&column), &mut random);
    region[5] ^= 1;
    let mut out = Decoded::new(&Physical::Bytes, BytesForm::Views);
    assert!(matches!(open(region).decode(0..10, &mut out), Err(Error::LargeValue(_))));
}

/// Many rows whose large values are the same bytes would make a small file a large table.
#[test]
fn large_values_that_overlap_are_corrupt() {
    let value = vec![7; 20_000];
    let mut owned = Owned::generate(&Physical::Bytes, Shape::Scattered, 100, false, &mut Random::new(14));
    [3, 50, 51].into_iter().for_each(|row| owned.set_bytes(row, value.clone()));
    struct Same(Vec<u8>);
    impl crate::LargeValues for Same {
        fn fetch(&self, _: u64, _: u64) -> crate::Result<Bytes> {
            Ok(self.0.clone().into())
        }
    }
    let read = |offsets: [u64; 3]| {
        let mut offsets = offsets.into_iter();
        let mut put = |_: &[u8]| Ok(offsets.next().unwrap());
        let mut chunk = ChunkEncoder::new(Physical::Bytes, EncodeOptions::default());
        let block = chunk.encode(&owned.column(), true, &mut put).unwrap();
        let region = Arc::new(Same(value.clone()));
        let block = Block::open(block.bytes.into(), &Parts::new(), Some(region), &Limits::default()).unwrap();
        block.decode(0..100, &mut Decoded::new(&Physical::Bytes, BytesForm::Offsets64))
    };
    read([8, 20_008, 90_000]).unwrap();
    for offsets in [[8, 8, 8], [8, 20_007, 90_000], [50_000, 90_000, 8], [u64::MAX, 8, 90_000]] {
        assert!(matches!(read(offsets), Err(Error::Corrupt { .. })), "{offsets:?}");
    }
}

/// Decodes by every path; the point is that nothing panics, loops or allocates without bounds.
fn exercise(bytes: &[u8]) -> Option<Vec<Cell>> {
    let block =
        Block::open(Bytes::copy_from_slice(bytes), &Parts::new(), None, &Limits { decoded_bytes: 1 << 20 }).ok()?;
    let rows = block.rows();
    let _ = (block.cascade(), block.layout(), block.verify());
    let mut out = Decoded::new(block.physical(), BytesForm::Views);
    let picked: Vec<u32> = (0..rows as u32).step_by(7).collect();
    let _ = block.get(&picked, &mut out);
    let mut out = Decoded::new(block.physical(), BytesForm::Offsets32);
    block.decode(0..rows, &mut out).ok()?;
    Some(cells_of(&out))
}

#[test]
fn cut_and_flipped_blocks_give_the_values_or_an_error() {
    let mut random = Random::new(17);
    let options = EncodeOptions::default();
    for physical in physicals() {
        for encoding in REGISTRY {
            let owned = Owned::generate(&physical, Shape::Few, 70, encoding.id() % 2 == 0, &mut random);
            let column = owned.column();
            let Ok(node) = Encoder::forcing(&options, encoding.id()).root(&column) else { continue };
            let bytes = finished(&node, &physical, decoded_size_bytes(&column, false), false).bytes;
            let expected = cells_of_column(&column);
            assert_eq!(exercise(&bytes), Some(expected.clone()));
            for cut in 0..bytes.len() {
                assert_eq!(exercise(&bytes[..cut]), None, "cut at {cut}");
            }
            for position in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[position] ^= 1 << random.below(8);
                let found = exercise(&flipped);
                assert!(found.is_none() || found == Some(expected.clone()), "byte {position} flipped");
            }
        }
    }
}

#[test]
fn forged_blocks_with_right_checksums_do_no_harm() {
    let mut random = Random::new(19);
    let options = EncodeOptions::default();
    for physical in physicals() {
        for encoding in REGISTRY {
            let owned = Owned::generate(&physical, Shape::Few, 70, encoding.id() % 2 == 1, &mut random);
            let column = owned.column();
            let Ok(node) = Encoder::forcing(&options, encoding.id()).root(&column) else { continue };
            for _ in 0..200 {
                let mut forged = node.clone();
                forged.forge(&mut random);
                exercise(&finished(&forged, &physical, decoded_size_bytes(&column, false), false).bytes);
            }
        }
    }
}

/// Shapes on which a prediction can be held against what the encoding then takes.
const PREDICTABLE: [Shape; 8] = [
    Shape::Runs,
    Shape::Few,
    Shape::Sorted,
    Shape::NearSorted,
    Shape::Narrow,
    Shape::Outliers,
    Shape::Decimals,
    Shape::Scattered,
];

#[test]
fn predictions_hold_and_choices_are_near_the_best() {
    check_choices(&EncodeOptions::default());
}

#[test]
fn so_they_are_where_only_bytes_count() {
    check_choices(&EncodeOptions::of(Profile::Size));
}

fn check_choices(options: &EncodeOptions) {
    let mut random = Random::new(23);
    let physicals =
        [Physical::Fixed(Fixed::I32), Physical::Fixed(Fixed::I64), Physical::Fixed(Fixed::F64), Physical::Bytes];
    let (mut chosen_bytes, mut best_bytes) = (0, 0);
    for physical in physicals {
        for shape in PREDICTABLE {
            let owned = Owned::generate(&physical, shape, 20_000, false, &mut random);
            let column = owned.column();
            let statistics = Statistics::new(&column);
            let mut best = usize::MAX;
            for encoding in REGISTRY.into_iter().filter(|encoding| options.allows(*encoding)) {
                let predicted = encoding.predicted_bytes(&statistics, &Encoder::new(options, None, None));
                let Some(predicted) = predicted else { continue };
                let found = Encoder::forcing(options, encoding.id()).root(&column).unwrap().size_bytes();
                best = best.min(found);
                // Children may do better than a prediction knows of, never much worse.
                let limit = predicted * 1.5 + 300.0;
                let name = encoding.name();
                assert!(found as f64 <= limit, "{name} of {physical} {shape:?}: {predicted} predicted, {found} bytes");
            }
            let node = Encoder::new(options, None, None).root(&column).unwrap();
            let (chosen, mut encodings) = (node.size_bytes(), Vec::new());
            node.visit(&mut |node| encodings.push(node.encoding));
            let context = format!("{physical} {shape:?}: {chosen} bytes chosen by {encodings:?}, {best} possible");
            assert!(chosen <= best * 3 / 2 + 100, "{context}");
            chosen_bytes += chosen;
            best_bytes += best;
        }
    }
    assert!(chosen_bytes * 100 <= best_bytes * 110, "{chosen_bytes} bytes chosen, {best_bytes} possible");
}

/// Nodes of many rows that a few bytes describe, as a block of one list holds them: one that declares what they take is over
/// the limit, one that declares less is corrupt. Neither allocates anything.
#[test]
fn rows_that_cost_no_bytes_are_held_against_the_bound() {
    let rows = u32::MAX as usize;
    let null = || made_node(17, rows, &[], vec![]);
    let items = [
        (Physical::Bytes, made_node(2, rows, &[], vec![])),
        (Physical::Null, null()),
        (Physical::Struct(vec![]), made_node(16, rows, &[], vec![])),
        (
            Physical::FixedList(0, Box::new(Physical::Null)),
            made_node(15, rows, &[], vec![made_node(17, 0, &[], vec![])]),
        ),
        (Physical::FixedList(1, Box::new(Physical::Null)), made_node(15, rows, &[], vec![null()])),
    ];
    for (item, items) in items {
        // A tag of 32-bit lengths, entry points that are all 0; one length.
        let lengths = made_node(2, 1, &u32::MAX.to_le_bytes(), vec![]);
        let root = made_node(14, 1, &[4, 0, 0], vec![lengths, items]);
        let physical = Physical::List(Box::new(item));
        for declared in [0, 4 * rows as u64 - 1, 16 * rows as u64] {
            let bytes = Bytes::from(finished(&root, &physical, declared, false).bytes);
            let open = |decoded_bytes| Block::open(bytes.clone(), &Parts::new(), None, &Limits { decoded_bytes });
            assert_eq!(open(u64::MAX).is_ok(), declared == 16 * rows as u64, "{physical}, {declared} bytes declared");
            let refused = open(Limits::default().decoded_bytes).unwrap_err();
            assert!(matches!(refused, Error::Corrupt { .. } | Error::OverLimit { .. }), "{refused}");
        }
    }
}
