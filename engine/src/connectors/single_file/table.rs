//! Tables of the connector: which role a file has, and in which format.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::{Constraint, Constraints};
use serde::{Deserialize, Serialize};
use thalweg_optimizer::TableStatistics;
use thalweg_optimizer::physical::Provenance;
use thalweg_runtime::operators::sink::SinkSpec;

use super::CONNECTOR;
use crate::catalog::{SinkKind, Table, TableSink};
use crate::connectors::metadata::MetadataKey;
use crate::connectors::registry::TableDefinition;
use crate::connectors::rejects::BadRecords;
use crate::connectors::scan::ScanFile;
use crate::connectors::streaming::ConnectorOptions;
use crate::connectors::streaming::options::wrong_value;
use crate::connectors::{FILE_SINK, FileFormat, FileOptions, FileTable, FileWriteOptions};
use crate::error::{Error, Report, Result};

/// How rows lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowFormat {
    /// One object a row.
    Json,
    /// One change an object.
    DebeziumJson,
}

impl RowFormat {
    /// The format of a name, if it is one of these.
    pub fn by_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "json" => Some(RowFormat::Json),
            "debezium_json" | "debezium-json" => Some(RowFormat::DebeziumJson),
            _ => None,
        }
    }
}

/// What a table's file is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Source,
    Sink,
    /// Nobody has said.
    Both,
}

/// What the source gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadSpec {
    /// The file, as it was when the query was planned.
    pub file: ScanFile,
    /// Whether it was there then.
    pub found: bool,
    /// How rows lie in it.
    pub format: RowFormat,
    /// What becomes of objects that cannot be read.
    pub bad_records: BadRecords,
    /// Whether the table is there to be written alone.
    pub only_written: bool,
}

/// What the sink gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteSpec {
    /// The file.
    pub path: PathBuf,
    /// How rows lie in it.
    pub format: RowFormat,
    /// The columns; none are those of the query.
    pub schema: Schema,
    /// Columns that tell the rows apart, by position, if a key is declared.
    pub key: Option<Vec<usize>>,
    /// Columns that tell the rows of the query apart.
    #[serde(default)]
    pub result_key: Option<Vec<usize>>,
}

/// The table of a definition. Blocks: looks at the file.
pub fn table(definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let path = match definition.locations.as_slice() {
        [path] => path.clone(),
        _ => options.required("path")?,
    };
    let path = path.strip_prefix("file://").unwrap_or(&path).to_string();
    let role = match options.text("type").map(|role| role.to_ascii_lowercase()).as_deref() {
        None => Role::Both,
        Some("source") => Role::Source,
        Some("sink") => Role::Sink,
        Some(other) => return Err(wrong_value("type", other, "source or sink")),
    };
    let format = definition.format.as_deref().unwrap_or("json").to_ascii_lowercase();
    let Some(format) = RowFormat::by_name(&format) else {
        return plain_table(&definition, &path, role);
    };
    let ignore_errors = options.boolean("json.ignore-errors")?.unwrap_or(false);
    options.finish()?;
    if !definition.partition_columns.is_empty() {
        let report = Report::new(format!("\"{CONNECTOR}\" has no folders to partition by"));
        return Err(Error::catalog(report));
    }
    let schema = match role {
        Role::Sink => definition.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty())),
        Role::Source | Role::Both => definition.columns(CONNECTOR)?,
    };
    let table = SingleFileTable {
        path: PathBuf::from(path),
        format,
        bad_records: BadRecords::of(definition.dead_letters, ignore_errors),
        role,
        schema,
        constraints: definition.constraints,
    };
    if role == Role::Source && !table.path.is_file() {
        let report = Report::new(format!("there is no file \"{}\"", table.path.display()));
        return Err(Error::catalog(report));
    }
    Ok(Arc::new(table))
}

