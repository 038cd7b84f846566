//! Decoding some columns of one row group from fetched bytes, a batch at a time.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;
use thalweg_runtime::Result;
use thalweg_runtime::batch::BATCH_BYTES_MAX;

use super::chunks::FetchedChunks;
use super::intervals::from_bytes;
use super::meta::{ParquetMeta, guarded};
use super::pages::GroupPages;
use super::statistics::{rows_of, value_width};
use crate::connectors::scan::{ColumnSource, constant, to_table_type};

/// Rows that a batch has at least, however wide they are.
const BATCH_ROWS_MIN: usize = 64;

/// A file opened for one scan.
#[derive(Debug)]
pub struct FilePlan {
    /// The file's position in the scan.
    pub index: usize,
    /// Its name in messages.
    pub name: String,
    /// Its footer.
    pub meta: Arc<ParquetMeta>,
    /// The columns that the scan reads, with the table's types.
    pub schema: SchemaRef,
    /// Where each of them comes from.
    pub sources: Vec<ColumnSource>,
}

impl FilePlan {
    /// The leaf columns behind some of the columns read.
    pub fn leaves(&self, places: &[usize]) -> Vec<usize> {
        let schema = self.meta.reader.parquet_schema();
        let roots: Vec<usize> = places.iter().filter_map(|&p| self.root(p)).collect();
        (0..schema.num_columns())
            .filter(|&leaf| roots.contains(&schema.get_column_root_idx(leaf)))
            .collect()
    }

    fn root(&self, place: usize) -> Option<usize> {
        match &self.sources[place] {
            ColumnSource::File(root) => Some(*root),
            ColumnSource::Constant(_) => None,
        }
    }

    /// Compressed bytes of some of the columns in a row group.
    pub fn compressed_bytes(&self, group: usize, places: &[usize]) -> u64 {
        let group = self.meta.metadata().row_group(group);
        let leaves = self.leaves(places);
        leaves.iter().map(|&l| u64::try_from(group.column(l).compressed_size()).unwrap_or(0)).sum()
    }

    /// Rows of a row group that make a batch of the wanted size.
    pub fn batch_rows(&self, group: usize, places: &[usize], rows_max: usize) -> usize {
        let metadata = self.meta.metadata().row_group(group);
        let rows = rows_of(metadata);
        let schema = self.meta.reader.parquet_schema();
        let mut width = 1.0;
        for &place in places {
            let root = self.root(place);
            let uncompressed: i64 = (0..schema.num_columns())
                .filter(|&l| Some(schema.get_column_root_idx(l)) == root)
                .map(|l| metadata.column(l).uncompressed_size())
                .sum();
            width += value_width(self.schema.field(place).data_type(), uncompressed as f64, rows);
        }
        let fitting = (BATCH_BYTES_MAX as f64 / width) as usize;
        // A little over the limit is better than a batch and a remnant.
        let fitting = if fitting * 2 > rows_max { rows_max } else { fitting };
        fitting.clamp(BATCH_ROWS_MIN.min(rows_max), rows_max.max(1))
    }
}

/// Columns decoded together: place among the columns read, and values.
pub type DecodedColumns = HashMap<usize, ArrayRef>;

/// Decodes some columns of a row group.
pub struct GroupDecoder {
    plan: Arc<FilePlan>,
    reader: ParquetRecordBatchReader,
    /// The places in the order in which the reader delivers columns.
    delivered: Vec<usize>,
    /// The places that are no columns of the file.
    constants: Vec<usize>,
}

impl GroupDecoder {
    /// Starts on some columns of a row group, all rows or a selection.
    pub fn new(
        plan: &Arc<FilePlan>,
        group: usize,
        places: &[usize],
        chunks: FetchedChunks,
        selection: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Self> {
        GroupDecoder::with_footer(plan, &plan.meta, group, places, chunks, selection, batch_rows)
    }

    /// The same with another form of the plan's footer: with page indexes, pages without a selected row are passed over.
    pub fn with_footer(
        plan: &Arc<FilePlan>,
        meta: &ParquetMeta,
        group: usize,
        places: &[usize],
        chunks: FetchedChunks,
        selection: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Self> {
        let mut delivered: Vec<usize> =
            places.iter().copied().filter(|&p| plan.root(p).is_some()).collect();
        delivered.sort_by_key(|&p| plan.root(p));
        delivered.dedup();
        let constants = places.iter().copied().filter(|&p| plan.root(p).is_none()).collect();
        let roots: Vec<usize> = delivered.iter().filter_map(|&p| plan.root(p)).collect();
        let reader = guarded(&plan.name, || {
            let schema = meta.reader.parquet_schema();
            let mask = ProjectionMask::roots(schema, roots);
            let fields = meta.reader.schema().fields();
            let levels = parquet_to_arrow_field_levels(schema, mask, Some(fields))?;
            let pages = GroupPages::new(meta.reader.metadata().clone(), group, chunks);
            let batch_rows = batch_rows.min(pages.num_rows()).max(1);
            ParquetRecordBatchReader::try_new_with_row_groups(
                &levels, &pages, batch_rows, selection,
            )
        })?;
        Ok(GroupDecoder { plan: plan.clone(), reader, delivered, constants })
    }

    /// The next rows and their number; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(usize, DecodedColumns)>> {
        let Some(batch) = self.next_record_batch()? else { return Ok(None) };
        let rows = batch.num_rows();
        let mut columns =
            DecodedColumns::with_capacity(self.delivered.len() + self.constants.len());
        for (i, &place) in self.delivered.iter().enumerate() {
            let field = self.plan.schema.field(place);
            let column = batch.column(i).clone();
            let root = self.plan.root(place);
            let column = match root.is_some_and(|root| self.plan.meta.intervals.contains(&root)) {
                true => from_bytes(column),
                false => column,
            };
            let column = to_table_type(column, field.data_type(), &self.plan.name, field.name())?;
            columns.insert(place, column);
        }
        for &place in &self.constants {
            if let ColumnSource::Constant(value) = &self.plan.sources[place] {
                columns.insert(place, constant(value, rows)?);
            }
        }
        Ok(Some((rows, columns)))
    }

    fn next_record_batch(&mut self) -> Result<Option<RecordBatch>> {
        let delivered = self.delivered.len();
        let reader = &mut self.reader;
        guarded(&self.plan.name, || {
            let batch = reader.next().transpose()?;
            if batch.as_ref().is_some_and(|b| b.num_columns() != delivered) {
                return Err(ParquetError::General("columns that were not asked for".into()));
            }
            if let Some(batch) = &batch
                && batch.columns().iter().any(|c| c.len() != batch.num_rows())
            {
                return Err(ParquetError::General("columns of unequal length".into()));
            }
            Ok(batch)
        })
    }
}
