//! What a read holds of a row group: cells, found, fetched or decoded, and rows that were decoded alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use entasis_encoding::Selection;

use super::{Group, ParquetRows, is_dense};
use crate::read::condition::Conjunct;
use crate::read::decode::decode;
use crate::read::pages::{Pages, piece_rows, place_of};
use crate::values::Values;
use crate::{Arrival, CELL_ROWS, Cell, Fill, Lookup, Result};

impl ParquetRows {
    /// Gets what the output needs of pieces with survivors: cells, and for pieces with few of them, which aren't in the cache, just these
    /// rows.
    pub(super) async fn hold_output(
        &mut self,
        group: &mut Group,
        selections: &BTreeMap<usize, Selection>,
    ) -> Result<()> {
        let (mut whole, mut few) = (BTreeSet::new(), Pieces::default());
        for (&piece, selection) in selections {
            let is_dense = is_dense(selection) || !group.deferred.is_empty();
            for &leaf in &self.outputs {
                if group.held.contains_key(&(leaf, piece)) {
                    continue;
                }
                let id = self.id(group.number, leaf, piece);
                if is_dense {
                    whole.insert((leaf, piece));
                } else if let Some(cell) = self.file.0.cache.get(&id) {
                    self.metrics.cells_found += 1;
                    match cell.is_away() {
                        true => few.add(leaf, piece),
                        false => drop(group.held.insert((leaf, piece), cell)),
                    }
                } else if self.file.0.cache.sparse().is_wanted_again(&id) {
                    whole.insert((leaf, piece));
                } else {
                    few.add(leaf, piece);
                }
            }
        }
        self.hold(group, whole).await?;
        for (pieces, leaves) in few.by_pieces() {
            let lengths: Vec<usize> = pieces.iter().map(|piece| selections[piece].count()).collect();
            let alive = pieces.iter().flat_map(|piece| {
                let start = piece * CELL_ROWS;
                selections[piece].iter().map(move |row| start + row..start + row + 1)
            });
            self.expect(group);
            let (mut places, picked) = (pieces.iter(), &mut group.picked);
            decode(&self.file.0, &mut group.fetched, group.number, &leaves, alive, lengths, |arrays| {
                let piece = places.next().copied().unwrap_or_default();
                picked.extend(arrays.into_iter().map(|(leaf, array)| ((leaf, piece), array)));
                Ok(())
            })
            .await?;
            self.metrics.pieces_selected += (pieces.len() * leaves.len()) as u64;
        }
        Ok(())
    }

    /// Tells what is fetched of the row group which columns are lacking, in the order in which they will be asked for.
    fn expect(&self, group: &mut Group) {
        let inner = &self.file.0;
        if !group.fetched.needs_likely(&inner.object) {
            return;
        }
        let parquet = self.file.metadata().row_group(group.number);
        let asked = self.conjuncts.iter().map(Conjunct::leaves).chain([&self.outputs]);
        let (number, pieces) = (group.number, group.pieces());
        let is_there = |leaf: usize, piece| inner.cache.contains(&self.id(number, leaf, piece));
        let lacks = |leaf: &usize| (0..pieces).any(|piece| !is_there(*leaf, piece));
        let lacking = asked.map(|leaves| leaves.iter().copied().filter(lacks).collect());
        let likely = lacking.flat_map(|leaves: BTreeSet<usize>| inner.source.layout.wanted(&leaves).parquet);
        group.fetched.set_likely(&inner.object, likely.filter_map(|leaf| place_of(parquet.column(leaf))));
    }

