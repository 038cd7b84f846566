//! Sort aggregate: aggregates rows that come grouped by their keys, and streams the results.
//!
//! A group is complete when the key changes. Complete groups leave when half a batch of them is there, and before a
//! watermark; only the last one is kept, and all leave at a superstep and at the end. Memory is bounded by a batch of
//! groups and what their aggregates keep. It cannot give memory back: everything it holds leaves soon. Refused are
//! grouping sets (one order groups one set) and rows that are withdrawn.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::partition;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::hash_aggregate::{AggregatePhase, Emission, GroupingSetsSpec, HashAggregateSpec, Shape};
use super::prelude::*;
use super::sort_key_spec::inserts_only;
use crate::aggregates::{AggregateSpec, AggregateStates, Groups};
use crate::expr::Expr;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::contract::restore_batches;
use crate::rows::{
    Pairs, RowId, RowPage, RowStore, Selected, canonical_key, take_array, take_bytes,
};

/// What to group by and what to compute; the input is grouped by the keys.
///
/// Output columns: keys, then aggregates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortAggregateSpec {
    /// The part of the work; only the single phase is offered.
    pub phase: AggregatePhase,
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// The grouping keys.
    pub keys: Vec<Expr>,
    /// The keys' types.
    pub key_types: Vec<DataType>,
    /// Not offered.
    pub grouping_sets: Option<GroupingSetsSpec>,
    /// The aggregates.
    pub aggregates: Vec<AggregateSpec>,
}

/// The running operator.
pub struct SortAggregate {
    shape: Arc<Shape>,
    groups: Option<SortedGroups>,
    input: Option<Batch>,
    state: State,
    /// Input or a superstep came since all groups left.
    dirty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Taking,
    /// Groups `next .. end` leave; the last group stays unless `all` leave.
    Emitting {
        next: usize,
        end: usize,
        all: bool,
        ended: bool,
    },
    Ended,
    Done,
}

impl SortAggregate {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// `Unsupported` for functions and types that are not, for other phases and for grouping sets.
    pub fn new(spec: &SortAggregateSpec, job: &JobContext) -> Result<Self> {
        if spec.phase != AggregatePhase::Single || spec.grouping_sets.is_some() {
            return Err(Error::Unsupported(
                "sorted aggregation in two phases or over grouping sets".into(),
            ));
        }
        let spec = HashAggregateSpec {
            phase: spec.phase,
            input: spec.input.clone(),
            keys: spec.keys.clone(),
            key_types: spec.key_types.clone(),
            grouping_sets: None,
            aggregates: spec.aggregates.clone(),
            late_keys: Vec::new(),
            emission: Emission::AtEnd,
            withdrawn: false,
        };
        let shape = Shape::new(&spec, job)?;
        Ok(SortAggregate { shape, groups: None, input: None, state: State::Taking, dirty: true })
    }

    fn groups(&mut self) -> Result<&mut SortedGroups> {
        self.groups.as_mut().ok_or_else(|| Error::Internal("an aggregate was not opened".into()))
    }

    fn take(&mut self, batch: Batch, batch_rows: usize) -> Result<()> {
        self.dirty = true;
        let batch = inserts_only(batch, "GROUP BY")?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let arguments = self.shape.arguments(&batch)?;
        let keys = self.shape.keys_of(&batch)?;
        self.groups()?.update(&keys, &arguments, batch.num_rows())?;
        let complete = self.groups()?.complete();
        if complete * 2 >= batch_rows {
            self.state = State::Emitting { next: 0, end: complete, all: false, ended: false };
        }
        Ok(())
    }

    /// Begins to emit every group.
    fn emit_all(&mut self, cx: &OperatorContext<'_>, ended: bool) -> Result<()> {
        let global = self.shape.keys() == 0 && cx.subtask == 0;
        let groups = self.groups()?;
        if global {
            groups.make_global_group()?;
        }
        groups.states.finish();
        let end = groups.store.len();
        self.state = State::Emitting { next: 0, end, all: true, ended };
        Ok(())
    }

