//! Assigned windows: rows leave with the windows that an assigner, a trigger and an evictor make of them.
//!
//! Rows go into panes, one a key and window, when they come, or in the order of their times once no earlier one can
//! follow. When the trigger of a pane fires, the rows that its evictor leaves go out, with the window's bounds and the
//! firing's number where they are wanted. A row that is in several windows goes out with each. Rows behind the watermark
//! whose windows are all complete are late: they are counted and dropped. What a watermark makes ready leaves before it;
//! at the end all panes are asked once more. Rows are held in managed pages; nothing is given back under pressure.
//! Rows that are withdrawn are refused.

mod order;
mod panes;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

use self::order::TieOrder;
use self::panes::{Fired, Panes, read_numbers, write_numbers};
pub use self::spec::{AssignedWindowsSpec, RowOrder, WindowingSpec};
use super::prelude::*;
use super::sort_key_spec::inserts_only;
use super::time_bound::{self, TimeBound};
use crate::expr::{CompiledExpr, compile, compile_all, positional_schema};
use crate::job::JobContext;
use crate::rows::{RowId, take_array, unpacked_type};
use crate::windowing::{TimeWindow, Windowing};

/// The running operator.
pub struct AssignedWindows {
    exprs: Exprs,
    bound: Option<TimeBound>,
    parts: Arc<Windowing>,
    panes: Panes,
    order: RowOrder,
    ties: TieOrder,
    time_type: DataType,
    columns: bool,
    input: Option<Batch>,
    /// Rows that wait until no earlier one can follow.
    waiting: Vec<(i64, RowId)>,
    /// Rows that wait no longer, by their times.
    due: VecDeque<(i64, RowId)>,
    /// No row of an earlier time follows.
    closed_below: i64,
    /// Up to where triggers are to be asked, once the rows before it are in their panes.
    passing: Option<i64>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Taking,
    /// The input has ended; rows may still wait.
    Ended,
    Done,
}

/// What is evaluated for each row.
struct Exprs {
    keys: Vec<CompiledExpr>,
    time: Option<CompiledExpr>,
    row_time: CompiledExpr,
    arguments: Vec<CompiledExpr>,
}

impl AssignedWindows {
    /// Compiles the expressions and finds the parts.
    ///
    /// # Errors
    /// `Unsupported` for types that cannot be kept, and for windows that are not registered.
    pub fn new(spec: &AssignedWindowsSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        let exprs = Exprs {
            keys: compile_all(&spec.keys, &schema, &job.functions)?,
            time: match &spec.time {
                Some(time) => Some(compile(time, &schema, &job.functions)?),
                None => None,
            },
            row_time: compile(&spec.row_time, &schema, &job.functions)?,
            arguments: compile_all(&spec.arguments, &schema, &job.functions)?,
        };
        let key_types: Vec<DataType> =
            exprs.keys.iter().map(|key| unpacked_type(key.data_type())).collect();
        let parts = Arc::new(spec.windowing.build(job)?);
        let reservation = job.memory.reserve("AssignedWindows");
        let sorted = matches!(spec.order, RowOrder::Arrival { sorted: true });
        let ties = TieOrder::new(&spec.input, &spec.ties);
        let types = (spec.input.as_slice(), key_types.as_slice());
        let bound = spec
            .closing
            .as_ref()
            .map(|closing| TimeBound::new(&closing.bound, &closing.watermark_type, job));
        Ok(AssignedWindows {
            panes: Panes::new(parts.clone(), types, (ties, sorted), &reservation)?,
            ties: TieOrder::new(&spec.input, &spec.ties),
            bound: bound.transpose()?,
            exprs,
            parts,
            order: spec.order,
            time_type: spec.time_type.clone(),
            columns: spec.columns,
            input: None,
            waiting: Vec::new(),
            due: VecDeque::new(),
            closed_below: i64::MIN,
            passing: None,
            state: State::Taking,
        })
    }

