//! What decoding costs by each encoding: what is measured for the table in `chooser/prices.rs`.

use std::collections::BTreeMap;

use super::Kernel;
use crate::block::Cascade;
use crate::chooser::prices::{Price, cascade_bits, price};
use crate::encodings::by_id;

/// Encodings that are never weighed against others: what they hold is held by no other.
const NOT_WEIGHED: [&str; 5] = ["Validity", "List", "FixedList", "Struct", "Null"];
/// What nodes take follows from what their children take: after so many rounds it no longer changes.
const ROUNDS: usize = 8;

/// What decoding a value takes by an encoding, measured and as the chooser holds it.
#[derive(Debug)]
pub struct NodePrice {
    /// Name of the encoding.
    pub encoding: &'static str,
    /// Its id.
    pub id: u8,
    /// What its node takes alone, in nanoseconds.
    pub node_ns: f64,
    /// What it takes with the children that it has in the kernels, in nanoseconds.
    pub cascade_ns: f64,
    /// Both as the chooser's source has them, if it does.
    pub recorded_ns: Option<(f64, f64)>,
    /// Bits that the recorded price makes under the profile `balanced`, where candidates are compared.
    pub bits: f64,
}

/// Prices of the encodings that are weighed against others, from the seconds that decoding each kernel took, ascending by id; of several
/// kernels, the quickest counts.
pub fn node_prices(kernels: &[Kernel], seconds: &[f64]) -> Vec<NodePrice> {
    let mut measured: BTreeMap<u8, Vec<(Cascade, f64)>> = BTreeMap::new();
    for (kernel, seconds) in kernels.iter().zip(seconds) {
        let cascade = kernel.block.cascade();
        measured.entry(cascade.id).or_default().push((cascade, seconds * 1e9 / kernel.rows as f64));
    }
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let mut nodes: BTreeMap<u8, f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let own = |(cascade, total_ns): &(Cascade, f64)| (total_ns - beneath_ns(cascade, &nodes)).max(0.0);
        nodes = measured.iter().map(|(&id, kernels)| (id, least(&mut kernels.iter().map(own)))).collect();
    }
    let prices = measured.iter().filter_map(|(&id, kernels)| {
        let encoding = by_id(id)?;
        Some(NodePrice {
            encoding: encoding.name(),
            id,
            node_ns: nodes[&id],
            cascade_ns: least(&mut kernels.iter().map(|kernel| kernel.1)),
            recorded_ns: price(id).map(|&Price { node_ns, cascade_ns, .. }| (node_ns, cascade_ns)),
            bits: cascade_bits(encoding),
        })
    });
    prices.filter(|price| !NOT_WEIGHED.contains(&price.encoding)).collect()
}

/// What the nodes beneath the root take, in nanoseconds for each of its values.
fn beneath_ns(cascade: &Cascade, nodes: &BTreeMap<u8, f64>) -> f64 {
    let of_child = |child: &Cascade| {
        let own_ns = nodes.get(&child.id).copied().unwrap_or(0.0);
        (own_ns + beneath_ns(child, nodes)) * child.rows as f64 / cascade.rows.max(1) as f64
    };
    cascade.children.iter().map(of_child).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::kernels;
    use super::*;

    /// Tests aren't optimised as programs are, some kernels less than others, and machines differ.
    const FACTOR: f64 = 30.0;
    /// Too little to be told from nothing.
    const LITTLE_NS: f64 = 0.2;

    #[test]
    fn prices_are_of_the_order_that_decoding_takes() {
        let kernels = kernels().unwrap();
        let seconds: Vec<f64> = kernels
            .iter()
            .map(|kernel| {
                let mut out = kernel.output();
                let rounds = (0..20).map(|_| {
                    let begin = Instant::now();
                    kernel.decode(&mut out).unwrap();
                    begin.elapsed().as_secs_f64()
                });
                rounds.fold(f64::MAX, f64::min)
            })
            .collect();
        let prices = node_prices(&kernels, &seconds);
        assert!(prices.windows(2).all(|pair| pair[0].id < pair[1].id));
        let ratio_of = |price: &NodePrice| {
            let (node_ns, cascade_ns) = price.recorded_ns.expect("every encoding that is weighed has a price");
            assert!(node_ns <= cascade_ns, "{price:?}");
            (price.cascade_ns + LITTLE_NS) / (cascade_ns + LITTLE_NS)
        };
        let ratios: Vec<f64> = prices.iter().map(ratio_of).collect();
        // By so much this machine, as busy as it is, and this build are slower than those that prices were measured with.
        let mut sorted = ratios.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let slower = sorted[sorted.len() / 2];
        for (price, ratio) in prices.iter().zip(&ratios) {
            assert!((1.0 / FACTOR..=FACTOR).contains(&(ratio / slower)), "{price:?}, all {slower} times as slow");
        }
    }

    #[test]
    fn what_children_take_is_not_the_roots() {
        let leaf =
            |id, rows| Cascade { encoding: "", id, rows, size_bytes: 0, parameters: String::new(), children: vec![] };
        let middle = Cascade { children: vec![leaf(1, 50)], ..leaf(2, 100) };
        let root = Cascade { children: vec![middle, leaf(1, 100)], ..leaf(3, 200) };
        let nodes = BTreeMap::from([(1, 4.0), (2, 3.0)]);
        // (3 + 4 · 50/100) · 100/200 + 4 · 100/200
        assert!((beneath_ns(&root, &nodes) - 4.5).abs() < 1e-12);
    }
}
