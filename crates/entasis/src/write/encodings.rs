//! Which columns must have which encodings.

use entasis_encoding::encoding_names;

use super::{EncodeOptions, WriteOptions};
use crate::{
    arrow::ColumnNode,
    error::{Error, Result},
};

/// How one column is encoded.
#[derive(Debug, Clone, Default)]
pub struct ColumnEncoding {
    pub options: EncodeOptions,
    /// What errors say where an encoding was asked for by name: which, and for which column.
    pub asked: Option<String>,
}

/// How each column is encoded, in pre-order. An encoding that doesn't exist or a path that names no leaf is [`Error::InvalidArgument`].
pub fn of_columns(trees: &[ColumnNode], options: &WriteOptions) -> Result<Vec<ColumnEncoding>> {
    let plain = ColumnEncoding { options: options.encode.clone(), asked: None };
    let mut leaves = Vec::new();
    trees.iter().for_each(|tree| add_paths(tree, String::new(), &mut leaves));
    let mut encodings = vec![plain; leaves.len()];
    for (path, name) in &options.encodings {
        let known = encoding_names();
        let Some((id, name)) = known.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)) else {
            let names: Vec<_> = known.iter().map(|(_, name)| *name).collect();
            return Err(Error::InvalidArgument(format!("{name:?} is no encoding; there are {}", names.join(", "))));
        };
        let mut found = false;
        for (encoding, _) in encodings.iter_mut().zip(&leaves).filter(|(_, leaf)| leaf.as_ref() == Some(path)) {
            encoding.options.required = Some(*id);
            encoding.asked = Some(format!("column {path:?}, for which {name} was asked"));
            found = true;
        }
        if !found {
            return Err(Error::InvalidArgument(format!(
                "{path:?}, which {name} was asked for, names no column of values"
            )));
        }
    }
    Ok(encodings)
}

/// Adds the paths of a tree's columns in pre-order; `None` for a struct, which has no values of its own.
fn add_paths(tree: &ColumnNode, above: String, paths: &mut Vec<Option<String>>) {
    let path = above + tree.field.name();
    match &tree.children {
        None => paths.push(Some(path)),
        Some(children) => {
            paths.push(None);
            children.iter().for_each(|child| add_paths(child, format!("{path}."), paths));
        }
    }
}
