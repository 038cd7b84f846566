//! Rows that are left of those that came and went before they were complete.
//!
//! What goes has the time of what came, so that one bound completes both. Invariant: of as many rows as go, the last ones
//! that came are missing from what is left, which keeps its order.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int8Array};
use arrow::datatypes::Int8Type;
use arrow_schema::DataType;

use super::held::rows_of;
use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::{Error, Result};
use crate::memory::MemoryManager;
use crate::rows::Selected;
use crate::state::KeyedState;

/// The type of the last column of what is held: 1 for a row that came, -1 for one that went.
pub(super) const SIGN: DataType = DataType::Int8;

/// A compact batch with its kinds as a column behind the others.
pub(super) fn signed(batch: Batch) -> Result<Batch> {
    let sign = |kind: &RowKind| match kind {
        RowKind::Insert => Ok(1_i8),
        RowKind::Delete => Ok(-1),
        RowKind::Upsert => Err(Error::Internal("a window by event time knows no keys".into())),
    };
    let signs = match batch.kinds() {
        Some(kinds) => kinds.iter().map(sign).collect::<Result<Vec<_>>>()?,
        None => vec![1; batch.num_rows()],
    };
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(Int8Array::from(signs)));
    Ok(Batch::new(columns, batch.num_rows()))
}

/// The rows of a batch with signs that are left, without the signs.
pub(super) fn left(batch: Batch) -> Result<Batch> {
    let rows = batch.num_rows();
    let Some((signs, columns)) = batch.columns().split_last() else {
        return Err(Error::Internal("rows without signs".into()));
    };
    let signs = signs.as_primitive::<Int8Type>().values();
    let unsigned = Batch::new(columns.to_vec(), rows);
    if signs.iter().all(|sign| *sign > 0) {
        return Ok(unsigned);
    }
    let mut counts = Counts::over(columns, rows)?;
    for (row, sign) in signs.iter().enumerate() {
        *counts.of(row) += i64::from(*sign);
    }
    let mut kept = Vec::new();
    for (row, _) in signs.iter().enumerate().filter(|(_, sign)| **sign > 0) {
        let count = counts.of(row);
        if *count > 0 {
            *count -= 1;
            kept.push(row as u32);
        }
    }
    rows_of(&unsigned, kept)
}

/// How often each row is there.
struct Counts {
    ids: Vec<u32>,
    counts: Vec<i64>,
}

impl Counts {
    fn over(columns: &[ArrayRef], rows: usize) -> Result<Counts> {
        let types: Vec<DataType> =
            columns.iter().map(|column| column.data_type().clone()).collect();
        // The rows themselves are charged already; this lasts for a moment.
        let reservation = MemoryManager::unlimited().reserve("rows that are left");
        let mut known = KeyedState::new(&types, &[], reservation)?;
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        known.lookup_or_insert(columns, None, Selected::All(rows), &mut ids, &mut new)?;
        Ok(Counts { counts: vec![0; known.len()], ids })
    }

    fn of(&mut self, row: usize) -> &mut i64 {
        &mut self.counts[self.ids[row] as usize]
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;
    use RowKind::{Delete, Insert};

    fn left_of(rows: &[(i64, RowKind)]) -> Vec<i64> {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
        let kinds: Vec<RowKind> = rows.iter().map(|row| row.1).collect();
        let batch = Batch::new(vec![column], rows.len()).with_kinds(kinds.into());
        let left = left(signed(batch).unwrap()).unwrap();
        left.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn rows_that_went_are_not_left() {
        assert_eq!(left_of(&[(1, Insert), (2, Insert), (1, Delete), (3, Insert)]), [2, 3]);
        assert_eq!(left_of(&[(1, Insert), (1, Insert), (1, Delete)]), [1]);
        assert_eq!(left_of(&[(1, Insert), (2, Insert)]), [1, 2]);
        assert!(left_of(&[(1, Insert), (1, Delete)]).is_empty());
    }
}
