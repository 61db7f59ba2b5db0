//! Which cell goes when there is no room: policies behind one small trait.
//!
//! A policy keeps the names and sizes of the cells that may go, and nothing else. It is told of every cell that comes in or is asked for,
//! and names the next one that has to go. `bench policies` compares them on recorded accesses.

mod columns;
mod order;
mod replay;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use columns::{ColumnLru, ColumnPrefix};
pub use order::{Fifo, Lru};
pub use replay::{Access, Replayed, replay};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;

use crate::CellId;

/// Decides which cell goes next. A cell is known to it from [`Policy::admit`] until [`Policy::evict`] names it or [`Policy::remove`]
/// is called. It is called under the cache's lock: nothing of it takes long.
pub trait Policy: Send {
    /// A cell comes in that isn't known. It may have been known before.
    fn admit(&mut self, cell: &CellId, size_bytes: u64);

    /// A cell is asked for. Unknown cells are ignored.
    fn touch(&mut self, cell: &CellId);

    /// A known cell has another size from now on: it was encoded. Unknown cells are ignored.
    fn resize(&mut self, cell: &CellId, size_bytes: u64);

    /// Forgets a cell that is gone for another reason, or must not go. Unknown cells are ignored.
    fn remove(&mut self, cell: &CellId);

    /// Names the cell that goes to make room for `newcomer`, which is about to come in, and forgets it. `None` if `newcomer` had better
    /// stay out, or no cell is known.
    fn evict(&mut self, newcomer: &CellId) -> Option<CellId>;
}

/// The policies that come with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PolicyKind {
    /// The cell that came in first: [`Fifo`].
    Fifo,
    /// The cell that was asked for least recently: [`Lru`].
    Lru,
    /// A cell of the column that was asked for least recently: [`ColumnLru`].
    ColumnLru,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Sieve`].
    Sieve,
    /// [`ColumnPrefix`], which did best on recorded accesses (`bench policies`).
    #[default]
    ColumnPrefix,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 6] =
        [Self::Fifo, Self::Lru, Self::ColumnLru, Self::S3Fifo, Self::Sieve, Self::ColumnPrefix];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::ColumnLru => "column-lru",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
            Self::ColumnPrefix => "column-prefix",
        }
    }

    /// A policy that knows no cell yet.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::Fifo => Box::new(Fifo::default()),
            Self::Lru => Box::new(Lru::default()),
            Self::ColumnLru => Box::new(ColumnLru::default()),
            Self::S3Fifo => Box::new(S3Fifo::default()),
            Self::Sieve => Box::new(Sieve::default()),
            Self::ColumnPrefix => Box::new(ColumnPrefix::default()),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{word:?} is no policy; there are {names}")
        })
    }
}
