//! What rows of a row group are asked, when, and of what.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;
use entasis_encoding::Selection;

use super::{Group, ParquetRows, WHOLE_SHARE, is_dense};
use crate::read::chunks::Chunks;
use crate::read::condition::{Conjunct, held_cell};
use crate::read::stream::{Deferred, Stream};
use crate::values::compact_rows;
use crate::{Result, State};

impl ParquetRows {
    /// Asks pieces for one condition after the other, each on the survivors of those before, the cheapest and most selective first. What
    /// is to be asked of pages is deferred where that spares nothing: until they are decoded for the output.
    pub(super) async fn ask(&mut self, group: &mut Group, selections: &mut BTreeMap<usize, Selection>) -> Result<()> {
        self.conjuncts.sort_by(|left, right| {
            let ((left, cost), (right, other)) = (left.rank(), right.rank());
            left.cmp(&right).then(cost.total_cmp(&other))
        });
        let mut deferred = Vec::new();
        for index in 0..self.conjuncts.len() {
            let leaves = self.conjuncts[index].leaves();
            let alive = || selections.iter().filter(|(_, selection)| !selection.is_empty()).map(|(&piece, _)| piece);
            let wanted = leaves.iter().flat_map(|&leaf| alive().map(move |piece| (leaf, piece))).collect();
            self.hold(group, wanted).await?;
            if self.may_wait(group, index, selections) {
                deferred.push(index);
                continue;
            }
            // An expression may fail on rows that those before it would have spared it.
            let due = if self.conjuncts[index].is_expression() { std::mem::take(&mut deferred) } else { Vec::new() };
            let _inside = self.file.0.cache.enter();
            for index in due.into_iter().chain([index]) {
                self.decoding(|rows| rows.ask_one(group, index, selections))?;
            }
        }
        group.deferred = Deferred::Some(deferred);
        Ok(())
    }

    /// Asks pieces whose cells are held for one condition.
    fn ask_one(&mut self, group: &Group, index: usize, selections: &mut BTreeMap<usize, Selection>) -> Result<()> {
        let of_pages = self.page_leaves(group, index, selections);
        let (mut dense, mut others): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (&piece, selection) in selections.iter().filter(|(_, selection)| !selection.is_empty()) {
            match of_pages.get(&piece) {
                Some(_) if is_dense(selection) => dense.push(piece),
                Some(leaves) => {
                    for &leaf in leaves {
                        let cell = held_cell(&group.held, leaf, piece)?;
                        cell.remember(selection.clone(), cell.select(selection)?);
                    }
                    others.push(piece);
                }
                None => others.push(piece),
            }
        }
        for pieces in dense.chunk_by(|left, right| of_pages[left] == of_pages[right]) {
            self.ask_chunks(group, index, &of_pages[&pieces[0]], pieces, selections)?;
        }
        for piece in others {
            let Some(selection) = selections.get_mut(&piece) else { continue };
            let before = selection.count();
            let decodes = self.conjuncts[index].apply(&group.held, piece, selection, &mut self.work)?;
            let fallen = before - selection.count();
            self.count_fallen(decodes, fallen);
        }
        Ok(())
    }

    /// The leaves that are held as pages, of the pieces that need such for a condition, and nothing that is encoded.
    fn page_leaves(
        &self,
        group: &Group,
        index: usize,
        selections: &BTreeMap<usize, Selection>,
    ) -> BTreeMap<usize, BTreeSet<usize>> {
        let leaves = self.conjuncts[index].leaves();
        let of_piece = |&piece: &usize| {
            let cell = |leaf: &usize| group.held.get(&(*leaf, piece));
            let is_encoded = |leaf: &usize| cell(leaf).is_some_and(|cell| cell.state() == State::Encoded);
            let is_pages = |leaf: &&usize| cell(leaf).is_some_and(|cell| cell.pages().is_some());
            let pages: BTreeSet<usize> = leaves.iter().filter(is_pages).copied().collect();
            (!pages.is_empty() && !leaves.iter().any(is_encoded)).then_some((piece, pages))
        };
        selections.keys().filter_map(of_piece).collect()
    }

