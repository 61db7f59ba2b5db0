//! What a scan is asked for: conditions on rows.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use entasis_encoding::Predicate;

use crate::{Projection, error::Result};

/// Rows pass for which this is true. A null is true of neither a predicate nor its negation, but of [`Predicate::IsNull`].
#[derive(Debug, Clone)]
pub enum Condition {
    /// All rows, or none.
    Always(bool),
    /// All of these.
    And(Vec<Condition>),
    /// Any of these.
    Or(Vec<Condition>),
    /// Where the condition is false; where it is neither true nor false, its negation isn't true either.
    Not(Box<Condition>),
    /// A predicate on a column, answered by zones and on encoded values.
    Column {
        /// Number of the top-level column, then of fields of structs. Where a struct is null, so are its fields.
        path: Vec<usize>,
        /// What is asked. Literals are of the kind that [`scalar_of`](super::scalar_of) gives for the column's type.
        predicate: Predicate,
    },
    /// Anything else, evaluated on decoded values of rows that pass what else is asked; if it needs one column, on its distinct values
    /// where these are fewer.
    Expression(Arc<dyn Expression>),
}

impl Condition {
    /// A predicate on a top-level column.
    pub fn column(column: usize, predicate: Predicate) -> Self {
        Self::Column { path: vec![column], predicate }
    }
}

/// What an engine evaluates for a scan.
pub trait Expression: Debug + Send + Sync {
    /// The columns that it needs, in the order in which it takes them; byte strings come as they do in the scan's batches.
    fn projection(&self) -> &Projection;

    /// Whether it may be asked about the distinct values of its column instead of rows, if it needs one: who measures what that is worth
    /// says no.
    fn asks_values(&self) -> bool {
        true
    }

    /// One value for each row of `batch`, which has the columns of the projection. Must not depend on other rows, and always say the same
    /// of the same values. If the expression needs one column, it may be asked about values, and a null, that no row has.
    ///
    /// # Errors
    /// What evaluating ends with; the scan ends with it, too, if it was asked about rows.
    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray>;
}
