//! Errors of the core and of Arrow as Python's.

use std::io;

use arrow_schema::ArrowError;
use entasis::Error;
use pyo3::{exceptions::PyOSError, import_exception, prelude::*};

import_exception!(entasis._errors, CorruptError);
import_exception!(entasis._errors, UnsupportedError);
import_exception!(entasis._errors, InvalidArgumentError);

/// What work away from the interpreter fails with.
#[derive(Debug)]
pub enum Failure {
    /// The core refused or failed.
    Entasis(Error),
    /// Something of Python failed.
    Python(PyErr),
    /// Nobody waits for the result any more.
    Stopped,
}

/// A result of work away from the interpreter.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Entasis(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Entasis(error) => to_python(error),
            Failure::Python(error) => error,
            Failure::Stopped => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
        }
    }
}

/// An error of the core as an exception.
pub fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Corrupt { .. } | Error::Truncated { .. } => CorruptError::new_err(text),
        Error::Unsupported(_) | Error::OverLimit { .. } => UnsupportedError::new_err(text),
        Error::Io { path, source } => io_error(path, source),
        Error::Arrow(ArrowError::ExternalError(source)) => match source.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => InvalidArgumentError::new_err(text),
        },
        _ => InvalidArgumentError::new_err(text),
    }
}

/// What the operating system said, with its number and the path as Python has them; what Python said, as it was.
fn io_error(path: String, source: io::Error) -> PyErr {
    let text = source.to_string();
    match source.raw_os_error() {
        Some(number) => {
            // Rust appends the number, which Python shows by itself.
            let what = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text).to_owned();
            PyOSError::new_err((number, what, path))
        }
        None => match source.downcast::<PyErr>() {
            Ok(error) => error,
            Err(_) => PyOSError::new_err(format!("{path}: {text}")),
        },
    }
}
