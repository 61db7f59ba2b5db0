//! What the chooser saw and took, for people; and a search through all that it could have taken, to hold its choices against
//! (BtrBlocks §6.3).

use super::prices::node_bits;
use super::{EncodeOptions, Encoder, HEAVY_MARGIN, Statistics};
use crate::block::head::EncodedNode;
use crate::chooser::chunk::{decoded_size_bytes, finished};
use crate::encodings::{REGISTRY, by_id};
use crate::error::Result;
use crate::values::Column;
use crate::{Block, Limits, Parts, Physical};

/// One decision of the chooser.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The encodings above, the root's first: none at the root. Those that nobody chose are among them: `Validity`, where there are nulls,
    /// whose first child is which rows are null, and what a parent asks for.
    pub above: Vec<&'static str>,
    /// Type of the values.
    pub physical: Physical,
    /// How many they are.
    pub rows: usize,
    /// Every encoding, what was chosen first, then by bytes and price.
    pub candidates: Vec<Candidate>,
}

/// What an encoding promised, and what it takes.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name.
    pub encoding: &'static str,
    /// Bytes that it promised; `None` where it was excluded.
    pub predicted_bytes: Option<f64>,
    /// What decoding its node alone is held to cost under the profile, in bytes.
    pub price_bytes: f64,
    /// Bytes that it takes, children as the chooser encodes them; `None` where it can't hold the values.
    pub real_bytes: Option<usize>,
    /// Whether the profile and what else was asked for let it be chosen.
    pub is_proposed: bool,
    /// Whether it was chosen.
    pub is_chosen: bool,
}

/// What the chooser took for a column, and the best that there is.
#[derive(Debug, Clone)]
pub struct Searched {
    /// The chosen cascade.
    pub chosen: String,
    /// Its bytes and price under the profile.
    pub chosen_bytes: f64,
    /// The best cascade.
    pub best: String,
    /// Its bytes and price under the profile.
    pub best_bytes: f64,
}

/// Encodes a column, of at most a block, and tells of every decision, parents first.
///
/// # Errors
/// As encoding.
pub fn explain(column: &Column<'_>, options: &EncodeOptions) -> Result<Vec<Choice>> {
    let trace = Trace::default();
    Encoder { trace: Some(&trace), ..Encoder::new(options, None, None) }.root(column)?;
    Ok(trace.into_choices())
}

/// Encodes a column, of at most a block, as the chooser does, and with every cascade that there is.
///
/// # Errors
/// As encoding.
pub fn search(column: &Column<'_>, options: &EncodeOptions) -> Result<Searched> {
    let chosen = Encoder::new(options, None, None).root(column)?;
    let best = Encoder { exhaustive: true, ..Encoder::new(options, None, None) }.root(column)?;
    let words = |node: &EncodedNode| -> Result<String> {
        let physical = column.values.physical();
        let bytes = finished(node, &physical, decoded_size_bytes(column, false), false).bytes;
        Ok(Block::open(bytes.into(), &Parts::new(), None, &Limits::default())?.cascade().words())
    };
    let bytes = |node: &EncodedNode| node.priced_bytes(options);
    let (chosen_bytes, best_bytes) = (bytes(&chosen), bytes(&best));
    // What the search leaves out, the chooser may have found.
    let best = if chosen_bytes < best_bytes { &chosen } else { &best };
    Ok(Searched { chosen: words(&chosen)?, chosen_bytes, best: words(best)?, best_bytes: bytes(best) })
}

impl EncodedNode {
    /// Bytes of the tree, and what decoding it is held to cost.
    pub(super) fn priced_bytes(&self, options: &EncodeOptions) -> f64 {
        let (mut price_bits, mut margin_bytes) = (0.0, 0.0);
        self.visit(&mut |node| {
            let Some(encoding) = by_id(node.encoding) else { return };
            price_bits += node_bits(node.encoding) * node.rows as f64;
            if encoding.is_heavy() {
                margin_bytes += node.buffers.iter().map(Vec::len).sum::<usize>() as f64 * HEAVY_MARGIN;
            }
        });
        self.size_bytes() as f64 + margin_bytes + price_bits * options.profile.price_factor() / 8.0
    }
}

/// The decisions of one block so far.
#[derive(Default)]
pub(super) struct Trace {
    choices: std::cell::RefCell<Vec<Choice>>,
    above: std::cell::RefCell<Vec<&'static str>>,
}

