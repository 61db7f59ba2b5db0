//! Which symbols to have (FSST, §4.3): start without any; encode a sample; keep the symbols, and the pairs of symbols
//! that followed each other joined into one, that saved or would save most; repeat.

use std::cell::RefCell;

use super::encode::{LONG_SLOTS, long_slot};
use super::{Encoder, SymbolTable};
use crate::simd::{ESCAPE, SYMBOL_MAX_BYTES};

/// Bytes of strings that symbols are chosen from, and as many others on which they are tried.
pub(super) const SAMPLE_BYTES: usize = 16 << 10;

/// The most that one string gives to the sample at a time.
const PIECE_BYTES: usize = 512;

/// Eighths of the sample that each round encodes: early rounds only find where symbols begin.
const ROUNDS: [usize; 3] = [2, 4, 8];

/// Symbols that a round encodes with have at most so many bytes: each round joins two.
const ROUND_MOST_BYTES: [f64; 3] = [1.0, 2.0, 4.0];
/// Where they leave little more than symbols of that length can at least, longer ones may leave far less.
const ABOUT_LEAST: f64 = 1.2;
/// Else the symbols of the last round leave no less of what those that a round encodes with do, nearly always.
const LAST_ROUND_LEAVES: [f64; 3] = [0.0, 0.45, 0.77];

/// The fraction 2^64 / φ, whose multiples spread evenly over 2^64 (Knuth, TAOCP 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A string of up to 8 bytes that is or may become a symbol.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Symbol {
    /// The first byte lowest; zero beyond the length.
    word: u64,
    length: usize,
}

impl Symbol {
    fn of_byte(byte: u8) -> Self {
        Self { word: byte.into(), length: 1 }
    }

    /// Both joined, cut to the longest symbol.
    fn join(self, next: Self) -> Self {
        let length = (self.length + next.length).min(SYMBOL_MAX_BYTES);
        Self { word: self.word | next.word.checked_shl(8 * self.length as u32).unwrap_or(0), length }
    }
}

pub(super) fn train(strings: &[&[u8]]) -> SymbolTable {
    TRAINER.with_borrow_mut(|trainer| trainer.train(&sample(strings, TRAINING), f64::MAX)).expect("any ratio will do")
}

/// As [`train`]; `None` where it shows on the way that [`ratio`] would plainly be more than `most_ratio`.
pub(super) fn train_unless_more(strings: &[&[u8]], most_ratio: f64) -> Option<SymbolTable> {
    TRAINER.with_borrow_mut(|trainer| trainer.train(&sample(strings, TRAINING), most_ratio))
}

/// As [`train`], and what [`ratio`] then gives, for so many strings that are made when they are picked; they have more than
/// [`SAMPLE_BYTES`].
pub(super) fn train_picked<'a>(count: usize, string: impl Fn(usize) -> &'a [u8]) -> (SymbolTable, f64) {
    let trained = TRAINER.with_borrow_mut(|trainer| trainer.train(&picked(count, &string, TRAINING), f64::MAX));
    let table = trained.expect("any ratio will do");
    let ratio = ratio_picked(&table, count, string);
    (table, ratio)
}

/// As [`ratio`], for strings as [`train_picked`] picks them.
pub(super) fn ratio_picked<'a>(table: &SymbolTable, count: usize, string: impl Fn(usize) -> &'a [u8]) -> f64 {
    sample_ratio(table, &picked(count, &string, TRIAL))
}

/// Encoded bytes per byte of such strings, as a sample shows.
pub(super) fn ratio(table: &SymbolTable, strings: &[&[u8]]) -> f64 {
    sample_ratio(table, &sample(strings, TRIAL))
}

fn sample_ratio(table: &SymbolTable, sample: &[&[u8]]) -> f64 {
    TRAINER.with_borrow_mut(|Trainer { encoder, codes, ends, .. }| {
        encoder.reset(table);
        let bytes: usize = sample.iter().map(|piece| piece.len()).sum();
        codes.clear();
        ends.clear();
        encoder.encode_many(sample, codes, ends);
        codes.len() as f64 / bytes.max(1) as f64
    })
}

/// Lends the thread's encoder, made one of this table.
pub(super) fn with_encoder<R>(table: &SymbolTable, visit: impl FnOnce(&Encoder) -> R) -> R {
    TRAINER.with_borrow_mut(|trainer| {
        trainer.encoder.reset(table);
        visit(&trainer.encoder)
    })
}

thread_local! {
    static TRAINER: RefCell<Trainer> = RefCell::new(Trainer {
        encoder: table_of(&[]).encoder(),
        counts: Counts::new(),
        codes: Vec::new(),
        ends: Vec::new(),
    });
}

/// What training needs room for: two thirds of a megabyte, kept from one training to the next.
struct Trainer {
    encoder: Encoder,
    counts: Counts,
    /// The sample as the encoder encodes it, and where each piece ends.
    codes: Vec<u8>,
    ends: Vec<u32>,
}

