//! Making rules for plans known to a session.

use std::sync::Arc;

use datafusion::{
    execution::{SessionStateBuilder, session_state::SessionState},
    physical_optimizer::PhysicalOptimizerRule,
};

/// Adds a rule behind those that the session has, unless it has one of that name.
pub(crate) fn add_rule(state: &mut SessionState, rule: impl PhysicalOptimizerRule + Send + Sync + 'static) {
    if state.physical_optimizers().iter().all(|known| known.name() != rule.name()) {
        let builder = SessionStateBuilder::new_from_existing(state.clone());
        *state = builder.with_physical_optimizer_rule(Arc::new(rule)).build();
    }
}
