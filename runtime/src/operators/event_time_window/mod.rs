//! Event-time window: window functions over rows that event time completes before the input ends.
//!
//! Rows wait until the watermark says that no row can come any more which would change their results; then they leave,
//! each once, in the window's order, and nothing is ever taken back. What is complete together is a partition whose key
//! the watermark has passed, a row that it has passed, or a session that has ended. Rows that come behind what is
//! complete are late: they are counted and left out. Rows that are withdrawn before they are complete never leave. Rows
//! without a time wait for the end. Invariant: all output that a watermark releases leaves before the watermark does, so
//! that the completing time is never below it further on. What is known of partitions is forgotten by the clock where the
//! job keeps state for some time; rows that wait are not. The
//! state is charged to a reservation and does not spill.

mod held;
mod history;
mod keyed_rows;
mod left;
mod ordered;
mod pruning;
mod reach;
mod sessions;
mod settled;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

pub use self::reach::Reach;
use self::sessions::Sessions;
use self::settled::Settled;
use super::prelude::*;
use super::sort_key_spec::inserts_only;
use super::time_bound::TimeBound;
use super::window::WindowSpec;
use crate::expr::Expr;
use crate::job::JobContext;

/// Window functions over rows that event time completes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventTimeWindowSpec {
    /// The window and its functions, each of which becomes a column after the input's; there may be none.
    pub window: WindowSpec,
    /// When rows are complete.
    pub completion: CompletionSpec,
    /// Whether rows may be withdrawn until they are complete.
    pub withdrawn: bool,
    /// Only so many rows of a partition are wanted, from the first one in the window's order, where partitions are
    /// complete as a whole; others may be left out.
    pub keep: Option<usize>,
}

/// When rows of a window are complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionSpec {
    /// What is complete together.
    pub unit: CompletionUnit,
    /// The time that completes it, over the input's columns: a timestamp, date or integer.
    pub time: Expr,
    /// What no later time is below, over the watermark as the only column.
    pub bound: Expr,
    /// The type of the watermark there: a timestamp.
    pub watermark_type: DataType,
}

/// What is complete together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CompletionUnit {
    /// A partition: the time is one of its keys.
    Partition,
    /// A row: the time is the first of the window's order, ascending. Functions see so many of the rows around it.
    Row(Reach),
    /// A session of a partition: rows by time, none of them further than the gap from the one before. The time is the
    /// window's order.
    Session {
        /// The longest distance inside a session, in units of the time.
        gap: i64,
    },
}

enum State {
    /// Rows and partitions, which the bound alone completes.
    Settled(Box<Settled>),
    Sessions(Box<Sessions>),
}

/// The running operator.
pub struct EventTimeWindow {
    bound: TimeBound,
    state: State,
    withdrawn: bool,
    input: Option<Batch>,
    /// What no row that is still in time is below.
    complete_below: i64,
    output: VecDeque<Batch>,
    batch_rows: usize,
    ended: bool,
}

impl EventTimeWindow {
    /// Compiles keys, functions and the bound.
    ///
    /// # Errors
    /// `Unsupported` for functions and types that are not.
    pub fn new(spec: &EventTimeWindowSpec, job: &JobContext) -> Result<Self> {
        let CompletionSpec { bound, watermark_type, unit, .. } = &spec.completion;
        let state = match unit {
            CompletionUnit::Partition => State::Settled(Box::new(Settled::new(spec, None, job)?)),
            CompletionUnit::Row(reach) => {
                State::Settled(Box::new(Settled::new(spec, Some(reach), job)?))
            }
            CompletionUnit::Session { .. } if spec.withdrawn => {
                return Err(Error::Unsupported("sessions of rows that may be withdrawn".into()));
            }
            CompletionUnit::Session { gap } => {
                State::Sessions(Box::new(Sessions::new(spec, *gap, job)?))
            }
        };
        Ok(EventTimeWindow {
            bound: TimeBound::new(bound, watermark_type, job)?,
            state,
            withdrawn: spec.withdrawn,
            input: None,
            complete_below: i64::MIN,
            output: VecDeque::new(),
            batch_rows: job.options.batch_rows.max(1),
            ended: false,
        })
    }

    /// Takes a batch in; gives the rows that are late.
    fn take(&mut self, batch: Batch) -> Result<Option<Batch>> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        match &mut self.state {
            State::Settled(settled) => settled.take(batch, self.complete_below),
            State::Sessions(sessions) => sessions.take(&batch, self.complete_below),
        }
    }

    /// Everything below a bound is complete; everything there is without one.
    fn complete(&mut self, bound: Option<i64>) -> Result<()> {
        let complete = match &mut self.state {
            State::Settled(settled) => settled.complete(bound)?,
            State::Sessions(sessions) => sessions.complete(bound)?,
        };
        let Some(batch) = complete else { return Ok(()) };
        for start in (0..batch.num_rows()).step_by(self.batch_rows) {
            let rows = self.batch_rows.min(batch.num_rows() - start);
            self.output.push_back(batch.slice(start, rows));
        }
        Ok(())
    }
}

impl Operator for EventTimeWindow {
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
            StreamElement::End => self.ended = true,
            other => {
                return Err(Error::Internal(format!("an event-time window cannot take {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let State::Settled(settled) = &mut self.state {
            settled.forget_untouched(cx)?;
        }
        if let Some(batch) = self.input.take() {
            let batch = match self.withdrawn {
                true => batch.compact()?,
                false => inserts_only(batch, "window by event time")?,
            };
            let late = self.take(batch)?;
            cx.drop_late(PortId(0), late.into_iter().collect())?;
        }
        if self.ended && self.output.is_empty() {
            self.complete(None)?;
        }
        Ok(match self.output.pop_front() {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None if self.ended => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    fn on_watermark(&mut self, watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let bound = self.bound.at(watermark)?;
        if bound > self.complete_below {
            self.complete_below = bound;
            self.complete(Some(bound))?;
        }
        Ok(())
    }

    untimed_operator!();

    /// The rows that wait and those that later ones still look at; there is no output when input is needed.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let mut bytes = self.complete_below.to_le_bytes().to_vec();
        match &mut self.state {
            State::Settled(settled) => settled.write_to(&mut bytes)?,
            State::Sessions(sessions) => sessions.write_to(&mut bytes),
        }
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut bytes = snapshot.bytes.as_slice();
        self.complete_below = i64::from_le_bytes(crate::rows::take_array(&mut bytes)?);
        match &mut self.state {
            State::Settled(settled) => settled.read_from(&mut bytes),
            State::Sessions(sessions) => sessions.read_from(&mut bytes),
        }
    }

    fn state_size(&self) -> StateSize {
        let (rows, bytes) = match &self.state {
            State::Settled(settled) => settled.size(),
            State::Sessions(sessions) => sessions.size(),
        };
        StateSize { rows: rows as u64, bytes: bytes as u64 }
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        self.output.clear();
        match &mut self.state {
            State::Settled(settled) => settled.clear(),
            State::Sessions(sessions) => sessions.clear(),
        }
        Ok(())
    }
}
