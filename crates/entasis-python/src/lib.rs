//! Entasis in Python: arguments, types and errors. What concerns data is the core's.

mod batches;
mod describe;
mod error;
mod file;
mod incoming;
mod interrupt;
mod metadata;
mod numpy;
mod options;
mod source;
mod table;
mod writer;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The part of the package ``entasis`` that is made of Rust.
#[pymodule]
mod _entasis {
    #[pymodule_export]
    use super::{
        batches::BatchReader,
        describe::describe_columns,
        file::{EntasisFile, read_metadata, read_schema, read_table},
        metadata::FileMetadata,
        table::{Batch, PySchema, Table},
        writer::{EntasisWriter, write_table},
    };

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