    /// Brings cells into what is held: from the cache, from others who decode them, or whole from Parquet. What is to be decoded here is
    /// done before anybody else is waited for.
    pub(super) async fn hold(&mut self, group: &mut Group, wanted: BTreeSet<(usize, usize)>) -> Result<()> {
        let mut lacking = wanted;
        lacking.retain(|place| !group.held.contains_key(place));
        while !lacking.is_empty() {
            let (mut duties, mut waits, mut own) = (Duties::new(), Vec::new(), Pieces::default());
            for &(leaf, piece) in &lacking {
                match self.file.0.cache.lookup(&self.id(group.number, leaf, piece)) {
                    Lookup::Hit(cell) => {
                        self.metrics.cells_found += 1;
                        match cell.is_away() {
                            true => own.add(leaf, piece),
                            false => drop(group.held.insert((leaf, piece), cell)),
                        }
                    }
                    Lookup::Miss(duty) => {
                        duties.insert((leaf, piece), duty);
                        own.add(leaf, piece);
                    }
                    Lookup::Wait(waiter) => waits.push(((leaf, piece), waiter)),
                }
            }
            for (pieces, leaves) in own.by_pieces() {
                self.expect(group);
                match self.file.0.cache.arrival() {
                    Arrival::Pages => self.fetch(group, &pieces, &leaves, &mut duties).await?,
                    Arrival::Arrays => self.decode(group, &pieces, &leaves, &mut duties).await?,
                }
            }
            drop(duties);
            for (place, waiter) in waits {
                if let Some(cell) = waiter.await.filter(|cell| !cell.is_away()) {
                    self.metrics.cells_found += 1;
                    group.held.insert(place, cell);
                }
            }
            // Who was waited for may have given up, or left the pages where they are.
            lacking.retain(|place| !group.held.contains_key(place));
        }
        Ok(())
    }

    /// Fetches the pages of some pieces of leaves, and holds them. The cache needn't where they can be fetched again at next to no cost.
    async fn fetch(
        &mut self,
        group: &mut Group,
        pieces: &[usize],
        leaves: &BTreeSet<usize>,
        duties: &mut Duties,
    ) -> Result<()> {
        let (inner, number) = (&self.file.0, group.number);
        let ranges = pieces.iter().map(|&piece| piece_rows(group.rows, piece));
        // Of each by itself: of a struct's validity some field tells, and by itself it may be another one.
        let places = leaves.iter().map(|&leaf| inner.source.places(number, leaf, ranges.clone()));
        let places = places.collect::<Result<Vec<_>>>()?.concat();
        group.fetched.fetch(&inner.object, &places).await?;
        let elsewhere = Arc::new(inner.object.clone());
        let is_kept = inner.cache.footers().keeps(&inner.source.version);
        for (&leaf, &piece) in leaves.iter().flat_map(|leaf| pieces.iter().map(move |piece| (leaf, piece))) {
            let pages = Pages::new(&inner.source, (number, leaf, piece), |place| group.fetched.find(place))?;
            self.metrics.cells_decoded += 1;
            let cell = match duties.remove(&(leaf, piece)) {
                Some(duty) if !inner.object.is_near() => duty.complete_pages(pages, is_kept),
                duty => {
                    duty.map(|duty| duty.complete_pages(pages.left_in(&elsewhere), is_kept));
                    Cell::new(Values::Pages(Arc::new(pages)))
                }
            };
            group.held.insert((leaf, piece), cell);
        }
        Ok(())
    }

    /// Decodes some pieces of leaves, and holds the arrays.
    async fn decode(
        &mut self,
        group: &mut Group,
        pieces: &[usize],
        leaves: &BTreeSet<usize>,
        duties: &mut Duties,
    ) -> Result<()> {
        let ranges = pieces.iter().map(|&piece| piece_rows(group.rows, piece));
        let lengths = ranges.clone().map(|range| range.len()).collect();
        let (mut places, held, decoded) = (pieces.iter(), &mut group.held, &mut self.metrics.cells_decoded);
        decode(&self.file.0, &mut group.fetched, group.number, leaves, ranges, lengths, |arrays| {
            let piece = places.next().copied().unwrap_or_default();
            for (leaf, array) in arrays {
                if let Some(duty) = duties.remove(&(leaf, piece)) {
                    *decoded += 1;
                    held.insert((leaf, piece), duty.complete(array)?);
                }
            }
            Ok(())
        })
        .await
    }
}

/// Cells that are to be decoded or fetched here, by leaf and piece.
type Duties = BTreeMap<(usize, usize), Fill>;

/// Pieces of leaves that are to be decoded.
#[derive(Debug, Default)]
struct Pieces(BTreeMap<usize, Vec<usize>>);

impl Pieces {
    /// Leaf by leaf, pieces ascend.
    fn add(&mut self, leaf: usize, piece: usize) {
        self.0.entry(leaf).or_default().push(piece);
    }

    /// The leaves that lack the same pieces, which are decoded together.
    fn by_pieces(self) -> BTreeMap<Vec<usize>, BTreeSet<usize>> {
        let mut groups: BTreeMap<Vec<usize>, BTreeSet<usize>> = BTreeMap::new();
        for (leaf, pieces) in self.0 {
            groups.entry(pieces).or_default().insert(leaf);
        }
        groups
    }
}