impl Trace {
    /// Notes a decision, before the children are encoded.
    pub fn note(&self, encoder: &Encoder<'_>, statistics: &Statistics<'_>, chosen: u8) {
        let candidates = REGISTRY.iter().map(|encoding| {
            let real = encoder.beside().required(*encoding, statistics);
            let is_proposed = encoder.options.allows(*encoding);
            let predicted_bytes = if is_proposed { encoding.predicted_bytes(statistics, encoder) } else { None };
            Candidate {
                encoding: encoding.name(),
                predicted_bytes,
                price_bytes: encoder.price_bytes(*encoding, statistics.rows, predicted_bytes.unwrap_or(0.0)),
                is_proposed,
                real_bytes: real.ok().map(|node| node.size_bytes()),
                is_chosen: encoding.id() == chosen,
            }
        });
        let mut candidates: Vec<Candidate> = candidates.collect();
        let place = |candidate: &Candidate| {
            let bytes = candidate.predicted_bytes.or(candidate.real_bytes.map(|bytes| bytes as f64));
            let excluded = candidate.predicted_bytes.is_none();
            (!candidate.is_chosen, excluded, bytes.map_or(f64::MAX, |bytes| bytes + candidate.price_bytes))
        };
        candidates.sort_by(|left, right| {
            let (left, right) = (place(left), place(right));
            (left.0, left.1).cmp(&(right.0, right.1)).then(left.2.total_cmp(&right.2))
        });
        self.choices.borrow_mut().push(Choice {
            above: self.above.borrow().clone(),
            physical: statistics.column.values.physical(),
            rows: statistics.rows,
            candidates,
        });
    }

    /// Until [`Self::leave`], decisions are those of this encoding's children.
    pub fn enter(&self, encoding: &'static str) {
        self.above.borrow_mut().push(encoding);
    }

    pub fn leave(&self) {
        self.above.borrow_mut().pop();
    }

    fn into_choices(self) -> Vec<Choice> {
        self.choices.into_inner()
    }
}

