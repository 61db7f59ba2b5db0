//! What a file says of itself.

use entasis::{Reader, SortColumn};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::error::Result;

/// What a file says of itself: rows, columns, row groups, sort order, and what its writer wanted to keep.
///
/// >>> import entasis, pyarrow as pa
/// >>> table = pa.table({"day": [1, 2, 3]})
/// >>> entasis.write_table(table, "days.ent", sorted_by="day", metadata={"source": "a diary"})
/// >>> metadata = entasis.read_metadata("days.ent")
/// >>> metadata
/// entasis.FileMetadata: 3 rows, 1 column, 1 row group
/// >>> metadata.metadata
/// {'source': b'a diary'}
/// >>> metadata.sorted_by
/// [SortColumn(column='day', descending=False, nulls_first=False)]
#[pyclass(frozen, module = "entasis")]
pub struct FileMetadata {
    /// Rows.
    #[pyo3(get)]
    num_rows: u64,
    /// Top-level columns.
    #[pyo3(get)]
    num_columns: usize,
    /// Row groups.
    #[pyo3(get)]
    num_row_groups: usize,
    /// Rows of each row group.
    #[pyo3(get)]
    row_group_rows: Vec<u64>,
    /// Bytes of the file.
    #[pyo3(get)]
    size_bytes: u64,
    /// Name and version of the writer.
    #[pyo3(get)]
    created_by: String,
    user_metadata: Vec<(String, Vec<u8>)>,
    sort_order: Vec<SortColumn>,
}

impl FileMetadata {
    /// Reads it; to be called without the interpreter's lock.
    pub fn read(reader: &Reader) -> Result<Self> {
        Ok(Self {
            num_rows: reader.rows(),
            num_columns: reader.column_count(),
            num_row_groups: reader.row_group_count(),
            row_group_rows: reader.row_group_rows()?.to_vec(),
            size_bytes: reader.size_bytes(),
            created_by: reader.written_by()?.to_owned(),
            user_metadata: reader.user_metadata()?.to_vec(),
            sort_order: reader.sort_order()?,
        })
    }
}

#[pymethods]
impl FileMetadata {
    /// What the writer wanted to keep: ``bytes`` by name.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in &self.user_metadata {
            metadata.set_item(key, PyBytes::new(py, value))?;
        }
        Ok(metadata)
    }

    /// The order of the rows: a list of ``SortColumn``, the most significant first; it was verified when the file was written.
    #[getter]
    fn sorted_by<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let class = py.import(intern!(py, "entasis"))?.getattr(intern!(py, "SortColumn"))?;
        self.sort_order.iter().map(|by| class.call1((&by.column, by.descending, by.nulls_first))).collect()
    }

    fn __repr__(&self) -> String {
        let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "entasis.FileMetadata: {}, {}, {}",
            count(self.num_rows, "row"),
            count(self.num_columns as u64, "column"),
            count(self.num_row_groups as u64, "row group")
        )
    }
}
