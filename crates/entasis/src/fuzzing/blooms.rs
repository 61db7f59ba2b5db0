//! Bloom filters for every column that can have them, and lookups in them.

use arrow_schema::Schema;

use crate::{
    BloomColumn, Condition, Projection, Reader, ScanRequest,
    arrow::{ColumnNode, shred},
    bloom::has_filters,
    encoding::{FloatOrder, Predicate, Scalar},
    zone::ZoneValue,
};

/// Batches that are read of each lookup.
const MOST_BATCHES: usize = 4;

/// Bloom filters of every column of values that can have them. A name that others have, too, is left out.
pub fn blooms_of(schema: &Schema) -> Vec<BloomColumn> {
    fn add(column: &ColumnNode, above: &str, paths: &mut Vec<(String, bool)>) {
        let path = format!("{above}{}", column.field.name());
        match &column.children {
            Some(children) => children.iter().for_each(|child| add(child, &format!("{path}."), paths)),
            None => paths.push((path, has_filters(&column.physical))),
        }
    }
    let mut paths = Vec::new();
    shred(schema).iter().flatten().for_each(|tree| add(tree, "", &mut paths));
    let is_single = |path: &str| paths.iter().filter(|(other, _)| other == path).count() == 1;
    let found = paths.iter().filter(|(path, has_filters)| *has_filters && is_single(path));
    found.map(|(path, _)| BloomColumn::new(path)).collect()
}

/// Looks for bounds of zones in a top-level column that has Bloom filters: a value or an error comes back.
pub fn look_up(reader: &Reader, column: usize) {
    let Ok(record) = reader.column(column) else { return };
    if record.chunks.iter().all(|chunk| chunk.bloom.is_none()) {
        return;
    }
    let zones = record.chunks.iter().flat_map(|chunk| &chunk.blocks).map(|block| &block.zone).take(3);
    let bounds = zones.flat_map(|zone| [zone.min(), zone.max()]).flatten();
    let scalar = |value: &ZoneValue| match value {
        ZoneValue::Bool(value) => Scalar::Bool(*value),
        ZoneValue::Int(value) => Scalar::Int(*value),
        ZoneValue::UInt(value) => Scalar::Int((*value).into()),
        ZoneValue::I256(_) => Scalar::Int256(Default::default()),
        ZoneValue::Float(value) => Scalar::Float(*value),
        ZoneValue::Bytes(bytes) => Scalar::Bytes(bytes.clone()),
    };
    let values: Vec<_> = bounds.map(scalar).chain([Scalar::Int(77), Scalar::Bytes(b"77".to_vec())]).collect();
    for negated in [false, true] {
        let predicate = Predicate::In { values: values.clone(), negated, order: FloatOrder::default() };
        let (condition, projection) = (Condition::column(column, predicate), Projection::of_columns([column]));
        if let Ok(scan) = reader.scan(ScanRequest { condition, projection, ..ScanRequest::default() }) {
            scan.take(MOST_BATCHES).for_each(drop);
        }
    }
}
