//! The dictionary that the blocks of a chunk share while the chunk is written. It only grows; when it is full, another part
//! begins.

use xxhash_rust::xxh3::xxh3_64;

use super::distinct::{Distinct, Table, hash_lane};
use super::statistics::Statistics;
use crate::block::parts::PrefixDigest;
use crate::values::{Column, LaneAccess, Lanes, Values};
use crate::{BLOCK_ROWS, Fixed, Lane, U256, with_lanes};

/// Codes of one block in a shared part.
pub(crate) struct SharedCodes {
    pub part: usize,
    /// How many of the part's leading values the block needs.
    pub values: usize,
    pub digest: u64,
    pub codes: Vec<u32>,
}

/// The parts of one chunk so far; the last is the one that still grows.
#[derive(Default)]
pub(crate) struct SharedDictionary {
    parts: Vec<GrowingPart>,
}

/// The values of one part, as bytes (lanes by their little-endian bytes), and what finds them again.
#[derive(Default)]
struct GrowingPart {
    fixed: Option<Fixed>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    table: Table,
    digest: PrefixDigest,
}

impl GrowingPart {
    fn value(&self, code: u32) -> &[u8] {
        let start = if code == 0 { 0 } else { self.ends[code as usize - 1] };
        &self.bytes[start..self.ends[code as usize]]
    }

    fn find(&self, hash: u64, value: &[u8]) -> Option<u32> {
        self.table.find(hash, |code| self.value(code) == value)
    }

    /// How many of these values of a column it lacks.
    fn lacks(&self, column: &Column<'_>, distinct: &Distinct) -> usize {
        let mut lacking = 0;
        visit_values(column, &distinct.first_rows, &mut |hash, value| {
            lacking += usize::from(self.find(hash, value).is_none());
        });
        lacking
    }

    fn add(&mut self, hash: u64, value: &[u8]) -> u32 {
        match self.fixed {
            Some(_) => self.digest.lane_bytes(value),
            None => self.digest.string(value),
        }
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.table.find_or_insert(hash, |_| false)
    }
}

/// Calls `visit` with hash and bytes of each of these rows.
fn visit_values(column: &Column<'_>, rows: &[u32], visit: &mut dyn FnMut(u64, &[u8])) {
    match &column.values {
        Values::Fixed(_, lanes) => with_lanes!(lanes, lanes => {
            let mut raw = Vec::new();
            for &row in rows {
                raw.clear();
                lanes[row as usize].write(&mut raw);
                visit(hash_lane(&lanes[row as usize]), &raw);
            }
        }),
        Values::Bytes(strings) => rows.iter().for_each(|&row| {
            let string = strings[row as usize];
            visit(xxh3_64(string), string);
        }),
        _ => {}
    }
}

impl SharedDictionary {
    /// True once a block has used it.
    pub fn has_values(&self) -> bool {
        !self.parts.is_empty()
    }

    /// How many distinct values of the column the growing part lacks; `None` if it doesn't qualify for a dictionary.
    pub fn fresh_values(&self, statistics: &Statistics<'_>) -> Option<usize> {
        let distinct = statistics.distinct_values()?;
        let Some(part) = self.parts.last() else { return Some(distinct.first_rows.len()) };
        let fresh = part.lacks(statistics.column, distinct);
        Some(if part.ends.len() + fresh > BLOCK_ROWS { distinct.first_rows.len() } else { fresh })
    }

    /// Codes for every row of the column; `None` if it doesn't qualify for a dictionary.
    pub fn codes(&mut self, statistics: &Statistics<'_>) -> Option<SharedCodes> {
        let distinct = statistics.distinct_values()?;
        let column = statistics.column;
        let fixed = match &column.values {
            Values::Fixed(fixed, _) => Some(*fixed),
            _ => None,
        };
        let fits = self.parts.last().is_some_and(|part| {
            let known = part.ends.len();
            known + distinct.first_rows.len() <= BLOCK_ROWS || known + part.lacks(column, distinct) <= BLOCK_ROWS
        });
        if !fits {
            self.parts.push(GrowingPart { fixed, ..GrowingPart::default() });
        }
        let number = self.parts.len() - 1;
        let part = &mut self.parts[number];
        let mut translation = Vec::with_capacity(distinct.first_rows.len());
        visit_values(column, &distinct.first_rows, &mut |hash, value| {
            let code = part.find(hash, value).unwrap_or_else(|| part.add(hash, value));
            translation.push(code);
        });
        let codes: Vec<u32> = distinct.codes.iter().map(|&code| translation[code as usize]).collect();
        Some(SharedCodes { part: number, values: part.ends.len(), digest: part.digest.value(), codes })
    }

    /// Calls `visit` with the values of each part, in order.
    pub fn visit_parts<E>(&self, visit: &mut dyn FnMut(&Column<'_>) -> Result<(), E>) -> Result<(), E> {
        for part in &self.parts {
            let rows = part.ends.len();
            match part.fixed {
                None => {
                    let strings: Vec<&[u8]> = (0..rows as u32).map(|code| part.value(code)).collect();
                    visit(&Column { rows, validity: None, values: Values::Bytes(&strings) })?;
                }
                Some(fixed) => {
                    let lanes = OwnedLanes::read(fixed, &part.bytes);
                    visit(&Column { rows, validity: None, values: Values::Fixed(fixed, lanes.lend()) })?;
                }
            }
        }
        Ok(())
    }
}

/// Lanes read from bytes.
enum OwnedLanes {
    L8(Vec<u8>),
    L16(Vec<u16>),
    L32(Vec<u32>),
    L64(Vec<u64>),
    L128(Vec<u128>),
    L256(Vec<U256>),
}

impl OwnedLanes {
    fn read(fixed: Fixed, bytes: &[u8]) -> Self {
        fn lanes<T: Lane>(bytes: &[u8]) -> Vec<T> {
            bytes.chunks_exact(T::BYTES).map(T::read).collect()
        }
        match fixed.size_bytes() {
            1 => Self::L8(lanes(bytes)),
            2 => Self::L16(lanes(bytes)),
            4 => Self::L32(lanes(bytes)),
            8 => Self::L64(lanes(bytes)),
            16 => Self::L128(lanes(bytes)),
            _ => Self::L256(lanes(bytes)),
        }
    }

    fn lend(&self) -> Lanes<'_> {
        match self {
            Self::L8(lanes) => LaneAccess::lanes(lanes),
            Self::L16(lanes) => LaneAccess::lanes(lanes),
            Self::L32(lanes) => LaneAccess::lanes(lanes),
            Self::L64(lanes) => LaneAccess::lanes(lanes),
            Self::L128(lanes) => LaneAccess::lanes(lanes),
            Self::L256(lanes) => LaneAccess::lanes(lanes),
        }
    }
}
