//! A table in memory, to be measured.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::contenders::Contender;
use super::kinds::Kind;
use super::touch;
use crate::compare::{self, Difference, Stream};
use crate::exit::Failure;
use crate::format::Format;
use crate::input::{self, Input, InputOptions};

/// A table in memory.
pub struct Source {
    /// Its file.
    pub name: String,
    /// Of the columns that are measured.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
    /// Bytes of its Arrow buffers.
    pub arrow_bytes: u64,
    /// Columns that somebody can't write, and why: left out for everybody.
    pub left_out: Vec<LeftOut>,
}

/// A column that isn't measured.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The column.
    pub column: String,
    /// Who can't write it, and why.
    pub reason: String,
}

impl Source {
    /// Reads the file at `path`.
    pub fn open(path: &Path, name: &str) -> Result<Self, Failure> {
        let format = Format::of(path, None, "rename it")?;
        Self::from_input(name, input::open(path, format, &InputOptions::default())?)
    }

    /// Takes all rows of `input`.
    pub fn from_input(name: &str, input: Box<dyn Input>) -> Result<Self, Failure> {
        let whole = input.schema();
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for (index, field) in whole.fields().iter().enumerate() {
            let single = Schema::new(vec![field.clone()]);
            match Contender::ALL.iter().find_map(|contender| contender.refusal(&single)) {
                Some(reason) => left_out.push(LeftOut { column: field.name().clone(), reason }),
                None => kept.push(index),
            }
        }
        let schema = whole.project(&kept).map_err(|error| Failure::arrow(Path::new(name), error))?;
        let batches = input
            .map(|batch| batch?.project(&kept).map_err(|error| Failure::arrow(Path::new(name), error)))
            .collect::<Result<Vec<_>, _>>()?;
        let arrow_bytes = touch::size_bytes(&batches);
        Ok(Source { name: name.to_owned(), schema: schema.into(), batches, arrow_bytes, left_out })
    }

    /// The columns of one kind, if there are any.
    pub fn of_kind(self, kind: Kind) -> Result<Option<Self>, Failure> {
        let fields = self.schema.fields().iter().enumerate();
        let kept: Vec<usize> =
            fields.filter(|(_, field)| Kind::of(field.data_type()) == kind).map(|(index, _)| index).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        let failure = |error| Failure::arrow(Path::new(&self.name), error);
        let schema = self.schema.project(&kept).map_err(failure)?.into();
        let batches = self.batches.iter().map(|batch| batch.project(&kept)).collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(failure)?;
        let arrow_bytes = touch::size_bytes(&batches);
        Ok(Some(Source { schema, batches, arrow_bytes, ..self }))
    }

    /// Rows of the table.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Where what a contender gives back differs from the table, in values or in types.
    pub fn difference(&self, contender: Contender, encoded: &bytes::Bytes) -> Result<Option<Difference>, Failure> {
        let mut decoded = Vec::new();
        let schema = contender.decode(encoded.clone(), &mut |batch| decoded.push(batch))?;
        for (field, other) in self.schema.fields().iter().zip(schema.fields()) {
            // What costs other work to make would not be a fair comparison.
            if field.data_type() != other.data_type() {
                let (left, right) = (field.data_type().to_string(), other.data_type().to_string());
                return Ok(Some(Difference { column: field.name().clone(), row: None, left, right }));
            }
        }
        let table = Stream { schema: self.schema.clone(), batches: self.batches.iter().cloned().map(Ok) };
        compare::first(table, Stream { schema, batches: decoded.into_iter().map(Ok) }, |_| ())
    }
}
