//! Rows to bytes, one encoder a format.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use thalweg_runtime::{Error, Result};

use super::format::{CsvStyle, write_csv_rows, write_json_rows, write_typed_csv_header};
use super::options::{Codec, FileWriteOptions};
use crate::connectors::files::{Compression, FileFormat};

/// Bytes of an unfinished row group after which it is closed, however few its rows are.
const ROW_GROUP_BYTES_MAX: usize = 128 << 20;

/// Makes a file's bytes. They are taken while more rows come.
pub trait Encoder: Send {
    /// Adds rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;
    /// Adds what ends the file.
    fn finish(&mut self) -> Result<()>;
    /// The bytes made since the last time.
    fn take(&mut self) -> Vec<u8>;
    /// Bytes held for rows that are not written yet.
    fn held_bytes(&self) -> usize;
}

/// An encoder for files with these columns.
pub fn encoder(options: &FileWriteOptions, schema: &SchemaRef) -> Result<Box<dyn Encoder>> {
    Ok(match options.format {
        FileFormat::Parquet => Box::new(ParquetEncoder::new(options, schema)?),
        FileFormat::Arrow => Box::new(ArrowEncoder::new(options, schema)?),
        FileFormat::Csv | FileFormat::Json => Box::new(TextEncoder::new(options, schema)?),
    })
}

/// Bytes that an encoder writes and the file's owner takes.
#[derive(Debug, Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ParquetEncoder {
    writer: ArrowWriter<Bytes>,
    bytes: Bytes,
}

impl ParquetEncoder {
    fn new(options: &FileWriteOptions, schema: &SchemaRef) -> Result<Self> {
        let codec = match options.codec {
            Codec::None => parquet::basic::Compression::UNCOMPRESSED,
            Codec::Snappy => parquet::basic::Compression::SNAPPY,
            Codec::Zstd => parquet::basic::Compression::ZSTD(ZstdLevel::default()),
            Codec::Gzip => parquet::basic::Compression::GZIP(GzipLevel::default()),
            Codec::Lz4 => parquet::basic::Compression::LZ4_RAW,
            Codec::Brotli => parquet::basic::Compression::BROTLI(BrotliLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_max_row_group_row_count(Some(options.row_group_rows))
            .set_created_by(format!("thalweg {}", env!("CARGO_PKG_VERSION")))
            .build();
        let bytes = Bytes::default();
        let writer = ArrowWriter::try_new(bytes.clone(), schema.clone(), Some(properties))
            .map_err(parquet_error)?;
        Ok(ParquetEncoder { writer, bytes })
    }
}

fn parquet_error(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(what) => Error::user(format!("cannot write Parquet: {what}")),
        other => Error::user(format!("cannot write Parquet: {other}")),
    }
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(parquet_error)?;
        if self.writer.in_progress_size() > ROW_GROUP_BYTES_MAX {
            self.writer.flush().map_err(parquet_error)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.finish().map(drop).map_err(parquet_error)
    }

    fn take(&mut self) -> Vec<u8> {
        self.bytes.take()
    }

    fn held_bytes(&self) -> usize {
        self.writer.in_progress_size() + self.bytes.len()
    }
}

struct ArrowEncoder {
    writer: FileWriter<Bytes>,
    bytes: Bytes,
}

impl ArrowEncoder {
    fn new(options: &FileWriteOptions, schema: &SchemaRef) -> Result<Self> {
        let codec = match options.codec {
            Codec::Zstd => Some(CompressionType::ZSTD),
            Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
            Codec::None | Codec::Snappy | Codec::Gzip | Codec::Brotli => None,
        };
        let ipc = IpcWriteOptions::default().try_with_compression(codec)?;
        let bytes = Bytes::default();
        let writer = FileWriter::try_new_with_options(bytes.clone(), schema, ipc)?;
        Ok(ArrowEncoder { writer, bytes })
    }
}

impl Encoder for ArrowEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(batch)?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.writer.finish()?)
    }

    fn take(&mut self) -> Vec<u8> {
        self.bytes.take()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Delimited text and JSON, perhaps packed.
struct TextEncoder {
    format: FileFormat,
    style: CsvStyle,
    schema: Schema,
    /// Whether a header is still to be written, above the first rows.
    header: bool,
    packer: Packer,
    bytes: Bytes,
    text: Vec<u8>,
}

enum Packer {
    Plain(Bytes),
    Gzip(flate2::write::GzEncoder<Bytes>),
    Zstd(zstd::Encoder<'static, Bytes>),
}

impl TextEncoder {
    fn new(options: &FileWriteOptions, schema: &SchemaRef) -> Result<Self> {
        let bytes = Bytes::default();
        let packer = match options.compression {
            Compression::None => Packer::Plain(bytes.clone()),
            Compression::Gzip => Packer::Gzip(flate2::write::GzEncoder::new(
                bytes.clone(),
                flate2::Compression::default(),
            )),
            Compression::Zstd => Packer::Zstd(
                zstd::Encoder::new(bytes.clone(), 0)
                    .map_err(|e| Error::io("cannot compress", &e))?,
            ),
        };
        let delimiter = options.delimiter;
        let style = CsvStyle { delimiter, keeps_types: true, ..CsvStyle::default() };
        Ok(TextEncoder {
            format: options.format,
            style,
            schema: schema.as_ref().clone(),
            header: options.format == FileFormat::Csv && options.header,
            packer,
            bytes,
            text: Vec::new(),
        })
    }

    /// Writes the header above these rows, if it is not written yet.
    fn begin(&mut self, rows: &[ArrayRef]) -> Result<()> {
        if std::mem::take(&mut self.header) {
            let names = self.schema.fields().iter().map(|f| f.name().as_str());
            write_typed_csv_header(names, rows, self.style, &mut self.text)?;
        }
        Ok(())
    }

    fn pack(&mut self) -> Result<()> {
        let target: &mut dyn Write = match &mut self.packer {
            Packer::Plain(writer) => writer,
            Packer::Gzip(writer) => writer,
            Packer::Zstd(writer) => writer,
        };
        target.write_all(&self.text).map_err(|e| Error::io("cannot compress", &e))?;
        self.text.clear();
        Ok(())
    }
}

impl Encoder for TextEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.format == FileFormat::Csv {
            if batch.num_rows() > 0 {
                self.begin(batch.columns())?;
            }
            write_csv_rows(batch.columns(), batch.num_rows(), self.style, &mut self.text)?;
        } else {
            let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
            let between = |row: usize, out: &mut Vec<u8>| {
                if row > 0 {
                    out.push(b'\n');
                }
            };
            write_json_rows(&names, batch.columns(), batch.num_rows(), between, &mut self.text)?;
            if batch.num_rows() > 0 {
                self.text.push(b'\n');
            }
        }
        self.pack()
    }

    fn finish(&mut self) -> Result<()> {
        self.begin(&[])?;
        self.pack()?;
        let packer = std::mem::replace(&mut self.packer, Packer::Plain(self.bytes.clone()));
        match packer {
            Packer::Plain(_) => Ok(()),
            Packer::Gzip(writer) => writer.finish().map(drop),
            Packer::Zstd(writer) => writer.finish().map(drop),
        }
        .map_err(|e| Error::io("cannot compress", &e))
    }

    fn take(&mut self) -> Vec<u8> {
        self.bytes.take()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}
