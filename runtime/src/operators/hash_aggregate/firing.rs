//! Groups that a watermark closes, whose results are told before they are closed, or corrected after.
//!
//! The groups of each value of the closing key are a pane. A pane *fires* when the watermark passes its key: all its
//! results leave. With early results it has fired from its start. After that each batch that touches it gives changes,
//! until the watermark is as far behind as rows may be late: then the pane goes, and what comes for it still is late.
//! With periodic results the rows wait for the next tick, or for a watermark that lets a pane fire, so that changes that
//! cancel each other in between are never told. Nothing waits at a barrier or at the end.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::changes::{SetTable, Touched, cut, deletes_of};
use super::panes::{ClosingSpec, whole_parts};
use super::shape::Shape;
use super::table::result_rows;
use super::waiting::Waiting;
use super::{HashAggregate, State};
use crate::batch::Batch;
use crate::element::{StreamElement, Watermark};
use crate::error::{Error, Result};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::time_bound::{TimeBound, times};
use crate::operators::{OperatorContext, Output, PortId, PortSet};
use crate::rows::take_array;

/// When the results of groups are told that a watermark closes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FiringSpec {
    /// The key that closes them; without slices.
    pub closing: ClosingSpec,
    /// What is told before.
    pub early: Early,
    /// How far the watermark has to be behind a pane for it to be forgotten, in microseconds.
    pub lateness_us: i64,
}

/// What is told of groups before they are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Early {
    /// Nothing.
    Never,
    /// Every change.
    Update,
    /// The changes of each stretch of time.
    Periodic {
        /// Its length in microseconds.
        every_us: u64,
    },
}

/// See the module.
pub(super) struct Firing {
    shape: Arc<Shape>,
    key: usize,
    bound: TimeBound,
    early: Early,
    lateness_us: i64,
    panes: BTreeMap<Option<i64>, FiringPane>,
    fired_below: i64,
    forgotten_below: i64,
    /// Rows that wait for a tick, where results are told from time to time.
    waiting: Option<Waiting>,
    /// Panes that fire, each with the next group to be told.
    firing: VecDeque<(Option<i64>, usize)>,
    ready: VecDeque<Batch>,
    touched: Touched,
}

struct FiringPane {
    table: SetTable,
    fired: bool,
}

impl Firing {
    /// No pane yet; `types` are those of the input's columns.
    pub(super) fn new(
        spec: &FiringSpec,
        types: &[DataType],
        shape: &Arc<Shape>,
        job: &JobContext,
    ) -> Result<Self> {
        Ok(Firing {
            shape: Arc::clone(shape),
            key: spec.closing.key,
            bound: TimeBound::new(&spec.closing.bound, &spec.closing.watermark_type, job)?,
            early: spec.early,
            lateness_us: spec.lateness_us,
            panes: BTreeMap::new(),
            fired_below: i64::MIN,
            forgotten_below: i64::MIN,
            waiting: match spec.early {
                Early::Periodic { every_us } => Some(Waiting::new(types, every_us)),
                Early::Never | Early::Update => None,
            },
            firing: VecDeque::new(),
            ready: VecDeque::new(),
            touched: Touched::default(),
        })
    }

    /// Takes a compact batch in. Gives the rows that are late.
    pub(super) fn take(
        &mut self,
        batch: Batch,
        reservation: &Reservation,
        cx: &OperatorContext<'_>,
    ) -> Result<Vec<Batch>> {
        if let Some(waiting) = &mut self.waiting {
            return match waiting.take(batch, cx) {
                true => self.tell_waiting(reservation, cx.job.options.batch_rows),
                false => Ok(Vec::new()),
            };
        }
        self.apply(&batch, reservation, cx.job.options.batch_rows)
    }

    /// Tells the changes of the rows that waited if it is time; else the task is woken then.
    pub(super) fn tick(
        &mut self,
        reservation: &Reservation,
        cx: &OperatorContext<'_>,
    ) -> Result<Vec<Batch>> {
        match self.waiting.as_ref().is_some_and(|waiting| waiting.is_due(cx)) {
            true => self.tell_waiting(reservation, cx.job.options.batch_rows),
            false => Ok(Vec::new()),
        }
    }

