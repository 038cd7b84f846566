//! The bytes of a row group's column chunks: which ranges, fetched how, and read from where.
//!
//! Chunks are fetched whole on I/O threads and charged for as long as anything refers to them. Where the budget does
//! not allow that, pages are read from the file as the decoder comes to them, which blocks its thread for each.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes, buf::Reader};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::errors::ParquetError;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use thalweg_runtime::env::Environment;
use thalweg_runtime::memory::Reservation;
use thalweg_runtime::{Error, Result};

use super::meta::{FileReader, ParquetMeta, PositionedFile};
use crate::connectors::buffers::BufferPool;

/// Ranges with a smaller gap between them are read as one.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Ranges of a file, held in memory or read when they are wanted.
#[derive(Debug, Clone)]
pub struct FetchedChunks {
    bytes: ChunkBytes,
    file_len: u64,
    /// Where unpacked pages go.
    pub pool: Arc<BufferPool>,
}

#[derive(Debug, Clone)]
enum ChunkBytes {
    /// Start and bytes, ascending, without overlaps, and the charge for them.
    Held(Arc<(Vec<Part>, Option<Reservation>)>),
    InFile(PositionedFile),
}

/// The start of a range and its bytes.
type Part = (u64, Bytes);

/// The byte ranges of some leaf columns of a row group, joined where they are near each other.
pub fn ranges(meta: &ParquetMeta, group: usize, leaves: &[usize]) -> Vec<Range<u64>> {
    selected_ranges(meta, group, leaves, None)
}

/// The same of some rows alone: where there is an index of pages, those without a selected row are left out.
pub fn selected_ranges(
    meta: &ParquetMeta,
    group: usize,
    leaves: &[usize],
    selection: Option<&RowSelection>,
) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &leaf in leaves {
        let (start, length) = meta.metadata().row_group(group).column(leaf).byte_range();
        match selection.and_then(|s| Some((s, page_locations(meta, group, leaf)?))) {
            // What stands before the first page is the dictionary.
            Some((selection, pages)) => {
                let first =
                    pages.first().and_then(|p| u64::try_from(p.offset).ok()).unwrap_or(start);
                ranges.push(start..first);
                ranges.extend(selection.scan_ranges(pages));
            }
            None => ranges.push(start..start + length),
        }
    }
    ranges.retain(|r| r.start < r.end);
    ranges.sort_by_key(|r| r.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES_MAX => {
                last.end = last.end.max(range.end)
            }
            _ => joined.push(range),
        }
    }
    joined
}

fn page_locations(meta: &ParquetMeta, group: usize, leaf: usize) -> Option<&[PageLocation]> {
    let pages = meta.metadata().offset_index()?.get(group)?.get(leaf)?.page_locations();
    (!pages.is_empty()).then_some(pages.as_slice())
}

/// Opens a file whose ranges are then read as they are wanted. Blocks.
pub fn open(
    env: &dyn Environment,
    path: &Path,
    name: &str,
    pool: Arc<BufferPool>,
) -> Result<FetchedChunks> {
    let file = env.open_file(path);
    let file = file.map_err(|e| Error::io(format!("cannot open \"{name}\""), &e))?;
    let file = PositionedFile::new(file);
    Ok(FetchedChunks { file_len: file.len(), bytes: ChunkBytes::InFile(file), pool })
}

/// Reads ranges, ascending and without overlaps. Blocks.
pub fn read_ranges(
    env: &dyn Environment,
    path: &Path,
    name: &str,
    file_len: u64,
    ranges: Vec<Range<u64>>,
    pool: Arc<BufferPool>,
) -> Result<FetchedChunks> {
    let context = || format!("cannot read \"{name}\"");
    let file = env.open_file(path).map_err(|e| Error::io(context(), &e))?;
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut buffer = pool.take(length);
        let read =
            file.read_at(buffer.bytes_mut(), range.start).map_err(|e| Error::io(context(), &e))?;
        if read < length {
            return Err(Error::User {
                message: format!("the file \"{name}\" has become shorter while it was read"),
                detail: Some(format!("it ends at byte {}", range.start + read as u64)),
                hint: None,
            });
        }
        parts.push((range.start, buffer.freeze()));
    }
    Ok(FetchedChunks { bytes: ChunkBytes::Held(Arc::new((parts, None))), file_len, pool })
}

impl FetchedChunks {
    /// Nothing of a file: for row groups of which no column is read.
    pub fn none(file_len: u64, pool: Arc<BufferPool>) -> Self {
        FetchedChunks { bytes: ChunkBytes::Held(Arc::default()), file_len, pool }
    }

    /// The same with the charge for the bytes, which is returned when nothing refers to them any more.
    pub fn charged(self, charge: Reservation) -> Self {
        let bytes = match self.bytes {
            ChunkBytes::Held(held) => ChunkBytes::Held(Arc::new((held.0.clone(), Some(charge)))),
            ChunkBytes::InFile(file) => ChunkBytes::InFile(file),
        };
        FetchedChunks { bytes, ..self }
    }
}

/// The part that a position lies in, and how far into it.
fn part_at(parts: &[Part], start: u64) -> Result<(usize, &Bytes), ParquetError> {
    let after = parts.partition_point(|(s, _)| *s <= start);
    let (base, bytes) = after
        .checked_sub(1)
        .and_then(|i| parts.get(i))
        .ok_or_else(|| ParquetError::EOF(format!("nothing was fetched at {start}")))?;
    let offset = usize::try_from(start - base)?;
    if offset > bytes.len() {
        return Err(ParquetError::EOF(format!("nothing was fetched at {start}")));
    }
    Ok((offset, bytes))
}

impl Length for FetchedChunks {
    fn len(&self) -> u64 {
        self.file_len
    }
}

impl ChunkReader for FetchedChunks {
    type T = ChunkRead;

    fn get_read(&self, start: u64) -> Result<ChunkRead, ParquetError> {
        match &self.bytes {
            ChunkBytes::Held(held) => {
                let (offset, bytes) = part_at(&held.0, start)?;
                Ok(ChunkRead::Held(bytes.slice(offset..).reader()))
            }
            ChunkBytes::InFile(file) => file.get_read(start).map(ChunkRead::InFile),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let held = match &self.bytes {
            ChunkBytes::Held(held) => held,
            ChunkBytes::InFile(file) => return file.get_bytes(start, length),
        };
        let (offset, bytes) = part_at(&held.0, start)?;
        let end = offset.checked_add(length).filter(|&e| e <= bytes.len()).ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} reach beyond their column"))
        })?;
        Ok(bytes.slice(offset..end))
    }
}

/// Reads on from a position.
#[derive(Debug)]
pub enum ChunkRead {
    /// In memory.
    Held(Reader<Bytes>),
    /// In the file.
    InFile(FileReader),
}

impl Read for ChunkRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match self {
            ChunkRead::Held(bytes) => bytes.read(out),
            ChunkRead::InFile(file) => file.read(out),
        }
    }
}
