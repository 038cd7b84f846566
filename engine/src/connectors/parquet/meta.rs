//! A file's footer, and the types under which its columns are read.
//!
//! Text is read as Utf8View and binary as BinaryView, so that dictionary pages become views without copying.
//! Timestamps of the table are microseconds; what the file holds in another unit is cast after decoding.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;
use thalweg_runtime::env::{Environment, ReadFile};
use thalweg_runtime::{Error, Result};

use super::encryption::has_encrypted_columns;
use super::intervals::{INTERVAL, as_bytes, interval_roots};
use super::learned::Learned;
use crate::connectors::decoder::contained;

/// A footer ready for reading.
#[derive(Debug)]
pub struct ParquetMeta {
    /// Metadata and the types to decode into.
    pub reader: ArrowReaderMetadata,
    /// The columns as the table has them.
    pub table_schema: SchemaRef,
    /// The root columns of intervals, which are decoded as bytes.
    pub intervals: Vec<usize>,
    /// What was found out about the columns since.
    pub learned: Learned,
}

impl ParquetMeta {
    /// Reads and checks a footer. Blocks.
    pub fn load(env: &dyn Environment, path: &Path, name: &str) -> Result<Self> {
        let file =
            env.open_file(path).map_err(|e| Error::io(format!("cannot open \"{name}\""), &e))?;
        let source = PositionedFile::new(file);
        guarded(name, || {
            let metadata = ParquetMetaDataReader::new()
                .with_page_index_policy(PageIndexPolicy::Skip)
                .parse_and_finish(&source)?;
            check_chunks(&metadata, source.len())?;
            if has_encrypted_columns(&source)? {
                return Err(ParquetError::General("the columns are encrypted".into()));
            }
            let metadata = with_row_count(metadata);
            let intervals = interval_roots(metadata.file_metadata().schema_descr())?;
            let metadata = match intervals.as_slice() {
                [] => metadata,
                roots => as_bytes(&metadata, roots)?,
            };
            ParquetMeta::from_metadata(Arc::new(metadata), intervals)
        })
    }

    /// The page indexes of a file, if it has any. Blocks.
    pub fn load_page_index(&self, env: &dyn Environment, path: &Path, name: &str) -> Result<Self> {
        let file =
            env.open_file(path).map_err(|e| Error::io(format!("cannot open \"{name}\""), &e))?;
        let source = PositionedFile::new(file);
        guarded(name, || {
            let metadata = self.reader.metadata().as_ref().clone();
            let mut loader = ParquetMetaDataReader::new_with_metadata(metadata)
                .with_page_index_policy(PageIndexPolicy::Optional);
            loader.read_page_indexes(&source)?;
            ParquetMeta::from_metadata(Arc::new(loader.finish()?), self.intervals.clone())
        })
    }

    fn from_metadata(
        metadata: Arc<ParquetMetaData>,
        intervals: Vec<usize>,
    ) -> Result<Self, ParquetError> {
        let plain = ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new())?;
        let wanted = decode_schema(plain.schema(), plain.parquet_schema());
        let options = ArrowReaderOptions::new().with_schema(wanted);
        // A nested type may not take the hint; then the file is read in its own types.
        let reader = ArrowReaderMetadata::try_new(metadata, options).unwrap_or(plain);
        let fields: Vec<Field> = reader
            .schema()
            .fields()
            .iter()
            .enumerate()
            .map(|(root, f)| match intervals.contains(&root) {
                true => Field::new(f.name(), INTERVAL, true),
                false => Field::new(f.name(), table_type(f.data_type()), true),
            })
            .collect();
        Ok(ParquetMeta {
            reader,
            table_schema: Arc::new(Schema::new(fields)),
            intervals,
            learned: Learned::default(),
        })
    }

    /// The footer's metadata.
    pub fn metadata(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        self.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0)).sum()
    }

    /// Bytes that keeping the footer costs.
    pub fn memory_bytes(&self) -> usize {
        self.metadata().memory_size()
    }

    /// The leaf column of a root column that is not nested.
    pub fn leaf_of(&self, root: usize) -> Option<usize> {
        leaf_of(self.reader.parquet_schema(), root)
    }
}

/// The leaf column of a root column that is not nested.
fn leaf_of(schema: &SchemaDescriptor, root: usize) -> Option<usize> {
    let mut leaves =
        (0..schema.num_columns()).filter(|&leaf| schema.get_column_root_idx(leaf) == root);
    let leaf = leaves.next()?;
    (schema.column(leaf).path().parts().len() == 1).then_some(leaf)
}

/// The footer with the number of rows that its row groups have: some writers state another, and the decoder sizes its
/// batches by what is stated.
fn with_row_count(metadata: ParquetMetaData) -> ParquetMetaData {
    let rows = metadata.row_groups().iter().fold(0_i64, |sum, g| sum.saturating_add(g.num_rows()));
    let file = metadata.file_metadata();
    if file.num_rows() == rows {
        return metadata;
    }
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_string),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    ParquetMetaDataBuilder::new(file).set_row_groups(metadata.row_groups().to_vec()).build()
}

