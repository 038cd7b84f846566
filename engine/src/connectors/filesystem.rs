//! The connector "filesystem": files as they are, files that appear and grow, and folders that rows are written into.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use parking_lot::RwLock;
use thalweg_optimizer::{MeasuredShare, TableStatistics};
use thalweg_planner::intervals;
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::operators::sink::SinkSpec;

use super::files::{boolean, is_glob};
use super::metadata::MetadataKey;
use super::registry::TableDefinition;
use super::single_file::{self, RowFormat};
use super::streaming::options::{OF_ALL, wrong_value};
use super::streaming::text::TextFormat;
use super::streaming::watch::{self, WatchSpec};
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::{FILE_SINK, FileFormat, FileOptions, FileTable, FileWriteOptions};
use crate::catalog::{SinkKind, Table, TableSink, set_option};
use crate::error::{Error, Report, Result};

/// The connector's name for users.
pub const CONNECTOR: &str = "filesystem";
/// Milliseconds between two looks at watched files.
const INTERVAL_MS: u64 = 1_000;
/// How long a file of rows without an end takes rows, as users call it.
const ROLLOVER: &str = "sink.rolling-policy.rollover-interval";

/// The options that are not those of files themselves.
const OTHER_KEYS: [&str; 6] =
    ["connector", "format", "path", "scan.watch", "scan.watch.interval", ROLLOVER];

/// The table of a definition. Blocks: looks at the files.
pub(super) fn table(mut definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let (mut paths, mut others) = (std::mem::take(&mut definition.locations), Vec::new());
    let mut watched = false;
    for (key, value) in std::mem::take(&mut definition.options) {
        match key.to_ascii_lowercase().as_str() {
            "path" => paths.push(value),
            "format" => definition.format = Some(value),
            "scan.watch" => watched = boolean("scan.watch", &value)?,
            _ => others.push((key, value)),
        }
    }
    if paths.is_empty() {
        let report = Report::new("a table over files needs the path of its files");
        return Err(Error::catalog(
            report.with_hint("Add LOCATION '…' or WITH ('path' = '…').".to_string()),
        ));
    }
    definition.locations = paths;
    definition.options = others;
    let format = definition.format.as_deref().unwrap_or_default();
    if !watched && RowFormat::by_name(format) == Some(RowFormat::DebeziumJson) {
        return changes(definition);
    }
    match watched {
        true => watched_files(definition),
        false => files(definition),
    }
}

/// A file of changes, which are told in their order.
fn changes(definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let one = match definition.locations.as_slice() {
        [path] => !is_glob(path) && !path.ends_with('/') && !Path::new(path).is_dir(),
        _ => false,
    };
    if !one {
        let report = Report::new("a table of changes is one file")
            .with_hint("Name the file, or watch the folder: 'scan.watch' = 'true'.".to_string());
        return Err(Error::Unsupported(Box::new(report)));
    }
    single_file::table(definition)
}

/// Files that appear and grow.
fn watched_files(definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let schema = definition.columns("scan.watch")?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let format = definition.format.as_deref().map(str::to_ascii_lowercase);
    if matches!(format.as_deref(), Some("parquet" | "arrow")) {
        let report = Report::new("files of this format cannot be watched")
            .with_hint("'format' is 'csv', 'json', 'debezium_json' or 'raw'".to_string());
        return Err(Error::Unsupported(Box::new(report)));
    }
    let dead_letters = definition.dead_letters;
    let text = TextFormat::new(format.as_deref(), &schema, &mut options, dead_letters)?;
    let interval_ms = match options.text("scan.watch.interval") {
        Some(text) => milliseconds("scan.watch.interval", &text)?,
        None => INTERVAL_MS,
    };
    let ordered = options.boolean("scan.splits.ordered")?.unwrap_or(false);
    options.finish()?;
    let withdraws = text.withdraws();
    let spec = WatchSpec { paths: definition.locations, interval_ms, ordered, text };
    let value = serde_json::to_value(spec)
        .map_err(|e| Error::internal(format!("the options of watched files: {e}")))?;
    let constraints = definition.constraints;
    let table = ConnectorTable::unbounded(watch::CONNECTOR, value, schema, constraints);
    Ok(Arc::new(table.withdrawing(withdraws).knowing(MetadataKey::OF_TEXT_FILES)))
}

fn milliseconds(key: &str, text: &str) -> Result<u64> {
    let interval = intervals::parse(text).filter(|interval| interval.months == 0);
    let ms = interval.map(|i| i64::from(i.days) * 86_400_000 + i.nanoseconds / 1_000_000);
    let ms = ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
    ms.ok_or_else(|| wrong_value(key, text, "a time such as '5 s'"))
}

