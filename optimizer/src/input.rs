//! What the optimizer is given: the logical plan and the plans that several places of it read.

use std::fmt;
use std::sync::Arc;

use datafusion_expr::{LogicalPlan, TableSource};

/// Tells whether a table source stands for a shared plan, and for which.
pub type SharedIdOf = Arc<dyn Fn(&dyn TableSource) -> Option<u32> + Send + Sync>;

/// A query to optimize.
#[derive(Clone)]
pub struct OptimizerInput {
    /// The query.
    pub plan: LogicalPlan,
    /// Plans it reads more than once, each before its first reader.
    pub shared: Vec<SharedInput>,
    /// Recognises a table scan that reads a shared plan.
    pub shared_id: SharedIdOf,
}

/// A plan that is read at several places.
#[derive(Debug, Clone)]
pub struct SharedInput {
    /// Its number.
    pub id: u32,
    /// Its name in the query.
    pub name: String,
    /// The plan.
    pub plan: LogicalPlan,
}

impl OptimizerInput {
    /// A query that shares nothing.
    pub fn new(plan: LogicalPlan) -> Self {
        Self { plan, shared: Vec::new(), shared_id: Arc::new(|_| None) }
    }
}

impl fmt::Debug for OptimizerInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimizerInput")
            .field("plan", &self.plan)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}