/// Every chunk must lie inside the file and hold a sensible number of rows, so that a damaged footer cannot ask for
/// absurd amounts of memory.
fn check_chunks(metadata: &ParquetMetaData, file_len: u64) -> Result<(), ParquetError> {
    for (g, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return Err(ParquetError::General(format!("row group {g} has a negative row count")));
        }
        for column in group.columns() {
            let offset = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let length = column.compressed_size();
            let end = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
            let inside = end.is_some_and(|(o, l)| o.checked_add(l).is_some_and(|e| e <= file_len));
            if column.num_values() < 0 || !inside {
                return Err(ParquetError::General(format!(
                    "column {} of row group {g} lies outside the file",
                    column.column_path()
                )));
            }
        }
    }
    Ok(())
}

/// Runs decoder code on a file's bytes: its errors name the file, and a panic in it is such an error too.
pub fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match contained(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(file_error(name, error)),
        None => Err(damaged(name, "its contents contradict each other".into())),
    }
}

/// A decoder's error as the user sees it.
pub fn file_error(name: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(what) => {
            Error::Unsupported(format!("{} (in the Parquet file \"{name}\")", lower_first(&what)))
        }
        ParquetError::General(what) if what.contains("Invalid Parquet file. Corrupt footer") => {
            Error::User {
                message: format!("\"{name}\" is not a Parquet file"),
                detail: Some("it does not end with the Parquet magic number".into()),
                hint: None,
            }
        }
        ParquetError::General(what) if what.contains("encrypted") => {
            Error::Unsupported(format!("encrypted Parquet files (\"{name}\")"))
        }
        ParquetError::General(what)
            if what.contains("not enabled") || what.contains("unsupported") =>
        {
            Error::Unsupported(format!("{} (in the Parquet file \"{name}\")", lower_first(&what)))
        }
        ParquetError::General(what) | ParquetError::EOF(what) | ParquetError::ArrowError(what) => {
            damaged(name, what)
        }
        other => damaged(name, other.to_string()),
    }
}

fn damaged(name: &str, detail: String) -> Error {
    Error::User {
        message: format!("the Parquet file \"{name}\" is damaged or of an unknown kind"),
        detail: Some(detail),
        hint: None,
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_lowercase().chain(chars).collect())
}

/// The types to decode into: views for text and binary, microseconds for 96-bit timestamps.
fn decode_schema(plain: &Schema, parquet: &SchemaDescriptor) -> SchemaRef {
    let fields: Vec<Field> = plain
        .fields()
        .iter()
        .enumerate()
        .map(|(root, field)| {
            let is_int96 = leaf_of(parquet, root)
                .is_some_and(|leaf| parquet.column(leaf).physical_type() == PhysicalType::INT96);
            let data_type = match field.data_type() {
                DataType::Timestamp(_, zone) if is_int96 => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                other => view_type(other),
            };
            field.as_ref().clone().with_data_type(data_type)
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, plain.metadata().clone()))
}

/// The type with text and binary as views, at any depth.
pub fn view_type(t: &DataType) -> DataType {
    let nested =
        |f: &Arc<Field>| Arc::new(f.as_ref().clone().with_data_type(view_type(f.data_type())));
    match t {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => view_type(value),
        DataType::List(f) => DataType::List(nested(f)),
        DataType::LargeList(f) => DataType::LargeList(nested(f)),
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(nested(f), *n),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nested).collect::<Fields>()),
        DataType::Map(f, sorted) => DataType::Map(nested(f), *sorted),
        other => other.clone(),
    }
}

/// The type that a table's column has for a type found in a file.
pub fn table_type(t: &DataType) -> DataType {
    match t {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Dictionary(_, value) => table_type(value),
        DataType::RunEndEncoded(_, value) => table_type(value.data_type()),
        other => view_type(other),
    }
}

/// A file of the environment as Parquet's metadata reader wants it.
#[derive(Debug, Clone)]
pub struct PositionedFile {
    file: Arc<dyn ReadFile>,
    len: u64,
}

impl PositionedFile {
    /// Wraps a file that has a length.
    pub fn new(file: Arc<dyn ReadFile>) -> Self {
        let len = file.len_bytes().unwrap_or(0);
        PositionedFile { file, len }
    }
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for PositionedFile {
    type T = FileReader;

    fn get_read(&self, start: u64) -> Result<FileReader, ParquetError> {
        Ok(FileReader { file: self.file.clone(), at: start, buffer: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at offset {start} of a file of {} bytes",
                self.len
            )));
        }
        let mut buffer = vec![0; length];
        let read = self.file.read_at(&mut buffer, start)?;
        if read < length {
            return Err(ParquetError::EOF(format!("the file ends at {}", start + read as u64)));
        }
        Ok(buffer.into())
    }
}

/// Reads on from a position, some kilobytes at a time.
#[derive(Debug)]
pub struct FileReader {
    file: Arc<dyn ReadFile>,
    at: u64,
    buffer: Bytes,
}

/// Bytes that a [`FileReader`] asks for at a time.
const READ_AHEAD_BYTES: usize = 8 << 10;

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            let mut buffer = vec![0; READ_AHEAD_BYTES];
            let n = self.file.read_at(&mut buffer, self.at)?;
            buffer.truncate(n);
            self.at += n as u64;
            self.buffer = buffer.into();
        }
        let n = out.len().min(self.buffer.len());
        self.buffer.copy_to_slice(&mut out[..n]);
        Ok(n)
    }
}
