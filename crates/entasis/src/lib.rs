//! The `.ent` file format.

pub mod arrow;
pub mod atomic;
pub mod compare;
pub mod error;
#[doc(hidden)]
pub mod generate;
pub mod metadata;
#[cfg(feature = "object-store")]
mod object_store;
mod read;
pub mod source;
mod write;
pub mod zone;

pub use self::arrow::Strings;
pub use entasis_encoding as encoding;
pub use error::{Error, ErrorKind, Result};
pub use metadata::record::{BlockRef, Chunk, ColumnRecord, PartRef};
#[cfg(feature = "object-store")]
pub use object_store::{AsyncBatches, AsyncReader};
pub use read::{Batches, Damage, Part, Projection, ReadLimits, ReadRequest, Reader, Selected};
pub use write::{EncodeOptions, FileWriter, SortColumn, Summary, WriteOptions, Writer};
