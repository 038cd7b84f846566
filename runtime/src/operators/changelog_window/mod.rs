//! Changelog window: window functions over rows that go on coming, and that may be withdrawn.
//!
//! The rows of every partition are kept. A batch changes some partitions; what comes out turns the functions over their
//! rows before the batch into those after it. Where only the first few rows of each partition matter and none is
//! withdrawn, just those are kept (see `first_rows`); otherwise changed partitions are computed anew (see
//! `partitions`). Rows with equal order keys stand in the order of their arrival. All output of a batch leaves before
//! the next one is taken, in pieces, so that nothing is held back at a barrier. A watermark lets partitions be forgotten
//! that it completes, and so does the clock where the job keeps state for some time: what came out of them stays. The
//! state is charged to a reservation and does not spill.

mod chains;
mod closing;
#[cfg(test)]
mod closing_tests;
mod difference;
mod first_rows;
mod heads;
mod partitions;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use self::closing::Closing;
pub use self::closing::ClosingSpec;
use self::first_rows::FirstRows;
use self::partitions::Partitions;
use super::prelude::*;
use super::untouched::Untouched;
use super::window::{WindowFunctionSpec, WindowSpec};
use crate::job::JobContext;

/// Window functions over a changelog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangelogWindowSpec {
    /// The window and its functions, each of which becomes a column after the input's; there may be none.
    pub window: WindowSpec,
    /// Whether rows may be withdrawn.
    pub withdrawn: bool,
    /// Which rows come out; all if it does not say.
    pub keep: Option<KeepSpec>,
    /// When partitions are forgotten by event time, if they are.
    pub closing: Option<ClosingSpec>,
}

/// The rows of a partition that come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepSpec {
    /// How many, from the first one in the window's order.
    pub rows: usize,
}

impl ChangelogWindowSpec {
    /// The number of rows of a partition that come out.
    fn rows_kept(&self) -> usize {
        self.keep.map_or(usize::MAX, |keep| keep.rows)
    }

    /// Whether the first rows of a partition are all that the functions need to know for them.
    fn looks_back(&self) -> bool {
        let names = ["row_number", "number_at_once", "rank", "dense_rank"];
        self.window.functions.iter().all(|f| !f.aggregate && names.contains(&f.function.as_str()))
    }

    /// Whether only the rows that come out need be kept.
    fn forgets(&self) -> bool {
        let names = ["row_number", "number_at_once"];
        let numbers = |f: &WindowFunctionSpec| !f.aggregate && names.contains(&f.function.as_str());
        !self.withdrawn && self.keep.is_some() && self.window.functions.iter().all(numbers)
    }
}

enum State {
    First(Box<FirstRows>),
    All(Box<Partitions>),
}

/// The running operator.
pub struct ChangelogWindow {
    state: State,
    closing: Option<Closing>,
    untouched: Option<Untouched>,
    /// Whether all output has left.
    idle: bool,
    input: Option<Batch>,
    ended: bool,
}

impl ChangelogWindow {
    /// Compiles keys and functions.
    ///
    /// # Errors
    /// `Unsupported` for functions and types that are not.
    pub fn new(spec: &ChangelogWindowSpec, job: &JobContext) -> Result<Self> {
        let state = match spec.forgets() {
            true => State::First(Box::new(FirstRows::new(spec, job)?)),
            false => State::All(Box::new(Partitions::new(spec, job)?)),
        };
        let reservation = job.memory.reserve("ChangelogWindow");
        Ok(ChangelogWindow {
            state,
            closing: spec.closing.as_ref().map(|c| Closing::new(c, spec, job)).transpose()?,
            untouched: match spec.window.partition_by.is_empty() {
                true => None,
                false => Untouched::of(job, &reservation),
            },
            idle: true,
            input: None,
            ended: false,
        })
    }

    /// Takes a batch in.
    fn take(&mut self, batch: Batch, cx: &OperatorContext<'_>) -> Result<()> {
        let batch = match &self.closing {
            Some(closing) => closing.in_time(batch, cx)?,
            None => batch,
        };
        let untouched = self.untouched.as_mut();
        match &mut self.state {
            State::First(rows) => rows.apply(&batch, untouched),
            State::All(partitions) => partitions.apply(&batch, untouched),
        }
    }

    /// Forgets what nothing has touched for long enough, from time to time.
    fn forget_untouched(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let Some(untouched) = self.untouched.as_mut().filter(|_| self.idle) else { return Ok(()) };
        if !untouched.is_due(cx) {
            return Ok(());
        }
        match &mut self.state {
            State::First(rows) => rows.forget_untouched(untouched),
            State::All(partitions) => partitions.forget_untouched(untouched),
        }
    }
}

impl Operator for ChangelogWindow {
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
            other => return Err(Error::Internal(format!("a window cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        self.forget_untouched(cx)?;
        if let Some(batch) = self.input.take() {
            self.take(batch.compact()?, cx)?;
        }
        let output = match &mut self.state {
            State::First(rows) => rows.next_output()?,
            State::All(partitions) => partitions.next_output()?,
        };
        self.idle = output.is_none();
        Ok(match output {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None if self.ended => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    fn on_watermark(&mut self, watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let Some(closing) = &mut self.closing else { return Ok(()) };
        if !closing.pass(watermark)? {
            return Ok(());
        }
        let untouched = self.untouched.as_mut();
        match &mut self.state {
            State::First(rows) => rows.forget_closed(closing, untouched),
            State::All(partitions) => partitions.forget_closed(closing, untouched),
        }
    }

    untimed_operator!();

    /// The rows that are kept; there is no output when input is needed.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let mut bytes = Vec::new();
        if let Some(closing) = &self.closing {
            closing.write_to(&mut bytes);
        }
        if let Some(untouched) = &self.untouched {
            untouched.write_to(&mut bytes);
        }
        match &self.state {
            State::First(rows) => rows.write_to(&mut bytes),
            State::All(partitions) => partitions.write_to(&mut bytes),
        }
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut bytes = snapshot.bytes.as_slice();
        if let Some(closing) = &mut self.closing {
            closing.read_from(&mut bytes)?;
        }
        if let Some(untouched) = &mut self.untouched {
            untouched.read_from(&mut bytes)?;
        }
        match &mut self.state {
            State::First(rows) => rows.read_from(&mut bytes),
            State::All(partitions) => partitions.read_from(&mut bytes),
        }
    }

    fn state_size(&self) -> StateSize {
        let (rows, bytes) = match &self.state {
            State::First(rows) => rows.size(),
            State::All(partitions) => partitions.size(),
        };
        StateSize { rows: rows as u64, bytes: bytes as u64 }
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        if let Some(untouched) = &mut self.untouched {
            untouched.clear();
        }
        match &mut self.state {
            State::First(rows) => rows.clear(),
            State::All(partitions) => partitions.clear(),
        }
        Ok(())
    }
}
