//! Rows of pages that are decoded together: some thousands at a time, which stay in the processor's cache and in memory that was had before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use entasis_encoding::{Selection, VECTOR_ROWS};

use super::condition::{Conjunct, Held, Work, held_cell};
use super::pages::{Decoding, Pages, Source, piece_rows};
use crate::values::{Values, taken};
use crate::{Cell, Error, Result};

/// Rows that are decoded at a time: vectors, of which a piece has a whole number.
pub(super) const CHUNK_ROWS: usize = 8 * VECTOR_ROWS;

/// What is yet to be decoded of pieces of a row group.
#[derive(Debug)]
pub(super) struct Chunks {
    decoding: Decoding,
    leaves: BTreeSet<usize>,
    chunks: VecDeque<Chunk>,
}

/// Some rows of a piece.
#[derive(Debug)]
struct Chunk {
    piece: usize,
    piece_rows: usize,
    /// Where they begin in their piece.
    start: usize,
    rows: usize,
    /// Those that pass, or may.
    alive: Selection,
}

/// Rows that were decoded together.
pub(super) struct Batch {
    chunk: Chunk,
    /// Their leaves, as cells of just these rows.
    pub held: Held,
    /// Those that passed so far.
    pub alive: Selection,
}

impl Chunks {
    /// Of pieces, which ascend, whose cells of `leaves` are held as pages. `rows` are those of the row group.
    pub fn new(
        source: &Arc<Source>,
        held: &Held,
        leaves: BTreeSet<usize>,
        pieces: impl IntoIterator<Item = (usize, Selection)>,
        rows: usize,
    ) -> Result<Self> {
        let chunks: VecDeque<Chunk> =
            pieces.into_iter().flat_map(|(piece, selection)| Chunk::all_of(piece, selection)).collect();
        let pieces: BTreeSet<usize> = chunks.iter().map(|chunk| chunk.piece).collect();
        let places = leaves.iter().flat_map(|&leaf| pieces.iter().map(move |&piece| (leaf, piece)));
        let pages: Vec<Arc<Pages>> =
            places.filter_map(|place| held.get(&place).and_then(Cell::pages).cloned()).collect();
        let ranges = chunks.iter().map(|chunk| {
            let start = piece_rows(rows, chunk.piece).start + chunk.start;
            start..start + chunk.rows
        });
        let decoding = Decoding::new(source, pages, ranges, CHUNK_ROWS)?;
        Ok(Self { decoding, leaves, chunks })
    }

    /// Decodes the next rows. `None` after the last.
    pub fn next(&mut self) -> Result<Option<Batch>> {
        let (arrays, chunk) = match (self.decoding.next()?, self.chunks.pop_front()) {
            (Some(arrays), Some(chunk)) => (arrays, chunk),
            (None, None) => return Ok(None),
            _ => return Err(self.other_rows()),
        };
        if arrays.iter().any(|(_, array)| array.len() != chunk.rows) {
            return Err(self.other_rows());
        }
        let arrays = arrays.into_iter().filter(|(leaf, _)| self.leaves.contains(leaf));
        let held = arrays.map(|(leaf, array)| ((leaf, chunk.piece), Cell::new(Values::Arrow(array)))).collect();
        Ok(Some(Batch { held, alive: chunk.alive.clone(), chunk }))
    }

    /// Whether all is decoded.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The piece of the next rows.
    pub fn next_piece(&self) -> Option<usize> {
        self.chunks.front().map(|chunk| chunk.piece)
    }

    /// The rows that are yet to be decoded, piece by piece.
    pub fn left(self) -> BTreeMap<usize, Selection> {
        let mut left = BTreeMap::new();
        for mut chunk in self.chunks {
            let vectors = chunk.vectors();
            let selection = left.entry(chunk.piece).or_insert_with(|| Selection::none(chunk.piece_rows));
            selection.swap(vectors, &mut chunk.alive, 0);
        }
        left
    }

    fn other_rows(&self) -> Error {
        self.decoding.damaged("a row group of other rows than its metadata say")
    }
}

impl Chunk {
    /// Those of a piece of which some may pass.
    fn all_of(piece: usize, mut selection: Selection) -> impl Iterator<Item = Chunk> {
        let piece_rows = selection.rows();
        (0..piece_rows).step_by(CHUNK_ROWS).filter_map(move |start| {
            let rows = CHUNK_ROWS.min(piece_rows - start);
            let alive = taken(&mut selection, vectors(start, rows), rows);
            (!alive.is_empty()).then_some(Chunk { piece, piece_rows, start, rows, alive })
        })
    }

    fn vectors(&self) -> Range<usize> {
        vectors(self.start, self.rows)
    }
}

/// The vectors of a piece that have some rows.
fn vectors(start: usize, rows: usize) -> Range<usize> {
    start / VECTOR_ROWS..(start + rows).div_ceil(VECTOR_ROWS)
}

impl Batch {
    /// The piece that the rows are of.
    pub fn piece(&self) -> usize {
        self.chunk.piece
    }

    /// The rows that are alive, among those of their piece.
    pub fn alive_in_piece(&self) -> Selection {
        let mut selection = Selection::none(self.chunk.piece_rows);
        self.add_alive(&mut selection);
        selection
    }

    /// Puts the rows that are alive into a selection of their piece, in the place of what it has of them.
    pub fn add_alive(&self, selection: &mut Selection) {
        selection.swap(self.chunk.vectors(), &mut self.alive.clone(), 0);
    }

    /// Keeps the rows that pass; `held` are the cells of all of the piece. True if values of rows were decoded for it.
    pub fn ask(&mut self, conjunct: &mut Conjunct, held: &Held, work: &mut Work) -> Result<bool> {
        for &leaf in conjunct.leaves() {
            let place = (leaf, self.chunk.piece);
            // What isn't decoded with the others was before, for all of the piece.
            if !self.held.contains_key(&place) {
                let array = held_cell(held, leaf, self.chunk.piece)?.vectors(self.chunk.vectors(), self.chunk.rows)?;
                self.held.insert(place, Cell::new(Values::Arrow(array)));
            }
        }
        conjunct.apply(&self.held, self.chunk.piece, &mut self.alive, work)
    }
}
