//! A Parquet file, or some row groups of it, as a stream of batches with the columns of the plan.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::{
    common::Result,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener, parquet::apply_file_schema_type_coercions},
    },
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    object_store::ObjectStore,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use entasis_cache::{
    Cache,
    read::{ParquetFile, ParquetRequest, ParquetRows, ReadMetrics},
};
use futures::{StreamExt, stream::BoxStream};

use super::task::on_its_own;
use crate::{
    asked::Asked,
    error::of_cache,
    metrics::{Counters, READ},
    needed::Needed,
    output::Output,
    translate::Translation,
};

/// Opens the files of one partition.
#[derive(Clone)]
pub(crate) struct CachedOpener {
    pub cache: Cache,
    pub store: Arc<dyn ObjectStore>,
    /// Names the store.
    pub url: Arc<str>,
    pub asked: Asked,
    pub metrics: ExecutionPlanMetricsSet,
    pub memory: Option<Arc<dyn MemoryPool>>,
    pub partition: usize,
}

impl FileOpener for CachedOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(Box::pin(async move { opener.open_file(file).await }))
    }
}

impl CachedOpener {
    async fn open_file(self, file: PartitionedFile) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let meta = file.object_meta.clone();
        let opened = ParquetFile::open_found(&self.cache, self.store.clone(), self.url.clone(), meta);
        let opened = opened.await.map_err(of_cache)?;
        // Views where the table has views, and text where it has text.
        let opened = match apply_file_schema_type_coercions(self.asked.table.file_schema(), opened.schema()) {
            Some(schema) => opened.with_schema(Arc::new(schema)).map_err(of_cache)?,
            None => opened,
        };
        let physical = Arc::new(alike(opened.schema(), self.asked.table.file_schema()));
        let columns = self.asked.adapt_projection(&file, &physical)?;
        let predicate = self.asked.predicate_now(&file, &physical)?;
        let needed = Needed::of(&columns, &physical);
        let columns = columns.into_iter().map(|column| needed.reassign(column)).collect::<Result<Vec<_>>>()?;
        let output = self.asked.output.clone();
        let output = Output::new(columns, &needed.schema(&physical), output, &self.metrics, self.partition)?;
        let generation = self.asked.generation();
        let mut translation = Translation::new(physical.clone(), self.asked.predicates);
        let in_bytes = |offset: i64| u64::try_from(offset).unwrap_or(0);
        let request = ParquetRequest {
            projection: needed.projection(),
            condition: translation.condition_of(predicate.as_ref())?,
            row_groups: file
                .range
                .as_ref()
                .map(|range| opened.row_groups_in(&(in_bytes(range.start)..in_bytes(range.end)))),
            limit: self.asked.limit.map(|limit| limit as u64),
            batch_rows: self.asked.batch_rows,
        };
        let rows = opened.read(&request).map_err(of_cache)?;
        let counters = Counters::new(READ, &self.metrics, self.partition);
        let held = self
            .memory
            .as_ref()
            .map(|pool| MemoryConsumer::new(format!("CachedScan[{}]", self.partition)).register(pool));
        let reading = Reading {
            asked: self.asked,
            file,
            physical,
            translation,
            rows: Some(rows),
            generation,
            output,
            counters,
            held,
        };
        let batches = futures::stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|batch| (batch, reading)))
        });
        Ok(batches.boxed())
    }
}

/// A file's schema, with the table's fields where they differ in nothing that matters: DataFusion would cast columns for the sake of their
/// metadata, and predicates on casts are no predicates on columns.
fn alike(file: &Schema, table: &Schema) -> Schema {
    let field = |own: &FieldRef| match table.fields().find(own.name()) {
        Some((_, wanted)) if wanted.data_type() == own.data_type() && (wanted.is_nullable() || !own.is_nullable()) => {
            wanted.clone()
        }
        _ => own.clone(),
    };
    Schema::new(file.fields().iter().map(field).collect::<Fields>())
}

/// A file that is being read.
struct Reading {
    asked: Asked,
    file: PartitionedFile,
    physical: SchemaRef,
    translation: Translation,
    /// Nothing after an error.
    rows: Option<ParquetRows>,
    /// Which version of the predicate the rows are asked for; 0 for one that never changes.
    generation: u64,
    output: Output,
    counters: Counters<ReadMetrics>,
    /// What is held: told to the pool, which doesn't refuse it, as it isn't asked for what Parquet's own reader holds.
    held: Option<MemoryReservation>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(mut rows) = self.rows.take() else { return Ok(None) };
        self.follow_predicate(&mut rows)?;
        let (rows, batch) = match rows.next_held() {
            Ok(None) => {
                let next = async move {
                    let batch = rows.next().await;
                    (rows, batch)
                };
                on_its_own(next).await?
            }
            held => (rows, held),
        };
        self.counters.set(&rows.metrics());
        if let Some(held) = &self.held {
            held.resize(rows.held_bytes());
        }
        self.rows = Some(rows);
        batch.map_err(of_cache)?.map(|batch| self.output.project(&batch)).transpose()
    }

    /// Tells the rows of a predicate that has changed since: joins and `ORDER BY … LIMIT` make theirs stricter as they go along.
    fn follow_predicate(&mut self, rows: &mut ParquetRows) -> Result<()> {
        let generation = if self.generation == 0 { 0 } else { self.asked.generation() };
        if generation != self.generation {
            let predicate = self.asked.predicate_now(&self.file, &self.physical)?;
            rows.set_condition(&self.translation.condition_of(predicate.as_ref())?).map_err(of_cache)?;
            self.generation = generation;
        }
        Ok(())
    }
}