impl Trainer {
    /// The table; `None` where the symbols of a round show that those of the last will plainly leave more than `most_ratio` of the bytes.
    fn train(&mut self, sample: &[&[u8]], most_ratio: f64) -> Option<SymbolTable> {
        let mut symbols = Vec::new();
        for (round, eighths) in ROUNDS.into_iter().enumerate() {
            self.encoder.reset(&table_of(&symbols));
            self.counts.clear();
            self.codes.clear();
            self.ends.clear();
            let pieces = &sample[..(sample.len() * eighths).div_ceil(8)];
            self.encoder.encode_many(pieces, &mut self.codes, &mut self.ends);
            let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
            if is_hopeless(round, self.codes.len() as f64 / bytes.max(1) as f64, most_ratio) {
                return None;
            }
            let mut start = 0;
            for &end in &self.ends {
                self.counts.add(&symbols, &self.codes[start..end as usize]);
                start = end as usize;
            }
            symbols = self.counts.best(&symbols);
        }
        Some(table_of(&symbols))
    }
}

/// True if symbols with which a round encodes, which leave so much, show that those of the last will plainly leave more than `most_ratio`.
fn is_hopeless(round: usize, ratio: f64, most_ratio: f64) -> bool {
    ratio * ROUND_MOST_BYTES[round] > ABOUT_LEAST && ratio * LAST_ROUND_LEAVES[round] > most_ratio
}

fn table_of(symbols: &[Symbol]) -> SymbolTable {
    let bytes: Vec<[u8; 8]> = symbols.iter().map(|symbol| symbol.word.to_le_bytes()).collect();
    let symbols = bytes.iter().zip(symbols).map(|(bytes, symbol)| &bytes[..symbol.length]);
    SymbolTable::new(symbols).expect("at most 255 symbols of 1 to 8 bytes")
}

/// Where a sample begins to pick.
const TRAINING: u64 = 1;
const TRIAL: u64 = 1 << 32;

/// Pieces of strings from all over the input, in no order: all of them where they fit into [`SAMPLE_BYTES`].
fn sample<'a>(strings: &[&'a [u8]], first_pick: u64) -> Vec<&'a [u8]> {
    let total_bytes: usize = strings.iter().map(|string| string.len()).sum();
    match total_bytes <= SAMPLE_BYTES {
        true => strings.to_vec(),
        false => picked(strings.len(), &|row| strings[row], first_pick),
    }
}

/// As [`sample`], of more bytes than [`SAMPLE_BYTES`], which needn't all be there.
fn picked<'a>(count: usize, string: &impl Fn(usize) -> &'a [u8], first_pick: u64) -> Vec<&'a [u8]> {
    let scale = |fraction: u64, count: usize| ((u128::from(fraction) * count as u128) >> 64) as usize;
    let (mut pieces, mut size_bytes) = (Vec::new(), 0);
    // Picks that meet empty strings add nothing: their number is bounded as well.
    for pick in 0..count.max(SAMPLE_BYTES) as u64 {
        let fraction = (first_pick + pick).wrapping_mul(GOLDEN);
        let string = string(scale(fraction, count));
        // Long strings give a piece from another place each time.
        let start = scale(fraction.wrapping_mul(GOLDEN), string.len().saturating_sub(PIECE_BYTES) + 1);
        let piece = &string[start..string.len().min(start + PIECE_BYTES)];
        pieces.push(piece);
        size_bytes += piece.len();
        if size_bytes >= SAMPLE_BYTES {
            break;
        }
    }
    pieces
}

/// What a symbol of one byte counts for each time, where a longer one counts for its bytes: it saves the escape, and
/// bytes that other strings have but the sample has not.
const SINGLE_GAIN: u64 = 3;

/// Candidates that are put in order: more than there are codes, as some join and some have no slot.
const MOST_CANDIDATES: usize = 768;

/// Units that are counted: symbols by code, then bytes by value.
const UNITS: usize = 512;
const FIRST_BYTE_UNIT: usize = 256;

/// How often each unit occurred in the encoded sample, and each behind another.
struct Counts {
    single: [u32; UNITS],
    /// At `first * UNITS + second` the place in `pairs`, plus one, of a pair that occurred; so that what is counted stays near.
    place: Vec<u16>,
    /// `first * UNITS + second`, and how often.
    pairs: Vec<(u32, u32)>,
}

impl Counts {
    fn new() -> Self {
        Self { single: [0; UNITS], place: vec![0; UNITS * UNITS], pairs: Vec::new() }
    }

    fn clear(&mut self) {
        self.single.fill(0);
        for (pair, _) in self.pairs.drain(..) {
            self.place[pair as usize] = 0;
        }
    }

