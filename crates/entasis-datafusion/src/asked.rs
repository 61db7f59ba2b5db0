//! What a plan asks of its files, whatever their format.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::SchemaRef;
use datafusion::{
    common::{Result, ScalarValue},
    datasource::{listing::PartitionedFile, table_schema::TableSchema},
    physical_expr::{PhysicalExpr, projection::ProjectionExprs, simplifier::PhysicalExprSimplifier},
    physical_expr_adapter::{
        PhysicalExprAdapterFactory, replace_columns_with_literals, rewrite::rewrite_input_file_name_in_projection,
    },
    physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr},
};

use crate::predicates::Predicates;

/// Columns and rows of a table, in the words of the plan.
#[derive(Clone)]
pub(crate) struct Asked {
    pub adapters: Arc<dyn PhysicalExprAdapterFactory>,
    pub table: TableSchema,
    pub projection: ProjectionExprs,
    /// The schema of every batch.
    pub output: SchemaRef,
    pub batch_rows: usize,
    /// What rows must pass, on the table's columns.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    pub predicates: Predicates,
    pub limit: Option<usize>,
}

impl Asked {
    /// Which version of itself the predicate is; 0 for one that never changes.
    pub fn generation(&self) -> u64 {
        self.predicate.as_ref().map_or(0, snapshot_generation)
    }

    /// What is asked of the rows of this file, as it stands now: some of it may come from operators that are running.
    pub fn predicate_now(&self, file: &PartitionedFile, physical: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(predicate) = &self.predicate else { return Ok(None) };
        self.adapt(snapshot_physical_expr(predicate.clone())?, file, physical).map(Some)
    }

    /// The plan's columns in terms of this file's.
    pub fn adapt_projection(&self, file: &PartitionedFile, physical: &SchemaRef) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
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
