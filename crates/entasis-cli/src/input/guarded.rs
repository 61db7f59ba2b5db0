//! The readers of other formats panic on some damaged files. To whoever asked, that is an error of the file like any other.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::Input;
use crate::exit::Failure;

thread_local! {
    /// Whether this thread is inside of somebody else's reader, whose panics are told as errors.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// A table whose reader may panic.
struct Guarded {
    path: PathBuf,
    /// None after a panic, which leaves a reader in no state to go on.
    input: Option<Box<dyn Input>>,
    schema: SchemaRef,
}

/// Opens a table by `open`, with panics as errors, there and later.
pub fn open(path: &Path, open: impl FnOnce() -> Result<Box<dyn Input>, Failure>) -> Result<Box<dyn Input>, Failure> {
    let input = read(path, open)??;
    let schema = input.schema();
    Ok(Box::new(Guarded { path: path.to_owned(), input: Some(input), schema }))
}

fn read<T>(path: &Path, read: impl FnOnce() -> T) -> Result<T, Failure> {
    silence();
    IS_READING.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(read));
    IS_READING.set(false);
    done.map_err(|payload| Failure::corrupt(path, format!("its reader gives up: {}", words(&*payload))))
}

/// Keeps panics that are told as errors off standard error.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !IS_READING.get() {
                loud(what);
            }
        }));
    });
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it doesn't say why")
}

impl Iterator for Guarded {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut input = self.input.take()?;
        match read(&self.path, || (input.next(), input)) {
            Ok((batch, input)) => {
                self.input = Some(input);
                batch
            }
            Err(failure) => Some(Err(failure)),
        }
    }
}

impl Input for Guarded {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        self.input.as_ref().and_then(|input| input.rows())
    }

    fn fraction_done(&self) -> f64 {
        self.input.as_ref().map_or(0.0, |input| input.fraction_done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_schema::Schema;

    /// Gives a batch, then panics.
    struct Fragile(usize);

    impl Iterator for Fragile {
        type Item = Result<RecordBatch, Failure>;

        fn next(&mut self) -> Option<Self::Item> {
            self.0 += 1;
            assert!(self.0 < 2, "page {} is no page", self.0);
            Some(Ok(RecordBatch::new_empty(self.schema())))
        }
    }

    impl Input for Fragile {
        fn schema(&self) -> SchemaRef {
            Arc::new(Schema::empty())
        }

        fn rows(&self) -> Option<u64> {
            Some(7)
        }

        fn fraction_done(&self) -> f64 {
            0.5
        }
    }

    #[test]
    fn panics_of_readers_are_errors_of_files() {
        let mut input = open(Path::new("a.parquet"), || Ok(Box::new(Fragile(0)))).unwrap();
        assert_eq!((input.rows(), input.fraction_done()), (Some(7), 0.5));
        assert!(input.next().unwrap().is_ok());
        let failure = input.next().unwrap().unwrap_err().to_json().to_string();
        assert!(failure.contains("a.parquet: its reader gives up: page 2 is no page"), "{failure}");
        assert!(input.next().is_none());
        let failure = open(Path::new("b.arrow"), || panic!("no")).err().unwrap().to_json().to_string();
        assert!(failure.contains("b.arrow: its reader gives up: no"), "{failure}");
    }
}
