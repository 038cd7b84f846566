//! Rows that take the place of others in a table in memory, by its primary key.
//!
//! Changes are gathered and made visible together; of the changes of one key the last one counts. Looking for the rows that
//! they replace goes through the table once for all changes of a commit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::rows::{NO_ROW, Selected};
use thalweg_runtime::state::KeyedState;
use thalweg_runtime::{Error, Result};

/// What becomes of a row whose key is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnKey {
    /// It is an error.
    Error,
    /// The new row is left out.
    Nothing,
    /// It goes, and the new one comes.
    Update,
}

/// What upserts come to.
#[derive(Debug)]
pub(super) struct Upserted {
    /// The rows that the table had and keeps.
    pub(super) kept: Vec<RecordBatch>,
    /// Those that go.
    pub(super) deleted: Vec<RecordBatch>,
    /// Those that come.
    pub(super) inserted: RecordBatch,
}

/// Changes of rows on their way into a table.
#[derive(Debug, Default)]
pub(crate) struct Upserts {
    batches: Vec<RecordBatch>,
    kinds: Vec<RowKind>,
}

impl Upserts {
    /// Adds changes; without kinds all rows come.
    pub(crate) fn push(&mut self, batch: RecordBatch, kinds: Option<&[RowKind]>) {
        match kinds {
            Some(kinds) => self.kinds.extend_from_slice(kinds),
            None => self.kinds.extend(std::iter::repeat_n(RowKind::Insert, batch.num_rows())),
        }
        self.batches.push(batch);
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// What they come to over the rows of a table called `name`.
    pub(super) fn over(
        self,
        held: &[RecordBatch],
        key: &[usize],
        on_key: OnKey,
        memory: &Arc<MemoryManager>,
    ) -> Result<Option<Upserted>> {
        let Some(first) = self.batches.first() else { return Ok(None) };
        let changes = concat_batches(&first.schema(), &self.batches)?;
        let columns = columns_of(&changes, key);
        let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
        let mut keys = KeyedState::new(&types, &[], memory.reserve("rows to be replaced"))?;
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        let all = Selected::new(changes.num_rows(), None);
        keys.lookup_or_insert(&columns, None, all, &mut ids, &mut new)?;
        let place: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
        let mut there = vec![false; keys.store().next_id() as usize];
        let mut rows = Vec::with_capacity(held.len());
        for batch in held {
            rows.push(found(batch, key, &mut keys, &mut there)?);
        }
        let last = self.last(&place, &there, on_key)?;
        let stays = |id: usize| on_key == OnKey::Nothing && there[id];
        let (mut kept, mut deleted) = (Vec::with_capacity(held.len()), Vec::new());
        for (batch, found) in held.iter().zip(rows) {
            let Some(found) = found else {
                kept.push(batch.clone());
                continue;
            };
            let goes: BooleanArray =
                found.iter().map(|id| Some(id.is_some_and(|id| !stays(id)))).collect();
            deleted.push(filter_record_batch(batch, &goes)?);
            kept.push(filter_record_batch(batch, &arrow::compute::not(&goes)?)?);
        }
        let inserted = take_record_batch(&changes, &UInt32Array::from(last))?;
        Ok(Some(Upserted { kept, deleted, inserted }))
    }

    /// The change of each key that counts, if it brings a row.
    fn last(&self, place: &[usize], there: &[bool], on_key: OnKey) -> Result<Vec<u32>> {
        let mut last: Vec<Option<u32>> = vec![None; there.len()];
        for (row, (&at, kind)) in place.iter().zip(&self.kinds).enumerate() {
            match (kind, on_key) {
                (RowKind::Delete, _) => last[at] = None,
                (RowKind::Insert | RowKind::Upsert, OnKey::Update) => last[at] = Some(row as u32),
                (RowKind::Insert | RowKind::Upsert, OnKey::Nothing)
                    if there[at] || last[at].is_some() => {}
                (RowKind::Insert | RowKind::Upsert, OnKey::Error)
                    if there[at] || last[at].is_some() =>
                {
                    return Err(Error::User {
                        message: "two rows would have the same primary key".into(),
                        detail: None,
                        hint: Some("ON CONFLICT DO UPDATE or DO NOTHING says which counts".into()),
                    });
                }
                (RowKind::Insert | RowKind::Upsert, OnKey::Nothing | OnKey::Error) => {
                    last[at] = Some(row as u32)
                }
            }
        }
        let mut rows: Vec<u32> = last.into_iter().flatten().collect();
        rows.sort_unstable();
        Ok(rows)
    }
}

/// For each row the number of the key that it has among those of the changes; `None` when no row has one.
fn found(
    batch: &RecordBatch,
    key: &[usize],
    keys: &mut KeyedState,
    there: &mut [bool],
) -> Result<Option<Vec<Option<usize>>>> {
    let mut ids = Vec::new();
    let selected = Selected::new(batch.num_rows(), None);
    keys.lookup(&columns_of(batch, key), None, selected, &mut ids)?;
    if ids.iter().all(|id| *id == NO_ROW) {
        return Ok(None);
    }
    let found: Vec<Option<usize>> =
        ids.iter().map(|id| (*id != NO_ROW).then_some(*id as usize)).collect();
    found.iter().flatten().for_each(|&at| there[at] = true);
    Ok(Some(found))
}

fn columns_of(batch: &RecordBatch, key: &[usize]) -> Vec<ArrayRef> {
    key.iter().map(|&at| batch.column(at).clone()).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::connectors::testing::rows_as_text;
    use RowKind::{Delete, Insert};

    fn batch(rows: &[(i64, i64)]) -> RecordBatch {
        let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
        let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let columns = vec![column(|row| row.0), column(|row| row.1)];
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap()
    }

    /// The rows that stay, those that go and those that come.
    fn over(on_key: OnKey, changes: &[(RowKind, i64, i64)]) -> Result<[String; 3]> {
        let held = [batch(&[(1, 10), (2, 20)]), batch(&[(3, 30)])];
        let mut upserts = Upserts::default();
        for (kind, k, v) in changes {
            upserts.push(batch(&[(*k, *v)]), Some(&[*kind]));
        }
        let memory = MemoryManager::new(usize::MAX);
        let Some(result) = upserts.over(&held, &[0], on_key, &memory)? else { panic!() };
        let text = |batches: &[RecordBatch]| {
            batches.iter().flat_map(rows_as_text).collect::<Vec<_>>().join(" ")
        };
        Ok([text(&result.kept), text(&result.deleted), text(&[result.inserted])])
    }

    #[test]
    fn the_last_change_of_a_key_counts() {
        let changes =
            [(Insert, 4, 1), (Delete, 2, 20), (Insert, 2, 21), (Insert, 2, 22), (Delete, 3, 30)];
        assert_eq!(over(OnKey::Update, &changes).unwrap(), ["1|10", "2|20 3|30", "4|1 2|22"]);
        let gone = [(Insert, 5, 1), (Delete, 5, 1)];
        assert_eq!(over(OnKey::Update, &gone).unwrap(), ["1|10 2|20 3|30", "", ""]);
    }

    #[test]
    fn rows_that_are_there_stay_or_are_errors() {
        let changes = [(Insert, 2, 21), (Insert, 4, 1), (Insert, 4, 2)];
        assert_eq!(over(OnKey::Nothing, &changes).unwrap(), ["1|10 2|20 3|30", "", "4|1"]);
        assert!(over(OnKey::Error, &changes).is_err());
        assert!(over(OnKey::Error, &changes[1..]).is_err());
        assert_eq!(over(OnKey::Error, &changes[1..2]).unwrap()[2], "4|1");
    }
}