    /// Takes the rows in that waited. Gives those that are late.
    pub(super) fn tell_waiting(
        &mut self,
        reservation: &Reservation,
        batch_rows: usize,
    ) -> Result<Vec<Batch>> {
        let waited = self.waiting.as_mut().map_or(Ok(None), Waiting::release)?;
        waited.map_or(Ok(Vec::new()), |rows| self.apply(&rows, reservation, batch_rows))
    }

    fn apply(
        &mut self,
        batch: &Batch,
        reservation: &Reservation,
        batch_rows: usize,
    ) -> Result<Vec<Batch>> {
        let rows = batch.num_rows();
        let deletes = deletes_of(batch)?;
        let arguments = self.shape.arguments(batch)?;
        let keys = self.shape.keys_of(batch)?;
        let mut late = Vec::new();
        for part in whole_parts(&times(&keys[self.key])?) {
            if part.pane.is_some_and(|pane| pane < self.forgotten_below) {
                late.push(part.rows.of_batch(batch)?);
                continue;
            }
            let fired =
                self.early != Early::Never || part.pane.is_some_and(|pane| pane < self.fired_below);
            let pane = match self.panes.entry(part.pane) {
                std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    let table = SetTable::keyed(&self.shape, reservation)?;
                    vacant.insert(FiringPane { table, fired })
                }
            };
            let (own_keys, own_arguments) = (part.rows.of(&keys)?, part.rows.of(&arguments)?);
            let own_deletes = match &deletes {
                None => None,
                Some(deletes) => {
                    let column: ArrayRef = Arc::new(deletes.clone());
                    Some(part.rows.of(&[column])?[0].as_boolean().clone())
                }
            };
            let count = part.rows.len(rows);
            let columns = [own_keys.as_slice(), own_arguments.as_slice()];
            let changed = pane.take(columns, count, own_deletes.as_ref(), &mut self.touched)?;
            if let Some(mut changed) = changed {
                changed.ingest_time_us = batch.ingest_time_us;
                cut(changed, batch_rows, &mut self.ready);
            }
        }
        Ok(late)
    }

    /// Lets panes fire, and forgets those that are past. Gives the rows that were late.
    pub(super) fn pass(
        &mut self,
        Watermark(at): Watermark,
        reservation: &Reservation,
        batch_rows: usize,
    ) -> Result<Vec<Batch>> {
        let fired_below = self.bound.at(Watermark(at))?;
        let mut late = Vec::new();
        if fired_below > self.fired_below {
            late = self.tell_waiting(reservation, batch_rows)?;
            self.fired_below = fired_below;
            self.fire(Bound::Excluded(Some(fired_below)));
        }
        let forgotten_below = match self.lateness_us {
            0 => fired_below,
            lateness => self.bound.at(Watermark(at.saturating_sub(lateness)))?,
        };
        if forgotten_below > self.forgotten_below {
            self.forgotten_below = forgotten_below;
            let firing = &self.firing;
            self.panes.retain(|key, _| {
                key.is_none_or(|key| key >= forgotten_below)
                    || firing.iter().any(|(firing, _)| firing == key)
            });
        }
        Ok(late)
    }

    /// All panes fire, as nothing follows.
    pub(super) fn end(
        &mut self,
        reservation: &Reservation,
        batch_rows: usize,
    ) -> Result<Vec<Batch>> {
        let late = self.tell_waiting(reservation, batch_rows)?;
        self.fire(Bound::Unbounded);
        Ok(late)
    }

    fn fire(&mut self, end: Bound<Option<i64>>) {
        // A NULL key comes before all others, and is not passed before the end.
        let start = match end {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(_) | Bound::Excluded(_) => Bound::Excluded(None),
        };
        for (key, pane) in self.panes.range_mut((start, end)) {
            if !std::mem::replace(&mut pane.fired, true) {
                self.firing.push_back((*key, 0));
            }
        }
    }

    /// The next results or changes.
    pub(super) fn next_ready(&mut self, batch_rows: usize) -> Result<Option<Batch>> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Some(batch));
        }
        while let Some((key, next)) = self.firing.front_mut() {
            let key = *key;
            if let Some(pane) = self.panes.get_mut(&key) {
                let table = pane.table.table_mut();
                while *next < table.len() {
                    let rows = result_rows(table, batch_rows, *next);
                    *next = rows.end as usize;
                    let (columns, count) = table.results(rows)?;
                    if count > 0 {
                        return Ok(Some(Batch::new(columns, count)));
                    }
                }
            }
            self.firing.pop_front();
            if key.is_some_and(|key| key < self.forgotten_below) {
                self.panes.remove(&key);
            }
        }
        Ok(None)
    }

    /// Groups in all panes.
    pub(super) fn groups(&self) -> usize {
        self.panes.values().map(|pane| pane.table.groups()).sum()
    }

    /// Appends the panes and what waits to a snapshot; nothing is ready.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.extend(self.fired_below.to_le_bytes());
        out.extend(self.forgotten_below.to_le_bytes());
        if let Some(waiting) = &self.waiting {
            waiting.write_to(out)?;
        }
        out.extend((self.panes.len() as u64).to_le_bytes());
        for (key, pane) in &mut self.panes {
            out.push(u8::from(key.is_some()));
            out.extend(key.unwrap_or_default().to_le_bytes());
            out.push(u8::from(pane.fired));
            pane.table.table_mut().write_to(out)?;
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, reservation: &Reservation, bytes: &mut &[u8]) -> Result<()> {
        self.fired_below = i64::from_le_bytes(take_array(bytes)?);
        self.forgotten_below = i64::from_le_bytes(take_array(bytes)?);
        if let Some(waiting) = &mut self.waiting {
            waiting.read_from(bytes)?;
        }
        let panes = u64::from_le_bytes(take_array(bytes)?);
        for _ in 0..panes {
            let known = take_array::<1>(bytes)?[0] != 0;
            let key = i64::from_le_bytes(take_array(bytes)?);
            let fired = take_array::<1>(bytes)?[0] != 0;
            let mut table = SetTable::keyed(&self.shape, reservation)?;
            table.table_mut().read_from(bytes)?;
            self.panes.insert(known.then_some(key), FiringPane { table, fired });
        }
        Ok(())
    }
}