    /// Takes a batch in. Gives the rows that are late.
    fn take(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let batch = inserts_only(batch, "grouping by windows")?;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let times = self.times(&batch)?;
        match self.order {
            RowOrder::Arrival { .. } => {
                let ids = self.panes.append(batch.columns())?;
                let late = self.put_into_panes(&batch, &times, &ids)?;
                self.panes.release(&ids);
                Ok(rows_of(&batch, late)?)
            }
            RowOrder::Time => {
                if times.null_count() > 0 {
                    return Err(Error::user(
                        "a row without a time is in no window: leave rows out whose time is NULL",
                    ));
                }
                let open: Vec<u32> = (0..times.len() as u32)
                    .filter(|&row| times.value(row as usize) >= self.closed_below)
                    .collect();
                let late = (0..times.len() as u32)
                    .filter(|&row| times.value(row as usize) < self.closed_below)
                    .collect();
                let late = rows_of(&batch, late)?;
                let (columns, times) = match times.len() - open.len() {
                    0 => (batch.columns().to_vec(), times.values().to_vec()),
                    _ => {
                        let rows = arrow::array::UInt32Array::from(open.clone());
                        let columns = batch.columns().iter().map(|c| Ok(take(c, &rows, None)?));
                        let times = open.iter().map(|&row| times.value(row as usize)).collect();
                        (columns.collect::<Result<Vec<_>>>()?, times)
                    }
                };
                let ids = self.panes.append(&columns)?;
                self.waiting.extend(times.into_iter().zip(ids));
                Ok(late)
            }
        }
    }

    /// The times of rows; NULL where they have none.
    fn times(&self, batch: &Batch) -> Result<Int64Array> {
        match &self.exprs.time {
            Some(time) => time_bound::times(&time.evaluate(batch)?),
            None => Ok(Int64Array::new_null(batch.num_rows())),
        }
    }

    /// Puts rows into their panes. Gives those all of whose windows are complete.
    fn put_into_panes(
        &mut self,
        batch: &Batch,
        times: &Int64Array,
        ids: &[RowId],
    ) -> Result<Vec<u32>> {
        let mut assigned: Vec<(usize, TimeWindow)> = Vec::with_capacity(ids.len());
        match times.null_count() {
            0 => self.parts.assigner.assign(times.values(), &mut assigned),
            // A time that is not known is in a window that no watermark completes.
            _ => (0..times.len()).for_each(|row| match times.is_null(row) {
                true => assigned.push((row, TimeWindow::GLOBAL)),
                false => {
                    let mut windows = Vec::new();
                    self.parts.assigner.assign(&[times.value(row)], &mut windows);
                    assigned.extend(windows.into_iter().map(|(_, window)| (row, window)));
                }
            }),
        }
        let is_open =
            |window: &TimeWindow| *window == TimeWindow::GLOBAL || window.end > self.closed_below;
        let rows = assigned.chunk_by(|(a, _), (b, _)| a == b);
        let late = rows
            .filter(|windows| !windows.iter().any(|(_, window)| is_open(window)))
            .map(|windows| windows[0].0 as u32)
            .collect();
        assigned.retain(|(_, window)| is_open(window));
        if assigned.is_empty() {
            return Ok(late);
        }
        let evaluate = |exprs: &[CompiledExpr]| -> Result<Vec<ArrayRef>> {
            exprs.iter().map(|expr| expr.evaluate(batch)).collect()
        };
        let (keys, arguments) = (evaluate(&self.exprs.keys)?, evaluate(&self.exprs.arguments)?);
        let row_times = time_bound::times(&self.exprs.row_time.evaluate(batch)?)?;
        let row_times: Vec<i64> = row_times.iter().map(|time| time.unwrap_or(i64::MIN)).collect();
        self.panes.take(&assigned, ids, &row_times, (&keys, &arguments))?;
        Ok(late)
    }

    /// Rows that came before a time wait no longer.
    fn make_due(&mut self, before: Option<i64>) {
        let is_due = |(time, _): &(i64, RowId)| before.is_none_or(|before| *time < before);
        let (mut due, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_due);
        self.waiting = waiting;
        due.sort_by_key(|(time, _)| *time);
        self.due.extend(due);
    }

    /// Puts the next rows that are due into their panes: all of a time at once.
    fn take_due(&mut self, batch_rows: usize) -> Result<()> {
        let mut rows = self.due.len().min(batch_rows.max(1));
        let last = self.due[rows - 1].0;
        rows += self.due.iter().skip(rows).take_while(|(time, _)| *time == last).count();
        let (times, ids): (Vec<i64>, Vec<RowId>) = self.due.drain(..rows).unzip();
        let columns = self.panes.gather(&ids)?;
        let order = self.ties.order(&times, &columns)?;
        let ids: Vec<RowId> = order.iter().map(|&at| ids[at as usize]).collect();
        let order = arrow::array::UInt32Array::from(order);
        let columns = columns.iter().map(|c| Ok(take(c, &order, None)?));
        let batch = Batch::new(columns.collect::<Result<Vec<_>>>()?, ids.len());
        let times = self.times(&batch)?;
        // None is late: it was in time when it came.
        let closed_below = std::mem::replace(&mut self.closed_below, i64::MIN);
        let taken = self.put_into_panes(&batch, &times, &ids);
        self.closed_below = closed_below;
        self.panes.release(&ids);
        taken.map(|_| ())
    }

