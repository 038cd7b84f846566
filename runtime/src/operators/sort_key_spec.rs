//! Sort keys: what rows are ordered by, as lowering writes it and as operators evaluate it.
//!
//! All operators that order rows (sort, top-n, merge, windows) evaluate their keys here, so that they agree on
//! NULLs, directions, −0.0 and NaN. Nothing here orders anything.

use arrow::array::{Array, ArrayRef};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::batch::long_string_bytes;
use crate::expr::{CompiledExpr, Expr, FunctionRegistry, compile};
use crate::rows::{SortColumn, SortKeyEncoder, canonical_key};

/// One sort key over the input's columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortKeySpec {
    /// What to order by.
    pub expr: Expr,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before all values, in either direction.
    pub nulls_first: bool,
}

impl SortKeySpec {
    /// Ascending with NULLs last.
    pub fn ascending(expr: Expr) -> Self {
        SortKeySpec { expr, descending: false, nulls_first: false }
    }

    /// The directions as Arrow's kernels take them.
    pub fn options(&self) -> SortOptions {
        SortOptions::new(self.descending, self.nulls_first)
    }
}

/// Compiled sort keys.
#[derive(Debug)]
pub(crate) struct SortKeyColumns {
    exprs: Vec<CompiledExpr>,
    options: Vec<SortOptions>,
}

impl SortKeyColumns {
    /// Compiles keys over an input.
    pub fn new(
        keys: &[SortKeySpec],
        schema: &SchemaRef,
        functions: &FunctionRegistry,
    ) -> Result<Self> {
        let exprs = keys
            .iter()
            .map(|key| compile(&key.expr, schema, functions))
            .collect::<Result<Vec<_>>>()?;
        Ok(SortKeyColumns { exprs, options: keys.iter().map(SortKeySpec::options).collect() })
    }

    /// The directions, key by key.
    pub fn options(&self) -> &[SortOptions] {
        &self.options
    }

    /// The types of the keys.
    pub fn types(&self) -> Vec<DataType> {
        self.exprs.iter().map(|e| e.data_type().clone()).collect()
    }

    /// The key columns of a compact batch, in canonical form.
    pub fn evaluate(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.exprs.iter().map(|e| canonical_key(&e.evaluate(batch)?)).collect()
    }

    /// The encoder of the keys from position `first` on; none if no key is left.
    pub fn encoder(&self, first: usize) -> Result<Option<SortKeyEncoder>> {
        let columns: Vec<SortColumn> = self.exprs[first..]
            .iter()
            .zip(&self.options[first..])
            .map(|(expr, options)| SortColumn {
                data_type: expr.data_type().clone(),
                descending: options.descending,
                nulls_first: options.nulls_first,
            })
            .collect();
        if columns.is_empty() { Ok(None) } else { SortKeyEncoder::new(&columns).map(Some) }
    }
}

/// The rows of a batch for an operator that orders inserted rows; a changelog has no order to keep.
pub(crate) fn inserts_only(batch: Batch, operator: &str) -> Result<Batch> {
    let batch = batch.compact()?;
    if batch.kinds().is_some() {
        return Err(Error::Unsupported(format!("a {operator} over rows that may be withdrawn")));
    }
    Ok(batch)
}

/// The batch with strings copied together where they would keep much larger buffers alive.
pub(crate) fn compact_strings(batch: Batch) -> Batch {
    let sparse = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View | DataType::BinaryView => {
            let data = column.to_data();
            let held: usize = data.buffers().iter().skip(1).map(|b| b.capacity()).sum();
            let used = long_string_bytes(&data);
            held > STRING_SLACK_BYTES && held > used + used / STRING_SLACK_DIVISOR
        }
        _ => false,
    };
    if !batch.columns().iter().any(sparse) {
        return batch;
    }
    let columns = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8View if sparse(column) => gc::<arrow::datatypes::StringViewType>(column),
            DataType::BinaryView if sparse(column) => {
                gc::<arrow::datatypes::BinaryViewType>(column)
            }
            _ => column.clone(),
        })
        .collect();
    batch.with_columns(columns)
}

/// Buffers below this size are never copied together.
const STRING_SLACK_BYTES: usize = 16 << 10;
/// Buffers that are larger than their strings by more than this fraction of them are. A builder's buffers are twice as
/// large as what is in them at worst.
const STRING_SLACK_DIVISOR: usize = 8;

fn gc<T: arrow::datatypes::ByteViewType>(column: &ArrayRef) -> ArrayRef {
    use arrow::array::AsArray;
    std::sync::Arc::new(column.as_byte_view::<T>().gc())
}
