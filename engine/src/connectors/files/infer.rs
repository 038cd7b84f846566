//! Format and columns of files, from their names, heads and footers.

use std::io::Read;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnStatistics, TableStatistics};
use thalweg_runtime::{Error, Result};

use super::discover::{FoundFile, described, system_env};
use super::format::{compression_by_magic, format_by_magic, format_by_name};
use super::options::{CsvOptions, FileOptions};
use super::{Compression, FileCache, FileFormat, FileKind, spool, union};
use crate::connectors::csv::infer_files;
use crate::connectors::ipc;
use crate::connectors::json::{self, JsonLayout};
use crate::connectors::parquet::{ParquetMeta, table_statistics};

/// Bytes that tell a format.
const MAGIC_BYTES: usize = 512;
/// Files whose footers are all read to find the columns; of more files a sample this large is.
const FOOTERS_MAX: usize = 256;

/// How much larger packed text is when it is unpacked.
const PACKED_RATIO: f64 = 4.0;
/// Bytes of a text value in memory, when nothing is known of it.
const TEXT_WIDTH: f64 = 24.0;

/// What is known of a table's files.
pub struct Inferred {
    /// Format and compression.
    pub kind: FileKind,
    /// The files' own columns.
    pub schema: SchemaRef,
    /// The dialect of delimited text.
    pub csv: CsvOptions,
    /// Whether delimited text has a header.
    pub csv_header: bool,
    /// Whether headers must name the table's columns.
    pub csv_by_name: bool,
    /// How JSON objects follow each other.
    pub json_layout: JsonLayout,
    /// The statistics, once the table's columns are settled.
    pub statistics: Box<dyn FnOnce(&Schema) -> TableStatistics>,
}

/// Looks at the files. Those that must be unpacked first are replaced by their unpacked copies.
pub fn infer(
    files: &mut [FoundFile],
    format: Option<FileFormat>,
    options: &FileOptions,
) -> Result<Inferred> {
    let first = files.first().ok_or_else(|| Error::user("no file was named"))?;
    let kind = kind_of(first, format)?;
    for file in files.iter().skip(1) {
        let other = kind_of(file, format)?;
        if other != kind {
            return Err(Error::User {
                message: "the files are of different kinds".into(),
                detail: Some(format!("\"{}\" and \"{}\"", files[0].name, file.name)),
                hint: Some("name files of one format and compression".into()),
            });
        }
    }
    match kind.format {
        FileFormat::Parquet => infer_parquet(files, kind, options),
        FileFormat::Csv => infer_csv(files, kind, options),
        FileFormat::Json => infer_json(files, kind, options),
        FileFormat::Arrow => infer_arrow(files, kind, options),
    }
}

fn infer_json(files: &[FoundFile], kind: FileKind, options: &FileOptions) -> Result<Inferred> {
    let shape = json::infer_files(files, kind.compression, options.schema.as_ref())?;
    let bytes: u64 = files.iter().map(|f| f.size).sum();
    let rows = plain_bytes(bytes, kind.compression) / shape.record_bytes.max(1.0);
    Ok(Inferred {
        kind,
        schema: shape.schema,
        csv: options.csv.clone(),
        csv_header: false,
        csv_by_name: false,
        json_layout: shape.layout,
        statistics: Box::new(move |schema| estimated(schema, rows)),
    })
}

fn infer_arrow(files: &mut [FoundFile], kind: FileKind, options: &FileOptions) -> Result<Inferred> {
    unpack(files, kind.compression)?;
    let schemas = files
        .iter()
        .map(|f| Ok((f.name.as_str(), ipc::file_schema(&f.path, &f.name)?)))
        .collect::<Result<Vec<_>>>()?;
    let schema = match &options.schema {
        Some(declared) => declared.clone(),
        None => union::union(&schemas)?,
    };
    let bytes: u64 = files.iter().map(|f| f.size).sum();
    Ok(Inferred {
        kind: FileKind { compression: Compression::None, ..kind },
        schema,
        csv: options.csv.clone(),
        csv_header: false,
        csv_by_name: false,
        json_layout: JsonLayout::default(),
        statistics: Box::new(move |schema| {
            let row: f64 = estimated(schema, 1.0).bytes.unwrap_or(1.0);
            estimated(schema, bytes as f64 / row.max(1.0))
        }),
    })
}