    #[inline(always)]
    fn add_pair(&mut self, first: usize, second: usize) {
        let pair = first * UNITS + second;
        let place = &mut self.place[pair];
        if *place == 0 {
            // Far fewer pairs than 2^16: at most two for each byte of the sample.
            self.pairs.push((pair as u32, 0));
            *place = self.pairs.len() as u16;
        }
        self.pairs[usize::from(*place) - 1].1 += 1;
    }

    /// Counts what a piece is encoded by.
    fn add(&mut self, symbols: &[Symbol], codes: &[u8]) {
        let mut previous = None;
        let mut codes = codes.iter().copied();
        while let Some(code) = codes.next() {
            let (unit, byte) = match symbols.get(usize::from(code)) {
                Some(symbol) => (usize::from(code), FIRST_BYTE_UNIT + symbol.word as usize % 256),
                None => {
                    let byte = FIRST_BYTE_UNIT + usize::from(codes.next().unwrap_or_default());
                    (byte, byte)
                }
            };
            // The first byte alone stays a candidate as well, or symbols could only ever grow.
            let is_longer = unit != byte && symbols[unit].length > 1;
            self.single[unit] += 1;
            if is_longer {
                self.single[byte] += 1;
            }
            if let Some(previous) = previous {
                self.add_pair(previous, unit);
                if is_longer {
                    self.add_pair(previous, byte);
                }
            }
            previous = Some(unit);
        }
    }

    /// The up to 255 candidates that save most, those left out that would have no slot in the encoder's index.
    fn best(&self, symbols: &[Symbol]) -> Vec<Symbol> {
        let unit = |unit: usize| match unit.checked_sub(FIRST_BYTE_UNIT) {
            Some(byte) => Symbol::of_byte(byte as u8),
            None => symbols[unit],
        };
        let mut candidates = Vec::with_capacity(4 * MOST_CANDIDATES);
        // What a candidate saves in the high half, and in the low one its place, so that of equal ones the first comes first.
        let mut gains: Vec<u64> = Vec::with_capacity(4 * MOST_CANDIDATES);
        let mut add = |symbol: Symbol, count: u32| {
            let bytes = if symbol.length == 1 { SINGLE_GAIN } else { symbol.length as u64 };
            gains.push((bytes * u64::from(count)) << 32 | u64::from(u32::MAX - candidates.len() as u32));
            candidates.push(symbol);
        };
        for (index, &count) in self.single.iter().enumerate().filter(|(_, count)| **count > 0) {
            add(unit(index), count);
        }
        // What was seen once is chance, and most of the pairs.
        for &(pair, count) in self.pairs.iter().filter(|(_, count)| *count > 1) {
            let (first, second) = (unit(pair as usize / UNITS), unit(pair as usize % UNITS));
            if first.length < SYMBOL_MAX_BYTES {
                add(first.join(second), count);
            }
        }
        // The order of what saves least doesn't matter: it stays out.
        if gains.len() > MOST_CANDIDATES {
            gains.select_nth_unstable_by(MOST_CANDIDATES, |left, right| right.cmp(left));
            gains.truncate(MOST_CANDIDATES);
        }
        gains.sort_unstable_by(|left, right| right.cmp(left));
        let mut candidates: Vec<(Symbol, u64)> =
            gains.iter().map(|&gain| (candidates[(u32::MAX - gain as u32) as usize], gain >> 32)).collect();
        join_equal(&mut candidates);
        candidates.sort_by_key(|&(_, gain)| std::cmp::Reverse(gain));
        let mut slot_taken = [false; LONG_SLOTS];
        let has_slot = |(symbol, _): &(Symbol, u64)| {
            symbol.length < 3 || !std::mem::replace(&mut slot_taken[long_slot(symbol.word)], true)
        };
        candidates.into_iter().filter(has_slot).take(ESCAPE.into()).map(|(symbol, _)| symbol).collect()
    }
}

/// Gives the first of equal candidates what all of them save; several pairs may join into the same symbol.
fn join_equal(candidates: &mut Vec<(Symbol, u64)>) {
    const SLOTS: usize = (2 * MOST_CANDIDATES).next_power_of_two();
    // Places in `candidates`, plus one.
    let mut slots = [0u16; SLOTS];
    let mut kept = 0;
    for index in 0..candidates.len() {
        let (symbol, gain) = candidates[index];
        let hash = (symbol.word ^ symbol.length as u64).wrapping_mul(GOLDEN);
        let mut slot = (hash >> (u64::BITS - SLOTS.ilog2())) as usize;
        loop {
            match slots[slot] {
                0 => {
                    candidates[kept] = (symbol, gain);
                    kept += 1;
                    slots[slot] = kept as u16;
                    break;
                }
                place if candidates[usize::from(place) - 1].0 == symbol => {
                    candidates[usize::from(place) - 1].1 += gain;
                    break;
                }
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }
    candidates.truncate(kept);
}
