//! The order of strings that symbols encode (see [`crate::fsst`]), told from as few codes as it takes: most often the first.
//!
//! Whoever encodes chooses among the symbols that fit, so that codes aren't compared with codes: what they stand for is held against the
//! cuts. An automaton does that for each code once and remembers what came out.

use std::collections::HashMap;

use super::coded::{CodedStrings, Sorted};
use super::cuts::{Cuts, Piece, Place};
use crate::VECTOR_ROWS;
use crate::fsst::SymbolTable;
use crate::simd::{ByteSet, ESCAPE, Edges, members, word_of};

/// Cuts, made ready for strings under one symbol table.
#[derive(Debug)]
pub(crate) struct CodedCuts {
    automaton: Automaton,
    /// Codes of which strings that begin with them pass, and those that don't tell.
    passing: ByteSet,
    unknown: ByteSet,
    /// The bytes that codes of literals can end with, and the answer to all strings that are none.
    last: Option<(ByteSet, bool)>,
    /// Whether the string without codes passes.
    empty_passes: bool,
    shared: SharedCodes,
}

/// Words of bits for a vector's strings.
const VECTOR_WORDS: usize = VECTOR_ROWS / 64;

/// Number of a state: 0 and 1 are answers.
type State = u16;
const START: State = 2;
/// What a code leads to that was never looked at.
const UNSEEN: State = State::MAX;
/// More states aren't remembered.
const MOST_STATES: usize = 4096;

/// Where codes lead: filled as they come.
#[derive(Debug)]
struct Automaton {
    cuts: Cuts,
    /// The place that each state from [`START`] on stands for, and whether the next byte stands for itself.
    states: Vec<(Place, bool)>,
    /// For each of them, where each code leads to.
    next: Vec<[State; 256]>,
    numbers: HashMap<(Place, bool), State>,
}

impl Automaton {
    fn new(cuts: Cuts) -> Self {
        let start = cuts.any_place();
        Self { cuts, states: vec![(start, false)], next: vec![[UNSEEN; 256]], numbers: HashMap::new() }
    }

    /// The state for a place; nothing if there are too many.
    fn state(&mut self, place: Place, is_escaped: bool) -> Option<State> {
        if place.is_decided() && !is_escaped {
            return Some(State::from(self.cuts.passes(place)));
        }
        if let Some(&known) = self.numbers.get(&(place, is_escaped)) {
            return Some(known);
        }
        if self.states.len() >= MOST_STATES {
            return None;
        }
        let number = self.states.len() as State + START;
        self.numbers.insert((place, is_escaped), number);
        self.states.push((place, is_escaped));
        self.next.push([UNSEEN; 256]);
        Some(number)
    }

    /// The place that a code leads to; nothing if it is none.
    fn step(&self, (place, is_escaped): (Place, bool), code: u8, table: &SymbolTable) -> Option<(Place, bool)> {
        if is_escaped {
            return Some((self.cuts.narrow(place, Piece::new(u64::from(code), 1)), false));
        }
        if code == ESCAPE {
            return Some((place, true));
        }
        let (word, length) = table.symbol(code);
        (length > 0).then(|| (self.cuts.narrow(place, Piece::new(word, length)), false))
    }

    /// Looks at what `code` leads to for the first time; nothing if it is no code.
    #[cold]
    fn see(&mut self, from: State, code: u8, table: &SymbolTable) -> Option<Seen> {
        let index = usize::from(from - START);
        let (place, is_escaped) = self.step(self.states[index], code, table)?;
        Some(match self.state(place, is_escaped) {
            Some(state) => {
                self.next[index][usize::from(code)] = state;
                Seen::State(state)
            }
            None => Seen::Place(place, is_escaped),
        })
    }

    /// The answer to a string of which the rest of the codes are these; nothing if one is none.
    fn finish(&self, mut place: (Place, bool), codes: &[u8], table: &SymbolTable) -> Option<bool> {
        for &code in codes {
            place = self.step(place, code, table)?;
        }
        (!place.1).then(|| self.cuts.passes(place.0))
    }

