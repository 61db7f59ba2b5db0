//! What a column's record tells of its values: no block is read for it.

use arrow_schema::DataType;
use entasis::zone::{Zone, ZoneValue};
use entasis::{BlockRef, Chunk, ColumnRecord};

use crate::zone::{self, Range};

/// A column of a file, over all row groups.
#[derive(Clone, Debug)]
pub struct ColumnStats {
    /// Names of structs and of the column, joined by dots.
    pub path: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Rows of its blocks.
    pub rows: u64,
    /// Bytes of its blocks and shared parts, without the columns below it.
    pub size_bytes: u64,
    /// Its blocks.
    pub blocks: usize,
    /// What its blocks share.
    pub shared_parts: usize,
    /// Bytes of its Bloom filters, which aren't among the others.
    pub bloom_bytes: u64,
    /// Rows that are null.
    pub null_count: u64,
    /// Rows that are NaN.
    pub nan_count: u64,
    /// Least and greatest value.
    pub range: Range,
    /// How many distinct values there are, nulls aside.
    pub distinct: Option<Distinct>,
}

/// Bounds on the number of distinct values, from estimates of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distinct {
    /// Hardly fewer.
    pub least: u64,
    /// Hardly more.
    pub most: u64,
}

impl ColumnStats {
    /// Adds up what the record tells.
    pub fn of(path: &str, record: &ColumnRecord) -> Self {
        let blocks = || record.chunks.iter().flat_map(|chunk| &chunk.blocks);
        let parts = || record.chunks.iter().flat_map(|chunk| &chunk.parts);
        let part_bytes: u64 = parts().map(|part| part.size_bytes).sum();
        ColumnStats {
            path: path.to_owned(),
            data_type: record.field.data_type().clone(),
            rows: blocks().map(|block| u64::from(block.rows)).sum(),
            size_bytes: part_bytes + blocks().map(|block| block.size_bytes).sum::<u64>(),
            blocks: blocks().count(),
            shared_parts: parts().count(),
            bloom_bytes: record.chunks.iter().map(Chunk::bloom_bytes).sum(),
            null_count: blocks().map(|block| block.zone.null_count).sum(),
            nan_count: blocks().map(|block| block.zone.nan_count).sum(),
            range: zone::range(record),
            distinct: Distinct::of(blocks()),
        }
    }
}

impl Distinct {
    /// Of several blocks. `None` if there are none, or none of them has an estimate.
    ///
    /// Blocks whose ranges don't meet have no value in common: their numbers add up. Else the most varied block is the lower bound,
    /// and the sum the upper one, where no type and range has fewer values.
    fn of<'a>(blocks: impl Iterator<Item = &'a BlockRef> + Clone) -> Option<Self> {
        let count = blocks.clone().count();
        let with_values = blocks.filter(|block| zone::has_values(block));
        if with_values.clone().all(|block| block.zone.distinct.is_none()) {
            // A column of nothing but nulls is known to have none.
            let are_null = count > 0 && with_values.clone().next().is_none();
            return are_null.then_some(Distinct { least: 0, most: 0 });
        }
        let single = |block: &BlockRef| {
            let values = u64::from(block.rows) - block.zone.null_count;
            let known = block.zone.distinct.map(|distinct| distinct.min(values));
            let most = span(&block.zone).map_or(values, |span| span.min(values));
            known.map_or(Distinct { least: 1, most }, |known| Distinct { least: known, most: known })
        };
        let mut all: Vec<(&Zone, Distinct)> = with_values.map(|block| (&block.zone, single(block))).collect();
        let sum = |of: fn(&Distinct) -> u64| all.iter().map(|(_, distinct)| of(distinct)).sum::<u64>();
        let most = sum(|distinct| distinct.most);
        let (sum, greatest) = (sum(|distinct| distinct.least), all.iter().map(|(_, distinct)| distinct.least).max()?);
        let least = if are_apart(&mut all) { sum } else { greatest };
        Some(Distinct { least, most: whole_span(&all).map_or(most, |span| most.min(span)).max(least) })
    }
}

/// How many integers, or booleans, lie between the bounds of a zone.
fn span(zone: &Zone) -> Option<u64> {
    between(zone.min()?, zone.max()?)
}

fn between(min: &ZoneValue, max: &ZoneValue) -> Option<u64> {
    match (min, max) {
        (ZoneValue::Int(min), ZoneValue::Int(max)) => u64::try_from(max.checked_sub(*min)?).ok()?.checked_add(1),
        (ZoneValue::UInt(min), ZoneValue::UInt(max)) => max.checked_sub(*min)?.checked_add(1),
        (ZoneValue::Bool(min), ZoneValue::Bool(max)) => Some(u64::from(min != max) + 1),
        _ => None,
    }
}

fn whole_span(all: &[(&Zone, Distinct)]) -> Option<u64> {
    let spans = all.iter().map(|(zone, _)| Some((zone.min()?, zone.max()?))).collect::<Option<Vec<_>>>()?;
    let less = |one, two| if two < one { two } else { one };
    let greater = |one, two| if two > one { two } else { one };
    let min = spans.iter().map(|(min, _)| *min).reduce(less)?;
    between(min, spans.iter().map(|(_, max)| *max).reduce(greater)?)
}

/// Whether no two ranges meet.
fn are_apart(all: &mut [(&Zone, Distinct)]) -> bool {
    if all.iter().any(|(zone, _)| zone.min.is_none() || zone.max.is_none()) {
        return all.len() == 1;
    }
    all.sort_by(|(one, _), (two, _)| one.min().partial_cmp(&two.min()).unwrap_or(std::cmp::Ordering::Equal));
    all.windows(2).all(|pair| pair[0].0.max() < pair[1].0.min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use entasis::zone::Bound;

    fn block(min: i128, max: i128, distinct: Option<u64>) -> BlockRef {
        let bound = |value| Some(Bound { value: ZoneValue::Int(value), is_exact: true });
        let zone = Zone { min: bound(min), max: bound(max), distinct, ..Zone::default() };
        BlockRef { offset: 0, size_bytes: 8, rows: 1000, zone }
    }

    #[test]
    fn distinct_values_are_bounded_by_blocks_and_by_their_ranges() {
        let bounds = |blocks: &[BlockRef]| Distinct::of(blocks.iter()).map(|distinct| (distinct.least, distinct.most));
        let nulls = BlockRef { zone: Zone { null_count: 1000, ..Zone::default() }, ..block(0, 0, None) };
        assert_eq!(bounds(&[]), None);
        assert_eq!(bounds(std::slice::from_ref(&nulls)), Some((0, 0)));
        assert_eq!(bounds(&[block(0, 9, None)]), None);
        assert_eq!(bounds(&[block(0, 999, Some(7)), nulls]), Some((7, 7)));
        assert_eq!(bounds(&[block(0, 999, Some(7)), block(1000, 1999, Some(5))]), Some((12, 12)));
        assert_eq!(bounds(&[block(1000, 1999, Some(7)), block(0, 1000, Some(5))]), Some((7, 12)));
        assert_eq!(bounds(&[block(0, 9, Some(9)), block(0, 9, Some(8))]), Some((9, 10)));
        assert_eq!(bounds(&[block(0, 9, Some(9)), block(0, 50_000, None)]), Some((9, 1009)));
    }
}
