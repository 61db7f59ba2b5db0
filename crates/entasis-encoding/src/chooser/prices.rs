//! What decoding is held to cost beside bytes: nanoseconds, as `entasis bench prices` measures them, and what one is worth in bits under
//! the profile `balanced`.

use crate::encodings::Encoding;

/// What a nanosecond per value is worth in bits per value: so much that a string by `Fsst` costs about one bit.
const BITS_PER_NANOSECOND: f64 = 0.14;

/// What decoding a value takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price {
    /// The encoding.
    id: u8,
    /// By the node alone, in nanoseconds.
    pub node_ns: f64,
    /// By the node and the children that it usually has, in nanoseconds.
    pub cascade_ns: f64,
}

/// As `entasis bench prices --source --rounds 101` printed it (AVX-512, 2.9 GHz).
/// Encodings that aren't weighed against others have no price.
const PRICES: [Price; 20] = [
    Price { id: 1, node_ns: 0.12, cascade_ns: 0.12 },    // Plain
    Price { id: 2, node_ns: 0.11, cascade_ns: 0.11 },    // Constant
    Price { id: 4, node_ns: 0.01, cascade_ns: 0.01 },    // Bitmap
    Price { id: 5, node_ns: 0.22, cascade_ns: 0.23 },    // Run
    Price { id: 6, node_ns: 0.26, cascade_ns: 0.36 },    // Dictionary
    Price { id: 7, node_ns: 0.10, cascade_ns: 0.10 },    // BitPacking
    Price { id: 8, node_ns: 0.33, cascade_ns: 0.42 },    // Delta
    Price { id: 9, node_ns: 0.24, cascade_ns: 0.34 },    // Alp
    Price { id: 10, node_ns: 3.82, cascade_ns: 4.64 },   // Fsst
    Price { id: 11, node_ns: 1.09, cascade_ns: 1.91 },   // Strings
    Price { id: 12, node_ns: 0.56, cascade_ns: 0.66 },   // Narrow
    Price { id: 18, node_ns: 9.85, cascade_ns: 12.93 },  // Phrases
    Price { id: 19, node_ns: 0.10, cascade_ns: 0.11 },   // Serial
    Price { id: 20, node_ns: 0.20, cascade_ns: 0.20 },   // Sequence
    Price { id: 21, node_ns: 0.09, cascade_ns: 0.09 },   // Roaring
    Price { id: 22, node_ns: 0.73, cascade_ns: 0.82 },   // Sparse
    Price { id: 23, node_ns: 0.32, cascade_ns: 0.51 },   // AlpRd
    Price { id: 24, node_ns: 1.48, cascade_ns: 6.92 },   // Prefix
    Price { id: 25, node_ns: 7.21, cascade_ns: 7.21 },   // Pco
    Price { id: 26, node_ns: 46.34, cascade_ns: 46.67 }, // Zstd
];

/// The price of the encoding with this id, if it has one.
pub(crate) fn price(id: u8) -> Option<&'static Price> {
    PRICES.iter().find(|price| price.id == id)
}

/// Bits that decoding a value costs by this encoding and the children that it usually has: what candidates are compared by.
pub(crate) fn cascade_bits(encoding: &dyn Encoding) -> f64 {
    price(encoding.id()).map_or(0.0, |price| price.cascade_ns * BITS_PER_NANOSECOND)
}

/// Bits that decoding a value costs by a node of this encoding: of a tree, all nodes' are added.
pub(crate) fn node_bits(id: u8) -> f64 {
    price(id).map_or(0.0, |price| price.node_ns * BITS_PER_NANOSECOND)
}
