//! What Bloom filters tell of equality: of blocks that zones leave, those that don't hold a value.

use std::{collections::HashMap, ops::Range};

use entasis_encoding::{Comparison, Predicate, Scalar};

use super::{
    Scan,
    blocks::Rows,
    cut,
    prepared::{Group, Leaf, Prepared},
    zones::{Verdict, verdict},
};
use crate::{
    BlockRef, BloomRef,
    bloom::hash_of_scalar,
    error::{Error, Result},
    read::column::{ReadColumn, bloom_name, chunk_of},
    source::Source,
};

/// Predicates of more literals aren't asked: of so many, filters say of almost every block that it may hold one.
const MOST_LITERALS: usize = 32;

/// Row groups whose filters are asked together.
const MOST_GROUPS: usize = 16;

/// Filters are asked if reading the blocks that they may save takes so many times what asking takes.
const WORTH: u64 = 2;

/// Equality with literals, as Bloom filters are asked for it.
pub(super) struct Lookup {
    /// What the literals hash to, each with the comparison that zones are asked for. Those that no value of the column equals are left out.
    literals: Vec<(u64, Predicate)>,
    /// Rows pass that equal none of them.
    is_negated: bool,
    /// By row group, whether each block is known to hold none of them.
    denied: HashMap<usize, Vec<bool>>,
}

/// What filters answered: which blocks may hold a value, by column, row group and the value's hash.
pub(super) type Answers = HashMap<((usize, usize), usize, u64), Vec<bool>>;

/// A run of a chunk's filters, and the hash that is looked for in it.
struct Ask<'c> {
    column: &'c ReadColumn,
    row_group: usize,
    hash: u64,
    bloom: BloomRef,
}

impl Lookup {
    /// What a predicate asks of the column's filters; `None` if it has none, or they can't tell.
    pub fn new(predicate: &Predicate, column: &ReadColumn) -> Option<Self> {
        if column.record.chunks.iter().all(|chunk| chunk.bloom.is_none()) {
            return None;
        }
        let (literals, is_negated, order) = match predicate {
            Predicate::Compare(Comparison::Equal, literal, order) => (std::slice::from_ref(literal), false, *order),
            Predicate::Compare(Comparison::NotEqual, literal, order) => (std::slice::from_ref(literal), true, *order),
            Predicate::In { values, negated, order } if values.len() <= MOST_LITERALS => {
                (&values[..], *negated, *order)
            }
            _ => return None,
        };
        let ask = |literal: &Scalar| {
            let hash = hash_of_scalar(literal, &column.physical)?;
            Some((hash, Predicate::Compare(Comparison::Equal, literal.clone(), order)))
        };
        Some(Self { literals: literals.iter().filter_map(ask).collect(), is_negated, denied: HashMap::new() })
    }

    /// What is known of a block of which zones can't tell.
    pub fn verdict(&self, row_group: usize, number: usize, block: &BlockRef) -> Verdict {
        let is_denied = self.denied.get(&row_group).and_then(|blocks| blocks.get(number)).copied().unwrap_or_default();
        match (is_denied, self.is_negated) {
            (true, false) => Verdict::None,
            (true, true) if block.zone.null_count == 0 => Verdict::All,
            _ => Verdict::Some,
        }
    }

    /// Notes which blocks of a row group hold none of the literals: for each, a filter or the zone says so.
    fn deny(&mut self, column: &ReadColumn, row_group: usize, answers: &Answers) {
        let blocks = &column.record.chunks[row_group].blocks;
        let asked = self.literals.iter().map(|(hash, equal)| (answers.get(&(column.key, row_group, *hash)), equal));
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty() && asked.iter().all(|(may_hold, _)| may_hold.is_none()) {
            return;
        }
        let lacks = |number: usize, block: &BlockRef| {
            asked.iter().all(|(may_hold, equal)| {
                may_hold.is_some_and(|blocks| !blocks[number])
                    || verdict(equal, &block.zone, u64::from(block.rows)) == Verdict::None
            })
        };
        let denied = blocks.iter().enumerate().map(|(number, block)| lacks(number, block)).collect();
        self.denied.insert(row_group, denied);
    }
}

impl Prepared {
    /// The leaves below that ask Bloom filters.
    fn lookups(&self) -> Vec<&Leaf> {
        match self {
            Prepared::And(conditions) | Prepared::Or(conditions) => conditions.iter().flat_map(Self::lookups).collect(),
            Prepared::Leaf(leaf) if leaf.lookup.is_some() => vec![leaf],
            _ => Vec::new(),
        }
    }

    /// Notes what filters answered about row groups.
    fn note(&mut self, row_groups: &[usize], answers: &Answers) {
        match self {
            Prepared::And(conditions) | Prepared::Or(conditions) => {
                conditions.iter_mut().for_each(|condition| condition.note(row_groups, answers));
            }
            Prepared::Leaf(leaf) => {
                let Leaf { column, lookup: Some(lookup), .. } = &mut **leaf else { return };
                lookup.denied.clear();
                row_groups.iter().for_each(|&row_group| lookup.deny(column, row_group, answers));
            }
            _ => {}
        }
    }
}