impl HashAggregate {
    /// The step of an aggregate that tells results of groups before or after they close.
    pub(super) fn step_firing(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let (Some(firing), Some(reservation)) = (&mut self.firing, &self.reservation) else {
            return Err(Error::Internal("an aggregate was not opened".into()));
        };
        let batch_rows = cx.job.options.batch_rows;
        let late = match self.state {
            State::Ended => {
                self.state = State::Done;
                firing.end(reservation, batch_rows)?
            }
            State::Taking | State::Emitting { .. } if std::mem::take(&mut self.flush) => {
                firing.tell_waiting(reservation, batch_rows)?
            }
            State::Taking | State::Emitting { .. } => firing.tick(reservation, cx)?,
            State::Done => Vec::new(),
        };
        cx.drop_late(PortId(0), late)?;
        Ok(match (firing.next_ready(batch_rows)?, self.state) {
            (Some(batch), _) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            (None, State::Ended | State::Done) => Output::Finished,
            (None, State::Taking | State::Emitting { .. }) => Output::NeedInput(PortSet::Any),
        })
    }
}

impl FiringPane {
    /// Takes rows in, as columns of keys and of arguments. Gives what has changed if results have been told.
    fn take(
        &mut self,
        [keys, arguments]: [&[ArrayRef]; 2],
        rows: usize,
        deletes: Option<&BooleanArray>,
        touched: &mut Touched,
    ) -> Result<Option<Batch>> {
        if self.fired {
            return self.table.change(keys, arguments, rows, deletes, touched);
        }
        let table = self.table.table_mut();
        match deletes {
            None => table.update(keys, arguments, rows)?,
            Some(deletes) => table.change(keys, arguments, deletes)?,
        }
        Ok(None)
    }
}
