//! The rows of a materialized view: a multiset that commits change and readers see whole.
//!
//! Each different row is held once, with how often it is there. A commit costs as much as it has changes: rows that
//! are new go into a part of their own, others get another count in theirs. What readers see of a part is made when one
//! asks for it. Invariant: a row that a commit takes away is there; parts of few rows are joined before they are many,
//! and rows that are gone are dropped before they are the most.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, interleave, take_record_batch};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::RowKind;
use thalweg_runtime::memory::{MemoryManager, Reservation};
use thalweg_runtime::rows::{RowId, Selected};
use thalweg_runtime::state::KeyedState;
use thalweg_runtime::{Error, Result};

use super::changes::{Change, ChangeLog, Subscription};
use super::registry;
use crate::connectors::compact::{compacted, held_bytes};
use crate::connectors::write::typed_batch;

/// Parts of fewer rows are joined when there are many of them.
const SMALL_PART_ROWS: usize = 4096;
/// How many small parts there may be.
const SMALL_PARTS_MAX: usize = 16;
/// Rows that may be gone before anything is done about them.
const GONE_ROWS_MIN: usize = 1024;

/// Rows on their way into a view, each with its kind.
pub(super) struct ViewChange {
    rows: RecordBatch,
    /// What each row adds to its count.
    signs: Vec<i64>,
}

