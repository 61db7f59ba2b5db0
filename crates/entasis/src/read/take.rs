//! Reading single rows.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::Schema;
use arrow_select::take::take;

use super::{
    Projection, Reader,
    column::{BlockPlace, Opener, ReadColumns, empty, extend_not_null, split_of},
    open::{ColumnNeeds, Lacking},
};
use crate::{
    arrow::{Split, Strings, is_taken_by_arrow},
    error::{Error, Result},
    metadata::record::BlockRef,
    source::Source,
};

impl Reader {
    /// The rows of these numbers, in their order; a number may come several times. A number past the last row is
    /// [`Error::InvalidArgument`].
    ///
    /// Of blocks that are large for the rows asked for, only the head and those checksum runs are read that hold the
    /// rows; see [`Source::request_bytes`]. What was read stays for further calls, up to
    /// [`ReadLimits::open_block_bytes`](super::ReadLimits).
    pub fn take(&self, rows: &[u64], projection: &Projection, strings: Strings) -> Result<RecordBatch> {
        self.take_from(self.inner.source.clone(), rows, projection, strings)
    }

    /// As [`Self::take`], with blocks from another source of the same file.
    pub(crate) fn take_from(
        &self,
        source: Arc<dyn Source>,
        rows: &[u64],
        projection: &Projection,
        strings: Strings,
    ) -> Result<RecordBatch> {
        if let Some(row) = rows.iter().find(|&&row| row >= self.rows()) {
            return Err(Error::InvalidArgument(format!("row {row} of {}", self.rows())));
        }
        let columns = ReadColumns::new(self, projection.selected(), strings)?;
        let order = (!rows.is_sorted()).then(|| Order::of(rows));
        let groups = self.by_row_group(order.as_ref().map_or(rows, |order| &order.sorted))?;
        let opener = Opener::new(self, source);
        let needs = self.open_for(&opener, &columns.columns, &groups)?;
        let parts = self.get_all(&opener, &needs, order.as_ref())?;
        let arrays = columns.assemble(parts, self.name())?;
        let fields: Vec<_> = columns.trees.iter().map(|tree| tree.field.clone()).collect();
        let schema = Schema::new_with_metadata(fields, self.file_record()?.schema_metadata.clone());
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
            .map_err(|error| Error::corrupt(self.name(), "rows", 0, error.to_string()))
    }

    /// Cuts ascending rows of the file into ascending rows of row groups.
    fn by_row_group(&self, rows: &[u64]) -> Result<Vec<GroupRows>> {
        let mut groups = Vec::new();
        let (mut first, mut rest) = (0, rows);
        for (row_group, &group_rows) in self.row_group_rows()?.iter().enumerate() {
            let end = first + group_rows;
            let (here, after) = rest.split_at(rest.partition_point(|&row| row < end));
            if !here.is_empty() {
                let rows = here.iter().map(|row| row - first).collect();
                groups.push(GroupRows { row_group, group_rows, rows });
            }
            (first, rest) = (end, after);
        }
        Ok(groups)
    }

    /// The rows of all columns, in the order given. What blocks lack is read in rounds, that of all blocks together.
    fn get_all(&self, opener: &Opener, needs: &[ColumnNeeds<'_>], order: Option<&Order>) -> Result<Vec<Split>> {
        let mut splits: Vec<Option<Split>> = needs.iter().map(|_| None).collect();
        loop {
            let mut lacking = Lacking::default();
            for (split, needs) in splits.iter_mut().zip(needs).filter(|(split, _)| split.is_none()) {
                *split = get(opener, needs, order, &mut lacking)?;
            }
            if lacking.is_empty() {
                return Ok(splits.into_iter().flatten().collect());
            }
            self.supply(opener, lacking)?;
        }
    }
}

/// The rows of one column, ascending unless there is an order; `None` if its blocks lack bytes, which are then noted.
fn get<'a>(
    opener: &Opener,
    needs: &'a ColumnNeeds<'_>,
    order: Option<&Order>,
    lacking: &mut Lacking<'a>,
) -> Result<Option<Split>> {
    let column = needs.column;
    let mut decoded = empty(column)?;
    for chunk in &needs.chunks {
        if chunk.blocks.is_empty() {
            extend_not_null(&mut decoded, chunk.row_count);
        }
        for needed in &chunk.blocks {
            match needed.block().get(&needed.rows, &mut decoded) {
                Ok(()) => {}
                Err(entasis_encoding::Error::Missing(ranges)) => {
                    lacking.note(column, needed, ranges);
                    let mut all = needs.chunks.iter().flat_map(|chunk| &chunk.blocks);
                    all.try_for_each(|needed| lacking.note_rows(opener, column, needed))?;
                    return Ok(None);
                }
                Err(error) => return Err(needed.error(opener, column, error)),
            }
        }
    }
    let split = |decoded| split_of(column, decoded, opener.source.name());
    Ok(Some(match order {
        None => split(decoded)?,
        // Arrow's is the faster way.
        Some(order) if is_taken_by_arrow(&column.data_type) => reorder(split(decoded)?, &order.places)?,
        Some(order) => {
            let mut reordered = decoded.empty_like();
            reordered.extend_picked(&decoded, order.places.values().iter().map(|&place| place as usize))?;
            split(reordered)?
        }
    }))
}

