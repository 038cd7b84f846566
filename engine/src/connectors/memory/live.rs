//! A table or view in memory as the query of a materialized view reads it: its rows, and then every change.
//!
//! Plans that hold it keep the subscription, so that no change is lost between planning and running.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use thalweg_optimizer::TableStatistics;

use super::changes::Subscription;
use crate::catalog::Table;

/// See the module.
#[derive(Debug)]
pub(crate) struct LiveTable {
    subscription: Arc<Subscription>,
    statistics: TableStatistics,
    constraints: Option<Constraints>,
    withdraws: bool,
}

impl LiveTable {
    /// The table behind a subscription; what is known of it is what is known of `table`, and whether its rows may go.
    pub(crate) fn new(subscription: Arc<Subscription>, table: &dyn Table, withdraws: bool) -> Self {
        LiveTable {
            subscription,
            statistics: table.statistics(),
            constraints: table.constraints().cloned(),
            withdraws,
        }
    }
}

impl Table for LiveTable {
    fn schema(&self) -> SchemaRef {
        self.subscription.schema().clone()
    }

    fn connector(&self) -> &str {
        super::CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!({ "follow": self.subscription.id() })
    }

    fn statistics(&self) -> TableStatistics {
        self.statistics.clone()
    }

    fn is_unbounded(&self) -> bool {
        true
    }

    fn withdraws(&self) -> bool {
        self.withdraws
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }
}
