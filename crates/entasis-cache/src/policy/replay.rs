//! Recorded accesses, replayed against a policy.

use std::collections::HashMap;

use super::Policy;
use crate::CellId;

/// One access to a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The cell that was asked for.
    pub cell: CellId,
    /// Its bytes.
    pub size_bytes: u64,
}

/// What a replay counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Accesses.
    pub accesses: u64,
    /// Accesses to cells that were there.
    pub hits: u64,
    /// Bytes of all accesses.
    pub bytes: u64,
    /// Bytes of the accesses to cells that were there.
    pub hit_bytes: u64,
    /// Cells that had to go.
    pub evictions: u64,
}

impl Replayed {
    /// The share of the accessed bytes that were there; 0 without any.
    pub fn byte_hit_rate(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.hit_bytes as f64 / self.bytes as f64 }
    }
}

/// What a cache of `budget_bytes` that begins empty would have had of these accesses. As in the cache, room is made before a
/// cell comes in, and one that is larger than the budget doesn't.
pub fn replay<'a>(
    accesses: impl IntoIterator<Item = &'a Access>,
    policy: &mut dyn Policy,
    budget_bytes: u64,
) -> Replayed {
    let mut there: HashMap<&CellId, u64> = HashMap::new();
    let mut used_bytes = 0;
    let mut counted = Replayed::default();
    for Access { cell, size_bytes } in accesses {
        counted.accesses += 1;
        counted.bytes += size_bytes;
        if there.contains_key(cell) {
            counted.hits += 1;
            counted.hit_bytes += size_bytes;
            policy.touch(cell);
            continue;
        }
        if *size_bytes > budget_bytes {
            continue;
        }
        while used_bytes + size_bytes > budget_bytes {
            let Some(victim) = policy.evict(cell) else { break };
            used_bytes -= there.remove(&victim).unwrap_or(0);
            counted.evictions += 1;
        }
        if used_bytes + size_bytes <= budget_bytes {
            policy.admit(cell, *size_bytes);
            there.insert(cell, *size_bytes);
            used_bytes += size_bytes;
        }
    }
    counted
}
