//! Columns as NumPy arrays, by NumPy's array interface: it asks for an address and keeps who lends it.

use arrow_array::{Array, ArrayRef, cast::AsArray, new_empty_array};
use arrow_schema::{DataType, Field, TimeUnit};
use pyo3::{
    exceptions::PyValueError,
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};

/// Memory of an Arrow array that NumPy looks at.
#[pyclass(frozen, module = "entasis")]
struct Lent {
    /// Keeps the memory.
    _array: ArrayRef,
    address: usize,
    shape: Vec<usize>,
    type_name: String,
}

#[pymethods]
impl Lent {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", &self.type_name)?;
        // Nobody may write what Arrow lends.
        interface.set_item("data", (self.address, true))?;
        Ok(interface)
    }
}

/// The chunks of a column as one array: the first itself if there is one chunk, else all joined.
pub fn to_numpy<'py>(
    py: Python<'py>,
    name: &str,
    field: &Field,
    mut chunks: Vec<ArrayRef>,
) -> PyResult<Bound<'py, PyAny>> {
    if chunks.is_empty() {
        chunks.push(new_empty_array(field.data_type()));
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    let as_array = |chunk| {
        let lent = lend(name, chunk)?;
        numpy.call_method1(intern!(py, "asarray"), (lent,))
    };
    let mut arrays: Vec<_> = chunks.into_iter().map(as_array).collect::<PyResult<_>>()?;
    match arrays.len() {
        1 => Ok(arrays.remove(0)),
        _ => numpy.call_method1(intern!(py, "concatenate"), (arrays,)),
    }
}

fn lend(name: &str, array: ArrayRef) -> PyResult<Lent> {
    let mut shape = vec![array.len()];
    let mut leaf = array.clone();
    check_no_nulls(name, &leaf)?;
    while let DataType::FixedSizeList(_, size) = leaf.data_type() {
        shape.push(usize::try_from(*size).unwrap_or_default());
        leaf = leaf.as_fixed_size_list().values().clone();
        check_no_nulls(name, &leaf)?;
    }
    let Some(type_name) = type_name(leaf.data_type()) else {
        let what =
            format!("column {name:?}: NumPy has no array of {} without a copy: see to_arrow()", array.data_type());
        return Err(PyValueError::new_err(what));
    };
    let data = leaf.to_data();
    let width = leaf.data_type().primitive_width().unwrap_or_default();
    let address = data.buffers()[0].as_ptr() as usize + data.offset() * width;
    Ok(Lent { _array: leaf, address, shape, type_name })
}

fn check_no_nulls(name: &str, array: &ArrayRef) -> PyResult<()> {
    match array.null_count() {
        0 => Ok(()),
        nulls => Err(PyValueError::new_err(format!("column {name:?} has nulls, {nulls} of them: see to_arrow()"))),
    }
}

/// What NumPy calls values of a type that it has as well, of the same width.
fn type_name(data_type: &DataType) -> Option<String> {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    Some(match data_type {
        DataType::Int8 => "|i1".to_owned(),
        DataType::Int16 => "<i2".to_owned(),
        DataType::Int32 => "<i4".to_owned(),
        DataType::Int64 => "<i8".to_owned(),
        DataType::UInt8 => "|u1".to_owned(),
        DataType::UInt16 => "<u2".to_owned(),
        DataType::UInt32 => "<u4".to_owned(),
        DataType::UInt64 => "<u8".to_owned(),
        DataType::Float16 => "<f2".to_owned(),
        DataType::Float32 => "<f4".to_owned(),
        DataType::Float64 => "<f8".to_owned(),
        DataType::Timestamp(resolution, _) => format!("<M8[{}]", unit(resolution)),
        DataType::Duration(resolution) => format!("<m8[{}]", unit(resolution)),
        _ => return None,
    })
}
