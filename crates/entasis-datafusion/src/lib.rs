//! DataFusion on Entasis: `.ent` files as tables, and predicates answered on encoded values.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::common::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("cities.ent").display().to_string();
//! let context = SessionContext::new();
//! entasis_datafusion::register(&context)?;
//! context.sql(&format!("COPY (VALUES ('Paestum', 50), ('Segesta', 36)) TO '{path}'")).await?.collect().await?;
//! context.sql(&format!("CREATE EXTERNAL TABLE cities STORED AS ENTASIS LOCATION '{path}'")).await?.collect().await?;
//! let found = context.sql("SELECT column1 FROM cities WHERE column2 > 40").await?.collect().await?;
//! assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
//! # Ok(())
//! # }
//! ```

mod aggregate;
mod asked;
#[cfg(feature = "cache")]
mod cached;
mod error;
mod factory;
mod format;
mod memory;
mod metrics;
mod needed;
mod opened;
mod opener;
mod options;
mod output;
mod place;
mod predicates;
mod ranges;
mod rules;
mod schema;
mod sink;
mod source;
mod statistics;
mod translate;

#[cfg(feature = "cache")]
pub use cached::cache_tables;
pub use factory::{EntasisFormatFactory, EntasisTableFactory, register};
pub use format::EntasisFormat;
pub use options::FormatOptions;
pub use source::EntasisSource;
