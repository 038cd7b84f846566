//! Tables and materialized views in memory.
//!
//! A scan sees the rows as they were when its job first looked at the table; one that follows a table sees them as they
//! were when it was subscribed to, and then every change. Plans name tables, views and subscriptions by numbers.

mod changes;
mod difference;
mod fold_sink;
mod follow;
mod live;
mod registry;
mod scan;
mod sink;
mod statistics;
mod table;
mod times;
mod told;
mod upsert;
mod view;
mod view_rows;
mod view_sink;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

pub(crate) use changes::Subscription;
pub use fold_sink::{FOLD_SINK, FoldSink};
pub(crate) use live::LiveTable;
pub use sink::MemorySink;
pub use table::MemoryTable;
pub(crate) use times::{LateRows, RowTimes};
pub(crate) use told::ChangelogTable;
pub(crate) use upsert::OnKey;
pub(crate) use view::ViewTable;
pub use view_sink::{VIEW_SINK, ViewSink};

use registry::Living;

/// The connector's registered name.
pub const CONNECTOR: &str = "memory";

/// Appends rows to the table of a number, made for its columns.
pub(crate) fn append_to(
    table: u64,
    rows: impl FnOnce(&SchemaRef) -> Result<RecordBatch>,
) -> Result<()> {
    match Living::by_options(&serde_json::json!({ "table": table }))? {
        Living::Table(table) => table.append(vec![rows(table.schema())?]).map(|_| ()),
        Living::View(_) => Err(Error::Internal("rows are to be appended to a view".into())),
    }
}

/// Reads tables and views in memory.
#[derive(Debug, Default)]
pub struct MemoryConnector;

impl SourceConnector for MemoryConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        match Subscription::by_options(&spec.options) {
            Some(subscription) => Ok(follow::open(spec, subscription?, job)),
            None => scan::open(spec, &Living::by_options(&spec.options)?, job),
        }
    }
}