/// A file in a format that has no conventions of its own here.
fn plain_table(definition: &TableDefinition, path: &str, role: Role) -> Result<Arc<dyn Table>> {
    let format = definition.format.as_deref().map(FileFormat::by_name).transpose()?;
    let own = |key: &str| key.eq_ignore_ascii_case("type") || key.eq_ignore_ascii_case("path");
    let others = definition.options.iter().filter(|(key, _)| !own(key));
    if role == Role::Sink {
        let schema = definition.columns(CONNECTOR)?;
        let mut target = FileWriteOptions::new(path, &schema);
        target.set("format", definition.format.as_deref().unwrap_or_default())?;
        for (key, value) in others {
            if !target.set(key, value)? {
                return Err(crate::catalog::unknown_option(key, &FileWriteOptions::KEYS));
            }
        }
        target.check(true)?;
        let spec = SinkSpec { sink: FILE_SINK.to_string(), options: target.to_value() };
        let sink = TableSink { spec, parallel: false, kind: SinkKind::Append };
        let constraints = definition.constraints.clone();
        return Ok(Arc::new(PlainSink { path: PathBuf::from(path), schema, constraints, sink }));
    }
    let mut options = FileOptions {
        schema: definition.schema.clone(),
        dead_letters: definition.dead_letters,
        ..FileOptions::default()
    };
    for (key, value) in others {
        let others = ["connector", "format", "path", "type", "dead-letter.table"];
        crate::catalog::set_option(&mut options, (key, value), &others)?;
    }
    let table = FileTable::discover(&[path.to_string()], format, &options)?;
    Ok(Arc::new(table.with_constraints(definition.constraints.clone())))
}

/// See the module.
#[derive(Debug)]
struct SingleFileTable {
    path: PathBuf,
    format: RowFormat,
    bad_records: BadRecords,
    role: Role,
    schema: SchemaRef,
    constraints: Constraints,
}

impl SingleFileTable {
    /// The columns of the first declared key.
    fn key(&self) -> Option<Vec<usize>> {
        self.constraints.iter().next().map(|key| match key {
            Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns.clone(),
        })
    }
}

/// The file as it is now; one that is not there has no bytes, and cannot be opened.
fn scan_file(path: &Path) -> ScanFile {
    let metadata = fs::metadata(path).ok();
    let changed = metadata.as_ref().and_then(|m| m.modified().ok());
    let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    ScanFile {
        path: path.to_path_buf(),
        name: path.to_string_lossy().into_owned(),
        size: metadata.map_or(0, |m| m.len()),
        mtime_ns: changed.and_then(|at| i64::try_from(at.as_nanos()).ok()).unwrap_or(0),
        partition: Vec::new(),
        columns: None,
    }
}

impl Table for SingleFileTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        let spec = ReadSpec {
            file: scan_file(&self.path),
            found: self.path.exists(),
            format: self.format,
            bad_records: self.bad_records,
            only_written: self.role == Role::Sink,
        };
        serde_json::to_value(spec).expect("plain data without maps can be written as JSON")
    }

    fn statistics(&self) -> TableStatistics {
        TableStatistics {
            rows: None,
            provenance: Provenance::Default,
            bytes: None,
            columns: Vec::new(),
        }
    }

    fn metadata_keys(&self) -> &'static [MetadataKey] {
        MetadataKey::OF_TEXT_FILES
    }

    fn withdraws(&self) -> bool {
        self.format == RowFormat::DebeziumJson
    }

    fn sink(&self) -> Option<TableSink> {
        if self.role == Role::Source {
            return None;
        }
        let spec = WriteSpec {
            path: self.path.clone(),
            format: self.format,
            schema: self.schema.as_ref().clone(),
            key: self.key(),
            result_key: None,
        };
        let options =
            serde_json::to_value(spec).expect("plain data without maps can be written as JSON");
        Some(TableSink {
            spec: SinkSpec { sink: CONNECTOR.to_string(), options },
            // One writer, so that changes come in their order.
            parallel: false,
            kind: match self.format {
                RowFormat::DebeziumJson => SinkKind::Retract,
                RowFormat::Json => SinkKind::Append,
            },
        })
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn is_only_declared(&self) -> bool {
        true
    }
}

/// A file that is written alone, in a format of files.
#[derive(Debug)]
struct PlainSink {
    path: PathBuf,
    schema: SchemaRef,
    constraints: Constraints,
    sink: TableSink,
}

impl Table for PlainSink {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        let spec = ReadSpec {
            file: scan_file(&self.path),
            found: self.path.exists(),
            format: RowFormat::Json,
            bad_records: BadRecords::Fail,
            only_written: true,
        };
        serde_json::to_value(spec).expect("plain data without maps can be written as JSON")
    }

    fn statistics(&self) -> TableStatistics {
        TableStatistics {
            rows: None,
            provenance: Provenance::Default,
            bytes: None,
            columns: Vec::new(),
        }
    }

    fn sink(&self) -> Option<TableSink> {
        Some(self.sink.clone())
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn is_only_declared(&self) -> bool {
        true
    }
}
