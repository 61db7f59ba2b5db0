//! Columns asked for by name, on tables in memory: what `--columns` means for formats whose readers can't do it themselves.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, cast::AsArray};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::exit::Failure;

/// Which columns of a table to keep, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub struct Picks {
    picks: Vec<Pick>,
    schema: SchemaRef,
}

/// One column, or some fields of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pick {
    Whole(usize),
    Fields(usize, Vec<Pick>),
}

impl Pick {
    fn index(&self) -> usize {
        match self {
            Pick::Whole(index) | Pick::Fields(index, _) => *index,
        }
    }
}

impl Picks {
    /// Finds `names` in `schema`: a name as it stands, or with dots the way to a field of a struct (`address.city`). A name that
    /// several columns have means all of them.
    pub fn new(schema: &Schema, names: &[String], path: &Path) -> Result<Self, Failure> {
        let mut picks = Vec::new();
        refuse_repeats(names)?;
        for name in names {
            let found = find(schema.fields(), name);
            if found.is_empty() {
                return Err(unknown(schema, name, path));
            }
            found.into_iter().for_each(|pick| merge(&mut picks, pick));
        }
        let fields = narrowed_fields(schema.fields(), &picks);
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Picks { picks, schema })
    }

    /// The top-level columns that are needed, ascending.
    pub fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = self.picks.iter().map(Pick::index).collect();
        roots.sort_unstable();
        roots
    }

    /// The same columns in a table that has only the [`Picks::roots`].
    pub fn among_roots(&self) -> Self {
        let roots = self.roots();
        let picks = self.picks.iter().map(|pick| {
            let index = roots.partition_point(|root| *root < pick.index());
            match pick {
                Pick::Whole(_) => Pick::Whole(index),
                Pick::Fields(_, fields) => Pick::Fields(index, fields.clone()),
            }
        });
        Picks { picks: picks.collect(), schema: self.schema.clone() }
    }

    /// The schema of what is kept.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Keeps the columns of one batch.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let columns = self.picks.iter().map(|pick| narrowed(batch.column(pick.index()), pick)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema(), columns, &options)
    }
}

fn find(fields: &Fields, name: &str) -> Vec<Pick> {
    let named = |name: &str| -> Vec<usize> {
        fields.iter().enumerate().filter(|(_, field)| field.name() == name).map(|(index, _)| index).collect()
    };
    let literal = named(name);
    if !literal.is_empty() {
        return literal.into_iter().map(Pick::Whole).collect();
    }
    let mut found = Vec::new();
    for (dot, _) in name.match_indices('.') {
        for index in named(&name[..dot]) {
            if let DataType::Struct(children) = fields[index].data_type() {
                let inner = find(children, &name[dot + 1..]);
                found.extend((!inner.is_empty()).then_some(Pick::Fields(index, inner)));
            }
        }
    }
    found
}

/// Adds `pick`; fields of a struct that is there already join it.
fn merge(picks: &mut Vec<Pick>, pick: Pick) {
    match (picks.iter_mut().find(|other| other.index() == pick.index()), pick) {
        (None, pick) => picks.push(pick),
        (Some(Pick::Whole(_)), _) => (),
        (Some(whole), pick @ Pick::Whole(_)) => *whole = pick,
        (Some(Pick::Fields(_, present)), Pick::Fields(_, more)) => {
            more.into_iter().for_each(|field| merge(present, field));
        }
    }
}

fn narrowed_fields(fields: &Fields, picks: &[Pick]) -> Vec<FieldRef> {
    let narrow = |pick: &Pick| match (pick, fields[pick.index()].data_type()) {
        (Pick::Fields(index, inner), DataType::Struct(children)) => {
            let narrowed = DataType::Struct(narrowed_fields(children, inner).into());
            Arc::new(Field::clone(&fields[*index]).with_data_type(narrowed))
        }
        _ => fields[pick.index()].clone(),
    };
    picks.iter().map(narrow).collect()
}

fn narrowed(column: &ArrayRef, pick: &Pick) -> ArrayRef {
    match (pick, column.as_struct_opt()) {
        (Pick::Fields(_, inner), Some(parent)) => {
            let fields = narrowed_fields(parent.fields(), inner);
            let columns = inner.iter().map(|pick| narrowed(parent.column(pick.index()), pick)).collect();
            Arc::new(StructArray::new(fields.into(), columns, parent.nulls().cloned()))
        }
        _ => column.clone(),
    }
}

/// Refuses a name that is given twice: a table of one column more than was asked for, or of one less, helps nobody.
pub fn refuse_repeats(names: &[String]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(Failure::usage(format!("--columns names {name:?} twice"))),
        None => Ok(()),
    }
}

/// A name without a column.
pub fn unknown(schema: &Schema, name: &str, path: &Path) -> Failure {
    const SHOWN: usize = 20;
    let names: Vec<&str> = schema.fields().iter().take(SHOWN).map(|field| field.name().as_str()).collect();
    let more = if schema.fields().len() > SHOWN { ", …" } else { "" };
    Failure::usage(format!("{}: no column {name:?}; there are {}{more}", path.display(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, StringArray};

    fn batch() -> RecordBatch {
        let ints = |value| Arc::new(Int32Array::from(vec![value, value])) as ArrayRef;
        let inner = StructArray::from(vec![
            (Arc::new(Field::new("x", DataType::Int32, false)), ints(1)),
            (Arc::new(Field::new("y", DataType::Int32, false)), ints(2)),
        ]);
        let text = Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
        RecordBatch::try_from_iter([("s", Arc::new(inner) as ArrayRef), ("s.x", text), ("a", ints(3)), ("a", ints(4))])
            .unwrap()
    }

    fn picked(names: &[&str]) -> Result<RecordBatch, Failure> {
        let batch = batch();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let picks = Picks::new(&batch.schema(), &names, Path::new("t"))?;
        let narrow = batch.project(&picks.roots()).unwrap();
        let direct = picks.apply(&batch).unwrap();
        assert_eq!(direct, picks.among_roots().apply(&narrow).unwrap());
        Ok(direct)
    }

    #[test]
    fn literal_names_come_before_dots() {
        let batch = picked(&["s.x"]).unwrap();
        assert_eq!(batch.schema().field(0).data_type(), &DataType::Utf8);
        let batch = picked(&["s.y"]).unwrap();
        assert_eq!(batch.column(0).as_struct().column_names(), ["y"]);
    }

    #[test]
    fn duplicates_are_all_meant_and_order_is_kept() {
        let batch = picked(&["a", "s"]).unwrap();
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "a", "s"]);
    }

    #[test]
    fn an_unknown_column_is_named() {
        let failure = picked(&["s.z"]).unwrap_err();
        assert!(format!("{failure:?}").contains("s.z"));
    }
}