/// Files as they are.
fn files(definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let mut options = FileOptions {
        schema: definition.schema.clone(),
        dead_letters: definition.dead_letters,
        ..FileOptions::default()
    };
    let mut rollover_ms = None;
    for (key, value) in &definition.options {
        if key.eq_ignore_ascii_case("scan.watch.interval") {
            let report = Report::new("scan.watch.interval is for files that are watched");
            return Err(Error::catalog(report.with_hint("Add 'scan.watch' = 'true'.".to_string())));
        }
        if key.eq_ignore_ascii_case(ROLLOVER) {
            rollover_ms = Some(milliseconds(ROLLOVER, value)?);
            continue;
        }
        let others: Vec<&str> = OTHER_KEYS.into_iter().chain(OF_ALL).collect();
        set_option(&mut options, (key, value), &others)?;
    }
    let format = definition.format.as_deref().map(FileFormat::by_name).transpose()?;
    let TableDefinition { locations, schema, constraints, partition_columns, .. } = definition;
    let folder = match (locations.as_slice(), schema, format) {
        ([path], Some(schema), Some(format)) => {
            let files =
                FolderFiles { path: path.clone(), format, options: options.clone(), schema };
            files.sink(&partition_columns, rollover_ms)?.map(|sink| (files, sink))
        }
        _ => None,
    };
    let Some((files, sink)) = folder else {
        if rollover_ms.is_some() {
            let report =
                Report::new(format!("{ROLLOVER} is for folders that rows are written into"));
            let hint = "Such a table has a folder as 'path', columns and a 'format'.".to_string();
            return Err(Error::catalog(report.with_hint(hint)));
        }
        let table = FileTable::discover(&locations, format, &options)?;
        return Ok(Arc::new(table.with_constraints(constraints)));
    };
    let now = files.find()?;
    if now.is_partitioned() && partition_columns.is_empty() {
        // Nobody has said by which columns rows are to be spread over folders.
        return Ok(Arc::new(now.with_constraints(constraints)));
    }
    let (schema, now) = (files.schema.clone(), RwLock::new(Arc::new(now)));
    Ok(Arc::new(FolderTable { files, schema, constraints, sink, now }))
}

/// What tells the files of a folder.
#[derive(Debug)]
struct FolderFiles {
    path: String,
    format: FileFormat,
    options: FileOptions,
    schema: SchemaRef,
}

impl FolderFiles {
    /// The sink for rows that can be read with these options; `None` if the path is no folder.
    fn sink(
        &self,
        partition_columns: &[String],
        rollover_ms: Option<u64>,
    ) -> Result<Option<TableSink>> {
        let plain = self.path.strip_prefix("file://").unwrap_or(&self.path);
        let place = Path::new(plain);
        // A folder that is not there yet has a slash at its end; anything else may be misspelt.
        let folder = place.is_dir() || (!place.exists() && plain.ends_with('/'));
        let unclear = is_glob(plain) || plain.starts_with('~');
        // The writer has quotes and NULLs of its own.
        let own = |key: &String| matches!(key.as_str(), "csv.quote" | "csv.null");
        if !folder || unclear || self.options.named.iter().any(own) {
            return Ok(None);
        }
        let path = format!("{}/", plain.trim_end_matches('/'));
        let mut target = FileWriteOptions::new(&path, &self.schema);
        target.format = self.format;
        target.append = true;
        if let Some(ms) = rollover_ms {
            target.roll_interval_ns = ms.saturating_mul(1_000_000);
        }
        target.header = self.options.csv.header.unwrap_or(target.header);
        target.delimiter = self.options.csv.delimiter.unwrap_or(target.delimiter);
        if !partition_columns.is_empty() {
            target.set("partition_by", &partition_columns.join(","))?;
        }
        if target.check(true).is_err() {
            return Ok(None);
        }
        let spec = SinkSpec { sink: FILE_SINK.to_string(), options: target.to_value() };
        Ok(Some(TableSink { spec, parallel: true, kind: SinkKind::Append }))
    }

    /// The files as they are now.
    fn find(&self) -> Result<FileTable> {
        let plain = self.path.strip_prefix("file://").unwrap_or(&self.path);
        let is_hidden = |name: &str| name.starts_with(['.', '_']);
        let holds_nothing = match std::fs::read_dir(plain) {
            Ok(entries) => {
                entries.flatten().all(|entry| is_hidden(&entry.file_name().to_string_lossy()))
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        match holds_nothing {
            true => Ok(FileTable::without_files(self.format, &self.schema, &self.options)),
            false => {
                let paths = [self.path.clone()];
                Ok(FileTable::discover(&paths, Some(self.format), &self.options)?)
            }
        }
    }
}

/// A folder that rows are written into. It is looked at anew after each INSERT.
#[derive(Debug)]
struct FolderTable {
    files: FolderFiles,
    schema: SchemaRef,
    constraints: Constraints,
    sink: TableSink,
    now: RwLock<Arc<FileTable>>,
}

impl FolderTable {
    fn now(&self) -> Arc<FileTable> {
        self.now.read().clone()
    }
}

impl Table for FolderTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        super::files::FILE_CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        self.now().options()
    }

    fn statistics(&self) -> TableStatistics {
        self.now().statistics()
    }

    fn distinct(&self, column: usize) -> Option<f64> {
        self.now().distinct(column)
    }

    fn selectivity(&self, filters: &[Expr], functions: &FunctionRegistry) -> Option<MeasuredShare> {
        self.now().selectivity(filters, functions)
    }

    fn metadata_keys(&self) -> &'static [MetadataKey] {
        self.now().metadata_keys()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn is_only_declared(&self) -> bool {
        true
    }

    fn sink(&self) -> Option<TableSink> {
        Some(self.sink.clone())
    }

    fn written(&self) -> Result<()> {
        *self.now.write() = Arc::new(self.files.find()?);
        Ok(())
    }
}
