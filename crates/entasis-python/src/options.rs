//! Arguments of Python as options of the core.

use std::thread;

use entasis::{BloomColumn, EncodeOptions, Error, Projection, Reader, SortColumn, Strings, WriteOptions};
use pyo3::{
    exceptions::{PyIndexError, PyTypeError, PyValueError},
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyString},
};

use crate::error::{Result, to_python};

/// As many threads as the caller said, else as many as there are processors for this process.
pub fn threads(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, |count| count.get()))
}

/// How byte strings come: `None` as they are stored, `True` as views, `False` with offsets.
pub fn strings(views: Option<bool>) -> Strings {
    match views {
        None => Strings::AsStored,
        Some(true) => Strings::Views,
        Some(false) => Strings::Offsets,
    }
}

/// The columns that a caller named; all of them for `None`.
#[derive(Clone)]
pub struct Columns(Option<Vec<String>>);

impl Columns {
    /// From an iterable of names.
    pub fn new(columns: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(columns) = columns.filter(|columns| !columns.is_none()) else { return Ok(Self(None)) };
        let expected = |found: &Bound<'_, PyAny>, one_of: &str| {
            let class = found.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("columns: a list of names was expected, not {one_of}{class}"))
        };
        if columns.is_instance_of::<PyString>() {
            return Err(expected(columns, ""));
        }
        let names = columns.try_iter().map_err(|_| expected(columns, ""))?;
        let name = |name: PyResult<Bound<'_, PyAny>>| {
            let name = name?;
            name.extract::<String>().map_err(|_| expected(&name, "one of "))
        };
        Ok(Self(Some(names.map(name).collect::<PyResult<_>>()?)))
    }

    /// Values in so many rows, at least.
    pub fn values(&self, reader: &Reader, rows: u64) -> u64 {
        let columns = self.0.as_ref().map_or(reader.column_count(), Vec::len);
        rows.saturating_mul(columns as u64)
    }

    /// The columns in a file.
    pub fn of(&self, reader: &Reader) -> Result<Projection> {
        Ok(match &self.0 {
            Some(names) => reader.projection(names)?,
            None => Projection::all(),
        })
    }
}

/// The arguments of writing that are the same everywhere.
pub struct WriteArguments<'a, 'py> {
    pub profile: &'a str,
    pub encodings: Option<&'a Bound<'py, PyDict>>,
    pub bloom: Option<&'a Bound<'py, PyAny>>,
    pub row_group_rows: Option<u64>,
    pub row_group_bytes: Option<u64>,
    pub sorted_by: Option<&'a Bound<'py, PyAny>>,
    pub metadata: Option<&'a Bound<'py, PyDict>>,
    pub threads: Option<usize>,
}

impl WriteArguments<'_, '_> {
    /// The options that they stand for.
    pub fn options(&self) -> PyResult<WriteOptions> {
        let default = WriteOptions::default();
        let profile = self.profile.parse().map_err(|what| to_python(Error::InvalidArgument(what)))?;
        Ok(WriteOptions {
            row_group_rows: self.row_group_rows.unwrap_or(default.row_group_rows),
            row_group_bytes: self.row_group_bytes.unwrap_or(default.row_group_bytes),
            user_metadata: self.metadata.map(user_metadata).transpose()?.unwrap_or_default(),
            sort_order: self.sorted_by.map(sort_order).transpose()?.unwrap_or_default(),
            threads: threads(self.threads),
            encode: EncodeOptions::of(profile),
            encodings: self.encodings.map(encodings).transpose()?.unwrap_or_default(),
            bloom: self.bloom.map(bloom).transpose()?.unwrap_or_default(),
        })
    }
}

fn encodings(encodings: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let expected =
        |_| PyTypeError::new_err("encodings: a dictionary of column names to names of encodings was expected");
    encodings
        .iter()
        .map(|(path, name)| Ok((path.extract().map_err(expected)?, name.extract().map_err(expected)?)))
        .collect()
}

/// Columns that get Bloom filters: names, or a dictionary of names to rates.
fn bloom(columns: &Bound<'_, PyAny>) -> PyResult<Vec<BloomColumn>> {
    let expected =
        |_| PyTypeError::new_err("bloom: a list of column names, or a dictionary of them to rates, was expected");
    let name = |name: &Bound<'_, PyAny>| name.extract::<String>().map_err(expected);
    if let Ok(rates) = columns.cast::<PyDict>() {
        let column = |(column, rate): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok(BloomColumn { column: name(&column)?, rate: rate.extract().map_err(expected)? })
        };
        return rates.iter().map(column).collect();
    }
    if columns.is_instance_of::<PyString>() {
        return Err(expected(PyValueError::new_err("a single name")));
    }
    columns.try_iter().map_err(expected)?.map(|column| Ok(BloomColumn::new(name(&column?)?))).collect()
}

fn user_metadata(metadata: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Vec<u8>)>> {
    let expected = |_| PyTypeError::new_err("metadata: a dictionary of str to str or bytes was expected");
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let bytes = match value.extract::<PyBackedStr>() {
            Ok(text) => text.as_bytes().to_vec(),
            Err(_) => value.extract::<PyBackedBytes>().map_err(|error| expected(error.into()))?.to_vec(),
        };
        Ok((key.extract::<String>().map_err(expected)?, bytes))
    };
    metadata.iter().map(pair).collect()
}

/// A sort order: one column, or a list of them; each a path or (path, descending, nulls first).
fn sort_order(sorted_by: &Bound<'_, PyAny>) -> PyResult<Vec<SortColumn>> {
    if let Ok(column) = sorted_by.extract::<String>() {
        return Ok(vec![SortColumn { column, descending: false, nulls_first: false }]);
    }
    let expected = || {
        PyTypeError::new_err(
            "sorted_by: a list of column names or of SortColumn(column, descending, nulls_first) was expected",
        )
    };
    let column = |column: PyResult<Bound<'_, PyAny>>| {
        let column = column?;
        let (column, descending, nulls_first) = match column.extract::<String>() {
            Ok(name) => (name, false, false),
            Err(_) => column.extract().map_err(|_| expected())?,
        };
        Ok(SortColumn { column, descending, nulls_first })
    };
    sorted_by.try_iter().map_err(|_| expected())?.map(column).collect()
}

/// Rows to be taken: any iterable of integers, an Arrow array, or a NumPy array, all within `row_count`.
pub fn row_numbers(indices: &Bound<'_, PyAny>, row_count: u64) -> PyResult<Vec<u64>> {
    let py = indices.py();
    static TO_INTEGERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = TO_INTEGERS.import(py, "entasis._rows", "to_integers")?.call1((indices,))?;
    let check = |number: i64| match u64::try_from(number) {
        Ok(row) if row < row_count => Ok(row),
        _ => Err(PyIndexError::new_err(format!("row {number} of {row_count}"))),
    };
    match found.cast::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes().as_chunks().0.iter().map(|&number| check(i64::from_ne_bytes(number))).collect(),
        Err(_) => found.extract::<Vec<i64>>()?.into_iter().map(check).collect(),
    }
}

/// Refuses a number of rows that no batch can have.
pub fn batch_rows(rows: usize) -> PyResult<usize> {
    if rows == 0 {
        return Err(PyValueError::new_err("batch_size: at least 1 was expected"));
    }
    Ok(rows)
}
