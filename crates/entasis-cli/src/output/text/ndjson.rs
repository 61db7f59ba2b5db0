//! NDJSON out: an object per row, nulls and all, so that every line has every field. Lists, structs and maps are what they are in JSON.
//!
//! What JSON has no form for is not silently changed: special numbers are the texts that the reader knows, dates outside every calendar
//! are errors.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch, StructArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::{NullableEncoder, make_encoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SchemaRef};

use super::Text;
use super::csv::without_calendar;
use crate::exit::Failure;

/// A table as NDJSON.
pub struct Ndjson {
    path: PathBuf,
}

impl Ndjson {
    /// Fails with the names of the columns that JSON can't hold; `path` is what messages begin with.
    pub fn new(path: &Path, schema: &SchemaRef) -> Result<Self, Failure> {
        let refused = |what: String| Err(Failure::usage(format!("{}: NDJSON can't hold {what}", path.display())));
        let mut names = HashSet::new();
        if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
            return refused(format!("two columns of the name {:?}", twice.name()));
        }
        let ndjson = Ndjson { path: path.to_owned() };
        for field in schema.fields() {
            let empty = arrow_array::new_empty_array(field.data_type());
            let (options, _) = options();
            if let Err(error) = make_encoder(field, &empty, &options) {
                return refused(format!("column {:?}: {error}", field.name()));
            }
        }
        Ok(ndjson)
    }
}

impl Text for Ndjson {
    fn head(&self) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }

    fn rows(&self, batch: &RecordBatch, rows_done: u64) -> Result<Vec<u8>, Failure> {
        let (options, has_odd) = options();
        let rows = StructArray::from(batch.clone());
        let field = Arc::new(Field::new_struct("", batch.schema().fields().clone(), false));
        let mut text = Vec::new();
        {
            let mut encoder =
                make_encoder(&field, &rows, &options).map_err(|error| Failure::arrow(&self.path, error))?;
            for row in 0..batch.num_rows() {
                encoder.encode(row, &mut text);
                text.push(b'\n');
            }
        }
        if has_odd.load(Ordering::Relaxed) {
            let unknown = || Failure::corrupt(&self.path, "a date or time that no calendar has");
            return Err(without_calendar(&self.path, batch, rows_done).unwrap_or_else(unknown));
        }
        Ok(text)
    }
}

/// How values are written, and what tells whether one could not be.
fn options() -> (EncoderOptions, Arc<AtomicBool>) {
    let has_odd = Arc::new(AtomicBool::new(false));
    let factory = Arc::new(Exact { has_odd: has_odd.clone() });
    (EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(factory), has_odd)
}

/// Encoders for what arrow-rs would write otherwise than it is.
#[derive(Debug)]
struct Exact {
    /// A date or time was outside of every calendar.
    has_odd: Arc<AtomicBool>,
}

impl EncoderFactory for Exact {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float16 => {
                Box::new(Floats::<Float16Type>(array.as_primitive(), |value, out| push(value.to_f32(), out)))
            }
            DataType::Float32 => Box::new(Floats::<Float32Type>(array.as_primitive(), push)),
            DataType::Float64 => Box::new(Floats::<Float64Type>(array.as_primitive(), push)),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let keys = if dictionary.values().is_empty() { Vec::new() } else { dictionary.normalized_keys() };
                let values = make_encoder(field, dictionary.values().as_ref(), options)?;
                Box::new(Keyed { keys, values })
            }
            other if other.is_temporal() => {
                let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
                Box::new(Temporal { formatter, has_odd: self.has_odd.clone() })
            }
            _ => return Ok(None),
        };
        // A dictionary's values may be null as well as its keys.
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

/// Floats, and how one is written.
struct Floats<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>, fn(T::Native, &mut Vec<u8>));

impl<T: ArrowPrimitiveType> Encoder for Floats<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.1(self.0.value(row), out);
    }
}

/// A special number as text, any other by the shortest digits that give the same bits.
fn push<F: Copy + Into<f64> + std::fmt::Debug>(value: F, out: &mut Vec<u8>) {
    let wide: f64 = value.into();
    let written = match wide {
        _ if wide.is_nan() => write!(out, "\"NaN\""),
        f64::INFINITY => write!(out, "\"Infinity\""),
        f64::NEG_INFINITY => write!(out, "\"-Infinity\""),
        _ => write!(out, "{value:?}"),
    };
    debug_assert!(written.is_ok(), "memory takes every byte");
}

/// A dictionary's values.
struct Keyed<'a> {
    keys: Vec<usize>,
    values: NullableEncoder<'a>,
}

impl Encoder for Keyed<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.values.encode(self.keys[row], out);
    }
}

/// Dates and times as text.
struct Temporal<'a> {
    formatter: ArrayFormatter<'a>,
    has_odd: Arc<AtomicBool>,
}

impl Encoder for Temporal<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.formatter.value(row).try_to_string() {
            Ok(text) if text != "<invalid>" => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            _ => self.has_odd.store(true, Ordering::Relaxed),
        }
    }
}