impl Encoder<'_> {
    /// The best of all encodings, each tried with the best of all children.
    pub(super) fn search(&self, statistics: &Statistics<'_>) -> Option<EncodedNode> {
        let allowed = REGISTRY.into_iter().filter(|encoding| self.options.allows(*encoding));
        // What stands on children can't stand at the bottom, even where its encode would make do.
        let possible =
            allowed.filter(|encoding| self.may_cascade() || encoding.predicted_bytes(statistics, self).is_some());
        let nodes = possible.filter_map(|encoding| {
            let mut beside = self.beside();
            beside.exhaustive = true;
            beside.required(encoding, statistics).ok()
        });
        let priced_bytes = |node: &EncodedNode| {
            node.priced_bytes(self.options) + self.unlent_price_bytes(node.encoding, statistics.rows)
        };
        nodes.min_by(|left, right| priced_bytes(left).total_cmp(&priced_bytes(right)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, Random, Shape};
    use crate::{ChunkEncoder, Fixed, Profile};

    const SHAPES: [Shape; 8] = [
        Shape::Constant,
        Shape::Runs,
        Shape::Few,
        Shape::Sorted,
        Shape::NearSorted,
        Shape::Outliers,
        Shape::Decimals,
        Shape::Scattered,
    ];

    fn physicals() -> [Physical; 4] {
        [Physical::Fixed(Fixed::I64), Physical::Fixed(Fixed::F64), Physical::Bytes, Physical::Bool]
    }

    #[test]
    fn choices_are_near_the_best_of_all_cascades() {
        let mut random = Random::new(51);
        let (mut chosen, mut best) = (0.0, 0.0);
        for physical in physicals() {
            for shape in SHAPES {
                let owned = Owned::generate(&physical, shape, 3000, shape == Shape::Few, &mut random);
                let searched = search(&owned.column(), &EncodeOptions::default()).unwrap();
                assert!(searched.best_bytes <= searched.chosen_bytes, "{searched:?}");
                assert!(
                    searched.chosen_bytes <= searched.best_bytes * 5.0 + 120.0,
                    "{physical} {shape:?}: {searched:?}"
                );
                chosen += searched.chosen_bytes;
                best += searched.best_bytes;
            }
        }
        assert!(chosen <= best * 1.15, "{chosen} bytes chosen, {best} possible");
    }

    #[test]
    fn explanations_are_what_is_done() {
        let mut random = Random::new(52);
        for physical in physicals() {
            for shape in SHAPES {
                let owned = Owned::generate(&physical, shape, 5000, false, &mut random);
                let column = owned.column();
                let choices = explain(&column, &EncodeOptions::default()).unwrap();
                let root = Encoder::new(&EncodeOptions::default(), None, None).root(&column).unwrap();
                let mut names = Vec::new();
                root.visit(&mut |node| names.extend(by_id(node.encoding).map(|encoding| encoding.name())));
                let mut told: Vec<&str> = choices.iter().map(|choice| choice.candidates[0].encoding).collect();
                assert_eq!((names[0], &choices[0].above[..]), (told[0], &[][..]), "{physical} {shape:?}");
                assert_eq!(choices[0].candidates[0].real_bytes, Some(root.size_bytes()));
                assert!(choices.iter().all(|choice| choice.candidates.len() == REGISTRY.len()));
                let chosen = choices.iter().map(|choice| choice.candidates.iter().filter(|c| c.is_chosen).count());
                assert!(chosen.into_iter().all(|count| count == 1));
                names.sort_unstable();
                told.sort_unstable();
                assert!(told.iter().all(|name| names.contains(name)), "{told:?} of {names:?}");
            }
        }
    }

    #[test]
    fn profiles_trade_bytes_for_speed() {
        let mut random = Random::new(53);
        let (mut bytes, mut prices) = ([0; 3], [0.0; 3]);
        for physical in physicals() {
            for shape in SHAPES {
                let owned = Owned::generate(&physical, shape, 9000, false, &mut random);
                for (index, profile) in Profile::ALL.into_iter().enumerate() {
                    let node = Encoder::new(&EncodeOptions::of(profile), None, None).root(&owned.column()).unwrap();
                    bytes[index] += node.size_bytes();
                    // Priced alike, so that they can be compared.
                    prices[index] += node.priced_bytes(&EncodeOptions::default()) - node.size_bytes() as f64;
                }
            }
        }
        // Predictions err a little.
        assert!(bytes[0] * 99 <= bytes[1] * 100 && bytes[1] < bytes[2], "{bytes:?}");
        assert!(prices[0] >= prices[1] && prices[1] > prices[2], "{prices:?}");
    }

    #[test]
    fn hints_hold_while_the_column_stays_as_it_is() {
        let mut random = Random::new(54);
        let physical = Physical::Fixed(Fixed::F64);
        let shapes = [Shape::Decimals, Shape::Decimals, Shape::Decimals, Shape::Scattered, Shape::Few, Shape::Few];
        let columns = shapes.map(|shape| Owned::generate(&physical, shape, 4000, false, &mut random));
        let encode = |follow_hints| {
            let options = EncodeOptions { follow_hints, ..EncodeOptions::default() };
            let mut chunk = ChunkEncoder::new(physical.clone(), options);
            let encode = |owned: &Owned| chunk.encode(&owned.column(), true, &mut |_| Ok(0)).unwrap();
            columns.iter().map(encode).collect::<Vec<_>>()
        };
        let (hinted, fresh) = (encode(true), encode(false));
        for (number, (hinted, fresh)) in hinted.iter().zip(&fresh).enumerate() {
            assert_eq!(hinted.encodings, fresh.encodings, "block {number}");
            assert!(hinted.bytes.len() * 20 <= fresh.bytes.len() * 21, "block {number}");
        }
    }

    #[test]
    fn a_hint_that_is_obeyed_gives_the_same_block() {
        let mut random = Random::new(56);
        for physical in physicals() {
            for shape in SHAPES {
                let owned = Owned::generate(&physical, shape, 4000, true, &mut random);
                let new = || ChunkEncoder::new(physical.clone(), EncodeOptions::default());
                let mut chunk = new();
                assert!(chunk.hint().is_none());
                let chosen = chunk.encode(&owned.column(), true, &mut |_| Ok(0)).unwrap();
                let hint = chunk.hint().unwrap();
                let again = new().encode_as(hint, &owned.column(), true, &mut |_| Ok(0)).unwrap();
                assert_eq!(again.bytes, chosen.bytes, "{physical} {shape:?}");
            }
        }
    }

    #[test]
    fn what_nobody_chose_is_named_above_what_is_beneath() {
        let mut random = Random::new(57);
        let owned = Owned::generate(&Physical::Fixed(Fixed::I64), Shape::Few, 3000, true, &mut random);
        let choices = explain(&owned.column(), &EncodeOptions::default()).unwrap();
        assert!(choices.iter().all(|choice| choice.above.first() == Some(&"Validity")));
        assert_eq!((choices[0].above.len(), choices[0].physical.to_string()), (1, Physical::Bool.to_string()));
    }

    #[test]
    fn an_encoding_that_is_asked_for_is_used_or_refused() {
        let mut random = Random::new(55);
        let owned = Owned::generate(&Physical::Fixed(Fixed::I64), Shape::Narrow, 2000, true, &mut random);
        let encode = |id, owned: &Owned| {
            let options = EncodeOptions { required: Some(id), ..EncodeOptions::default() };
            let mut chunk = ChunkEncoder::new(Physical::Fixed(Fixed::I64), options);
            chunk.encode(&owned.column(), true, &mut |_| Ok(0))
        };
        for (id, name) in [(1, "Plain"), (5, "Run"), (6, "Dictionary")] {
            assert_eq!(by_id(id).unwrap().name(), name);
            assert!(encode(id, &owned).unwrap().encodings.contains(&id), "{name}");
        }
        let refused = encode(2, &owned).unwrap_err().to_string();
        assert!(refused.contains("Constant can't hold"), "{refused}");
        let none = Owned::generate(&Physical::Fixed(Fixed::I64), Shape::AllNull, 200, true, &mut random);
        assert!(encode(6, &none).is_ok());
    }
}
