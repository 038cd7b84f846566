//! What is shown of a change: `+I`, `-U`, `+U` or `-D`.
//!
//! A row that is deleted and the next one of the same key that is inserted, in one batch, are an update: `-U` and `+U`.
//! Everything else is `+I` or `-D`; without a key there are no updates.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::row::{RowConverter, SortField};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::{Batch, Result};

/// The op of each row of a batch without a selection; the key is named by positions.
pub(crate) fn row_ops(batch: &Batch, key: Option<&[usize]>) -> Result<Vec<&'static str>> {
    let Some(kinds) = batch.kinds() else { return Ok(vec!["+I"; batch.num_rows()]) };
    let plain = |kind: &RowKind| match kind {
        RowKind::Insert | RowKind::Upsert => "+I",
        RowKind::Delete => "-D",
    };
    let mut ops: Vec<&'static str> = kinds.iter().map(plain).collect();
    let Some(key) = key.filter(|_| kinds.contains(&RowKind::Delete)) else {
        return Ok(ops);
    };
    let columns: Vec<ArrayRef> = key.iter().map(|&at| batch.column(at).clone()).collect();
    for (deleted, inserted) in replaced(&columns, kinds)? {
        ops[deleted] = "-U";
        ops[inserted] = "+U";
    }
    Ok(ops)
}

/// Rows that are deleted, each with the next one of its key, if that is inserted.
fn replaced(keys: &[ArrayRef], kinds: &[RowKind]) -> Result<Vec<(usize, usize)>> {
    let rows = match keys {
        [] => None,
        keys => {
            let fields = keys.iter().map(|key| SortField::new(key.data_type().clone()));
            Some(RowConverter::new(fields.collect())?.convert_columns(keys)?)
        }
    };
    let mut deleted: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for (row, kind) in kinds.iter().enumerate() {
        let key = rows.as_ref().map(|rows| rows.row(row).data().to_vec()).unwrap_or_default();
        match kind {
            RowKind::Delete => {
                deleted.insert(key, row);
            }
            RowKind::Insert | RowKind::Upsert => {
                pairs.extend(deleted.remove(&key).map(|before| (before, row)));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    fn ops(key: Option<&[usize]>, rows: &[(RowKind, i64, i64)]) -> Vec<&'static str> {
        let column = |of: fn(&(RowKind, i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let kinds: Vec<RowKind> = rows.iter().map(|row| row.0).collect();
        let batch = Batch::new(vec![column(|row| row.1), column(|row| row.2)], rows.len());
        row_ops(&batch.with_kinds(kinds.into()), key).unwrap()
    }

    #[test]
    fn a_row_in_the_place_of_another_is_an_update() {
        use RowKind::{Delete, Insert};
        let rows =
            [(Insert, 1, 10), (Delete, 2, 5), (Insert, 2, 6), (Delete, 3, 7), (Insert, 1, 11)];
        assert_eq!(ops(Some(&[0]), &rows), ["+I", "-U", "+U", "-D", "+I"]);
        assert_eq!(ops(None, &rows), ["+I", "-D", "+I", "-D", "+I"]);
        assert_eq!(ops(Some(&[]), &rows[1..3]), ["-U", "+U"], "one row without a key");
    }
}
