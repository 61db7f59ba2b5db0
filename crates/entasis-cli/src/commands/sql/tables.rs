//! Tables by their files' names.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SessionState;
use datafusion::object_store::ObjectStoreExt;
use url::Url;

use super::errors::Carried;
use super::session::unanswerable;
use crate::exit::Failure;
use crate::format::{Compression, Format};
use crate::paths::{self, Found};

/// Rows of CSV and NDJSON that are looked at for the columns' types.
const INFER_ROWS: usize = 10_000;

/// Finds tables of the session's own kinds of files: one file, a pattern, or a folder.
pub struct PathTables<F>(F);

impl<F> fmt::Debug for PathTables<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathTables")
    }
}

impl<F: Fn() -> Option<SessionState>> PathTables<F> {
    /// Tables for the session whose state `state` gives as long as there is one.
    pub fn new(state: F) -> Self {
        Self(state)
    }
}

#[async_trait]
impl<F: Fn() -> Option<SessionState> + Send + Sync> UrlTableFactory for PathTables<F> {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let path = Path::new(name);
        let found = match paths::expand(&[path.to_owned()]) {
            Ok(found) => found,
            // The name of a table that there isn't, rather than of a file.
            Err(_) if Format::from_extension(path).is_none() && !name.contains(['/', '*']) => return Ok(None),
            Err(failure) => return Err(carried(failure)),
        };
        let Some(state) = (self.0)() else { return Ok(None) };
        open(&state, path, &found).await.map(Some)
    }
}

fn carried(failure: Failure) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(failure)))
}

/// The files of one table, all of the first one's format.
async fn open(state: &SessionState, asked: &Path, found: &[Found]) -> Result<Arc<dyn TableProvider>> {
    let Some(first) = found.first() else { return Err(carried(unanswerable("no file"))) };
    let format_of = |found: &Found| found.with_format(None).map(|(_, format)| format).map_err(carried);
    let kind = format_of(first)?;
    let compression = Compression::of_name(&first.path);
    let format = file_format(state, &first.path, kind, compression)?;
    // Folders that are columns are for the engine to see.
    let is_hive = asked.is_dir() && found.iter().any(|found| found.relative.to_string_lossy().contains('='));
    let mut files = Vec::new();
    for found in found {
        if format_of(found)? == kind && Compression::of_name(&found.path) == compression {
            files.push(url_of(&found.path)?);
        }
    }
    let config = if is_hive {
        let extension = first.path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
        let options = ListingOptions::new(format).with_file_extension(extension.unwrap_or_default());
        let config = ListingTableConfig::new(url_of(asked)?).with_listing_options(options);
        config.infer_partitions_from_path(state).await?.infer_schema(state).await?
    } else {
        let mut objects = Vec::new();
        for file in &files {
            let store = state.runtime_env().object_store(file)?;
            objects.push(store.head(file.prefix()).await?);
        }
        let store = state.runtime_env().object_store(&files[0])?;
        let schema = format.infer_schema(state, &store, &objects).await?;
        let options = ListingOptions::new(format).with_file_extension("");
        ListingTableConfig::new_with_multi_paths(files).with_listing_options(options).with_schema(schema)
    };
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The place of a file or folder, without any sign in its name being taken for a pattern.
fn url_of(path: &Path) -> Result<ListingTableUrl> {
    let failure = |error: std::io::Error| carried(Failure::io(path, &error));
    let whole = std::path::absolute(path).map_err(failure)?;
    let url = if path.is_dir() { Url::from_directory_path(&whole) } else { Url::from_file_path(&whole) };
    let url = url.map_err(|()| carried(unanswerable(format!("{}: no name that a table can have", path.display()))))?;
    ListingTableUrl::try_new(url, None)
}

fn file_format(
    state: &SessionState,
    path: &Path,
    format: Format,
    compression: Option<Compression>,
) -> Result<Arc<dyn FileFormat>> {
    let compression = FileCompressionType::from(match compression {
        None => CompressionTypeVariant::UNCOMPRESSED,
        Some(Compression::Gzip) => CompressionTypeVariant::GZIP,
        Some(Compression::Zstd) => CompressionTypeVariant::ZSTD,
    });
    let registered = |name: &str| {
        let factory = state.get_file_format_factory(name);
        factory.map(|factory| factory.default()).ok_or_else(|| carried(unanswerable(format!("no format {name}"))))
    };
    Ok(match format {
        Format::Ent => registered("ent")?,
        Format::Parquet => match state.get_file_format_factory("parquet") {
            Some(factory) => factory.create(state, &Default::default())?,
            None => registered("parquet")?,
        },
        Format::Arrow | Format::ArrowStream => registered("arrow")?,
        Format::Csv => {
            let csv = CsvFormat::default().with_has_header(true).with_schema_infer_max_rec(INFER_ROWS);
            Arc::new(csv.with_file_compression_type(compression))
        }
        Format::Ndjson => {
            let json = JsonFormat::default().with_schema_infer_max_rec(INFER_ROWS);
            Arc::new(json.with_file_compression_type(compression))
        }
        Format::Orc => {
            let what = "ORC isn't read by queries; `entasis convert` makes an .ent file of it";
            return Err(carried(unanswerable(format!("{}: {what}", path.display()))));
        }
    })
}