impl Scan {
    /// Asks Bloom filters about the row groups that come next, those of several together: over a store, one after the other would each take
    /// the time of a request. Does nothing where they have been asked.
    pub(super) fn ask_blooms(&mut self) -> Result<()> {
        if self.groups.len() > self.unasked_groups {
            return Ok(());
        }
        let count = self.groups.len().min(MOST_GROUPS);
        let next: Vec<_> = self.groups[self.groups.len() - count..].iter().rev().cloned().collect();
        let has_lookups = self.conjuncts.iter().any(|conjunct| !conjunct.prepared.lookups().is_empty());
        if let (true, Some((first, _))) = (has_lookups, next.first()) {
            self.answers.retain(|(_, row_group, _), _| *row_group >= first.number);
            let answers = self.read_answers(&next)?;
            self.answers.extend(answers);
            let row_groups: Vec<_> = next.iter().map(|(group, _)| group.number).collect();
            self.conjuncts.iter_mut().for_each(|conjunct| conjunct.prepared.note(&row_groups, &self.answers));
        }
        self.unasked_groups = self.groups.len() - count;
        Ok(())
    }

    /// Reads what filters answer about row groups, where that is worth it.
    fn read_answers(&self, groups: &[(Group, Range<u64>)]) -> Result<Answers> {
        let left = groups.iter().map(|(group, asked)| Ok((*group, self.left_by_zones(*group, asked.clone())?)));
        let left: Vec<(Group, Vec<Rows>)> = left.collect::<Result<_>>()?;
        let mut asks = Vec::new();
        for conjunct in &self.conjuncts {
            for leaf in conjunct.prepared.lookups() {
                asks.extend(self.asks_of(leaf, &left)?);
            }
        }
        let opener = self.blocks.opener();
        let ranges = asks.iter().map(|ask| {
            let run = ask.bloom.run_range(ask.bloom.layout.run_of(ask.hash));
            opener.check_range(run, || bloom_name(ask.column, ask.row_group))
        });
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        let read = opener.source.read_many(&ranges)?;
        let mut answers = Answers::new();
        for ((ask, range), run) in asks.iter().zip(ranges).zip(read) {
            let answer = ask.bloom.layout.ask(&run, ask.hash).map_err(|what| {
                let part =
                    format!("{}, run {}", bloom_name(ask.column, ask.row_group), ask.bloom.layout.run_of(ask.hash));
                Error::corrupt(opener.source.name(), part, range.start, what)
            })?;
            answers.insert((ask.column.key, ask.row_group, ask.hash), answer);
        }
        Ok(answers)
    }

    /// The rows of a row group that zones leave, as far as they are asked for.
    fn left_by_zones(&self, group: Group, mut asked: Range<u64>) -> Result<Vec<Rows>> {
        let mut left = Vec::new();
        while !asked.is_empty() {
            left.push(self.fall_by_zones(cut(group, &mut asked, self.most_rows).0)?);
        }
        Ok(left)
    }

    /// What is to be asked for a leaf; nothing if reading the blocks costs little more.
    fn asks_of<'c>(&self, leaf: &'c Leaf, left: &[(Group, Vec<Rows>)]) -> Result<Vec<Ask<'c>>> {
        let Leaf { column, lookup: Some(lookup), .. } = leaf else { return Ok(Vec::new()) };
        let (mut asks, mut ask_bytes, mut block_bytes) = (Vec::new(), 0, 0);
        for (group, rows) in left {
            let (row_group, chunk) = (group.number, chunk_of(&self.blocks.reader, column, group.number, group.rows)?);
            let Some(bloom) = chunk.bloom else { continue };
            let mut needed: Vec<(usize, u64)> = Vec::new();
            for rows in rows {
                let parts = rows.vectors.blocks(chunk);
                let parts =
                    parts.filter(|part| rows.are_in(part) && leaf.verdict_of_zone(part.reference) == Verdict::Some);
                needed.extend(parts.map(|part| (part.block, part.reference.size_bytes)));
            }
            needed.dedup();
            if needed.is_empty() {
                continue;
            }
            // The first block that is opened brings what all share.
            block_bytes += chunk.parts.iter().map(|part| part.size_bytes).sum::<u64>();
            block_bytes += needed.iter().map(|(_, size_bytes)| size_bytes).sum::<u64>();
            for &(hash, _) in &lookup.literals {
                if !self.answers.contains_key(&(column.key, row_group, hash)) {
                    let range = bloom.layout.run_range(bloom.layout.run_of(hash));
                    ask_bytes += range.end - range.start;
                    asks.push(Ask { column, row_group, hash, bloom });
                }
            }
        }
        // Those of a store are under way together; what lies in memory is lent.
        let requests = match self.source.request_bytes() {
            u64::MAX => 0,
            bytes if self.is_distant() => bytes,
            bytes => bytes.saturating_mul(asks.len() as u64),
        };
        let is_worth_it = block_bytes >= (ask_bytes + requests).saturating_mul(WORTH);
        Ok(if is_worth_it { asks } else { Vec::new() })
    }
}
