//! A materialized view as a table: readable, and changed by its job alone.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnBound, PhysicalPlan, TableStatistics};
use thalweg_runtime::Result;
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::operators::sink::SinkSpec;

use super::changes::Subscription;
use super::view_rows::ViewRows;
use super::view_sink::VIEW_SINK;
use super::{CONNECTOR, registry};
use crate::catalog::Table;

/// The rows of a view, for those who read it.
#[derive(Debug, Clone)]
pub(crate) struct ViewTable {
    rows: Arc<ViewRows>,
    /// Whether rows may go that were there.
    withdraws: bool,
    /// What columns are never below, over the watermarks of the view's job.
    bounds: Arc<[ColumnBound]>,
}

impl ViewTable {
    /// A view without rows whose memory is charged under its name. Types whose values cannot be compared are errors.
    pub(crate) fn new(schema: SchemaRef, memory: &Arc<MemoryManager>, name: &str) -> Result<Self> {
        let rows = Arc::new(ViewRows::new(registry::new_id(), schema, memory, name)?);
        registry::add_view(&rows);
        Ok(ViewTable { rows, withdraws: true, bounds: Arc::default() })
    }

    /// The view with what its plan says of its rows.
    pub(crate) fn planned(self, plan: &PhysicalPlan) -> Self {
        let bounds = plan.bounds.iter().cloned().collect();
        ViewTable { withdraws: plan.root.changes, bounds, ..self }
    }

    /// Whether rows may go that were there.
    pub(crate) fn may_withdraw(&self) -> bool {
        self.withdraws
    }

    /// What columns are never below, over the watermarks that those who follow the view are told.
    pub(crate) fn known_bounds(&self) -> &Arc<[ColumnBound]> {
        &self.bounds
    }

    /// The number that plans name it by.
    pub(crate) fn id(&self) -> u64 {
        self.rows.id()
    }

    /// The sink that folds changes into the view.
    pub(crate) fn fold(&self) -> SinkSpec {
        SinkSpec { sink: VIEW_SINK.to_string(), options: self.options() }
    }

    /// The rows as they are now and every change from now on.
    pub(crate) fn subscribe(&self) -> Arc<Subscription> {
        self.rows.subscribe()
    }

    /// The rows of the last commit.
    pub(crate) fn batches(&self) -> Arc<Vec<RecordBatch>> {
        self.rows.batches()
    }
}

impl Table for ViewTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema().clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!({ "table": self.rows.id() })
    }

    fn can_be_followed(&self) -> bool {
        true
    }

    fn statistics(&self) -> TableStatistics {
        let rows: usize = self.batches().iter().map(RecordBatch::num_rows).sum();
        TableStatistics {
            rows: Some(rows as f64),
            provenance: Provenance::Exact,
            bytes: None,
            columns: Vec::new(),
        }
    }

    fn constraints(&self) -> Option<&Constraints> {
        None
    }
}
