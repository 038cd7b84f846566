//! Rows and partitions that the bound alone completes.
//!
//! They are held by the time that completes them. Complete partitions are computed as they are; of those that wait, rows
//! are dropped that are not among the first ones which are wanted. Complete rows join the rows of their partition that
//! functions still look at, where there are such functions.

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::filter;
use arrow_schema::DataType;

use super::EventTimeWindowSpec;
use super::held::Held;
use super::history::History;
use super::left;
use super::ordered::OrderedWindow;
use super::pruning::Pruning;
use super::reach::Reach;
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::OperatorContext;
use crate::operators::contract::restore_batches;
use crate::operators::prelude::StateSnapshot;
use crate::operators::time_bound::times;
use crate::rows::{take_array, take_bytes};

/// See the module.
pub(super) struct Settled {
    /// Of what is held: where rows may be withdrawn, behind each stands whether it comes or goes.
    types: Vec<DataType>,
    withdrawn: bool,
    time: CompiledExpr,
    window: OrderedWindow,
    held: Held,
    history: Option<History>,
    pruning: Option<Pruning>,
    reservation: Reservation,
}

impl Settled {
    /// Compiles the window; `reach` is how far functions look where single rows are completed.
    pub(super) fn new(
        spec: &EventTimeWindowSpec,
        reach: Option<&Reach>,
        job: &JobContext,
    ) -> Result<Self> {
        let reservation = job.memory.reserve("EventTimeWindow");
        let whole = reach.is_none();
        // Without functions no row looks at another.
        let reach = reach.filter(|_| !spec.window.functions.is_empty());
        let window = OrderedWindow::new(&spec.window, job)?;
        let history =
            reach.map(|reach| History::new((&spec.window, &window), *reach, &reservation, job));
        let history = history.transpose()?;
        let schema = positional_schema(&spec.window.input);
        let mut types = spec.window.input.clone();
        types.extend(spec.withdrawn.then_some(left::SIGN));
        Ok(Settled {
            types,
            withdrawn: spec.withdrawn,
            time: compile(&spec.completion.time, &schema, &job.functions)?,
            window,
            held: Held::new(job.options.batch_rows.max(1)),
            history,
            // Where rows may be withdrawn, any may come to be among the first.
            pruning: spec.keep.filter(|_| whole && !spec.withdrawn).map(Pruning::new),
            reservation,
        })
    }

    /// Takes the rows of a compact batch that are in time; gives the others.
    pub(super) fn take(&mut self, batch: Batch, complete_below: i64) -> Result<Option<Batch>> {
        if !self.withdrawn {
            return self.hold(batch, complete_below);
        }
        let columns = batch.columns().len();
        let late = self.hold(left::signed(batch)?, complete_below)?;
        Ok(late.map(|late| Batch::new(late.columns()[..columns].to_vec(), late.num_rows())))
    }

    fn hold(&mut self, mut batch: Batch, complete_below: i64) -> Result<Option<Batch>> {
        let mut times = times(&self.time.evaluate(&batch)?)?;
        let is_late = |time: Option<i64>| time.is_some_and(|time| time < complete_below);
        let mut late = None;
        if times.iter().any(is_late) {
            let behind: BooleanArray = times.iter().map(|time| Some(is_late(time))).collect();
            late = Some(batch.filter(&behind)?);
            let in_time: BooleanArray = times.iter().map(|time| Some(!is_late(time))).collect();
            batch = batch.filter(&in_time)?.compact()?;
            times = filter(&times, &in_time)?.as_primitive().clone();
        }
        if batch.num_rows() > 0 {
            self.held.add(batch, &times)?;
            self.prune()?;
            self.charge()?;
        }
        Ok(late)
    }

    /// What a bound completes, or everything without one.
    pub(super) fn complete(&mut self, bound: Option<i64>) -> Result<Option<Batch>> {
        let mut ready = self.held.take_below(bound)?;
        if self.withdrawn {
            ready = ready.map(left::left).transpose()?;
        }
        let ready = ready.map(|ready| self.window.sort(ready)).transpose()?;
        let complete = match &mut self.history {
            None => ready.map(|ready| self.window.evaluate(ready)).transpose()?,
            Some(history) => {
                let times = ready.as_ref().map(|rows| times(&self.time.evaluate(rows)?));
                let ready = ready.as_ref().zip(times.transpose()?);
                history.complete(ready, bound, &self.window)?
            }
        };
        self.charge()?;
        Ok(complete)
    }

    /// Drops rows that wait and are not wanted, if there may be many.
    fn prune(&mut self) -> Result<()> {
        let Some(pruning) = self.pruning.as_mut().filter(|p| p.search.is_due(self.held.rows()))
        else {
            return Ok(());
        };
        if let Some(rows) = self.held.take_below(None)? {
            let rows = pruning.first_rows(rows, &self.window)?;
            let times = times(&self.time.evaluate(&rows)?)?;
            self.held.add(rows, &times)?;
        }
        pruning.search.note(self.held.rows());
        Ok(())
    }

    /// Forgets, from time to time, what is known of partitions that nothing has touched for long enough.
    pub(super) fn forget_untouched(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        self.history.as_mut().map_or(Ok(()), |history| history.forget_untouched(cx))
    }

    /// Rows that wait, and bytes of what is kept.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.held.rows(), self.reservation.total())
    }

    fn charge(&mut self) -> Result<()> {
        self.reservation.try_resize(self.held.memory_bytes())
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let held = StateSnapshot::of_batches(&self.held.batches(), &self.types)?.bytes;
        out.extend_from_slice(&(held.len() as u64).to_le_bytes());
        out.extend_from_slice(&held);
        match &mut self.history {
            Some(history) => history.write_to(&self.window, out),
            None => Ok(()),
        }
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        let held = u64::from_le_bytes(take_array(bytes)?) as usize;
        let held = StateSnapshot { bytes: take_bytes(bytes, held)?.to_vec() };
        for batch in restore_batches(&held)? {
            self.hold(batch, i64::MIN)?;
        }
        match &mut self.history {
            Some(history) => history.read_from(&self.window, bytes),
            None => Ok(()),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        if let Some(history) = &mut self.history {
            history.clear();
        }
        self.reservation.shrink(usize::MAX);
    }
}
