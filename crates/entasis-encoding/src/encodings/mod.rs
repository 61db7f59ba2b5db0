//! The registry of encodings, and the contract that each keeps. Reading order of an encoding's file: its layout, predicted
//! size, encode, open and decode, then the verbs that it answers without decoding.
//!
//! A new encoding is one file, one line of [`REGISTRY`] and one section of `spec/encodings.md`.

pub(crate) mod alp;
pub(crate) mod alp_rd;
pub(crate) mod bitmap;
pub(crate) mod bitpack;
pub(crate) mod constant;
pub(crate) mod delta;
pub(crate) mod dictionary;
pub(crate) mod fsst;
pub(crate) mod large;
pub(crate) mod narrow;
pub(crate) mod nested;
pub(crate) mod node;
pub(crate) mod null;
#[cfg(feature = "pco")]
pub(crate) mod pco;
pub(crate) mod phrases;
pub(crate) mod plain;
pub(crate) mod prefix;
pub(crate) mod ranked;
pub(crate) mod roaring;
pub(crate) mod run;
pub(crate) mod sequence;
pub(crate) mod serial;
pub(crate) mod singles;
pub(crate) mod sparse;
pub(crate) mod strings;
pub(crate) mod validity;
#[cfg(feature = "zstd")]
pub(crate) mod zstd;

use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use node::{Node, Opening};

/// What every encoding provides. Values under nulls never reach an encoding other than `Validity`: it fills them.
pub(crate) trait Encoding: Sync {
    /// The id on the wire; never reused.
    fn id(&self) -> u8;

    /// The name that people see, also the title of its section in `spec/encodings.md`.
    fn name(&self) -> &'static str;

    /// Predicted bytes of [`Encoding::encode`] on the column that the statistics describe; `None` if it can't hold the
    /// column or is hopeless for it.
    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64>;

    /// How much it takes to predict. What takes least is asked first, so that others needn't look closely where they can't win.
    fn effort(&self) -> Effort {
        Effort::Little
    }

    /// True where only the profile `size` proposes it: few bytes, which are slow to decode, by whole grains of 8 vectors.
    fn is_heavy(&self) -> bool {
        false
    }

    /// Lays out the column of the statistics; `None` if this encoding can't hold it.
    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>>;

    /// Parses and checks the node's parameters, without touching the body.
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>>;
}

/// What it takes to predict the bytes of an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Effort {
    /// A look at a sample, or one simple pass.
    Little,
    /// Values are told apart, or tried in several ways.
    Some,
    /// Something is learned from the values, which may spare others that.
    More,
    /// Something is learned from the values.
    Much,
}

impl Effort {
    /// All, the least first.
    pub const ALL: [Self; 4] = [Self::Little, Self::Some, Self::More, Self::Much];
}

/// Every encoding of this version, by ascending id.
pub(crate) static REGISTRY: [&dyn Encoding; 24 + cfg!(feature = "pco") as usize + cfg!(feature = "zstd") as usize] = [
    &plain::Plain,
    &constant::Constant,
    &validity::Validity,
    &bitmap::Bitmap,
    &run::Run,
    &dictionary::Dictionary,
    &bitpack::BitPacking,
    &delta::Delta,
    &alp::Alp,
    &fsst::Fsst,
    &strings::Strings,
    &narrow::Narrow,
    &large::Large,
    &nested::List,
    &nested::FixedList,
    &nested::Struct,
    &null::Null,
    &phrases::Phrases,
    &serial::Serial,
    &sequence::Sequence,
    &roaring::Roaring,
    &sparse::Sparse,
    &alp_rd::AlpRd,
    &prefix::Prefix,
    #[cfg(feature = "pco")]
    &pco::Pco,
    #[cfg(feature = "zstd")]
    &zstd::Zstd,
];

/// Encodings that this version may be built without: their ids, and the features that bring them.
const OPTIONAL: [(u8, &str); 2] = [(25, "pco"), (26, "zstd")];

/// The encoding with this id.
pub(crate) fn by_id(id: u8) -> Option<&'static dyn Encoding> {
    REGISTRY.iter().copied().find(|encoding| encoding.id() == id)
}

/// Why there is no encoding with this id.
pub(crate) fn why_unknown(id: u8) -> String {
    match OPTIONAL.iter().find(|optional| optional.0 == id) {
        Some((_, feature)) => format!("encoding id {id}: this is a build without the feature `{feature}`"),
        None => format!("encoding id {id}: the block was written by a newer version"),
    }
}

/// Whether only the profile `size` proposes the encoding with this id.
pub fn is_for_size_alone(id: u8) -> bool {
    by_id(id).is_some_and(|encoding| encoding.is_heavy())
}

/// Ids and names of all encodings that this version reads and writes, ascending.
pub fn encoding_names() -> Vec<(u8, &'static str)> {
    REGISTRY.iter().map(|encoding| (encoding.id(), encoding.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_new_or_was_left_out() {
        let names = encoding_names();
        for (id, feature) in OPTIONAL {
            assert!(why_unknown(id).ends_with(&format!("this is a build without the feature `{feature}`")));
            assert!(names.iter().all(|&(known, name)| known != id || name.eq_ignore_ascii_case(feature)));
        }
        assert!(why_unknown(200).contains("newer version"));
    }
}
