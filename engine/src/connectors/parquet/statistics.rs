//! Bounds and counts from footers, for pruning and for the optimizer.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{CastOptions, nullif};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::RowGroupMetaData;
use thalweg_optimizer::physical::Provenance;
use thalweg_optimizer::{ColumnStatistics, TableStatistics};
use thalweg_runtime::expr::cast_column;

use super::meta::ParquetMeta;
use crate::connectors::scan::ColumnSource;
use crate::connectors::scan::prune::{Bounds, BoundsSource, constant_bounds};

/// Bounds of some row groups of one file.
pub struct GroupBounds<'a> {
    /// The file's footer.
    pub meta: &'a ParquetMeta,
    /// For each table column that may be asked for: its number and where it comes from.
    pub columns: Vec<(usize, &'a ColumnSource, DataType)>,
    /// The row groups.
    pub groups: Vec<usize>,
}

impl BoundsSource for GroupBounds<'_> {
    fn containers(&self) -> usize {
        self.groups.len()
    }

    fn rows(&self) -> UInt64Array {
        self.groups
            .iter()
            .map(|&g| rows_of(self.meta.metadata().row_group(g)))
            .collect::<Vec<_>>()
            .into()
    }

    fn bounds(&self, column: usize) -> Option<Bounds> {
        let (_, source, data_type) = self.columns.iter().find(|(c, ..)| *c == column)?;
        match source {
            ColumnSource::Constant(value) => constant_bounds(value, &self.rows()),
            ColumnSource::File(root) => column_bounds(self.meta, *root, &self.groups, data_type),
        }
    }
}

/// Rows of a row group.
pub fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or(0)
}

/// Bounds of a root column in some row groups, in the table's type.
fn column_bounds(
    meta: &ParquetMeta,
    root: usize,
    groups: &[usize],
    to: &DataType,
) -> Option<Bounds> {
    let leaf = meta.leaf_of(root)?;
    let parquet_schema = meta.reader.parquet_schema();
    let field = meta.reader.schema().field(root);
    let converter = StatisticsConverter::from_column_index(leaf, field, parquet_schema)
        .ok()?
        .with_missing_null_counts_as_zero(false);
    let chosen = || groups.iter().map(|&g| meta.metadata().row_group(g));
    let nulls = converter.row_group_null_counts(chosen()).ok()?;
    if !has_order(parquet_schema.column(leaf).physical_type()) || meta.intervals.contains(&root) {
        let unknown = new_null_array(to, groups.len());
        return Some(Bounds { min: unknown.clone(), max: unknown, nulls });
    }
    // Old writers compared text and decimals as signed bytes: such bounds are not bounds.
    let physical = parquet_schema.column(leaf).physical_type();
    let in_bytes =
        matches!(physical, PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY);
    let unusable: BooleanArray = chosen()
        .map(|g| {
            let old = g.column(leaf).statistics().is_some_and(|s| s.is_min_max_deprecated());
            Some(old && (in_bytes || field.data_type().is_unsigned_integer()))
        })
        .collect();
    let usable = |array: ArrayRef| -> Option<ArrayRef> {
        let array = nullif(&array, &unusable).ok()?;
        cast_column(&array, to, &CastOptions::default()).ok()
    };
    Some(Bounds {
        min: usable(converter.row_group_mins(chosen()).ok()?)?,
        max: usable(converter.row_group_maxes(chosen()).ok()?)?,
        nulls,
    })
}

/// Whether footers can hold bounds of a physical type.
pub fn has_order(physical: PhysicalType) -> bool {
    match physical {
        PhysicalType::INT96 => false,
        PhysicalType::BOOLEAN
        | PhysicalType::INT32
        | PhysicalType::INT64
        | PhysicalType::FLOAT
        | PhysicalType::DOUBLE
        | PhysicalType::BYTE_ARRAY
        | PhysicalType::FIXED_LEN_BYTE_ARRAY => true,
    }
}

