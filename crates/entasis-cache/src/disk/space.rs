//! Pages of the file of cells: which are free.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a page, the unit in which room is given.
pub(super) const PAGE_BYTES: u64 = 4_096;

/// A cell lies in at most so many runs of pages: free room that is scattered more than that isn't used for it.
pub(super) const MOST_RUNS: usize = 64;

/// Consecutive pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub first: u32,
    pub pages: u32,
}

impl Run {
    /// The page after its last.
    pub fn end(self) -> Option<u32> {
        self.first.checked_add(self.pages)
    }
}

/// The pages of a file that may have so many and no more. Page 0 is the file's own.
#[derive(Debug)]
pub(super) struct Space {
    /// Free runs, none of which touches another: pages by the first.
    by_first: BTreeMap<u32, u32>,
    /// The same: pages, then the first.
    by_pages: BTreeSet<(u32, u32)>,
    taken_pages: u64,
    /// The page after the last that was ever taken: so far the file reaches.
    reach: u32,
}

impl Space {
    /// All pages from 1 to before `end` are free.
    pub fn new(end: u32) -> Self {
        let mut space =
            Self { by_first: BTreeMap::new(), by_pages: BTreeSet::new(), taken_pages: 0, reach: 1.min(end) };
        if end > 1 {
            space.insert(1, end - 1);
        }
        space
    }

    /// Pages that are taken.
    pub fn taken_pages(&self) -> u64 {
        self.taken_pages
    }

    /// The page after the last that was ever taken.
    pub fn reach(&self) -> u32 {
        self.reach
    }

    /// Takes so many pages: the shortest free run that has them, else the longest ones together. `None` if these aren't enough, or too many.
    pub fn allocate(&mut self, pages: u32) -> Option<Vec<Run>> {
        if let Some(&(free, first)) = self.by_pages.range((pages, 0)..).next() {
            self.cut(first, free, pages);
            return Some(vec![Run { first, pages }]);
        }
        let mut lacking = pages;
        let mut chosen = Vec::new();
        for &(free, first) in self.by_pages.iter().rev().take(MOST_RUNS) {
            chosen.push((first, free, free.min(lacking)));
            lacking -= free.min(lacking);
            if lacking == 0 {
                break;
            }
        }
        if lacking > 0 {
            return None;
        }
        chosen.iter().for_each(|&(first, free, taken)| self.cut(first, free, taken));
        Some(chosen.into_iter().map(|(first, _, pages)| Run { first, pages }).collect())
    }

    /// Takes these very runs; false, and nothing is taken, unless all of their pages are free.
    pub fn take(&mut self, runs: &[Run]) -> bool {
        for (count, run) in runs.iter().enumerate() {
            if !self.take_one(*run) {
                self.free(&runs[..count]);
                return false;
            }
        }
        true
    }

    fn take_one(&mut self, run: Run) -> bool {
        let Some((&first, &free)) = self.by_first.range(..=run.first).next_back() else { return false };
        let (free_end, Some(end)) = (first + free, run.end()) else { return false };
        if run.pages == 0 || end > free_end {
            return false;
        }
        self.remove(first, free);
        if first < run.first {
            self.insert(first, run.first - first);
        }
        if end < free_end {
            self.insert(end, free_end - end);
        }
        self.taken_pages += u64::from(run.pages);
        self.reach = self.reach.max(end);
        true
    }

    /// Gives runs back that were taken.
    pub fn free(&mut self, runs: &[Run]) {
        for run in runs {
            self.taken_pages -= u64::from(run.pages);
            let (mut first, mut pages) = (run.first, run.pages);
            if let Some((&before, &length)) = self.by_first.range(..first).next_back()
                && before + length == first
            {
                self.remove(before, length);
                (first, pages) = (before, pages + length);
            }
            if let Some(&length) = self.by_first.get(&(first + pages)) {
                self.remove(first + pages, length);
                pages += length;
            }
            self.insert(first, pages);
        }
    }