    /// Asks pieces for one condition, of which some leaves are held as pages: as many rows are decoded at a time as stay in the processor's
    /// cache, and of them is kept what passes and is needed again.
    fn ask_chunks(
        &mut self,
        group: &Group,
        index: usize,
        leaves: &BTreeSet<usize>,
        pieces: &[usize],
        selections: &mut BTreeMap<usize, Selection>,
    ) -> Result<()> {
        let asked = pieces.iter().filter_map(|&piece| {
            let selection = selections.get_mut(&piece)?;
            let rows = selection.rows();
            Some((piece, std::mem::replace(selection, Selection::none(rows))))
        });
        let mut chunks = Chunks::new(&self.file.0.source, &group.held, leaves.clone(), asked, group.rows)?;
        let others = self.conjuncts.iter().enumerate().filter(|&(number, _)| number != index);
        let needed: BTreeSet<usize> =
            others.flat_map(|(_, conjunct)| conjunct.leaves()).chain(&self.outputs).copied().collect();
        let mut kept: BTreeMap<(usize, usize), Vec<ArrayRef>> = BTreeMap::new();
        while let Some(mut batch) = chunks.next()? {
            let before = batch.alive.count();
            let decodes = batch.ask(&mut self.conjuncts[index], &group.held, &mut self.work)?;
            self.count_fallen(decodes, before - batch.alive.count());
            if batch.alive.is_empty() {
                continue;
            }
            selections.entry(batch.piece()).and_modify(|selection| batch.add_alive(selection));
            for &leaf in leaves.intersection(&needed) {
                let place = (leaf, batch.piece());
                let array = held_cell(&batch.held, leaf, batch.piece())?.decode()?;
                kept.entry(place).or_default().push(compact_rows(&array, &batch.alive)?);
            }
        }
        for ((leaf, piece), arrays) in kept {
            let lent: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            let joined = concat(&lent).map_err(entasis::Error::from)?;
            held_cell(&group.held, leaf, piece)?.remember(selections[&piece].clone(), joined);
        }
        Ok(())
    }

    fn count_fallen(&mut self, decodes: bool, rows: usize) {
        match decodes {
            true => self.metrics.rows_fallen_decoded += rows as u64,
            false => self.metrics.rows_fallen_encoded += rows as u64,
        }
    }

    /// Whether a condition can be asked as rows come out: it is about pages alone, and nothing is spared by asking it sooner.
    fn may_wait(&self, group: &Group, index: usize, selections: &BTreeMap<usize, Selection>) -> bool {
        let leaves = self.conjuncts[index].leaves();
        let mut alive = selections.iter().filter(|(_, selection)| !selection.is_empty()).map(|(&piece, _)| piece);
        let is_pages = |place: (usize, usize)| group.held.get(&place).is_some_and(|cell| cell.pages().is_some());
        self.left.is_none()
            && !leaves.is_empty()
            && !self.spares(index)
            && alive.all(|piece| leaves.iter().all(|&leaf| is_pages((leaf, piece))))
    }

    /// Whether it spares decoding to ask a condition before its rows come out: not if most of what comes out is decoded for it anyway, nor if
    /// many rows are believed to pass.
    fn spares(&self, index: usize) -> bool {
        let conjunct = &self.conjuncts[index];
        let later = self.conjuncts[index + 1..].iter().flat_map(Conjunct::leaves);
        let is_alone = self.outputs.iter().chain(later).all(|leaf| conjunct.leaves().contains(leaf));
        !is_alone && conjunct.passing() * (WHOLE_SHARE as f64) < 2.0
    }

    /// Whether a condition that is asked as rows come out turns out to let few pass.
    pub(super) fn is_misjudged(&self, stream: &Stream) -> bool {
        match stream.deferred() {
            Some(Deferred::Some(numbers)) => numbers.iter().any(|&index| self.spares(index)),
            Some(Deferred::All) => (0..self.conjuncts.len()).any(|index| self.spares(index)),
            None => false,
        }
    }

    /// Asks for what was deferred, before the rest of the rows come out.
    pub(super) async fn ask_deferred(&mut self, group: &mut Group) -> Result<()> {
        let Some(stream) = group.stream.take() else { return Ok(()) };
        let (mut selections, batch) = stream.end()?;
        batch.iter().for_each(|batch| self.make_ready(batch));
        selections.extend(group.passed.drain(..));
        match &group.deferred {
            Deferred::Some(numbers) => {
                let _inside = self.file.0.cache.enter();
                let mut ask = |&index: &usize| self.decoding(|rows| rows.ask_one(group, index, &mut selections));
                numbers.iter().try_for_each(&mut ask)?;
                group.deferred = Deferred::Some(Vec::new());
            }
            Deferred::All => self.ask(group, &mut selections).await?,
        }
        self.hold_survivors(group, selections).await
    }
}