/// What the footers say of a table. `metas` are the footers that were read; `complete` tells whether all were.
pub fn table_statistics(
    schema: &Schema,
    metas: &[Arc<ParquetMeta>],
    bytes_read: u64,
    bytes_all: u64,
) -> TableStatistics {
    let complete = bytes_read == bytes_all;
    let scale = if bytes_read == 0 { 1.0 } else { bytes_all as f64 / bytes_read as f64 };
    let rows: u64 = metas.iter().map(|m| m.rows()).sum();
    let mut columns: Vec<ColumnStatistics> = schema
        .fields()
        .iter()
        .map(|field| column_statistics(field.name(), field.data_type(), metas, rows))
        .collect();
    if !complete {
        for column in &mut columns {
            column.null_count = column.null_count.map(|n| n * scale);
            (column.min, column.max) = (None, None);
        }
    }
    let bytes: f64 =
        columns.iter().map(|c| c.avg_width.unwrap_or(0.0)).sum::<f64>() * rows as f64 * scale;
    TableStatistics {
        rows: Some(rows as f64 * scale),
        provenance: if complete { Provenance::Exact } else { Provenance::Stats },
        bytes: Some(bytes),
        columns,
    }
}

fn column_statistics(
    name: &str,
    data_type: &DataType,
    metas: &[Arc<ParquetMeta>],
    rows: u64,
) -> ColumnStatistics {
    let mut column = ColumnStatistics { null_count: Some(0.0), ..Default::default() };
    let (mut bounded, mut uncompressed, mut first) = (true, 0.0, true);
    for meta in metas {
        let Ok(root) = meta.table_schema.index_of(name) else {
            column.null_count = column.null_count.map(|n| n + meta.rows() as f64);
            continue;
        };
        uncompressed += uncompressed_bytes(meta, root);
        let groups: Vec<usize> = (0..meta.metadata().num_row_groups()).collect();
        if groups.is_empty() {
            continue;
        }
        let Some(bounds) = column_bounds(meta, root, &groups, data_type) else {
            (bounded, column.null_count) = (false, None);
            continue;
        };
        let nulls = (bounds.nulls.null_count() == 0)
            .then(|| bounds.nulls.values().iter().map(|&n| n as f64).sum::<f64>());
        column.null_count = column.null_count.zip(nulls).map(|(a, b)| a + b);
        for (group, &index) in groups.iter().enumerate() {
            let all_null = bounds.nulls.is_valid(group)
                && bounds.nulls.value(group) == rows_of(meta.metadata().row_group(index));
            if all_null {
                continue;
            }
            let (Ok(min), Ok(max)) = (
                ScalarValue::try_from_array(&bounds.min, group),
                ScalarValue::try_from_array(&bounds.max, group),
            ) else {
                bounded = false;
                break;
            };
            bounded &= !min.is_null() && !max.is_null();
            if first || column.min.as_ref().is_some_and(|m| min < *m) {
                column.min = Some(min);
            }
            if first || column.max.as_ref().is_some_and(|m| max > *m) {
                column.max = Some(max);
            }
            first = false;
        }
    }
    if !bounded {
        (column.min, column.max) = (None, None);
    }
    column.avg_width = Some(value_width(data_type, uncompressed, rows));
    column
}

fn uncompressed_bytes(meta: &ParquetMeta, root: usize) -> f64 {
    let schema = meta.reader.parquet_schema();
    let leaves: Vec<usize> =
        (0..schema.num_columns()).filter(|&l| schema.get_column_root_idx(l) == root).collect();
    let groups = meta.metadata().row_groups().iter();
    groups.flat_map(|g| leaves.iter().map(|&l| g.column(l).uncompressed_size() as f64)).sum()
}

/// Bytes of a value in memory; text needs its view and, beyond twelve bytes, its characters.
pub fn value_width(data_type: &DataType, uncompressed: f64, rows: u64) -> f64 {
    match data_type.primitive_width() {
        Some(width) => width as f64,
        None if data_type == &DataType::Boolean => 1.0,
        None if rows == 0 => 16.0,
        None => 16.0 + uncompressed / rows as f64,
    }
}