    /// Takes the first `pages` of a free run.
    fn cut(&mut self, first: u32, free: u32, pages: u32) {
        self.remove(first, free);
        if pages < free {
            self.insert(first + pages, free - pages);
        }
        self.taken_pages += u64::from(pages);
        self.reach = self.reach.max(first + pages);
    }

    fn insert(&mut self, first: u32, pages: u32) {
        self.by_first.insert(first, pages);
        self.by_pages.insert((pages, first));
    }

    fn remove(&mut self, first: u32, pages: u32) {
        self.by_first.remove(&first);
        self.by_pages.remove(&(pages, first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a space must be, page by page.
    fn check(space: &Space, taken: &[bool]) {
        let mut free = vec![false; taken.len()];
        for (&first, &pages) in &space.by_first {
            assert!(space.by_pages.contains(&(pages, first)));
            for page in first..first + pages {
                assert!(!std::mem::replace(&mut free[page as usize], true), "page {page} is free twice");
            }
            assert!(!space.by_first.contains_key(&(first + pages)), "neighbours are one run");
        }
        assert_eq!(space.by_first.len(), space.by_pages.len());
        assert!(taken.iter().zip(&free).skip(1).all(|(taken, free)| taken != free) && !free[0]);
        assert_eq!(space.taken_pages(), taken.iter().filter(|taken| **taken).count() as u64);
    }

    fn mark(taken: &mut [bool], runs: &[Run], value: bool) {
        for run in runs {
            for page in run.first..run.end().unwrap() {
                assert_ne!(std::mem::replace(&mut taken[page as usize], value), value);
            }
        }
    }

    #[test]
    fn pages_are_given_once_and_come_back() {
        let (mut space, mut taken, mut held) = (Space::new(200), vec![false; 200], Vec::<Vec<Run>>::new());
        let mut random = 1u64;
        let mut refused = 0;
        for _ in 0..3_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) as usize;
            if number % 5 < 3 {
                let pages = (number / 5 % 30 + 1) as u32;
                match space.allocate(pages) {
                    Some(runs) => {
                        assert_eq!(runs.iter().map(|run| run.pages).sum::<u32>(), pages);
                        mark(&mut taken, &runs, true);
                        held.push(runs);
                    }
                    None => {
                        assert!(space.taken_pages() + u64::from(pages) > 199, "there was room");
                        refused += 1;
                    }
                }
            } else if !held.is_empty() {
                let runs = held.swap_remove(number % held.len());
                space.free(&runs);
                mark(&mut taken, &runs, false);
            }
            check(&space, &taken);
        }
        assert!(refused > 50 && held.iter().any(|runs| runs.len() > 1), "{refused} refused");
        // The same places in a space that knows nothing yet.
        let mut again = Space::new(200);
        assert!(held.iter().all(|runs| again.take(runs)));
        check(&again, &taken);
        let overlapping = held[0][0];
        assert!(!again.take(&[Run { first: 199, pages: 2 }]) && !again.take(&[overlapping]));
        check(&again, &taken);
        held.iter().for_each(|runs| again.free(runs));
        assert_eq!((again.taken_pages(), again.by_first.len()), (0, 1));
    }

    #[test]
    fn runs_from_outside_are_refused() {
        let mut space = Space::new(10);
        for (first, pages) in [(0, 1), (0, 5), (9, 2), (10, 1), (u32::MAX, 1), (u32::MAX, u32::MAX), (3, 0)] {
            assert!(!space.take(&[Run { first, pages }]), "{first}, {pages}");
        }
        assert!(!space.take(&[Run { first: 2, pages: 3 }, Run { first: 4, pages: 1 }]), "they overlap");
        assert_eq!((space.taken_pages(), space.by_first.len()), (0, 1));
        assert!(space.take(&[Run { first: 1, pages: 9 }]));
        assert_eq!(Space::new(0).allocate(1), None);
    }
}
