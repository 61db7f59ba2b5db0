//! A file, or some rows of it, as a stream of batches with the columns of the plan.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::{
    common::{Result, ScalarValue},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener},
        table_schema::TableSchema,
    },
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs, simplifier::PhysicalExprSimplifier},
    physical_expr_adapter::{
        PhysicalExprAdapterFactory, replace_columns_with_literals, rewrite::rewrite_input_file_name_in_projection,
    },
    physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr},
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use entasis::{Condition, ScanRequest};
use futures::{StreamExt, stream::BoxStream};

use crate::{
    memory::held_bytes,
    metrics::Counters,
    needed::Needed,
    opened::{FileCache, FileScan, OpenFile},
    ranges::rows_of,
    schema::{read_schema, strings_of},
    translate::condition_of,
};

/// Opens the files of one partition.
#[derive(Clone)]
pub(crate) struct EntasisOpener {
    pub files: Arc<FileCache>,
    pub store: Arc<dyn ObjectStore>,
    pub adapters: Arc<dyn PhysicalExprAdapterFactory>,
    pub table: TableSchema,
    pub projection: ProjectionExprs,
    /// The schema of every batch.
    pub output: SchemaRef,
    pub batch_rows: usize,
    /// What rows must pass, on the table's columns.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    pub limit: Option<usize>,
    pub metrics: ExecutionPlanMetricsSet,
    pub memory: Option<Arc<dyn MemoryPool>>,
    pub partition: usize,
}

impl FileOpener for EntasisOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(Box::pin(async move { opener.open_file(file).await }))
    }
}

impl EntasisOpener {
    async fn open_file(self, file: PartitionedFile) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let opened = self.files.open(&self.store, &file.object_meta).await?;
        let strings = strings_of(self.table.file_schema());
        let physical = Arc::new(read_schema(opened.schema(), strings));
        let columns = self.adapt_projection(&file, &physical)?;
        let predicate = self.predicate_now(&file, &physical)?;
        let touched = Needed::of(columns.iter().chain(&predicate), &physical).projection();
        let needed = Needed::of(&columns, &physical);
        let columns = columns.into_iter().map(|column| needed.reassign(column)).collect::<Result<Vec<_>>>()?;
        let rows = match &file.range {
            Some(range) => rows_of(range, file.object_meta.size, opened.row_group_rows()),
            None => 0..opened.rows(),
        };
        let held = match &self.memory {
            None => None,
            Some(pool) => {
                let reservation = MemoryConsumer::new(format!("EntasisScan[{}]", self.partition)).register(pool);
                reservation.try_grow(opened.call(|reader| held_bytes(reader, &touched, &rows)).await?)?;
                Some(reservation)
            }
        };
        let generation = self.predicate.as_ref().map_or(0, snapshot_generation);
        let request = ScanRequest {
            projection: needed.projection(),
            condition: condition(predicate.as_ref(), &physical)?,
            rows: Some(rows),
            limit: self.limit.map(|limit| limit as u64),
            batch_rows: self.batch_rows,
            strings,
        };
        let scan = opened.scan(request).await?;
        let counters = Counters::new(&self.metrics, self.partition);
        let reading =
            Reading { opener: self, file, opened, physical, scan, generation, columns, counters, _held: held };
        let batches = futures::stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|batch| (batch, reading)))
        });
        Ok(batches.boxed())
    }

    /// What is asked of the rows of this file, as it stands now: some of it may come from operators that are running.
    fn predicate_now(&self, file: &PartitionedFile, physical: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(predicate) = &self.predicate else { return Ok(None) };
        self.adapt(snapshot_physical_expr(predicate.clone())?, file, physical).map(Some)
    }

    /// The plan's columns in terms of this file's.
    fn adapt_projection(&self, file: &PartitionedFile, physical: &SchemaRef) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let location = file.object_meta.location.as_ref();
        let projection = rewrite_input_file_name_in_projection(self.projection.clone(), location)?;
        projection.iter().map(|column| self.adapt(column.expr.clone(), file, physical)).collect()
    }

    /// An expression on the table's columns as one on this file's: those of its folders are constants, those that it lacks
    /// nulls, and narrower ones are cast.
    fn adapt(
        &self,
        expression: Arc<dyn PhysicalExpr>,
        file: &PartitionedFile,
        physical: &SchemaRef,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let constants: HashMap<&str, &ScalarValue> = self
            .table
            .table_partition_cols()
            .iter()
            .zip(&file.partition_values)
            .map(|(field, value)| (field.name().as_str(), value))
            .collect();
        let expression =
            if constants.is_empty() { expression } else { replace_columns_with_literals(expression, &constants)? };
        let logical = self.table.file_schema();
        if logical.fields() == physical.fields() {
            return Ok(expression);
        }
        let expression = self.adapters.create(logical.clone(), physical.clone())?.rewrite(expression)?;
        PhysicalExprSimplifier::new(physical).simplify(expression)
    }
}

/// A file that is being read.
struct Reading {
    opener: EntasisOpener,
    file: PartitionedFile,
    opened: Arc<OpenFile>,
    physical: SchemaRef,
    scan: FileScan,
    /// Which version of the predicate the scan has; 0 for one that never changes.
    generation: u64,
    columns: Vec<Arc<dyn PhysicalExpr>>,
    counters: Counters,
    /// Given back when the stream is dropped.
    _held: Option<MemoryReservation>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.follow_predicate().await?;
        let batch = self.scan.next().await;
        self.counters.set(&self.scan.metrics());
        // Bytes of another file may be why a batch can't be read.
        self.opened.check_version()?;
        batch?.map(|batch| project(&batch, &self.columns, &self.opener.output)).transpose()
    }

    /// Tells the scan of a predicate that has changed since: joins and `ORDER BY … LIMIT` make theirs stricter as they go along.
    async fn follow_predicate(&mut self) -> Result<()> {
        let generation = match &self.opener.predicate {
            Some(predicate) if self.generation != 0 => snapshot_generation(predicate),
            _ => return Ok(()),
        };
        if generation != self.generation {
            let predicate = self.opener.predicate_now(&self.file, &self.physical)?;
            self.scan.set_condition(&condition(predicate.as_ref(), &self.physical)?).await?;
            self.generation = generation;
        }
        Ok(())
    }
}

fn condition(predicate: Option<&Arc<dyn PhysicalExpr>>, physical: &SchemaRef) -> Result<Condition> {
    predicate.map_or(Ok(Condition::Always(true)), |predicate| condition_of(predicate, physical))
}

/// The plan's columns of a batch.
fn project(batch: &RecordBatch, columns: &[Arc<dyn PhysicalExpr>], output: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let arrays = columns.iter().map(|column| column.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(output.clone(), arrays, &options)?)
}
