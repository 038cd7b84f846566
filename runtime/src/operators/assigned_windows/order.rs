//! The order of rows in windows: by time, and where times are equal by other columns, so that it does not depend on the
//! order in which rows came. Rows that are equal in everything stand for each other.
//!
//! Where a column has a type without an order, rows of one time stay as they came.

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::DataType;

use crate::error::Result;
use crate::rows::{SortColumn, SortKeyEncoder, canonical_key, unpacked_type};

/// Puts rows in order.
pub(super) struct TieOrder {
    /// Positions of columns.
    ties: Vec<usize>,
    encoder: Option<SortKeyEncoder>,
}

impl TieOrder {
    /// The order of rows with columns of these types, some of which decide where times are equal.
    pub(super) fn new(types: &[DataType], ties: &[usize]) -> Self {
        let column = |data_type| SortColumn { data_type, descending: false, nulls_first: false };
        let times = column(DataType::Int64);
        let columns: Vec<SortColumn> = [times]
            .into_iter()
            .chain(ties.iter().map(|&at| column(unpacked_type(&types[at]))))
            .collect();
        TieOrder { ties: ties.to_vec(), encoder: SortKeyEncoder::new(&columns).ok() }
    }

    /// The positions of rows in their order.
    pub(super) fn order(&self, times: &[i64], columns: &[ArrayRef]) -> Result<Vec<u32>> {
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        let ties = times.windows(2).any(|pair| pair[0] >= pair[1]);
        let Some(encoder) = self.encoder.as_ref().filter(|_| ties) else {
            order.sort_by_key(|&row| times[row as usize]);
            return Ok(order);
        };
        let times: ArrayRef = std::sync::Arc::new(Int64Array::from(times.to_vec()));
        let columns = [times]
            .iter()
            .chain(self.ties.iter().map(|&at| &columns[at]))
            .map(canonical_key)
            .collect::<Result<Vec<_>>>()?;
        Ok(encoder.encode(&columns)?.sorted())
    }
}