impl ViewChange {
    /// The changes of a batch without a selection.
    pub(super) fn of(batch: Batch, schema: &SchemaRef) -> Result<Self> {
        let sign = |kind: &RowKind| match kind {
            RowKind::Insert => Ok(1),
            RowKind::Delete => Ok(-1),
            RowKind::Upsert => Err(Error::Internal("a view knows no keys of its rows".into())),
        };
        let signs = match batch.kinds() {
            Some(kinds) => kinds.iter().map(sign).collect::<Result<_>>()?,
            None => vec![1; batch.num_rows()],
        };
        Ok(ViewChange { rows: typed_batch(batch, schema)?, signs })
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct ViewRows {
    id: u64,
    schema: SchemaRef,
    memory: Arc<MemoryManager>,
    name: String,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    held: Held,
    log: ChangeLog,
    /// How far event time has come, in microseconds.
    watermark_us: Option<i64>,
    /// What readers see, once one has asked since the last commit.
    seen: Option<Arc<Vec<RecordBatch>>>,
    charge: Reservation,
}

impl Drop for ViewRows {
    fn drop(&mut self) {
        registry::remove(self.id);
    }
}

impl ViewRows {
    /// No rows.
    pub(super) fn new(
        id: u64,
        schema: SchemaRef,
        memory: &Arc<MemoryManager>,
        name: &str,
    ) -> Result<Self> {
        let held = Held::new(&schema, memory.reserve(format!("rows of view {name}")))?;
        let charge = memory.reserve(format!("view {name}"));
        let now = Now { held, log: ChangeLog::default(), watermark_us: None, seen: None, charge };
        let (memory, name) = (memory.clone(), name.to_string());
        Ok(ViewRows { id, schema, memory, name, now: Mutex::new(now) })
    }

    /// The number that plans name it by.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of the last commit.
    pub(super) fn batches(&self) -> Arc<Vec<RecordBatch>> {
        self.now.lock().batches()
    }

    /// The rows of the last commit and every change from now on.
    pub(super) fn subscribe(&self) -> Arc<Subscription> {
        let mut now = self.now.lock();
        let batches = now.batches();
        let rows = (batches, now.watermark_us);
        now.log.subscribe(self.id, &self.schema, rows)
    }

    /// Makes changes visible, all at once; event time has come so far behind them.
    pub(super) fn commit(&self, changes: Vec<ViewChange>, watermark_us: Option<i64>) -> Result<()> {
        let mut now = self.now.lock();
        let watermark_us = watermark_us.filter(|at| now.watermark_us.is_none_or(|was| was < *at));
        now.watermark_us = watermark_us.or(now.watermark_us);
        if changes.is_empty() {
            now.log.record(Change { watermark_us, ..Change::default() });
            return Ok(());
        }
        let change = now.held.apply(&self.schema, &changes)?;
        now.seen = None;
        now.log.record(Change { watermark_us, ..change });
        if now.held.is_mostly_gone() {
            let reservation = self.memory.reserve(format!("rows of view {}", self.name));
            now.held = now.held.without_gone(&self.schema, reservation)?;
        }
        now.held.join_small_parts(&self.schema)?;
        let bytes = now.held.bytes();
        // What is held was charged to the job that brought it; the meter of the heap counts it in any case.
        let _ = now.charge.try_resize(bytes);
        Ok(())
    }
}

impl Now {
    fn batches(&mut self) -> Arc<Vec<RecordBatch>> {
        let held = &mut self.held;
        self.seen.get_or_insert_with(|| Arc::new(held.batches())).clone()
    }
}

/// The different rows with their counts.
#[derive(Debug)]
struct Held {
    index: KeyedState,
    /// By the row's number in the index.
    rows: Vec<Row>,
    parts: Vec<Part>,
    gone: usize,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    part: u32,
    at: u32,
    count: u32,
}

/// A row that has not got a place.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
struct Part {
    rows: RecordBatch,
    /// The numbers of the rows.
    ids: Vec<RowId>,
    /// The rows as often as they are there; `None` when it has to be made anew.
    visible: Option<RecordBatch>,
}

impl Held {
    fn new(schema: &SchemaRef, reservation: Reservation) -> Result<Self> {
        let types: Vec<_> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        let index = KeyedState::new(&types, &[], reservation)?;
        Ok(Held { index, rows: Vec::new(), parts: Vec::new(), gone: 0 })
    }

    fn batches(&mut self) -> Vec<RecordBatch> {
        let rows = &self.rows;
        let parts = self.parts.iter_mut().map(|part| part.visible(rows));
        parts.filter(|batch| batch.num_rows() > 0).collect()
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| held_bytes(std::slice::from_ref(&part.rows)));
        parts.sum::<usize>() + self.rows.len() * (size_of::<Row>() + size_of::<RowId>())
    }

    /// Applies the sum of the changes, and tells what it comes to.
    fn apply(&mut self, schema: &SchemaRef, changes: &[ViewChange]) -> Result<Change> {
        let (touched, sums) = self.sums(changes)?;
        let (mut deleted, mut inserted, mut placed) = (Vec::new(), Vec::new(), Vec::new());
        for (id, first) in touched {
            let sum = sums[id as usize];
            let row = &mut self.rows[id as usize];
            let before = row.count;
            let after = i64::from(before) + sum;
            row.count = u32::try_from(after).map_err(|_| impossible(after))?;
            let copies = std::iter::repeat_n(first, sum.unsigned_abs() as usize);
            if sum < 0 {
                deleted.extend(copies)
            } else {
                inserted.extend(copies)
            }
            if row.part == NOWHERE {
                // Rows that came and went within the commit get a place when they are there at its end.
                if after > 0 {
                    placed.push((id, first));
                }
                continue;
            }
            if sum != 0 {
                self.parts[row.part as usize].visible = None;
                self.gone += usize::from(after == 0);
                self.gone -= usize::from(before == 0);
            }
        }
        self.place(schema, changes, &placed)?;
        let batch = |at: &[(usize, usize)]| gather(schema, changes, at);
        let (deleted, inserted) = (batch(&deleted)?, batch(&inserted)?);
        Ok(Change { deleted, inserted, watermark_us: None })
    }

    /// The rows that changes speak of, each with where it first stands, and what they come to by its number.
    #[expect(clippy::type_complexity, reason = "two lists, used once")]
    fn sums(&mut self, changes: &[ViewChange]) -> Result<(Vec<(RowId, (usize, usize))>, Vec<i64>)> {
        let mut touched = Vec::new();
        let (mut sums, mut known) = (Vec::new(), Vec::new());
        for (n, change) in changes.iter().enumerate() {
            let (mut ids, mut new) = (Vec::new(), Vec::new());
            let all = Selected::All(change.rows.num_rows());
            let columns = change.rows.columns();
            self.index.lookup_or_insert(columns, None, all, &mut ids, &mut new)?;
            self.rows.resize(self.index.len(), Row { part: NOWHERE, at: 0, count: 0 });
            sums.resize(self.index.len(), 0);
            known.resize(self.index.len(), false);
            for (at, (id, sign)) in ids.iter().zip(&change.signs).enumerate() {
                sums[*id as usize] += sign;
                if !std::mem::replace(&mut known[*id as usize], true) {
                    touched.push((*id, (n, at)));
                }
            }
        }
        Ok((touched, sums))
    }

    /// Gives rows that had none a place in a part of their own.
    fn place(
        &mut self,
        schema: &SchemaRef,
        changes: &[ViewChange],
        placed: &[(RowId, (usize, usize))],
    ) -> Result<()> {
        let places: Vec<(usize, usize)> = placed.iter().map(|(_, place)| *place).collect();
        let ids = placed.iter().map(|(id, _)| *id).collect();
        for rows in gather(schema, changes, &places)? {
            self.add_part(compacted(rows)?, Vec::clone(&ids));
        }
        Ok(())
    }

    fn add_part(&mut self, rows: RecordBatch, ids: Vec<RowId>) {
        let part = self.parts.len() as u32;
        for (at, id) in ids.iter().enumerate() {
            let row = &mut self.rows[*id as usize];
            (row.part, row.at) = (part, at as u32);
        }
        self.parts.push(Part { rows, ids, visible: None });
    }

    /// Joins small parts at the end, so that their number stays small.
    fn join_small_parts(&mut self, schema: &SchemaRef) -> Result<()> {
        let small = |part: &&Part| part.ids.len() < SMALL_PART_ROWS;
        let count = self.parts.iter().rev().take_while(small).count();
        if count <= SMALL_PARTS_MAX {
            return Ok(());
        }
        let joined = self.parts.split_off(self.parts.len() - count);
        let rows = concat_batches(schema, joined.iter().map(|part| &part.rows))?;
        self.add_part(rows, joined.into_iter().flat_map(|part| part.ids).collect());
        Ok(())
    }

    fn is_mostly_gone(&self) -> bool {
        let placeless = self.rows.len() - self.parts.iter().map(|p| p.ids.len()).sum::<usize>();
        let gone = self.gone + placeless;
        gone > GONE_ROWS_MIN && gone > self.rows.len() / 2
    }

    /// The same rows in parts and under numbers of their own.
    fn without_gone(&self, schema: &SchemaRef, reservation: Reservation) -> Result<Held> {
        let mut held = Held::new(schema, reservation)?;
        for part in &self.parts {
            let count = |at: u32| self.rows[part.ids[at as usize] as usize].count;
            let left: Vec<u32> = (0..part.ids.len() as u32).filter(|&at| count(at) > 0).collect();
            if left.is_empty() {
                continue;
            }
            let counts: Vec<u32> = left.iter().map(|&at| count(at)).collect();
            let rows = compacted(take_record_batch(&part.rows, &UInt32Array::from(left))?)?;
            let (mut ids, mut new) = (Vec::new(), Vec::new());
            let all = Selected::All(rows.num_rows());
            held.index.lookup_or_insert(rows.columns(), None, all, &mut ids, &mut new)?;
            let row = |count: &u32| Row { part: NOWHERE, at: 0, count: *count };
            held.rows.extend(counts.iter().map(row));
            held.add_part(rows, ids);
        }
        Ok(held)
    }
}

impl Part {
    fn visible(&mut self, rows: &[Row]) -> RecordBatch {
        if let Some(visible) = &self.visible {
            return visible.clone();
        }
        let count = |id: &RowId| rows[*id as usize].count;
        let visible = match self.ids.iter().all(|id| count(id) == 1) {
            true => self.rows.clone(),
            false => {
                let copies =
                    |(at, id): (usize, &RowId)| std::iter::repeat_n(at as u32, count(id) as usize);
                let taken: UInt32Array =
                    self.ids.iter().enumerate().flat_map(copies).collect::<Vec<u32>>().into();
                take_record_batch(&self.rows, &taken)
                    .expect("the positions are those of the part's own rows")
            }
        };
        self.visible.insert(visible).clone()
    }
}

/// The rows at places (change, row) as one batch; none for no places.
fn gather(
    schema: &SchemaRef,
    changes: &[ViewChange],
    places: &[(usize, usize)],
) -> Result<Vec<RecordBatch>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let column = |at: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = changes.iter().map(|c| c.rows.column(at).as_ref()).collect();
        Ok(interleave(&parts, places)?)
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<_>>()?;
    Ok(vec![RecordBatch::try_new(schema.clone(), columns)?])
}