/// Rows of a row group, ascending.
pub(super) struct GroupRows {
    pub row_group: usize,
    pub group_rows: u64,
    pub rows: Vec<u64>,
}

impl GroupRows {
    /// The blocks that hold rows, each with those rows, counted from the block's first.
    pub fn by_block<'a, 'b>(
        &'a self,
        blocks: &'b [BlockRef],
    ) -> impl Iterator<Item = (BlockPlace, &'b BlockRef, Vec<u32>)> + use<'a, 'b> {
        let (mut first, mut rest) = (0, &self.rows[..]);
        blocks.iter().enumerate().filter_map(move |(number, block)| {
            let end = first + u64::from(block.rows);
            let (here, after) = rest.split_at(rest.partition_point(|&row| row < end));
            let rows: Vec<u32> = here.iter().map(|row| (row - first) as u32).collect();
            (first, rest) = (end, after);
            let place = BlockPlace { row_group: self.row_group, block: number };
            (!rows.is_empty()).then_some((place, block, rows))
        })
    }
}

/// The rows of a column in another order.
fn reorder(split: Split, order: &UInt64Array) -> Result<Split> {
    Ok(match split {
        Split::Leaf(array) => Split::Leaf(take(&array, order, None)?),
        Split::Struct(rows, nulls) => {
            let in_order = |nulls: NullBuffer| order.values().iter().map(|&row| nulls.is_valid(row as usize)).collect();
            Split::Struct(rows, nulls.map(in_order))
        }
    })
}

/// Rows in ascending order, and the way back to the order that they had.
struct Order {
    sorted: Vec<u64>,
    /// Where each row of the call is among the sorted ones.
    places: UInt64Array,
}

impl Order {
    fn of(rows: &[u64]) -> Self {
        let mut by_row: Vec<(u64, usize)> = rows.iter().copied().zip(0..).collect();
        by_row.sort_unstable();
        let mut places = vec![0; rows.len()];
        by_row.iter().zip(0..).for_each(|(&(_, index), place)| places[index] = place);
        Self { sorted: by_row.into_iter().map(|(row, _)| row).collect(), places: places.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_call_comes_back() {
        let rows = [7, 3, 3, 9, 0, 7];
        let order = Order::of(&rows);
        assert_eq!(order.sorted, [0, 3, 3, 7, 7, 9]);
        let back: Vec<_> = order.places.values().iter().map(|&place| order.sorted[place as usize]).collect();
        assert_eq!(back, rows);
    }

    #[test]
    fn rows_find_their_blocks() {
        let block = |rows| BlockRef { offset: 0, size_bytes: 0, rows, zone: crate::zone::Zone::default() };
        let blocks = [block(1_024), block(2_048), block(5)];
        let group = GroupRows { row_group: 4, group_rows: 3_077, rows: vec![0, 0, 1_023, 3_072, 3_076] };
        let found: Vec<_> = group.by_block(&blocks).map(|(place, _, rows)| (place.block, rows)).collect();
        assert_eq!(found, [(0, vec![0, 0, 1_023]), (2, vec![0, 4])]);
    }
}