    /// The answer to a string that ends in a state; nothing if it ends with an escape.
    fn at_end(&self, state: State) -> Option<bool> {
        let (place, is_escaped) = self.states[usize::from(state - START)];
        (!is_escaped).then(|| self.cuts.passes(place))
    }
}

/// What a code leads to.
enum Seen {
    State(State),
    Place(Place, bool),
}

/// What all cuts begin with, as our own encoder would write it: strings that begin with the same codes begin with the same bytes.
#[derive(Debug)]
struct SharedCodes {
    /// With zeros up to whole words.
    codes: Vec<u8>,
    /// For every number of codes that are equal: how many of them say something, and the state that they lead to.
    resume: Vec<(u32, State)>,
}

impl SharedCodes {
    fn new(automaton: &mut Automaton, table: &SymbolTable) -> Self {
        let mut codes = Vec::new();
        let shared = automaton.cuts.shared();
        if !shared.is_empty() {
            table.with_encoder(|encoder| encoder.encode(shared, &mut codes));
        }
        let (mut at, mut state, mut resume) = (0, START, vec![(0, START)]);
        while let Some(&code) = codes.get(at)
            && let Some(Seen::State(next)) = automaton.see(state, code, table)
            && next >= START
        {
            (at, state) = (at + 1, next);
            resume.push((at as u32, state));
        }
        codes.truncate(at);
        codes.resize(at.next_multiple_of(SKIPPED_CODES), 0);
        Self { codes, resume }
    }

    /// How many of the codes from `codes` on, of which `count` are the string's, need not be looked at, and the state behind them.
    #[inline(always)]
    fn skip(&self, codes: &[u8], count: usize) -> (u32, State) {
        let mut same = 0;
        for (shared, codes) in self.codes.as_chunks().0.iter().zip(codes.as_chunks().0) {
            let equal = equal_bytes(shared, codes);
            same += equal;
            if equal < SKIPPED_CODES {
                break;
            }
        }
        self.resume[same.min(count).min(self.resume.len() - 1)]
    }
}

/// So many codes are compared at once.
const SKIPPED_CODES: usize = 32;

/// How many of the first bytes are equal. Without a branch: how many words are, none could predict.
#[inline(always)]
fn equal_bytes(one: &[u8; SKIPPED_CODES], other: &[u8; SKIPPED_CODES]) -> usize {
    one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0).rev().fold(0, |behind, (one, other)| {
        let equal = (u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other)).trailing_zeros() as usize / 8;
        equal + if equal == 8 { behind } else { 0 }
    })
}

/// A string that isn't answered yet.
#[derive(Clone, Copy)]
struct Open {
    row: u32,
    at: u32,
    end: u32,
    state: State,
}

impl CodedCuts {
    pub fn new(cuts: Cuts, table: &SymbolTable) -> Self {
        let any = cuts.any_place();
        let (mut passing, mut unknown) = (ByteSet::default(), ByteSet::default());
        for code in 0..=u8::MAX {
            let (word, length) = table.symbol(code);
            if code == ESCAPE || length == 0 {
                unknown.insert(code);
                continue;
            }
            let place = cuts.narrow(any, Piece::new(word, length));
            if !place.is_decided() {
                unknown.insert(code);
            } else if cuts.passes(place) {
                passing.insert(code);
            }
        }
        let last = cuts.literals().map(|literals| {
            let may_end = |byte: &u8| {
                let (word, length) = table.symbol(*byte);
                let symbol = &word.to_le_bytes()[..length];
                literals
                    .iter()
                    .any(|literal| literal.last() == Some(byte) || !symbol.is_empty() && literal.ends_with(symbol))
            };
            ((0..=u8::MAX).filter(may_end).collect(), cuts.others_pass())
        });
        let empty_passes = cuts.passes(any);
        let mut automaton = Automaton::new(cuts);
        let shared = SharedCodes::new(&mut automaton, table);
        Self { automaton, passing, unknown, last, empty_passes, shared }
    }

