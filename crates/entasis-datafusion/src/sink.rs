//! Writing: `COPY … TO`, `INSERT INTO`.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    arrow::compute::cast,
    common::{
        DataFusionError, Result,
        runtime::{JoinSet, SpawnedTask},
    },
    datasource::{
        file_format::write::{SharedBuffer, demux::DemuxedStreamReceiver, get_writer_schema},
        physical_plan::{FileSink, FileSinkConfig},
        sink::DataSink,
    },
    execution::{SendableRecordBatchStream, TaskContext},
    object_store::{ObjectStore, buffered::BufWriter},
    physical_expr::{LexRequirement, expressions::Column},
    physical_plan::{DisplayAs, DisplayFormatType},
};
use entasis::{SortColumn, Strings, WriteOptions, Writer, arrow::target_type};
use tokio::{
    io::AsyncWriteExt,
    sync::{mpsc::Receiver, watch},
    task::JoinError,
};

use crate::{error::external, options::FormatOptions};

/// Encoded bytes that wait before they are handed to the store.
const BUFFER_BYTES: usize = 1024 * 1024;

/// Writes `.ent` files. None is visible before it is complete.
pub(crate) struct EntasisSink {
    config: FileSinkConfig,
    options: WriteOptions,
}

impl EntasisSink {
    /// A sink for rows that come in `order`.
    pub fn new(config: FileSinkConfig, options: FormatOptions, order: Option<&LexRequirement>) -> Self {
        let sort_order = order.map(|order| sort_order(order, config.output_schema())).unwrap_or_default();
        Self { config, options: WriteOptions { sort_order, ..options.write_options() } }
    }

    /// What the files say about the order of their rows: nothing where folders divide them.
    fn write_options(&self) -> WriteOptions {
        let mut options = self.options.clone();
        if !self.config.table_partition_cols.is_empty() {
            options.sort_order.clear();
        }
        options
    }
}

/// The keys of `order` as a file declares them, up to the first that isn't a column in an order that both know.
fn sort_order(order: &LexRequirement, schema: &Schema) -> Vec<SortColumn> {
    let key = |key: &datafusion::physical_expr::PhysicalSortRequirement| {
        let column = key.expr.downcast_ref::<Column>()?;
        let field = schema.fields().get(column.index())?;
        let options = key.options?;
        let data_type = field.data_type();
        let is_known =
            data_type.is_integer() || data_type.is_temporal() || data_type.is_string() || data_type.is_decimal();
        is_known.then(|| SortColumn {
            column: field.name().clone(),
            descending: options.descending,
            nulls_first: options.nulls_first,
        })
    };
    order.iter().map_while(key).collect()
}

impl fmt::Debug for EntasisSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntasisSink").field("config", &self.config).finish()
    }
}

impl DisplayAs for EntasisSink {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "EntasisSink(to={})", self.config.original_url)
            }
            DisplayFormatType::TreeRender => write!(f, "format: entasis\nto={}", self.config.original_url),
        }
    }
}

#[async_trait]
impl DataSink for EntasisSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for EntasisSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        _context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        mut files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let schema = Arc::new(stored_schema(&get_writer_schema(&self.config)));
        // A query that fails ends its rows as one that succeeds does: which of the two it was is known only afterwards.
        let (succeed, success) = watch::channel(false);
        let mut writing = JoinSet::new();
        while let Some((path, batches)) = files.recv().await {
            let upload = BufWriter::new(store.clone(), path);
            writing.spawn(write_file(upload, batches, success.clone(), schema.clone(), self.write_options()));
        }
        let demuxed = demux.join_unwind().await.map_err(joined)?;
        if demuxed.is_ok() {
            succeed.send_replace(true);
        }
        drop(succeed);
        let mut written = Ok(0);
        while let Some(file) = writing.join_next().await {
            let file = file.map_err(joined)?;
            written = written.and_then(|rows: u64| Ok(rows + file?));
        }
        // A file that failed closed its channel, and says why.
        written.and_then(|rows| demuxed.map(|()| rows))
    }
}

/// The schema of a file: strings with offsets, as readers expect them, instead of the engine's views.
fn stored_schema(schema: &Schema) -> Schema {
    let field = |field: &arrow_schema::FieldRef| {
        let data_type = target_type(field.data_type(), Strings::Offsets);
        field.as_ref().clone().with_data_type(data_type)
    };
    Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone())
}

fn joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// Writes one file, makes it visible once the query has succeeded, and says how many rows it has.
async fn write_file(
    mut upload: BufWriter,
    mut batches: Receiver<RecordBatch>,
    mut success: watch::Receiver<bool>,
    schema: SchemaRef,
    options: WriteOptions,
) -> Result<u64> {
    let written = write_batches(&mut upload, &mut batches, schema, options).await;
    // The rest is dropped unread, so that nobody waits for room.
    drop(batches);
    let has_succeeded = success.wait_for(|success| *success).await.is_ok();
    if written.is_ok() && has_succeeded {
        upload.shutdown().await?;
    } else {
        // What went wrong is what the caller wants to know; parts that can't be taken back expire.
        let _ = upload.abort().await;
    }
    written
}

async fn write_batches(
    upload: &mut BufWriter,
    batches: &mut Receiver<RecordBatch>,
    schema: SchemaRef,
    options: WriteOptions,
) -> Result<u64> {
    let buffer = SharedBuffer::new(BUFFER_BYTES);
    let mut writer = Writer::new(buffer.clone(), schema.clone(), options).map_err(external)?;
    while let Some(batch) = batches.recv().await {
        writer.write(&stored_batch(&batch, &schema)?).map_err(external)?;
        let waiting = std::mem::take(&mut *buffer.buffer.lock().await);
        if !waiting.is_empty() {
            upload.put(waiting.into()).await?;
        }
    }
    let (_, summary) = writer.finish().map_err(external)?;
    let waiting = std::mem::take(&mut *buffer.buffer.lock().await);
    upload.put(waiting.into()).await?;
    Ok(summary.rows)
}

/// A batch with the types of the file.
fn stored_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        Ok(if array.data_type() == field.data_type() { array.clone() } else { cast(array, field.data_type())? })
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}
