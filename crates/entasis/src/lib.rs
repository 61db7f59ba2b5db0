//! Columnar storage on Arrow: the `.ent` file format, its writer and its reader. `spec/` says what every byte means.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use entasis::encoding::{Comparison, FloatOrder, Predicate, Scalar};
//! use entasis::{Condition, FileWriter, ReadRequest, Reader, ScanRequest, Strings, WriteOptions};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("cities.ent");
//! let cities: ArrayRef = Arc::new(StringArray::from(vec!["Paestum", "Segesta", "Agrigento"]));
//! let columns: ArrayRef = Arc::new(Int64Array::from(vec![50, 36, 34]));
//! let batch = RecordBatch::try_from_iter([("city", cities), ("columns", columns)])?;
//!
//! // Nothing is visible at the path before `finish` returns.
//! let mut writer = FileWriter::create(&path, batch.schema(), WriteOptions::default())?;
//! writer.write(&batch)?;
//! let summary = writer.finish()?;
//! assert_eq!(summary.rows, 3);
//!
//! let reader = Reader::open(&path)?;
//! let projection = reader.projection(&["columns".to_owned()])?;
//! for batch in reader.read(ReadRequest { projection: projection.clone(), ..ReadRequest::default() })? {
//!     assert_eq!(batch?.num_rows(), 3);
//! }
//! // Which cities have more than 35? Answered on encoded values.
//! let more = Predicate::Compare(Comparison::Greater, Scalar::Int(35), FloatOrder::default());
//! let request = ScanRequest { projection, condition: Condition::column(1, more), ..ScanRequest::default() };
//! for batch in reader.scan(request)? {
//!     assert_eq!(batch?.column(0).as_ref(), &Int64Array::from(vec![50, 36]));
//! }
//! let projection = reader.projection(&["columns".to_owned()])?;
//! let row = reader.take(&[1], &projection, Strings::AsStored)?;
//! assert_eq!(row.column(0).as_ref(), &Int64Array::from(vec![36]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod arrow;
pub mod atomic;
pub mod blocks;
mod bloom;
pub mod compare;
mod describe;
mod error;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod generate;
pub mod metadata;
#[cfg(feature = "object-store")]
mod object_store;
mod read;
pub mod scan;
pub mod source;
mod views;
mod write;
pub mod zone;

pub use entasis_encoding as encoding;

pub use self::arrow::Strings;
pub use bloom::{BLOOM_RATE, BLOOM_RATES, BloomLayout, BloomRef};
pub use describe::{CascadeUse, ColumnDescription};
pub use error::{Error, ErrorKind, Result};
pub use metadata::record::{BlockRef, Chunk, ColumnRecord, PartRef};
#[cfg(feature = "object-store")]
pub use object_store::{AsyncBatches, AsyncReader, AsyncScan, AsyncSource};
pub use read::{Batches, Damage, Part, Projection, ReadLimits, ReadRequest, Reader, Selected};
pub use scan::{Condition, Scan, ScanRequest};
pub use write::{BloomColumn, EncodeOptions, FileWriter, Profile, SortColumn, Summary, WriteOptions, Writer};
