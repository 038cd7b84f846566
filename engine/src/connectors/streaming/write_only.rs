//! Reading from a table that is only a sink: an error that says so.

use std::sync::Arc;

use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

/// The source that sinks have.
#[derive(Debug, Default)]
pub struct WriteOnly;

impl SourceConnector for WriteOnly {
    fn open(&self, spec: &SourceSpec, _job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        Err(Error::User {
            message: format!(
                "nothing can be read from a table of the connector \"{}\"",
                spec.connector
            ),
            detail: None,
            hint: Some("INSERT INTO it".into()),
        })
    }
}
