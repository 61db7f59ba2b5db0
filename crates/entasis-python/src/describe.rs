//! What a file holds of each column, for `entasis.inspect`.

use entasis::{CascadeUse, ColumnDescription, encoding::Cascade};
use pyo3::{prelude::*, types::PyDict};

use crate::{interrupt::run, source::Found};

/// Work that may take long, however few its rows are: all blocks are read.
const MANY_VALUES: u64 = u64::MAX;

/// Describes every column of a file, fields of structs after their struct: dictionaries, as `entasis._inspect` takes them.
#[pyfunction]
#[pyo3(signature = (source, *, filesystem = None, storage_options = None))]
pub fn describe_columns<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    filesystem: Option<&Bound<'py, PyAny>>,
    storage_options: Option<&Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let found = Found::new(source, filesystem, storage_options, false)?;
    let columns = run(py, MANY_VALUES, move |_| Ok(found.open()?.describe()?))?;
    columns.iter().map(|column| column_of(py, column)).collect()
}

fn column_of<'py>(py: Python<'py>, column: &ColumnDescription) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("path", &column.path)?;
    found.set_item("type", column.data_type.to_string())?;
    found.set_item("rows", column.rows)?;
    found.set_item("size_bytes", column.size_bytes)?;
    found.set_item("decoded_bytes", column.decoded_bytes)?;
    found.set_item("blocks", column.blocks)?;
    found.set_item("shared_parts", column.shared_parts)?;
    found.set_item("bloom_bytes", column.bloom_bytes)?;
    found.set_item("nulls", column.null_count)?;
    let uses: Vec<_> = column.cascades.iter().map(|used| use_of(py, used)).collect::<PyResult<_>>()?;
    found.set_item("cascades", uses)?;
    Ok(found)
}

fn use_of<'py>(py: Python<'py>, used: &CascadeUse) -> PyResult<(usize, String, Bound<'py, PyDict>)> {
    Ok((used.blocks, used.cascade.words(), cascade_of(py, &used.cascade)?))
}

fn cascade_of<'py>(py: Python<'py>, cascade: &Cascade) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("encoding", cascade.encoding)?;
    found.set_item("rows", cascade.rows)?;
    found.set_item("size_bytes", cascade.size_bytes)?;
    let children: Vec<_> = cascade.children.iter().map(|child| cascade_of(py, child)).collect::<PyResult<_>>()?;
    found.set_item("children", children)?;
    Ok(found)
}
