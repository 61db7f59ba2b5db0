//! Making the format known to a session.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider, TableProviderFactory},
    common::{GetExt, Result},
    datasource::{
        file_format::{FileFormat, FileFormatFactory},
        listing::{ListingTable, ListingTableUrl},
        listing_table_factory::ListingTableFactory,
    },
    logical_expr::CreateExternalTable,
    prelude::SessionContext,
};

use crate::{
    aggregate::AnswerAggregates,
    format::{EXTENSION, EntasisFormat},
    opened::FileCache,
    options::FormatOptions,
    output::EvaluateInScans,
    place::Place,
    predicates::ScanOptions,
    rules::add_rule,
};

/// Registers `.ent` files with a session: `STORED AS ENTASIS` (or `ENT`), `COPY … TO 'x.ent'`, and, where the session
/// has URL tables enabled, `FROM 'x.ent'`. Aggregates of all rows of such files are answered by their scans. The session's cache of listings is switched off, for it would hide files
/// that were overwritten.
pub fn register(context: &SessionContext) -> Result<()> {
    if let Some(listings) = context.runtime_env().cache_manager.get_list_files_cache() {
        listings.update_cache_limit(0);
    }
    let state = context.state_ref();
    let mut state = state.write();
    state.register_file_format(Arc::new(<EntasisFormatFactory as Default>::default()), true)?;
    add_rule(&mut state, AnswerAggregates);
    add_rule(&mut state, EvaluateInScans);
    for name in ["ENTASIS", "ENT"] {
        state.table_factories_mut().insert(name.to_owned(), Arc::new(EntasisTableFactory::default()));
    }
    ScanOptions::register(state.config_mut().options_mut());
    Ok(())
}

/// Makes formats from the options of statements. All of them share their open files.
#[derive(Debug, Default)]
pub struct EntasisFormatFactory {
    files: Arc<FileCache>,
}

impl FileFormatFactory for EntasisFormatFactory {
    fn create(&self, _state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(EntasisFormat::with_files(FormatOptions::parse(options)?, self.files.clone())))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(EntasisFormat::with_files(FormatOptions::default(), self.files.clone()))
    }
}

impl GetExt for EntasisFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }
}

/// Makes tables of `CREATE EXTERNAL TABLE … STORED AS ENTASIS`: DataFusion's own, which look for the format by its
/// extension.
#[derive(Debug, Default)]
pub struct EntasisTableFactory {
    listing: ListingTableFactory,
}

#[async_trait]
impl TableProviderFactory for EntasisTableFactory {
    async fn create(&self, state: &dyn Session, statement: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        // What is wrong with a place, the factory says.
        if let Some(url) = statement.locations.first().and_then(|location| ListingTableUrl::parse(location).ok()) {
            let _ = Place::at(state, &url.object_store());
        }
        let statement = CreateExternalTable { file_type: EXTENSION.to_owned(), ..statement.clone() };
        let table = self.listing.create(state, &statement).await?;
        Ok(match table.downcast_ref::<ListingTable>() {
            // Its cache of statistics knows files by path, size and time; ours by version.
            Some(listing) => Arc::new(listing.clone().with_cache(None)),
            None => table,
        })
    }
}
