//! Every policy against a naive model of it: lists that are searched from end to end.

use super::*;
use crate::{ColumnId, ObjectId, Stamp, Version};

/// A cell, its bytes, how often it was asked for, and the time of its last use.
#[derive(Debug, Clone)]
struct Entry {
    cell: CellId,
    size_bytes: u64,
    uses: u64,
    last_use: usize,
}

/// What is known, in the order in which it came in; S3-FIFO's main queue and ghosts beside that.
#[derive(Debug, Default)]
struct Naive {
    cells: Vec<Entry>,
    main: Vec<Entry>,
    ghosts: Vec<Entry>,
    /// SIEVE: the cells that the hand has passed in this round.
    passed: Vec<CellId>,
    column_uses: Vec<(ColumnId, usize)>,
    now: usize,
}

fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.size_bytes).sum()
}

fn position(entries: &[Entry], cell: &CellId) -> Option<usize> {
    entries.iter().position(|entry| entry.cell == *cell)
}

impl Naive {
    fn use_column(&mut self, column: &ColumnId) {
        self.now += 1;
        self.column_uses.retain(|(other, _)| other != column);
        self.column_uses.push((column.clone(), self.now));
    }

    fn admit(&mut self, kind: PolicyKind, cell: &CellId, size_bytes: u64) {
        self.use_column(&cell.column);
        let entry = Entry { cell: cell.clone(), size_bytes, uses: 0, last_use: self.now };
        if kind == PolicyKind::S3Fifo && position(&self.ghosts, cell).is_some() {
            self.ghosts.retain(|ghost| ghost.cell != *cell);
            self.main.push(entry);
        } else {
            self.cells.push(entry);
        }
    }

    fn touch(&mut self, cell: &CellId) {
        if self.contains(cell) {
            self.use_column(&cell.column);
            let now = self.now;
            for entry in self.cells.iter_mut().chain(&mut self.main).filter(|entry| entry.cell == *cell) {
                entry.uses += 1;
                entry.last_use = now;
            }
        }
    }

    fn contains(&self, cell: &CellId) -> bool {
        position(&self.cells, cell).or(position(&self.main, cell)).is_some()
    }

    fn remove(&mut self, cell: &CellId) {
        self.cells.retain(|entry| entry.cell != *cell);
        self.main.retain(|entry| entry.cell != *cell);
        self.passed.retain(|passed| passed != cell);
    }

    fn resize(&mut self, cell: &CellId, size_bytes: u64) {
        let known = self.cells.iter_mut().chain(&mut self.main);
        known.filter(|entry| entry.cell == *cell).for_each(|entry| entry.size_bytes = size_bytes);
    }

    fn evict(&mut self, kind: PolicyKind) -> Option<CellId> {
        let victim = match kind {
            PolicyKind::Fifo => self.cells.first()?.cell.clone(),
            PolicyKind::Lru => self.cells.iter().min_by_key(|entry| entry.last_use)?.cell.clone(),
            PolicyKind::ColumnLru | PolicyKind::ColumnPrefix => {
                let is_known = |column: &ColumnId| self.cells.iter().any(|entry| entry.cell.column == *column);
                let column = &self.column_uses.iter().find(|(column, _)| is_known(column))?.0;
                let of_column: Vec<_> = self.cells.iter().filter(|entry| entry.cell.column == *column).collect();
                let index = if kind == PolicyKind::ColumnLru { 0 } else { of_column.len().saturating_sub(2) };
                of_column[index].cell.clone()
            }
            PolicyKind::Sieve => self.sieve()?,
            PolicyKind::S3Fifo => return self.s3_fifo(),
        };
        self.remove(&victim);
        Some(victim)
    }

    fn sieve(&mut self) -> Option<CellId> {
        if self.cells.is_empty() {
            return None;
        }
        loop {
            let Some(entry) = self.cells.iter_mut().find(|entry| !self.passed.contains(&entry.cell)) else {
                self.passed.clear();
                continue;
            };
            if entry.uses == 0 {
                // The hand stands behind it: what came in before has been passed.
                return Some(entry.cell.clone());
            }
            entry.uses = 0;
            self.passed.push(entry.cell.clone());
        }
    }