    /// The next rows that leave.
    fn next_output(&mut self, batch_rows: usize) -> Result<Option<Batch>> {
        let mut leaving: Vec<Fired> = Vec::new();
        let mut rows = 0;
        while rows < batch_rows {
            let Some(fired) = self.panes.fired.front_mut() else { break };
            let left = batch_rows - rows;
            if fired.rows.len() <= left {
                rows += fired.rows.len();
                leaving.extend(self.panes.fired.pop_front());
                continue;
            }
            let rest = fired.rows.split_off(left);
            let part = Fired { rows: std::mem::replace(&mut fired.rows, rest), ..*fired };
            rows += part.rows.len();
            leaving.push(part);
        }
        if rows == 0 {
            return Ok(None);
        }
        let ids: Vec<RowId> = leaving.iter().flat_map(|fired| fired.rows.iter().copied()).collect();
        let mut columns = self.panes.gather(&ids)?;
        if self.columns {
            let each = |of: fn(&Fired) -> Option<i64>| -> Int64Array {
                let repeated = |fired| std::iter::repeat_n(of(fired), Vec::len(&fired.rows));
                leaving.iter().flat_map(repeated).collect()
            };
            let start: ArrayRef = Arc::new(each(|fired| Some(fired.start)));
            let end: ArrayRef = Arc::new(each(|fired| fired.end));
            columns.push(cast(&start, &self.time_type)?);
            columns.push(cast(&end, &self.time_type)?);
            columns.push(Arc::new(each(|fired| Some(fired.number))));
        }
        self.panes.release(&ids);
        Ok(Some(Batch::new(columns, ids.len())))
    }

    /// Works until rows leave, or there is nothing to do.
    fn work(&mut self, batch_rows: usize) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.next_output(batch_rows)? {
                return Ok(Some(batch));
            }
            if !self.due.is_empty() {
                self.take_due(batch_rows)?;
            } else if let Some(time) = self.passing.take() {
                self.panes.pass(time)?;
            } else if self.state == State::Ended {
                self.make_due(None);
                if self.due.is_empty() {
                    self.panes.end()?;
                    self.state = State::Done;
                }
            } else {
                self.panes.compact(&mut self.waiting, false)?;
                return Ok(None);
            }
        }
    }
}

/// Some rows of a batch, if there are any.
fn rows_of(batch: &Batch, rows: Vec<u32>) -> Result<Option<Batch>> {
    match rows.as_slice() {
        [] => Ok(None),
        _ => batch.clone().with_selection(rows.into()).compact().map(Some),
    }
}

impl Operator for AssignedWindows {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
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
            other => return Err(Error::Internal(format!("windows cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take() {
            let late = self.take(batch)?;
            cx.drop_late(PortId(0), late.into_iter().collect())?;
        }
        if self.state == State::Done && self.panes.fired.is_empty() {
            return Ok(Output::Finished);
        }
        Ok(match self.work(cx.job.options.batch_rows)? {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None if self.state == State::Done => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    fn on_watermark(
        &mut self,
        Watermark(at): Watermark,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        let Some(bound) = &self.bound else { return Ok(()) };
        let bound = bound.at(Watermark(at))?;
        if bound > self.closed_below {
            self.closed_below = bound;
            self.passing = Some(bound);
            self.make_due(Some(bound));
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

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Err(Error::Unsupported("windows inside an iteration".into()))
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        Ok(0)
    }

    /// The rows that wait, and the panes.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        self.panes.compact(&mut self.waiting, true)?;
        let mut bytes = self.closed_below.to_le_bytes().to_vec();
        let waiting = self.waiting.iter().flat_map(|(time, id)| [*time, i64::from(*id)]);
        write_numbers(waiting, &mut bytes);
        self.panes.write_to(&mut bytes);
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut bytes = snapshot.bytes.as_slice();
        self.closed_below = i64::from_le_bytes(take_array(&mut bytes)?);
        let waiting = read_numbers(&mut bytes)?;
        self.waiting = waiting.chunks_exact(2).map(|of| (of[0], of[1] as RowId)).collect();
        self.panes.read_from(&mut bytes)
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        let (rows, bytes) = self.panes.size();
        StateSize { rows: rows as u64, bytes: bytes as u64 }
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        self.waiting.clear();
        self.due.clear();
        self.panes.clear();
        Ok(())
    }
}
