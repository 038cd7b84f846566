//! Tests of files that appear and grow, reader by reader.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::Constraints;
use thalweg_runtime::Result;
use thalweg_runtime::expr::Expr;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{
    EventTimeSpec, Source, SourceConnector, SourceOutput, SourceReader, SourceSpec, SplitEvent,
};

use super::watch::WatchConnector;
use crate::connectors::registry::{self, TableDefinition};
use crate::connectors::testing;

/// A scan of a folder of numbers, in which event time counts.
fn spec(folder: &Path) -> SourceSpec {
    let definition = TableDefinition {
        name: "w".into(),
        connector: "filesystem".into(),
        format: Some("csv".into()),
        locations: vec![folder.display().to_string()],
        schema: Some(Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))),
        constraints: Constraints::default(),
        options: vec![
            ("scan.watch".into(), "true".into()),
            ("scan.watch.interval".into(), "5 ms".into()),
        ],
        partition_columns: Vec::new(),
        dead_letters: None,
    };
    let table = registry::create(definition).unwrap();
    assert!(table.is_unbounded());
    let event_time = EventTimeSpec {
        time: Some(Expr::Column(0)),
        watermark: Some(Expr::Column(0)),
        types: vec![DataType::Int64],
        delivered: 1,
        name: String::new(),
        null_time: thalweg_runtime::source::NullTime::SkipWatermark,
        tells_time: true,
        emit_interval_ns: 0,
        idle_timeout_ns: 0,
        alignment: None,
    };
    SourceSpec { event_time: Some(event_time), ..testing::spec(table.as_ref()) }
}

struct Reading {
    job: Arc<JobContext>,
    spec: SourceSpec,
    source: Arc<dyn Source>,
    reader: Box<dyn SourceReader>,
    rows: Vec<String>,
    events: Vec<SplitEvent>,
}

impl Reading {
    fn new(spec: &SourceSpec) -> Self {
        let job = testing::job();
        let source = WatchConnector.open(spec, &job).unwrap();
        let reader = source.reader(0).unwrap();
        Reading { job, spec: spec.clone(), source, reader, rows: vec![], events: vec![] }
    }

    fn step(&mut self) -> Result<bool> {
        match testing::with_context(&self.job, (0, 1), |cx| self.reader.step(cx))? {
            SourceOutput::Batch(batch) => {
                let batch = batch.to_record_batch(testing::output_schema(&self.spec))?;
                self.rows.extend(testing::rows_as_text(&batch));
            }
            SourceOutput::Split(event) => self.events.push(event),
            SourceOutput::Wait(_) => std::thread::park_timeout(Duration::from_millis(20)),
            SourceOutput::Continue => {}
            SourceOutput::Finished => return Ok(false),
        }
        Ok(true)
    }

    /// Reads until something is so.
    fn until(&mut self, so: impl Fn(&Self) -> bool) -> Result<()> {
        while !so(self) {
            assert!(self.step()?, "watched files have no end");
        }
        Ok(())
    }

    fn caught_up(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, SplitEvent::CaughtUp(_))).count()
    }

    fn ended(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, SplitEvent::Ended(_))).count()
    }
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn time_waits_for_the_files_that_are_there_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..20 {
        fs::write(folder.path().join(format!("{i}.csv")), format!("{i}\n")).unwrap();
    }
    let mut reading = Reading::new(&spec(folder.path()));
    assert_eq!(reading.source.pending_from_us(), Some(i64::MIN));
    // Whenever a row is there that another file could be late for, that file is known to be pending or begun.
    reading.until(|r| r.source.pending_from_us().is_none()).unwrap();
    let begun = reading.events.iter().filter(|e| matches!(e, SplitEvent::Reading(_))).count();
    assert!(begun >= 12, "{begun} of 20 files");
    reading.until(|r| r.caught_up() >= 20).unwrap();
    let mut rows: Vec<i64> = reading.rows.iter().map(|row| row.parse().unwrap()).collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..20).collect::<Vec<i64>>());
}

#[test]
fn a_reader_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "1\n2\n3").unwrap();
    let spec = spec(folder.path());
    let mut first = Reading::new(&spec);
    first.until(|r| r.caught_up() == 1).unwrap();
    assert_eq!(first.rows, ["1", "2"]);
    let position = first.reader.snapshot().unwrap();
    append(&path, "0\n4\n");
    fs::write(folder.path().join("b.csv"), "5\n").unwrap();
    let mut second = Reading::new(&spec);
    second.reader.restore(&position).unwrap();
    second.until(|r| r.rows.len() == 3).unwrap();
    second.rows.sort_unstable();
    assert_eq!(second.rows, ["30", "4", "5"]);
    append(&path, "x\n");
    let error = second.until(|_| false).unwrap_err().to_string();
    assert!(error.contains("line 5") && error.contains("a.csv"), "{error}");
}

#[test]
fn a_file_that_is_removed_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "1\n2").unwrap();
    let mut reading = Reading::new(&spec(folder.path()));
    reading.until(|r| r.caught_up() == 1).unwrap();
    assert_eq!(reading.rows, ["1"]);
    fs::remove_file(&path).unwrap();
    reading.until(|r| r.ended() == 1).unwrap();
    assert_eq!(reading.rows, ["1", "2"]);
}

#[test]
fn another_file_under_the_name_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "1\n").unwrap();
    let mut reading = Reading::new(&spec(folder.path()));
    reading.until(|r| r.caught_up() == 1).unwrap();
    let other = folder.path().join(".other");
    fs::write(&other, "1\n2\n").unwrap();
    fs::rename(&other, &path).unwrap();
    let error = reading.until(|_| false).unwrap_err().to_string();
    assert!(error.contains("a.csv") && error.contains("another file"), "{error}");
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "1\n2\n3\n").unwrap();
    let mut reading = Reading::new(&spec(folder.path()));
    reading.until(|r| r.caught_up() == 1).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(2).unwrap();
    let error = reading.until(|_| false).unwrap_err().to_string();
    assert!(error.contains("a.csv") && error.contains("became shorter"), "{error}");
}

#[test]
fn compressed_files_cannot_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv.gz"), "1\n").unwrap();
    let error = Reading::new(&spec(folder.path())).until(|_| false).unwrap_err().to_string();
    assert!(error.contains("a.csv.gz") && error.contains("compressed"), "{error}");
}
