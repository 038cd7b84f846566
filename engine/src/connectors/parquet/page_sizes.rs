//! How much memory the largest pages of column chunks take when they are unpacked.
//!
//! Usual pages are a megabyte or less and are left to the meter of the heap. A chunk may also be a single page of
//! gigabytes; the heads of its pages tell before anything is unpacked. They are not trusted for reading.

use std::ops::Range;

use parquet::file::reader::ChunkReader;

use super::meta::ParquetMeta;
use super::page_header::{self, PageHeader};

/// Chunks that unpack to less are not looked into.
const CHUNK_BYTES_MIN: i64 = 4 << 20;

/// Bytes of a page in which its head is looked for.
const HEAD_BYTES: u64 = 1 << 10;

/// The ranges of those leaf columns' chunks that may have large pages.
pub fn large_chunks(meta: &ParquetMeta, group: usize, leaves: &[usize]) -> Vec<Range<u64>> {
    let group = meta.metadata().row_group(group);
    let columns = leaves.iter().map(|&leaf| group.column(leaf));
    columns
        .filter(|column| column.uncompressed_size() >= CHUNK_BYTES_MIN)
        .map(|column| {
            let (start, length) = column.byte_range();
            start..start + length
        })
        .collect()
}

/// Bytes of the largest page of each chunk and of its dictionary, unpacked, all chunks together. Pages that were not
/// fetched end the walk through a chunk.
pub fn unpacked_bytes(chunks: &[Range<u64>], source: &impl ChunkReader) -> usize {
    let all = chunks.iter().map(|chunk| {
        let (mut at, mut largest, mut dictionary) = (chunk.start, 0, 0);
        while let Some(head) = head_at(at, chunk.end, source) {
            match head.dictionary_values {
                Some(_) => dictionary = head.uncompressed_bytes,
                None => largest = head.uncompressed_bytes.max(largest),
            }
            at = at.saturating_add(head.header_bytes).saturating_add(head.compressed_bytes);
        }
        dictionary.saturating_add(largest)
    });
    usize::try_from(all.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
}

fn head_at(at: u64, end: u64, source: &impl ChunkReader) -> Option<PageHeader> {
    let length = HEAD_BYTES.min(end.checked_sub(at)?);
    let bytes = source.get_bytes(at, usize::try_from(length).ok()?).ok()?;
    page_header::parse(&bytes).filter(|_| length > 0)
}
