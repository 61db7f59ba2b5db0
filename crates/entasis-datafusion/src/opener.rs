//! A file, or some rows of it, as a stream of batches with the columns of the plan.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::{
    common::{Result, ScalarValue},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener},
        table_schema::TableSchema,
    },
    execution::memory_pool::{MemoryConsumer, MemoryPool},
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs, simplifier::PhysicalExprSimplifier},
    physical_expr_adapter::{
        PhysicalExprAdapterFactory, replace_columns_with_literals, rewrite::rewrite_input_file_name_in_projection,
    },
};
use entasis::ReadRequest;
use futures::{StreamExt, stream::BoxStream};

use crate::{
    memory::held_bytes,
    needed::Needed,
    opened::{FileCache, OpenFile},
    ranges::rows_of,
    schema::{read_schema, strings_of},
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
    pub limit: Option<usize>,
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
        let needed = Needed::of(&columns, &physical);
        let columns = columns.into_iter().map(|column| needed.reassign(column)).collect::<Result<Vec<_>>>()?;
        let rows = self.rows(&file, &opened);
        let projection = needed.projection();
        let held = match &self.memory {
            None => None,
            Some(pool) => {
                let reservation = MemoryConsumer::new(format!("EntasisScan[{}]", self.partition)).register(pool);
                reservation.try_grow(opened.call(|reader| held_bytes(reader, &projection, &rows)).await?)?;
                Some(reservation)
            }
        };
        let request = ReadRequest {
            projection,
            rows: Some(rows),
            batch_rows: self.batch_rows,
            strings,
            ..ReadRequest::default()
        };
        let batches = opened.read(request).await?;
        let output = self.output;
        let batches = batches.map(move |batch| {
            // Given back when the stream ends or is dropped.
            let _held = &held;
            project(&batch?, &columns, &output)
        });
        Ok(batches.boxed())
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

    /// The rows of the file that are wanted.
    fn rows(&self, file: &PartitionedFile, opened: &OpenFile) -> Range<u64> {
        let mut rows = match &file.range {
            Some(range) => rows_of(range, file.object_meta.size, opened.row_group_rows()),
            None => 0..opened.rows(),
        };
        if let Some(limit) = self.limit {
            rows.end = rows.end.min(rows.start.saturating_add(limit as u64));
        }
        rows
    }
}

/// The plan's columns of a batch.
fn project(batch: &RecordBatch, columns: &[Arc<dyn PhysicalExpr>], output: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let arrays = columns.iter().map(|column| column.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(output.clone(), arrays, &options)?)
}