fn impossible(count: i64) -> Error {
    match count < 0 {
        true => Error::Internal("a change takes away a row that a view does not have".into()),
        false => Error::Unsupported("a view that has a row more than 4294967295 times".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    fn view() -> ViewRows {
        let fields =
            [Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)];
        let schema = Arc::new(Schema::new(fields.to_vec()));
        ViewRows::new(registry::new_id(), schema, &MemoryManager::unlimited(), "v").unwrap()
    }

    fn change(view: &ViewRows, rows: &[(i64, RowKind)]) -> ViewChange {
        let numbers = Int64Array::from_iter_values(rows.iter().map(|(n, _)| *n));
        let texts = rows.iter().map(|(n, _)| format!("a text longer than a view holds {n}"));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(numbers), Arc::new(StringViewArray::from_iter_values(texts))];
        let kinds = rows.iter().map(|(_, kind)| *kind).collect();
        let batch = Batch::new(columns, rows.len()).with_kinds(kinds);
        ViewChange::of(batch, view.schema()).unwrap()
    }

    /// The numbers, sorted; each has its own text.
    fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
        let mut all = Vec::new();
        for batch in batches {
            let texts = batch.column(1).as_string_view();
            for (n, text) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(texts)
            {
                assert_eq!(text, Some(format!("a text longer than a view holds {n}").as_str()));
                all.push(*n);
            }
        }
        all.sort_unstable();
        all
    }

    const IN: RowKind = RowKind::Insert;
    const OUT: RowKind = RowKind::Delete;

    #[test]
    fn a_commit_is_the_sum_of_its_changes() {
        let view = view();
        let subscription = view.subscribe();
        let first = change(&view, &[(1, IN), (2, IN), (2, IN), (3, OUT)]);
        let second = change(&view, &[(3, IN), (4, IN), (4, OUT)]);
        view.commit(vec![first, second], None).unwrap();
        assert_eq!(numbers(&view.batches()), [1, 2, 2]);
        let before = view.batches();
        let second = change(&view, &[(2, OUT), (4, IN), (1, OUT), (1, IN)]);
        view.commit(vec![second], Some(7)).unwrap();
        view.commit(Vec::new(), Some(5)).unwrap();
        view.commit(Vec::new(), Some(9)).unwrap();
        assert_eq!(numbers(&view.batches()), [1, 2, 4]);
        assert_eq!(numbers(&before), [1, 2, 2], "readers keep what they have");
        subscription.advance_to(subscription.latest());
        let told = subscription.after(1).unwrap();
        assert_eq!((numbers(&told.deleted), numbers(&told.inserted)), (vec![2], vec![4]));
        let times = [1, 2].map(|at| subscription.after(at).and_then(|change| change.watermark_us));
        assert_eq!((times, subscription.latest()), ([Some(7), Some(9)], 3));
        assert_eq!(view.subscribe().watermark_us(), Some(9));
        assert!(view.commit(vec![change(&view, &[(9, OUT)])], None).is_err());
    }

    #[test]
    fn many_commits_give_what_a_plain_multiset_gives() {
        let view = view();
        let mut model: BTreeMap<i64, usize> = BTreeMap::new();
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..400 {
            let mut rows = Vec::new();
            for _ in 0..random(40) {
                // Later rounds take away more than they bring.
                let n = random(3000) as i64;
                let count = model.entry(n).or_default();
                match *count > 0 && random(400) < round {
                    true => {
                        *count -= 1;
                        rows.push((n, OUT));
                    }
                    false => {
                        *count += 1;
                        rows.push((n, IN));
                    }
                }
            }
            if round == 300 {
                for (n, count) in &mut model {
                    rows.extend(std::iter::repeat_n((*n, OUT), std::mem::take(count)));
                }
            }
            view.commit(vec![change(&view, &rows)], None).unwrap();
            let wanted = model.iter().flat_map(|(n, count)| std::iter::repeat_n(*n, *count));
            assert_eq!(numbers(&view.batches()), wanted.collect::<Vec<_>>(), "round {round}");
        }
        let now = view.now.lock();
        assert!(now.held.parts.len() <= SMALL_PARTS_MAX + 1);
    }
}
