//! The bytes of a row group's column chunks: which ranges, fetched how, and read from where.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes, buf::Reader};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::errors::ParquetError;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use thalweg_runtime::env::{Environment, IoTask};
use thalweg_runtime::{Error, Result};

use super::meta::ParquetMeta;

/// Ranges with a smaller gap between them are read as one.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Ranges of a file held in memory.
#[derive(Debug, Clone, Default)]
pub struct FetchedChunks {
    /// Start and bytes, ascending, without overlaps.
    parts: Arc<Vec<(u64, Bytes)>>,
    file_len: u64,
}

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

/// Starts reading ranges on an I/O thread.
pub fn fetch(
    env: &Arc<dyn Environment>,
    path: &Path,
    name: &str,
    file_len: u64,
    ranges: Vec<Range<u64>>,
) -> IoTask<FetchedChunks> {
    let (env_there, path, name) = (env.clone(), path.to_path_buf(), name.to_string());
    IoTask::spawn(env, move || read_ranges(&*env_there, &path, &name, file_len, ranges))
}

/// Reads ranges, ascending and without overlaps. Blocks.
pub fn read_ranges(
    env: &dyn Environment,
    path: &Path,
    name: &str,
    file_len: u64,
    ranges: Vec<Range<u64>>,
) -> Result<FetchedChunks> {
    let context = || format!("cannot read \"{name}\"");
    let file = env.open_file(path).map_err(|e| Error::io(context(), &e))?;
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length];
        let read = file.read_at(&mut buffer, range.start).map_err(|e| Error::io(context(), &e))?;
        if read < length {
            return Err(Error::User {
                message: format!("the file \"{name}\" has become shorter while it was read"),
                detail: Some(format!("it ends at byte {}", range.start + read as u64)),
                hint: None,
            });
        }
        parts.push((range.start, Bytes::from(buffer)));
    }
    Ok(FetchedChunks { parts: Arc::new(parts), file_len })
}

impl FetchedChunks {
    /// Nothing of a file: for row groups of which no column is read.
    pub fn none(file_len: u64) -> Self {
        FetchedChunks { parts: Arc::default(), file_len }
    }

    fn part(&self, start: u64) -> Result<(usize, &Bytes), ParquetError> {
        let after = self.parts.partition_point(|(s, _)| *s <= start);
        let (base, bytes) = after
            .checked_sub(1)
            .and_then(|i| self.parts.get(i))
            .ok_or_else(|| ParquetError::EOF(format!("nothing was fetched at {start}")))?;
        let offset = usize::try_from(start - base)?;
        if offset > bytes.len() {
            return Err(ParquetError::EOF(format!("nothing was fetched at {start}")));
        }
        Ok((offset, bytes))
    }
}

impl Length for FetchedChunks {
    fn len(&self) -> u64 {
        self.file_len
    }
}

impl ChunkReader for FetchedChunks {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let (offset, bytes) = self.part(start)?;
        Ok(bytes.slice(offset..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let (offset, bytes) = self.part(start)?;
        let end = offset.checked_add(length).filter(|&e| e <= bytes.len()).ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} reach beyond their column"))
        })?;
        Ok(bytes.slice(offset..end))
    }
}
