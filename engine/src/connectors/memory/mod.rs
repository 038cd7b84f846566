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
mod told;
mod view;
mod view_rows;
mod view_sink;

use std::sync::Arc;

use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};

pub(crate) use changes::Subscription;
pub use fold_sink::{FOLD_SINK, FoldSink};
pub(crate) use live::LiveTable;
pub use sink::MemorySink;
pub use table::MemoryTable;
pub(crate) use told::ChangelogTable;
pub(crate) use view::ViewTable;
pub use view_sink::{VIEW_SINK, ViewSink};

use registry::Living;

/// The connector's registered name.
pub const CONNECTOR: &str = "memory";

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