fn infer_csv(files: &mut [FoundFile], kind: FileKind, options: &FileOptions) -> Result<Inferred> {
    let dialect = infer_files(files, kind.compression, &options.csv, options.schema.as_ref())?;
    let bytes: u64 = files.iter().map(|f| f.size).sum();
    let headers = dialect.header_bytes * files.len() as f64;
    let rows_bytes = (plain_bytes(bytes, kind.compression) - headers).max(0.0);
    let rows = rows_bytes / dialect.record_bytes.max(1.0);
    for (file, columns) in files.iter_mut().zip(dialect.file_columns) {
        file.columns = columns;
    }
    Ok(Inferred {
        kind,
        schema: dialect.schema,
        csv: dialect.csv,
        csv_header: dialect.header,
        csv_by_name: dialect.by_name,
        json_layout: JsonLayout::default(),
        statistics: Box::new(move |schema| estimated(schema, rows)),
    })
}

/// Bytes of text behind packed ones, by the ratio that packed text usually has.
fn plain_bytes(bytes: u64, compression: Compression) -> f64 {
    match compression {
        Compression::None => bytes as f64,
        Compression::Gzip | Compression::Zstd => bytes as f64 * PACKED_RATIO,
    }
}

/// Statistics of which only the number of rows is known, and that from a sample.
fn estimated(schema: &Schema, rows: f64) -> TableStatistics {
    let rows = rows.max(1.0);
    let columns: Vec<ColumnStatistics> = schema
        .fields()
        .iter()
        .map(|field| {
            let width = field.data_type().primitive_width().map_or(TEXT_WIDTH, |w| w as f64);
            ColumnStatistics { avg_width: Some(width), ..Default::default() }
        })
        .collect();
    let bytes = columns.iter().filter_map(|c| c.avg_width).sum::<f64>() * rows;
    TableStatistics {
        rows: Some(rows),
        provenance: Provenance::Sample,
        bytes: Some(bytes),
        columns,
    }
}

fn kind_of(file: &FoundFile, format: Option<FileFormat>) -> Result<FileKind> {
    let head = head(file, Compression::None)?;
    let compression = compression_by_magic(&head);
    let by_magic = || -> Result<Option<FileFormat>> {
        let plain = match compression {
            Compression::None => head,
            packed => self::head(file, packed)?,
        };
        Ok(format_by_magic(&plain))
    };
    if let Some(format) = format {
        return Ok(FileKind { format, compression });
    }
    let format = match (format_by_name(&file.name), by_magic()?) {
        // No text begins as these do, whatever its name says.
        (_, Some(format @ (FileFormat::Parquet | FileFormat::Arrow))) => format,
        (Some(format), _) | (None, Some(format)) => format,
        // Text without a telling name or head is delimited text.
        (None, None) => FileFormat::Csv,
    };
    Ok(FileKind { format, compression })
}

/// The first bytes of a file, unpacked.
fn head(file: &FoundFile, compression: Compression) -> Result<Vec<u8>> {
    let read = || -> std::io::Result<Vec<u8>> {
        let source = std::fs::File::open(&file.path)?;
        let mut head = Vec::new();
        spool::reader(source, compression)?.take(MAGIC_BYTES as u64).read_to_end(&mut head)?;
        Ok(head)
    };
    read().map_err(|e| Error::io(format!("cannot read \"{}\"", file.name), &e))
}

/// Replaces packed files by unpacked copies, for formats that are read by position.
fn unpack(files: &mut [FoundFile], compression: Compression) -> Result<()> {
    if compression == Compression::None {
        return Ok(());
    }
    for file in files {
        let path = spool::decompressed(&file.path, file.mtime_ns, compression)?;
        let partition = std::mem::take(&mut file.partition);
        *file = FoundFile { partition, ..described(path, file.name.clone())? };
    }
    Ok(())
}

fn infer_parquet(
    files: &mut [FoundFile],
    kind: FileKind,
    options: &FileOptions,
) -> Result<Inferred> {
    unpack(files, kind.compression)?;
    let env = system_env();
    let stride = files.len().div_ceil(FOOTERS_MAX);
    let (mut metas, mut bytes_read): (Vec<Arc<ParquetMeta>>, u64) = (Vec::new(), 0);
    let mut names = Vec::new();
    for file in files.iter().step_by(stride) {
        let cache = FileCache::process();
        metas.push(cache.load_parquet(&*env, &file.path, &file.name, file.size, file.mtime_ns)?);
        names.push(file.name.as_str());
        bytes_read += file.size;
    }
    let schemas: Vec<_> =
        names.iter().copied().zip(metas.iter().map(|m| m.table_schema.clone())).collect();
    let schema = match &options.schema {
        Some(declared) => declared.clone(),
        None => union::union(&schemas)?,
    };
    let bytes_all = files.iter().map(|f| f.size).sum();
    Ok(Inferred {
        kind: FileKind { compression: Compression::None, ..kind },
        schema,
        csv: options.csv.clone(),
        csv_header: false,
        csv_by_name: false,
        json_layout: JsonLayout::default(),
        statistics: Box::new(move |schema| table_statistics(schema, &metas, bytes_read, bytes_all)),
    })
}
