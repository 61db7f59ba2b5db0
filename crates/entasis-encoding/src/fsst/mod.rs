//! FSST: strings as one-byte codes for a table of frequent symbols (Boncz, Neumann, Leis: FSST: Fast Random Access
//! String Compression, VLDB 2020). A symbol has 1 to 8 bytes; code 255 escapes the byte behind it. Every string is
//! encoded by itself, so that each is decoded without its neighbours.
//!
//! [`SymbolTable`] holds the symbols, is stored beside the strings, and decodes; an [`Encoder`] is made from it.

mod encode;
mod encode_many;
mod table;
#[cfg(test)]
mod tests;
mod train;

pub use crate::simd::SymbolError;
pub use encode::Encoder;
pub use table::{SymbolTable, TableError};
