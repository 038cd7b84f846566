//! Normalised sort keys: byte strings that compare as the sort columns do.
//!
//! Ascending or descending, NULLs first or last, by column; −0.0 equals 0.0, NaN is the greatest number, and NULL the
//! greatest element of a list or struct.
//! Invariant: two keys of one encoder compare byte by byte as their rows do, also across batches, so that runs merge
//! without columns. The first 16 bytes as a number decide most comparisons.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, is_null};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};

use super::canonical::{canonical_key, unpacked_type};
use crate::error::{Error, Result};

/// Bytes of a key that [`SortKeys::prefix`] holds.
const PREFIX_BYTES: usize = 16;

/// One sort column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortColumn {
    /// The column's type.
    pub data_type: DataType,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before all values, in either direction.
    pub nulls_first: bool,
}

/// Encodes sort columns.
#[derive(Debug)]
pub struct SortKeyEncoder {
    converter: RowConverter,
    /// For each column, whether a key field before it says what is NULL.
    marked: Vec<bool>,
    fixed_bytes: Option<usize>,
}

impl SortKeyEncoder {
    /// The encoder of the given columns, the first one deciding first.
    ///
    /// # Errors
    /// `Unsupported` for types that have no order.
    pub fn new(columns: &[SortColumn]) -> Result<Self> {
        let fields: Vec<SortField> = columns.iter().flat_map(fields).collect();
        if !RowConverter::supports_fields(&fields) {
            let types: Vec<String> = columns.iter().map(|c| c.data_type.to_string()).collect();
            return Err(Error::Unsupported(format!("sorting by {}", types.join(", "))));
        }
        let width = |column: &SortColumn| fixed_key_bytes(&unpacked_type(&column.data_type));
        let fixed_bytes = columns.iter().map(width).sum();
        let marked = columns.iter().map(has_null_mark).collect();
        Ok(Self { converter: RowConverter::new(fields)?, marked, fixed_bytes })
    }

    /// The length of every key, where all columns have keys of one length.
    pub fn fixed_bytes(&self) -> Option<usize> {
        self.fixed_bytes
    }

    /// Whether equal prefixes mean equal keys.
    pub fn prefix_decides(&self) -> bool {
        self.fixed_bytes.is_some_and(|bytes| bytes <= PREFIX_BYTES)
    }

    /// The keys of the rows of `columns`.
    ///
    /// # Errors
    /// `Internal` for columns that are not those of the encoder.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<SortKeys> {
        if columns.len() != self.marked.len() {
            return Err(Error::Internal(format!(
                "{} sort columns were given, {} expected",
                columns.len(),
                self.marked.len()
            )));
        }
        let mut keys: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (column, marked) in columns.iter().zip(&self.marked) {
            if *marked {
                keys.push(Arc::new(is_null(column)?));
            }
            keys.push(canonical_key(column)?);
        }
        Ok(SortKeys { rows: self.converter.convert_columns(&keys)? })
    }
}

/// Whether a column's NULLs have a key field of their own. The elements of a nested value are placed as NULLs of the
/// column are, but a NULL element is the greatest wherever the column's own NULLs are wanted.
fn has_null_mark(column: &SortColumn) -> bool {
    column.data_type.is_nested() && column.nulls_first != column.descending
}

/// The key fields of a column.
fn fields(column: &SortColumn) -> Vec<SortField> {
    let data_type = unpacked_type(&column.data_type);
    if !has_null_mark(column) {
        let options = SortOptions::new(column.descending, column.nulls_first);
        return vec![SortField::new_with_options(data_type, options)];
    }
    let mark = SortOptions::new(column.nulls_first, false);
    let values = SortOptions::new(column.descending, column.descending);
    vec![
        SortField::new_with_options(DataType::Boolean, mark),
        SortField::new_with_options(data_type, values),
    ]
}

/// Bytes of the key of a fixed-width type: a marker and the value.
fn fixed_key_bytes(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(2),
        DataType::FixedSizeBinary(width) => Some(1 + *width as usize),
        DataType::Null => None,
        other => other.primitive_width().map(|width| 1 + width),
    }
}

/// The sort keys of a batch.
#[derive(Debug)]
pub struct SortKeys {
    rows: Rows,
}

impl SortKeys {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the keys take on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.rows.size()
    }

    /// The key of row `i`; keys compare byte by byte.
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        self.rows.row(i).data()
    }

    /// The first 16 bytes of the key of row `i` as a number (shorter keys are filled with zeros): where prefixes
    /// differ, they compare as the keys do.
    #[inline]
    pub fn prefix(&self, i: usize) -> u128 {
        key_prefix(self.key(i))
    }

    /// The permutation that sorts the rows; rows with equal keys keep their order.
    pub fn sorted(&self) -> Vec<u32> {
        let mut order: Vec<(u128, u32)> =
            (0..self.len()).map(|i| (self.prefix(i), i as u32)).collect();
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| self.key(a.1 as usize).cmp(self.key(b.1 as usize)))
                .then(a.1.cmp(&b.1))
        });
        order.into_iter().map(|(_, row)| row).collect()
    }
}

/// The first 16 bytes of a key as a number; see [`SortKeys::prefix`].
#[inline]
pub fn key_prefix(key: &[u8]) -> u128 {
    match key.first_chunk::<PREFIX_BYTES>() {
        Some(prefix) => u128::from_be_bytes(*prefix),
        None => {
            let mut prefix = [0; PREFIX_BYTES];
            prefix[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(prefix)
        }
    }
}
