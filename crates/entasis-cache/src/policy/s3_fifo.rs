//! S3-FIFO.

use std::collections::HashMap;

use super::{Policy, order::Order};
use crate::CellId;

/// Uses that are counted of a cell.
const MOST_USES: u8 = 3;

/// The share of all bytes that the small queue may take: a tenth.
const SMALL_SHARE: u64 = 10;

/// Three queues (Yang et al., SOSP 2023, algorithm 1): what is new waits in a small one and goes from there unless it is asked for more than once;
/// the main one gives those that were asked for another round; the ghosts of those that went from the small one come back right
/// into the main one. Queues are bounded in bytes, ghosts in as many as the main queue has.
#[derive(Debug, Default)]
pub struct S3Fifo {
    known: HashMap<CellId, Known>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

#[derive(Debug)]
struct Known {
    size_bytes: u64,
    uses: u8,
    is_small: bool,
}

#[derive(Debug, Default)]
struct Queue {
    order: Order,
    size_bytes: u64,
}

/// Cells that have gone, oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    order: Order,
    /// Bytes that each had.
    sizes: HashMap<CellId, u64>,
    size_bytes: u64,
}

impl Ghosts {
    /// Adds a cell, and forgets the oldest until there are `most_bytes` at most.
    fn push(&mut self, cell: &CellId, size_bytes: u64, most_bytes: u64) {
        self.order.push(cell);
        self.sizes.insert(cell.clone(), size_bytes);
        self.size_bytes += size_bytes;
        while self.size_bytes > most_bytes {
            let Some(oldest) = self.order.pop() else { break };
            self.size_bytes -= self.sizes.remove(&oldest).unwrap_or(0);
        }
    }

    /// Whether the cell's ghost was there; it is gone then.
    fn take(&mut self, cell: &CellId) -> bool {
        self.size_bytes -= self.sizes.remove(cell).unwrap_or(0);
        self.order.remove(cell)
    }
}

impl S3Fifo {
    fn queue(&mut self, is_small: bool) -> &mut Queue {
        if is_small { &mut self.small } else { &mut self.main }
    }

    fn put(&mut self, cell: &CellId, known: Known) {
        let queue = self.queue(known.is_small);
        queue.order.push(cell);
        queue.size_bytes += known.size_bytes;
        self.known.insert(cell.clone(), known);
    }

    /// Takes the oldest cell of a queue out.
    fn pop(&mut self, is_small: bool) -> Option<(CellId, Known)> {
        let cell = self.queue(is_small).order.pop()?;
        let known = self.known.remove(&cell)?;
        self.queue(is_small).size_bytes -= known.size_bytes;
        Some((cell, known))
    }
}

impl Policy for S3Fifo {
    fn admit(&mut self, cell: &CellId, size_bytes: u64) {
        let is_small = !self.ghosts.take(cell);
        self.put(cell, Known { size_bytes, uses: 0, is_small });
    }

    fn touch(&mut self, cell: &CellId) {
        if let Some(known) = self.known.get_mut(cell) {
            known.uses = (known.uses + 1).min(MOST_USES);
        }
    }

    fn resize(&mut self, cell: &CellId, size_bytes: u64) {
        let Some(known) = self.known.get_mut(cell) else { return };
        let before = std::mem::replace(&mut known.size_bytes, size_bytes);
        let is_small = known.is_small;
        let queue = self.queue(is_small);
        queue.size_bytes = queue.size_bytes - before + size_bytes;
    }

    fn remove(&mut self, cell: &CellId) {
        if let Some(known) = self.known.remove(cell) {
            let queue = self.queue(known.is_small);
            queue.order.remove(cell);
            queue.size_bytes -= known.size_bytes;
        }
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        loop {
            let total = self.small.size_bytes + self.main.size_bytes;
            let is_over = self.small.size_bytes > total / SMALL_SHARE;
            let from_small = self.main.order.is_empty() || (is_over && !self.small.order.is_empty());
            let (cell, known) = self.pop(from_small)?;
            match (from_small, known.uses) {
                (true, 2..) => self.put(&cell, Known { uses: 0, is_small: false, ..known }),
                (true, _) => {
                    self.ghosts.push(&cell, known.size_bytes, self.main.size_bytes.max(total / SMALL_SHARE));
                    return Some(cell);
                }
                (false, 0) => return Some(cell),
                (false, uses) => self.put(&cell, Known { uses: uses - 1, ..known }),
            }
        }
    }
}