    fn next_results(&mut self, batch_rows: usize) -> Result<Option<Batch>> {
        let State::Emitting { next, end, all, ended } = self.state else { return Ok(None) };
        let shape = self.shape.clone();
        if next < end {
            let stop = end.min(next + batch_rows);
            self.state = State::Emitting { next: stop, end, all, ended };
            let ids: Vec<RowId> = (next as RowId..stop as RowId).collect();
            let groups = self.groups()?;
            let mut columns = shape.output_keys(groups.store.gather_all(0..shape.keys(), &ids)?)?;
            columns.extend(groups.states.finalize(&mut groups.store.states_mut(), &ids)?);
            return Ok(Some(Batch::new(columns, ids.len())));
        }
        if all {
            self.groups()?.clear()?;
            self.dirty = false;
        } else {
            self.groups()?.keep_last()?;
        }
        self.state = if ended { State::Done } else { State::Taking };
        Ok(None)
    }
}

/// The groups that have not left yet, in their order.
struct SortedGroups {
    shape: Arc<Shape>,
    store: RowStore,
    states: AggregateStates,
    heap: Reservation,
    ids: Vec<RowId>,
}

impl SortedGroups {
    fn new(shape: &Arc<Shape>, reservation: &Reservation) -> Result<Self> {
        let mut states = shape.new_states(reservation)?;
        states.bind(shape.table.states(), shape.table.states());
        let store = RowStore::new(Arc::clone(&shape.table), reservation.share());
        let heap = reservation.share();
        Ok(SortedGroups { shape: Arc::clone(shape), store, states, heap, ids: Vec::new() })
    }

    fn make_global_group(&mut self) -> Result<()> {
        if self.store.is_empty() {
            self.store.append(&[], Selected::All(1))?;
            self.states.reserve(1);
        }
        Ok(())
    }

    /// Groups that no row can come to any more.
    fn complete(&self) -> usize {
        if self.shape.keys() == 0 { 0 } else { self.store.len().saturating_sub(1) }
    }

    fn update(&mut self, keys: &[ArrayRef], arguments: &[ArrayRef], rows: usize) -> Result<()> {
        if keys.is_empty() {
            self.make_global_group()?;
        } else {
            self.assign(keys, rows)?;
        }
        let last = self.store.len() as RowId - 1;
        let groups = match self.ids.first() {
            Some(&first) if first != last => Groups::Many(&self.ids),
            Some(_) | None => Groups::One { id: last, rows },
        };
        self.states.reserve(self.store.len());
        self.states.update(&mut self.store.states_mut(), arguments, groups)?;
        self.heap.try_resize(self.states.memory_bytes())
    }

    /// Puts the group of each row into `ids`; a changed key begins a group.
    fn assign(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        let canonical = keys.iter().map(canonical_key).collect::<Result<Vec<_>>>()?;
        let ranges = partition(&canonical)?.ranges();
        let continues = self.continues(keys)?;
        let starts: Vec<u32> =
            ranges.iter().skip(usize::from(continues)).map(|range| range.start as u32).collect();
        let first = (self.store.len() - usize::from(continues)) as RowId;
        self.store.append(keys, Selected::Rows(&starts))?;
        self.ids.clear();
        self.ids.reserve(rows);
        for (id, range) in (first..).zip(ranges) {
            self.ids.resize(range.end, id);
        }
        Ok(())
    }

    /// Whether the first row belongs to the group that came last.
    fn continues(&self, keys: &[ArrayRef]) -> Result<bool> {
        let Some(last) = self.store.len().checked_sub(1) else { return Ok(false) };
        let mut matches = vec![0];
        let pairs = Pairs { rows: &[0], ids: &[last as RowId] };
        self.store.compare(keys, pairs, &vec![true; keys.len()], &mut matches)?;
        Ok(!matches.is_empty())
    }

    /// Forgets all groups but the last, which becomes the first.
    fn keep_last(&mut self) -> Result<()> {
        let Some(last) = self.store.len().checked_sub(1) else { return Ok(()) };
        let last = last as RowId;
        let carried = self.states.carry(last..last + 1)?;
        let mut store = RowStore::new(Arc::clone(&self.shape.table), self.heap.share());
        store.append_rows(&self.store, &[last])?;
        self.store = store;
        self.states.clear()?;
        self.states.reserve(1);
        self.states.restore_carried(&mut self.store.states_mut(), &carried, &[0])?;
        self.heap.try_resize(self.states.memory_bytes())
    }

    fn clear(&mut self) -> Result<()> {
        self.store.clear();
        self.states.clear()?;
        self.heap.try_resize(0)
    }

    fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let groups = self.store.len();
        out.extend_from_slice(&(self.store.num_pages() as u32).to_le_bytes());
        self.store.pages().iter().for_each(|page| page.write_to(&self.shape.table, out));
        let carried = self.states.carry(0..groups as RowId)?;
        let batches = match carried.is_empty() || groups == 0 {
            true => Vec::new(),
            false => vec![Batch::new(carried, groups)],
        };
        let carried = StateSnapshot::of_batches(&batches, &self.shape.carried)?;
        out.extend_from_slice(&(carried.bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&carried.bytes);
        Ok(())
    }

    fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        for _ in 0..u32::from_le_bytes(take_array(bytes)?) {
            let page = RowPage::read_from(&self.shape.table, &self.heap, bytes)?;
            self.store.append_pages(vec![page])?;
        }
        let len = u64::from_le_bytes(take_array(bytes)?) as usize;
        let carried = StateSnapshot { bytes: take_bytes(bytes, len)?.to_vec() };
        let groups: Vec<RowId> = (0..self.store.len() as RowId).collect();
        self.states.reserve(groups.len());
        for batch in restore_batches(&carried)? {
            let mut states = self.store.states_mut();
            self.states.restore_carried(&mut states, batch.columns(), &groups)?;
        }
        self.heap.try_resize(self.states.memory_bytes())
    }
}

impl Operator for SortAggregate {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        let reservation = cx.job.memory.reserve("SortAggregate");
        self.groups = Some(SortedGroups::new(&self.shape, &reservation)?);
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => self.state = State::Ended,
            other => {
                return Err(Error::Internal(format!("a sort aggregate cannot take {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        let batch_rows = cx.job.options.batch_rows;
        if let Some(batch) = self.input.take() {
            self.take(batch, batch_rows)?;
        }
        if self.state == State::Ended {
            if self.dirty {
                self.emit_all(cx, true)?;
            } else {
                self.state = State::Done;
            }
        }
        if let Some(batch) = self.next_results(batch_rows)? {
            return Ok(Output::Element(PortId(0), StreamElement::Batch(batch)));
        }
        Ok(match self.state {
            State::Done => Output::Finished,
            State::Taking | State::Ended | State::Emitting { .. } => {
                Output::NeedInput(PortSet::Any)
            }
        })
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let complete = self.groups()?.complete();
        if complete > 0 {
            self.state = State::Emitting { next: 0, end: complete, all: false, ended: false };
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        _domain: TimeDomain,
        _time_us: i64,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn on_barrier(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.emit_all(cx, false)
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        Ok(0)
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let mut bytes = vec![u8::from(self.dirty)];
        self.groups()?.write_to(&mut bytes)?;
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut bytes = snapshot.bytes.as_slice();
        self.dirty = take_array::<1>(&mut bytes)?[0] != 0;
        self.groups()?.read_from(&mut bytes)
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        self.groups = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::OperatorSpec;
    use crate::operators::harness::{self, Driver, Interruptions};
    use crate::operators::hash_aggregate::model::{self, Row};

    fn check(keys: &[usize], rows: &[Row]) {
        let (aggregates, wanted): (Vec<_>, Vec<_>) = model::aggregates().into_iter().unzip();
        let input = model::input_types();
        let spec = OperatorSpec::SortAggregate(SortAggregateSpec {
            phase: AggregatePhase::Single,
            keys: keys.iter().map(|&key| Expr::Column(key)).collect(),
            key_types: keys.iter().map(|&key| input[key].clone()).collect(),
            input,
            grouping_sets: None,
            aggregates,
        });
        let expected = model::expected(rows, keys, &wanted);
        for (batch_rows, interruptions) in
            [(50, Interruptions::None), (7, Interruptions::EveryBatch), (1000, Interruptions::None)]
        {
            let batches = model::batches(rows, batch_rows);
            let mut driver = Driver::new(&spec, &harness::context(20), interruptions).unwrap();
            let found = driver.run_batches(vec![batches]).unwrap();
            model::assert_results(&found, keys.len(), &expected, "sorted");
        }
    }

    #[test]
    fn grouped_rows_give_what_the_model_gives() {
        let mut rows = model::rows(21, 300);
        rows.sort_by_key(|row| (row.text(0), row.text(3)));
        check(&[0, 3], &rows);
        check(&[], &rows);
        check(&[], &[]);
        check(&[0], &[]);
    }

    #[test]
    fn groups_leave_before_the_end() {
        let mut rows = model::rows(22, 400);
        rows.sort_by_key(|row| row.third);
        check(&[10], &rows);
    }
}
