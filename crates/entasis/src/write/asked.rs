//! What is asked for single columns: encodings, and Bloom filters.

use entasis_encoding::encoding_names;

use super::{EncodeOptions, WriteOptions};
use crate::{
    arrow::ColumnNode,
    bloom::has_filters,
    error::{Error, Result},
};

/// How one column is written.
#[derive(Debug, Clone, Default)]
pub struct ColumnOptions {
    pub encode: EncodeOptions,
    /// What errors say where an encoding was asked for by name: which, and for which column.
    pub asked: Option<String>,
    /// The share of wrong answers of its Bloom filters; `None` for no filters.
    pub bloom_rate: Option<f64>,
}

/// How each column is written, in pre-order. An encoding that doesn't exist, a path that names no leaf and Bloom filters for values that
/// can't have any are [`Error::InvalidArgument`].
pub fn of_columns(trees: &[ColumnNode], options: &WriteOptions) -> Result<Vec<ColumnOptions>> {
    let plain = ColumnOptions { encode: options.encode.clone(), asked: None, bloom_rate: None };
    let mut leaves = Vec::new();
    trees.iter().for_each(|tree| add_leaves(tree, String::new(), &mut leaves));
    let mut columns = vec![plain; leaves.len()];
    set_encodings(&mut columns, &leaves, options)?;
    set_blooms(&mut columns, &leaves, options)?;
    Ok(columns)
}

/// A column of values with its path; `None` for a struct, which has no values of its own.
type Leaf<'t> = Option<(String, &'t ColumnNode)>;

/// Adds the columns of a tree in pre-order.
fn add_leaves<'t>(tree: &'t ColumnNode, above: String, leaves: &mut Vec<Leaf<'t>>) {
    let path = above + tree.field.name();
    match &tree.children {
        None => leaves.push(Some((path, tree))),
        Some(children) => {
            leaves.push(None);
            children.iter().for_each(|child| add_leaves(child, format!("{path}."), leaves));
        }
    }
}

/// The columns of a path, which may be several, as names are.
fn named<'c, 't>(
    columns: &'c mut [ColumnOptions],
    leaves: &'c [Leaf<'t>],
    path: &str,
) -> impl Iterator<Item = (&'c mut ColumnOptions, &'t ColumnNode)> {
    let find = move |(column, leaf): (&'c mut ColumnOptions, &'c Leaf<'t>)| {
        let (own, node) = leaf.as_ref()?;
        (own == path).then_some((column, *node))
    };
    columns.iter_mut().zip(leaves).filter_map(find)
}

fn set_encodings(columns: &mut [ColumnOptions], leaves: &[Leaf<'_>], options: &WriteOptions) -> Result<()> {
    for (path, name) in &options.encodings {
        let known = encoding_names();
        let Some((id, name)) = known.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)) else {
            let names: Vec<_> = known.iter().map(|(_, name)| *name).collect();
            return Err(Error::InvalidArgument(format!("{name:?} is no encoding; there are {}", names.join(", "))));
        };
        let mut found = false;
        for (column, _) in named(columns, leaves, path) {
            column.encode.required = Some(*id);
            column.asked = Some(format!("column {path:?}, for which {name} was asked"));
            found = true;
        }
        if !found {
            return Err(Error::InvalidArgument(format!(
                "{path:?}, which {name} was asked for, names no column of values"
            )));
        }
    }
    Ok(())
}

fn set_blooms(columns: &mut [ColumnOptions], leaves: &[Leaf<'_>], options: &WriteOptions) -> Result<()> {
    for bloom in &options.bloom {
        let path = &bloom.column;
        let mut found = false;
        for (column, node) in named(columns, leaves, path) {
            if !has_filters(&node.physical) {
                return Err(Error::InvalidArgument(format!(
                    "column {path:?} is of type {}, for which there are no Bloom filters: they are for numbers, dates, times, decimals, \
                     strings and binaries",
                    node.field.data_type()
                )));
            }
            column.bloom_rate = Some(bloom.rate);
            found = true;
        }
        if !found {
            return Err(Error::InvalidArgument(format!(
                "{path:?}, which Bloom filters were asked for, names no column of values"
            )));
        }
    }
    Ok(())
}
