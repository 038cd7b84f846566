//! A table whose rows are in files.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::Constraints;
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{MeasuredShare, TableStatistics};
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::{Error, Result};

use super::discover::FoundFile;
use super::infer::{Inferred, infer};
use super::options::FileOptions;
use super::{Compression, FileFormat, FileKind, discover, hive};
use crate::catalog::Table;
use crate::connectors::json::JsonLayout;
use crate::connectors::metadata::MetadataKey;
use crate::connectors::parquet;
use crate::connectors::scan::{FileScan, ScanFile};

/// The connector's registered name.
pub const CONNECTOR: &str = "file";

/// Files of one format with a common set of columns.
#[derive(Debug)]
pub struct FileTable {
    schema: SchemaRef,
    scan: FileScan,
    statistics: TableStatistics,
    constraints: Option<Constraints>,
    /// Whether a user has declared the columns.
    declared: bool,
}

impl FileTable {
    /// Finds the files behind paths, globs and folders, and their columns. Blocks: reads footers, or the heads of text files.
    pub fn discover(
        paths: &[String],
        format: Option<FileFormat>,
        options: &FileOptions,
    ) -> Result<FileTable> {
        let mut files = discover::find(paths)?;
        let partitions: Vec<_> = files.iter().map(|f| f.partition.clone()).collect();
        let mut partition_columns = hive::columns(&partitions);
        // Of declared columns those that folders name are not in the files.
        let own = options.schema.as_ref().map(|all| without(all, &partition_columns));
        let reading = FileOptions { schema: own, ..options.clone() };
        let inferred = infer(&mut files, format, &reading)?;
        options.check(inferred.kind.format)?;
        if options.ordered {
            files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        partition_columns.retain(|p| inferred.schema.field_with_name(&p.name).is_err());
        let schema = match &options.schema {
            Some(declared) => declared_schema(declared, &mut partition_columns)?,
            None => with_partitions(&inferred.schema, &partition_columns),
        };
        let Inferred { kind, csv, csv_header, csv_by_name, json_layout, statistics, .. } = inferred;
        let names: Vec<&str> = partition_columns.iter().map(|p| p.name.as_str()).collect();
        let scan = FileScan {
            kind,
            files: files.iter().map(|f| scan_file(f, &names)).collect(),
            partition_columns,
            csv,
            csv_header,
            csv_by_name,
            csv_guessed: options.schema.is_none(),
            json_layout,
            bad_records: options.bad_records(),
            ordered: options.ordered,
        };
        let statistics = statistics(&schema);
        let declared = options.schema.is_some();
        Ok(FileTable { schema, scan, statistics, constraints: None, declared })
    }

    /// A table of a format and declared columns that has no file yet.
    pub fn without_files(
        format: FileFormat,
        schema: &SchemaRef,
        options: &FileOptions,
    ) -> FileTable {
        let scan = FileScan {
            kind: FileKind { format, compression: Compression::None },
            files: Vec::new(),
            partition_columns: Vec::new(),
            csv: options.csv.clone(),
            csv_header: false,
            csv_by_name: false,
            csv_guessed: false,
            json_layout: JsonLayout::default(),
            bad_records: options.bad_records(),
            ordered: options.ordered,
        };
        let statistics = TableStatistics {
            rows: Some(0.0),
            provenance: Provenance::Exact,
            bytes: Some(0.0),
            columns: Vec::new(),
        };
        FileTable { schema: schema.clone(), scan, statistics, constraints: None, declared: true }
    }

    /// The table with declared keys, which nobody looks after.
    pub fn with_constraints(mut self, constraints: Constraints) -> Self {
        self.constraints = Some(constraints);
        self
    }

    /// Whether columns come from the names of folders.
    pub fn is_partitioned(&self) -> bool {
        !self.scan.partition_columns.is_empty()
    }

    /// The format of the files.
    pub fn format(&self) -> FileFormat {
        self.scan.kind.format
    }

    /// How the text files are read, for the shell to say; `None` for other formats.
    pub fn dialect(&self) -> Option<(u8, bool)> {
        match self.scan.kind.format {
            FileFormat::Csv => {
                Some((self.scan.csv.delimiter.unwrap_or(b','), self.scan.csv_header))
            }
            FileFormat::Parquet | FileFormat::Json | FileFormat::Arrow => None,
        }
    }
}

impl Table for FileTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        self.scan.to_options()
    }

    fn statistics(&self) -> TableStatistics {
        self.statistics.clone()
    }

    fn distinct(&self, column: usize) -> Option<f64> {
        if self.scan.kind.format != FileFormat::Parquet {
            return None;
        }
        parquet::distinct(&self.schema, &self.scan, column, self.statistics.rows?)
    }

    fn selectivity(&self, filters: &[Expr], functions: &FunctionRegistry) -> Option<MeasuredShare> {
        if self.scan.kind.format != FileFormat::Parquet {
            return None;
        }
        parquet::selectivity(&self.schema, &self.scan, filters, functions)
    }

    fn metadata_keys(&self) -> &'static [MetadataKey] {
        match self.scan.kind.format {
            FileFormat::Csv | FileFormat::Json => MetadataKey::OF_TEXT_FILES,
            FileFormat::Parquet | FileFormat::Arrow => MetadataKey::OF_FILES,
        }
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }

    fn is_only_declared(&self) -> bool {
        self.declared
    }
}

fn scan_file(file: &FoundFile, partition_columns: &[&str]) -> ScanFile {
    let value = |name: &str| {
        let found = file.partition.iter().find(|(k, _)| k == name);
        found.and_then(|(_, v)| v.clone())
    };
    ScanFile {
        path: file.path.clone(),
        name: file.name.clone(),
        size: file.size,
        mtime_ns: file.mtime_ns,
        partition: partition_columns.iter().map(|name| value(name)).collect(),
        columns: file.columns.clone(),
    }
}

fn without(all: &SchemaRef, partitions: &[hive::PartitionColumn]) -> SchemaRef {
    let own = all.fields().iter().filter(|f| !partitions.iter().any(|p| &p.name == f.name()));
    Arc::new(Schema::new(own.cloned().collect::<Vec<_>>()))
}

fn with_partitions(own: &Schema, partitions: &[hive::PartitionColumn]) -> SchemaRef {
    let mut fields: Vec<Field> = own.fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.extend(partitions.iter().map(|p| Field::new(&p.name, p.data_type.clone(), true)));
    Arc::new(Schema::new(fields))
}

/// Declared columns, of which those that come from folders must be the last ones.
fn declared_schema(
    declared: &SchemaRef,
    partitions: &mut Vec<hive::PartitionColumn>,
) -> Result<SchemaRef> {
    partitions.retain(|p| declared.field_with_name(&p.name).is_ok());
    let own = declared.fields().len() - partitions.len();
    partitions.sort_by_key(|p| declared.index_of(&p.name).unwrap_or(usize::MAX));
    for (partition, field) in partitions.iter_mut().zip(&declared.fields()[own..]) {
        if &partition.name != field.name() {
            return Err(Error::User {
                message: format!("column \"{}\" comes from the folders' names", partition.name),
                detail: None,
                hint: Some("declare such columns behind all others".into()),
            });
        }
        partition.data_type = field.data_type().clone();
    }
    Ok(declared.clone())
}
