//! Projections: which columns are read, down to single fields of structs.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use super::Reader;
use crate::{
    error::{Error, Result},
    metadata::record::ColumnRecord,
};

/// Columns to be read, in this order; all of the file by [`Default`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    columns: Option<Vec<Selected>>,
}

/// A column, or some fields of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Number of the column in the file, or of the field in its struct.
    pub column: usize,
    /// Fields of a struct; `None` for all of them, and for columns that aren't structs.
    pub fields: Option<Vec<Selected>>,
}

impl Projection {
    /// Every column.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whole columns, by number.
    pub fn of_columns(columns: impl IntoIterator<Item = usize>) -> Self {
        Self { columns: Some(columns.into_iter().map(|column| Selected { column, fields: None }).collect()) }
    }

    /// Columns, or fields of them, by number.
    pub fn of_selected(columns: Vec<Selected>) -> Self {
        Self { columns: Some(columns) }
    }

    /// The columns, in the order in which they are read; `None` if that is every column.
    pub fn selected(&self) -> Option<&[Selected]> {
        self.columns.as_deref()
    }
}

impl Reader {
    /// The projection of columns named by `paths`, in the order of the paths. A path is a column's name, or the names of
    /// structs and of a field in them, joined by dots; names that contain dots come first. A name that several columns
    /// have selects all of them; what several paths select is read once. A path without a column is
    /// [`Error::InvalidArgument`].
    pub fn projection(&self, paths: &[String]) -> Result<Projection> {
        let mut columns: Vec<Selected> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for path in paths {
            let found = self.resolve(path)?;
            if found.is_empty() {
                return Err(Error::InvalidArgument(format!("{} has no column {path:?}", self.name())));
            }
            for selected in found {
                match places.entry(selected.column) {
                    Entry::Occupied(place) => columns[*place.get()].add(selected),
                    Entry::Vacant(place) => {
                        place.insert(columns.len());
                        columns.push(selected);
                    }
                }
            }
        }
        Ok(Projection { columns: Some(columns) })
    }

    fn resolve(&self, path: &str) -> Result<Vec<Selected>> {
        let whole = self.columns_named(path)?;
        if !whole.is_empty() {
            return Ok(whole.into_iter().map(|column| Selected { column, fields: None }).collect());
        }
        for (dot, _) in path.match_indices('.') {
            let mut found = Vec::new();
            for column in self.columns_named(&path[..dot])? {
                found.extend(fields_of(column, &*self.column(column)?, &path[dot + 1..]));
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}

/// The fields of a struct that `path` names, as a selection of the struct.
fn fields_of(column: usize, record: &ColumnRecord, path: &str) -> Option<Selected> {
    let fields = resolve_fields(record.children.as_deref()?, path);
    (!fields.is_empty()).then_some(Selected { column, fields: Some(fields) })
}

fn resolve_fields(fields: &[Arc<ColumnRecord>], path: &str) -> Vec<Selected> {
    let named = |name: &str| {
        let name = name.to_owned();
        fields.iter().enumerate().filter(move |(_, field)| *field.field.name() == name)
    };
    let whole: Vec<_> = named(path).map(|(column, _)| Selected { column, fields: None }).collect();
    if !whole.is_empty() {
        return whole;
    }
    let by_dot = path.match_indices('.').map(|(dot, _)| {
        named(&path[..dot]).filter_map(|(column, field)| fields_of(column, field, &path[dot + 1..])).collect()
    });
    by_dot.into_iter().find(|found: &Vec<_>| !found.is_empty()).unwrap_or_default()
}

impl Selected {
    /// Selects what another selection of the same column does as well.
    fn add(&mut self, other: Selected) {
        let (Some(fields), Some(added)) = (&mut self.fields, other.fields) else {
            self.fields = None;
            return;
        };
        for field in added {
            match fields.iter_mut().find(|present| present.column == field.column) {
                Some(present) => present.add(field),
                None => fields.push(field),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(column: usize, fields: Option<Vec<Selected>>) -> Selected {
        Selected { column, fields }
    }

    #[test]
    fn selections_of_one_struct_become_one() {
        let inner = || selected(0, Some(vec![selected(2, None)]));
        let mut column = selected(3, Some(vec![selected(1, None)]));
        column.add(selected(3, Some(vec![inner()])));
        column.add(selected(3, Some(vec![inner()])));
        assert_eq!(column, selected(3, Some(vec![selected(1, None), inner()])));
        column.add(selected(3, None));
        assert_eq!(column, selected(3, None));
        column.add(selected(3, Some(vec![selected(1, None)])));
        assert_eq!(column, selected(3, None));
    }
}
