//! The pages of one row group's columns, unpacked into buffers that are used again.
//!
//! The Parquet reader unpacks every page into new memory. For Snappy, the codec of most files, pages are therefore
//! fetched as they are, as if they were not packed, and unpacked here; with every other codec the reader does it all.

use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::chunks::FetchedChunks;
use crate::connectors::buffers::BufferPool;

/// Bytes that a byte of Snappy stands for at most: three bytes copy up to 64.
const SNAPPY_RATIO_MAX: usize = 64;

/// One row group.
pub struct GroupPages {
    metadata: Arc<ParquetMetaData>,
    group: usize,
    chunks: Arc<FetchedChunks>,
    pool: Arc<BufferPool>,
}

impl GroupPages {
    /// The row group of a file with its fetched chunks.
    pub fn new(metadata: Arc<ParquetMetaData>, group: usize, chunks: FetchedChunks) -> Self {
        GroupPages { metadata, group, pool: chunks.pool.clone(), chunks: Arc::new(chunks) }
    }

    fn column(&self, leaf: usize) -> Result<Box<dyn PageReader>> {
        let group = self.metadata.row_group(self.group);
        let chunk = group.column(leaf);
        let locations = self
            .metadata
            .offset_index()
            .and_then(|index| index.get(self.group)?.get(leaf))
            .map(|pages| pages.page_locations().clone());
        let rows = usize::try_from(group.num_rows())?;
        if chunk.compression() != Compression::SNAPPY {
            let pages = SerializedPageReader::new(self.chunks.clone(), chunk, rows, locations)?;
            return Ok(Box::new(pages));
        }
        let packed = chunk.clone().into_builder();
        let packed = packed.set_compression(Compression::UNCOMPRESSED).build()?;
        let pages = SerializedPageReader::new(self.chunks.clone(), &packed, rows, locations)?;
        let decoder = snap::raw::Decoder::new();
        Ok(Box::new(SnappyPages { pages, decoder, pool: self.pool.clone() }))
    }
}

impl RowGroups for GroupPages {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(OneChunk(Some(self.column(leaf)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunk of a column in one row group.
struct OneChunk(Option<Result<Box<dyn PageReader>>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for OneChunk {}

/// Pages packed by Snappy.
struct SnappyPages {
    pages: SerializedPageReader<FetchedChunks>,
    decoder: snap::raw::Decoder,
    pool: Arc<BufferPool>,
}

impl SnappyPages {
    /// Unpacks what follows the first `plain` bytes.
    fn unpack(&mut self, bytes: &Bytes, plain: usize) -> Result<Bytes> {
        let damaged = |e: snap::Error| ParquetError::General(format!("Snappy: {e}"));
        let (front, packed) = bytes.split_at_checked(plain).ok_or_else(|| {
            ParquetError::General("the levels of a page reach beyond its end".into())
        })?;
        // A page of NULLs alone has nothing to unpack.
        let length = match packed.is_empty() {
            true => 0,
            false => snap::raw::decompress_len(packed).map_err(damaged)?,
        };
        if length > packed.len().saturating_mul(SNAPPY_RATIO_MAX) {
            let message = format!("Snappy: {} bytes cannot stand for {length}", packed.len());
            return Err(ParquetError::General(message));
        }
        let mut buffer = self.pool.take(plain + length);
        let (head, tail) = buffer.bytes_mut().split_at_mut(plain);
        head.copy_from_slice(front);
        if length > 0 {
            self.decoder.decompress(packed, tail).map_err(damaged)?;
        }
        Ok(buffer.freeze())
    }

    fn unpacked(&mut self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = self.unpack(buf, 0)?;
            }
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => {
                if *is_compressed {
                    let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                    *buf = self.unpack(buf, usize::try_from(levels)?)?;
                    *is_compressed = false;
                }
            }
        }
        Ok(page)
    }
}

impl Iterator for SnappyPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for SnappyPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages.get_next_page()?.map(|page| self.unpacked(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
