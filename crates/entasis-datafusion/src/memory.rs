//! What a scan holds of a file, for the engine's memory pool.

use std::{ops::Range, sync::Arc};

use entasis::{ColumnRecord, Projection, Reader, Result, Selected};

/// Bytes of encoded blocks that reading `rows` of a file holds at most at a time: of each column one block and the shared
/// parts of its chunk, in whichever row group that is most.
pub(crate) fn held_bytes(reader: &Reader, projection: &Projection, rows: &Range<u64>) -> Result<usize> {
    let mut columns = Vec::new();
    for selected in projection.selected().unwrap_or_default() {
        add_columns(&reader.column(selected.column)?, selected.fields.as_deref(), &mut columns);
    }
    let (mut first, mut most) = (0, 0);
    for (row_group, group_rows) in reader.row_group_rows()?.iter().enumerate() {
        let end = first + group_rows;
        if first < rows.end && rows.start < end {
            most = most.max(columns.iter().map(|column| chunk_bytes(column, row_group)).sum());
        }
        first = end;
    }
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

/// A column and those of the fields that are wanted of it.
fn add_columns(column: &Arc<ColumnRecord>, fields: Option<&[Selected]>, columns: &mut Vec<Arc<ColumnRecord>>) {
    columns.push(column.clone());
    let children = column.children.as_deref().unwrap_or_default();
    match fields {
        None => children.iter().for_each(|child| add_columns(child, None, columns)),
        Some(fields) => {
            for field in fields {
                if let Some(child) = children.get(field.column) {
                    add_columns(child, field.fields.as_deref(), columns);
                }
            }
        }
    }
}

fn chunk_bytes(column: &ColumnRecord, row_group: usize) -> u64 {
    let Some(chunk) = column.chunks.get(row_group) else { return 0 };
    let parts: u64 = chunk.parts.iter().map(|part| part.size_bytes).sum();
    parts.saturating_add(chunk.blocks.iter().map(|block| block.size_bytes).max().unwrap_or(0))
}