    /// A word of bits for every 64 strings; nothing if one has what is no code.
    pub fn find(&mut self, strings: &CodedStrings<'_>, edges: &Edges) -> Option<Vec<u64>> {
        let (table, Sorted { mut passing, unknown }) = (strings.table()?, self.sort(edges));
        let mut open = Vec::new();
        let mut answers = [[0; 64]; VECTOR_WORDS];
        for (vector, unknown) in unknown.chunks(VECTOR_WORDS).enumerate() {
            self.open(strings, vector * VECTOR_ROWS, unknown, &mut open);
            if open.is_empty() {
                continue;
            }
            while !open.is_empty() {
                self.step(strings, table, &mut open, answers.as_flattened_mut())?;
            }
            let passing = passing[vector * VECTOR_WORDS..].iter_mut();
            passing.zip(&answers).zip(unknown).for_each(|((passing, answers), unknown)| {
                *passing |= word_of(answers) & unknown;
            });
        }
        Some(passing)
    }

    /// What the first and the last codes tell.
    fn sort(&self, edges: &Edges) -> Sorted {
        let (mut passing, mut unknown) = (Vec::new(), Vec::new());
        members(&edges.firsts, &self.passing, &mut passing);
        members(&edges.firsts, &self.unknown, &mut unknown);
        if let Some((may_end, others_pass)) = &self.last {
            let mut may = Vec::new();
            members(&edges.lasts, may_end, &mut may);
            let others = if *others_pass { u64::MAX } else { 0 };
            for ((passing, unknown), may) in passing.iter_mut().zip(&mut unknown).zip(may) {
                *passing |= *unknown & !may & others;
                *unknown &= may;
            }
        }
        for ((passing, unknown), empty) in passing.iter_mut().zip(&mut unknown).zip(&edges.empty) {
            *passing = if self.empty_passes { *passing | empty } else { *passing & !empty };
            *unknown &= !empty;
        }
        Sorted { passing, unknown }
    }

    /// Lists the strings of a vector whose bit is set.
    fn open(&self, strings: &CodedStrings<'_>, first: usize, unknown: &[u64], open: &mut Vec<Open>) {
        for (index, mut word) in unknown.iter().copied().enumerate() {
            while word != 0 {
                let row = 64 * index + word.trailing_zeros() as usize;
                word &= word - 1;
                let place = strings.place(first + row);
                let (skipped, state) = self.shared.skip(&strings.codes[place.start..], place.len());
                open.push(Open { row: row as u32, at: place.start as u32 + skipped, end: place.end as u32, state });
            }
        }
    }

    /// Looks at one code of each open string, and keeps those that are open still. All at once, so that none waits for another.
    fn step(
        &mut self,
        strings: &CodedStrings<'_>,
        table: &SymbolTable,
        open: &mut Vec<Open>,
        answers: &mut [u8],
    ) -> Option<()> {
        let mut kept = 0;
        for index in 0..open.len() {
            let Open { row, at, end, state } = open[index];
            let next = if at < end {
                let code = strings.codes[at as usize];
                match self.automaton.next[usize::from(state - START)][usize::from(code)] {
                    UNSEEN => match self.automaton.see(state, code, table)? {
                        Seen::State(state) => state,
                        Seen::Place(place, is_escaped) => {
                            let rest = &strings.codes[at as usize + 1..end as usize];
                            State::from(self.automaton.finish((place, is_escaped), rest, table)?)
                        }
                    },
                    next => next,
                }
            } else {
                State::from(self.automaton.at_end(state)?)
            };
            answers[row as usize] = u8::from(next == 1);
            open[kept] = Open { row, at: at + 1, end, state: next };
            kept += usize::from(next >= START);
        }
        open.truncate(kept);
        Some(())
    }
}
