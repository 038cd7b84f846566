//! Which rows a statement took away and which it brought, where it gives all rows anew.
//!
//! Tables are multisets here: a row that is there twice before and once after was deleted once.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use thalweg_runtime::memory::{MemoryManager, Reservation};
use thalweg_runtime::rows::{NO_ROW, Selected};
use thalweg_runtime::state::KeyedState;
use thalweg_runtime::{Error, Result};

use super::changes::Change;

/// The change from `old` rows to `new` ones. Rows that cannot be compared count as changed.
pub(super) fn difference(
    schema: &SchemaRef,
    old: &[RecordBatch],
    new: &[RecordBatch],
) -> Result<Change> {
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let everything =
        || Change { deleted: old.to_vec(), inserted: new.to_vec(), ..Change::default() };
    let Ok(state) = KeyedState::new(&types, &[], uncharged()) else { return Ok(everything()) };
    let mut counts = Counts { state, counts: Vec::new() };
    let old_ids = old.iter().map(|batch| counts.add(batch, 1)).collect::<Result<Vec<_>>>()?;
    let new_ids = new.iter().map(|batch| counts.add(batch, -1)).collect::<Result<Vec<_>>>()?;
    let counts = &mut counts.counts;
    let pick = |batches: &[RecordBatch], ids: &[Vec<u32>], wanted: &mut dyn FnMut(u32) -> bool| {
        let picked = batches.iter().zip(ids).filter_map(|(batch, ids)| {
            let rows: Vec<u32> =
                (0..ids.len() as u32).filter(|&row| wanted(ids[row as usize])).collect();
            (!rows.is_empty()).then(|| take_record_batch(batch, &UInt32Array::from(rows)))
        });
        picked.collect::<Result<Vec<_>, _>>()
    };
    let deleted = pick(old, &old_ids, &mut |id| {
        let left = &mut counts[id as usize];
        let gone = *left > 0;
        *left -= i64::from(gone);
        gone
    })?;
    let inserted = pick(new, &new_ids, &mut |id| {
        let left = &mut counts[id as usize];
        let came = *left < 0;
        *left += i64::from(came);
        came
    })?;
    Ok(Change { deleted, inserted, ..Change::default() })
}

/// The rows after a change. With a key in these columns, rows that come or go take the place of those of their key, and of
/// several of one key the last counts; without one, as many rows go as are given.
pub(super) fn folded(
    schema: &SchemaRef,
    rows: &[RecordBatch],
    deleted: &[RecordBatch],
    inserted: &[RecordBatch],
    key: &[usize],
) -> Result<Vec<RecordBatch>> {
    // What went and came again is no change.
    let Change { deleted, inserted, .. } = difference(schema, deleted, inserted)?;
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let by_row = key.is_empty();
    let key = if by_row { &all } else { key };
    let types: Vec<_> = key.iter().map(|&at| schema.field(at).data_type().clone()).collect();
    let keyed = |batch: &RecordBatch| Ok::<_, Error>(batch.project(key)?);
    let mut counts =
        Counts { state: KeyedState::new(&types, &[], uncharged())?, counts: Vec::new() };
    for batch in &deleted {
        counts.add(&keyed(batch)?, 1)?;
    }
    let mut came = Vec::with_capacity(inserted.len());
    for batch in &inserted {
        came.push(counts.add(&keyed(batch)?, i64::from(!by_row))?);
    }
    let mut left = Vec::with_capacity(rows.len() + inserted.len());
    let mut keep = |batch: &RecordBatch, wanted: Vec<bool>| {
        if wanted.iter().any(|wanted| *wanted) {
            left.push(filter_record_batch(batch, &BooleanArray::from(wanted))?);
        }
        Ok::<_, Error>(())
    };
    for batch in rows {
        let mut ids = Vec::new();
        let of = keyed(batch)?;
        let selected = Selected::All(batch.num_rows());
        counts.state.lookup(of.columns(), None, selected, &mut ids)?;
        let wanted = ids.iter().map(|&id| {
            let count = if id == NO_ROW { 0 } else { counts.counts[id as usize] };
            if by_row && count > 0 {
                counts.counts[id as usize] -= 1;
            }
            count <= 0
        });
        let wanted = wanted.collect();
        keep(batch, wanted)?;
    }
    let mut last: Vec<Option<(usize, usize)>> = vec![None; counts.state.len()];
    for (number, ids) in came.iter().enumerate() {
        ids.iter().enumerate().for_each(|(row, &id)| last[id as usize] = Some((number, row)));
    }
    for (number, (batch, ids)) in inserted.iter().zip(&came).enumerate() {
        let is_last = |row: usize, id: u32| last[id as usize] == Some((number, row));
        let wanted = ids.iter().enumerate().map(|(row, &id)| by_row || is_last(row, id)).collect();
        keep(batch, wanted)?;
    }
    Ok(left)
}

/// How often each row is there before, less how often it is there after.
struct Counts {
    state: KeyedState,
    counts: Vec<i64>,
}

impl Counts {
    /// Counts the rows of a batch and gives their numbers.
    fn add(&mut self, batch: &RecordBatch, by: i64) -> Result<Vec<u32>> {
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        let all = Selected::All(batch.num_rows());
        self.state.lookup_or_insert(batch.columns(), None, all, &mut ids, &mut new)?;
        self.counts.resize(self.state.len(), 0);
        ids.iter().for_each(|id| self.counts[*id as usize] += by);
        Ok(ids)
    }
}

/// What a statement needs for a moment, beside the rows that were charged to it.
fn uncharged() -> Reservation {
    let memory: Arc<MemoryManager> = MemoryManager::unlimited();
    memory.reserve("changed rows")
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    fn rows(values: &[i64]) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).unwrap()
    }

    fn values(batches: &[RecordBatch]) -> Vec<i64> {
        let of = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
        batches.iter().flat_map(of).collect()
    }

    #[test]
    fn rows_are_counted() {
        let (old, new) = ([rows(&[1, 1, 2]), rows(&[3, 1])], [rows(&[3, 4, 1]), rows(&[4])]);
        let change = difference(&old[0].schema(), &old, &new).unwrap();
        assert_eq!(values(&change.deleted), [1, 1, 2]);
        assert_eq!(values(&change.inserted), [4, 4]);
    }

    #[test]
    fn changes_are_folded_by_row_or_by_key() {
        let schema = rows(&[]).schema();
        let fold = |now: &[i64], deleted: &[i64], inserted: &[i64], key: &[usize]| {
            let found =
                folded(&schema, &[rows(now)], &[rows(deleted)], &[rows(inserted)], key).unwrap();
            values(&found)
        };
        assert_eq!(fold(&[1, 1, 2], &[1], &[3], &[]), [1, 2, 3]);
        assert_eq!(fold(&[1, 2], &[5, 2], &[2, 7, 7], &[]), [1, 2, 7, 7], "what came again stays");
        assert_eq!(fold(&[1, 2], &[], &[2, 3, 3], &[0]), [1, 2, 3]);
    }
}
