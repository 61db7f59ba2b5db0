//! The file format: schemas, statistics and order of files, plans that read and write them.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DataFusionError, Result, Statistics, not_impl_err},
    datasource::{
        file_format::{FileFormat, FileMeta, file_compression_type::FileCompressionType},
        physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource},
        sink::DataSinkExec,
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    logical_expr::dml::InsertOp,
    object_store::{ObjectMeta, ObjectStore},
    physical_expr::{LexOrdering, LexRequirement},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
};
use futures::{StreamExt, TryStreamExt};

use crate::{
    opened::FileCache,
    options::FormatOptions,
    place::Place,
    schema::{merge, read_schema},
    sink::EntasisSink,
    source::{EntasisSource, Files},
    statistics::ordering_of,
};

/// The extension of files, without a dot.
pub(crate) const EXTENSION: &str = "ent";

/// `.ent` files as a format of DataFusion. Tables whose formats come from one factory share their open files.
#[derive(Debug, Clone, Default)]
pub struct EntasisFormat {
    options: FormatOptions,
    files: Arc<FileCache>,
}

impl EntasisFormat {
    /// The format with these options.
    pub fn new(options: FormatOptions) -> Self {
        Self { options, files: Arc::default() }
    }

    pub(crate) fn with_files(options: FormatOptions, files: Arc<FileCache>) -> Self {
        Self { options, files }
    }
}

#[async_trait]
impl FileFormat for EntasisFormat {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        if compression.is_compressed() {
            return not_impl_err!(".ent files are encoded, and never compressed as a whole");
        }
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema_of = |object: ObjectMeta| async move {
            let file = self.files.open(&Place::of(state, store), &object).await?;
            let schema = read_schema(file.schema(), self.options.strings);
            Ok::<_, DataFusionError>((object.location.to_string(), schema))
        };
        let at_a_time = state.config_options().execution.meta_fetch_concurrency.get();
        let schemas: Vec<(String, Schema)> =
            futures::stream::iter(objects.to_vec()).map(schema_of).buffered(at_a_time).try_collect().await?;
        merge(&schemas)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(self.infer_stats_and_ordering(state, store, table_schema, object).await?.statistics)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        ordering_of(&*self.files.open(&Place::of(state, store), object).await?, &table_schema).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let file = self.files.open(&Place::of(state, store), object).await?;
        let described = file.described(&table_schema).await?;
        Ok(FileMeta::new(described.statistics.clone()).with_ordering(described.ordering.clone()))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let memory = state.runtime_env().memory_pool.clone();
        let Some(source) = config.file_source().downcast_ref::<EntasisSource>() else {
            return not_impl_err!("a scan of .ent files by the source of another format");
        };
        let source = Arc::new(source.clone().with_memory_pool(memory).at(Place::at(state, &config.object_store_url)?));
        Ok(DataSourceExec::from_data_source(FileScanConfigBuilder::from(config).with_source(source).build()))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.insert_op != InsertOp::Append {
            return not_impl_err!("{} into a table of .ent files: only rows can be added", config.insert_op);
        }
        // Rows that come in order, in one stream, are kept in it, and the files say so.
        let is_one_stream = input.output_partitioning().partition_count() == 1;
        let order =
            order.or_else(|| input.output_ordering().filter(|_| is_one_stream).cloned().map(LexRequirement::from));
        let sink = EntasisSink::new(config, self.options.clone(), order.as_ref());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(EntasisSource::with_files(table_schema, Files::Ent(self.files.clone())))
    }
}