    fn s3_fifo(&mut self) -> Option<CellId> {
        loop {
            let total = bytes_of(&self.cells) + bytes_of(&self.main);
            let is_over = !self.cells.is_empty() && bytes_of(&self.cells) > total / 10;
            if self.main.is_empty() || is_over {
                if self.cells.is_empty() {
                    return None;
                }
                let entry = self.cells.remove(0);
                if entry.uses > 1 {
                    self.main.push(Entry { uses: 0, ..entry });
                    continue;
                }
                let cell = entry.cell.clone();
                self.ghosts.push(entry);
                while bytes_of(&self.ghosts) > bytes_of(&self.main).max(total / 10) {
                    self.ghosts.remove(0);
                }
                return Some(cell);
            }
            let entry = self.main.remove(0);
            match entry.uses.min(3) {
                0 => return Some(entry.cell),
                uses => self.main.push(Entry { uses: uses - 1, ..entry }),
            }
        }
    }
}

fn cell(leaf: usize, piece: usize) -> CellId {
    let version = Version::new(ObjectId::new("memory://", "t".into()), Stamp::ETag("1".to_owned()));
    CellId { column: ColumnId { version, leaf }, row_group: 0, piece }
}

/// Numbers that look random (SplitMix64).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (bits ^ (bits >> 27)) as usize >> 3
}

#[test]
fn every_policy_names_the_cells_that_its_naive_model_does() {
    for kind in PolicyKind::ALL {
        for seed in 0..60 {
            let (mut policy, mut naive, mut state) = (kind.policy(), Naive::default(), seed);
            for step in 0..600 {
                let asked = cell(next(&mut state) % 4, next(&mut state) % (3 + seed as usize % 9));
                match (next(&mut state) % 16, naive.contains(&asked)) {
                    (0..=3, _) => {
                        let victim = policy.evict(&asked);
                        assert_eq!(victim, naive.evict(kind), "{kind}, seed {seed}, step {step}");
                    }
                    (4, _) => {
                        policy.remove(&asked);
                        naive.remove(&asked);
                    }
                    (5, _) => {
                        let size_bytes = 1 + next(&mut state) as u64 % 100;
                        policy.resize(&asked, size_bytes);
                        naive.resize(&asked, size_bytes);
                    }
                    (_, true) => {
                        policy.touch(&asked);
                        naive.touch(&asked);
                    }
                    (_, false) => {
                        let size_bytes = 1 + next(&mut state) as u64 % 100;
                        policy.admit(&asked, size_bytes);
                        naive.admit(kind, &asked, size_bytes);
                    }
                }
            }
            while let Some(victim) = policy.evict(&cell(9, 9)) {
                assert_eq!(Some(victim), naive.evict(kind), "{kind}, seed {seed}, at the end");
            }
            assert_eq!(naive.evict(kind), None, "{kind}, seed {seed}");
        }
    }
}

#[test]
fn a_replay_counts_what_a_cache_would_have_had() {
    let access = |piece, size_bytes| Access { cell: cell(0, piece), size_bytes };
    // 0 and 1 fit; 2 drives 0 out; 0 comes back and drives 1 out; 9 is too large for the cache.
    let accesses =
        [access(0, 40), access(1, 40), access(1, 40), access(2, 40), access(0, 40), access(2, 40), access(9, 101)];
    let counted = replay(&accesses, &mut Lru::default(), 100);
    assert_eq!(counted, Replayed { accesses: 7, hits: 2, bytes: 341, hit_bytes: 80, evictions: 2 });
    assert!((counted.byte_hit_rate() - 80.0 / 341.0).abs() < 1e-12);
    assert_eq!(Replayed::default().byte_hit_rate(), 0.0);
}

#[test]
fn a_loop_that_is_larger_than_the_room_keeps_its_beginning() {
    let accesses: Vec<Access> =
        (0..50).flat_map(|_| (0..20).map(|piece| Access { cell: cell(0, piece), size_bytes: 10 })).collect();
    let rate = |kind: PolicyKind| replay(&accesses, &mut *kind.policy(), 100).byte_hit_rate();
    assert_eq!((rate(PolicyKind::Lru), rate(PolicyKind::ColumnLru)), (0.0, 0.0));
    // Eight of the ten stay; the other two are those that come and go.
    assert_eq!(rate(PolicyKind::ColumnPrefix), 8.0 * 49.0 / (20.0 * 50.0));
}

#[test]
fn policies_have_names() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert!("arc".parse::<PolicyKind>().unwrap_err().contains("s3-fifo"));
}
