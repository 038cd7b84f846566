//! A table or view in memory as the query of a materialized view reads it: its rows, and then every change.
//!
//! Plans that hold it keep the subscription, so that no change is lost between planning and running.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use thalweg_optimizer::{ColumnBound, TableStatistics};

use super::changes::Subscription;
use super::told::{ChangelogTable, Telling};
use crate::catalog::Table;

/// See the module.
#[derive(Debug)]
pub(crate) struct LiveTable {
    subscription: Arc<Subscription>,
    statistics: TableStatistics,
    constraints: Option<Constraints>,
    withdraws: bool,
    /// What columns are never below, if the subscription tells how far event time is.
    bounds: Arc<[ColumnBound]>,
    /// How changes are told, if they are rows of their own.
    telling: Option<Telling>,
}

impl LiveTable {
    /// The table behind a subscription; what is known of it is what is known of `table`, and whether its rows may go.
    pub(crate) fn new(subscription: Arc<Subscription>, table: &dyn Table, withdraws: bool) -> Self {
        LiveTable {
            subscription,
            statistics: table.statistics(),
            constraints: table.constraints().cloned(),
            withdraws,
            bounds: Arc::default(),
            telling: None,
        }
    }

    /// The table with what is known of its columns in event time.
    pub(crate) fn with_bounds(self, bounds: Arc<[ColumnBound]>) -> Self {
        LiveTable { bounds, ..self }
    }

    /// The changelog of the table behind a subscription.
    pub(crate) fn told(subscription: Arc<Subscription>, changelog: &ChangelogTable) -> Self {
        let telling = Some(changelog.telling().clone());
        LiveTable { telling, ..LiveTable::new(subscription, changelog, false) }
    }
}

impl Table for LiveTable {
    fn schema(&self) -> SchemaRef {
        match &self.telling {
            Some(telling) => telling.schema(self.subscription.schema()),
            None => self.subscription.schema().clone(),
        }
    }

    fn connector(&self) -> &str {
        super::CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        let options = serde_json::json!({ "follow": self.subscription.id() });
        match &self.telling {
            Some(telling) => telling.add_to(options),
            None => options,
        }
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

    fn tells_watermarks(&self) -> bool {
        self.telling.is_none()
    }

    fn bounds(&self) -> &[ColumnBound] {
        &self.bounds
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }
}
