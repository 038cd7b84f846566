//! The connector "file": opens a scan by its format.

use std::sync::Arc;

use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};

use super::FileScan;
use super::ordered::OrderedSource;
use crate::connectors::files::FileFormat;
use crate::connectors::{csv, ipc, json, parquet};

/// Reads files of all formats.
#[derive(Debug, Default)]
pub struct FileConnector;

impl SourceConnector for FileConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let scan = FileScan::from_options(&spec.options)?;
        // The rows of one file have an order: what it has said of the time holds in all that is behind.
        let tells_time = spec.event_time.as_ref().is_some_and(|time| time.tells_time);
        let name = match scan.files.as_slice() {
            [file] if tells_time => Some(file.name.clone()),
            _ => scan.ordered.then(|| "all files in their order".to_string()),
        };
        let source = match scan.kind.format {
            FileFormat::Parquet => parquet::open(spec, scan, job),
            FileFormat::Csv => csv::open(spec, scan, job),
            FileFormat::Json => json::open(spec, scan, job),
            FileFormat::Arrow => ipc::open(spec, scan, job),
        }?;
        Ok(match name {
            Some(name) => OrderedSource::over(source, name),
            None => source,
        })
    }
}
