//! Iterations: a head and a tail around a body of ordinary operators, with a feedback edge from tail to head.
//!
//! The head sends one work set after another into the body, each followed by the end of a superstep. What the
//! body makes of a set comes back on the feedback port and is the next set; an empty set ends the iteration.
//! Every row that enters the body is also a row of the result, which leaves by a second edge of the head.
//! With `distinct`, rows that were seen before are dropped. The head keeps the next set (and, when distinct,
//! all rows seen) under reservations; it emits nothing at a watermark, for an iteration has no event time.

use std::collections::VecDeque;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::contract::restore_batches;
use super::prelude::*;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::state::SeenRows;

/// The head of an iteration. Port 0: the initial set; port 1: feedback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationHeadSpec {
    /// Types of the rows.
    pub types: Vec<DataType>,
    /// Whether a row counts once, however often it comes.
    pub distinct: bool,
}

const FEEDBACK: PortId = PortId(1);

/// The running head.
pub struct IterationHead {
    types: Vec<DataType>,
    reservation: Reservation,

    seen: Option<SeenRows>,
    outgoing: VecDeque<Batch>,
    next: Vec<Batch>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The initial set comes in and goes out.
    Initial,
    /// The initial set has ended; the end of its superstep is still to be sent.
    InitialEnded,
    /// A set is in the body; its results are gathered.
    InBody,
    /// The results are complete; they go out as the next set.
    Sending,
}

impl IterationHead {
    /// Before the initial set.
    pub fn new(spec: &IterationHeadSpec, job: &JobContext) -> Result<Self> {
        let seen = match spec.distinct {
            true => Some(SeenRows::new(&spec.types, job.memory.reserve("distinct iteration"))?),
            false => None,
        };
        Ok(IterationHead {
            types: spec.types.clone(),
            reservation: job.memory.reserve("iteration work set"),
            seen,
            outgoing: VecDeque::new(),
            next: Vec::new(),
            phase: Phase::Initial,
        })
    }

    fn unseen(&mut self, batch: Batch) -> Result<Batch> {
        let batch = batch.compact()?;
        match &mut self.seen {
            None => Ok(batch),
            Some(seen) => {
                let new = seen.insert(batch.columns())?;
                batch.with_selection(new.into()).compact()
            }
        }
    }

    fn send(&mut self) -> Option<Output> {
        let batch = self.outgoing.pop_front()?;
        self.reservation.shrink(batch.memory_bytes().min(self.reservation.size()));
        Some(Output::Element(PortId(0), StreamElement::Batch(batch)))
    }
}

impl Operator for IterationHead {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(&mut self, port: PortId, element: StreamElement, _cx: &mut OperatorContext<'_>) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => {
                let batch = self.unseen(batch)?;
                if batch.num_rows() == 0 {
                    return Ok(());
                }
                self.reservation.try_grow(batch.memory_bytes())?;
                if port == FEEDBACK {
                    self.next.push(batch);
                } else {
                    self.outgoing.push_back(batch);
                }
            }
            StreamElement::End if port != FEEDBACK => self.phase = Phase::InitialEnded,
            StreamElement::End => {}
            other => return Err(Error::Internal(format!("an iteration cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Some(output) = self.send() {
            return Ok(output);
        }
        Ok(match self.phase {
            Phase::Initial => Output::NeedInput(PortSet::Only(PortId(0))),
            Phase::InitialEnded => {
                self.phase = Phase::InBody;
                let first = Superstep { number: 0, last: false };
                Output::Element(PortId(0), StreamElement::Superstep(first))
            }
            Phase::InBody => Output::NeedInput(PortSet::Only(FEEDBACK)),
            Phase::Sending if self.next.is_empty() => Output::Finished,
            Phase::Sending => {
                self.outgoing.extend(self.next.drain(..));
                self.phase = Phase::InBody;
                self.send().unwrap_or(Output::NeedInput(PortSet::Only(FEEDBACK)))
            }
        })
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn on_timer(&mut self, _domain: TimeDomain, _time_us: i64, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.phase = Phase::Sending;
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        Ok(0)
    }

    fn snapshot(&mut self, _id: CheckpointId, _cx: &mut OperatorContext<'_>) -> Result<StateSnapshot> {
        let state = HeadState {
            phase: self.phase as u8,
            outgoing: StateSnapshot::of_batches(self.outgoing.make_contiguous(), &self.types)?,
            next: StateSnapshot::of_batches(&self.next, &self.types)?,
            seen: self.seen.as_ref().map(SeenRows::snapshot).transpose()?,
        };
        let bytes = serde_json::to_vec(&state).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let state: HeadState = serde_json::from_slice(&snapshot.bytes)
            .map_err(|e| Error::Internal(format!("a wrong snapshot: {e}")))?;
        self.phase = match state.phase {
            0 => Phase::Initial,
            1 => Phase::InitialEnded,
            2 => Phase::InBody,
            _ => Phase::Sending,
        };
        self.outgoing = restore_batches(&state.outgoing)?.into();
        self.next = restore_batches(&state.next)?;
        let held = self.outgoing.iter().chain(&self.next).map(Batch::memory_bytes).sum();
        self.reservation.try_resize(held)?;
        if let (Some(seen), Some(bytes)) = (&mut self.seen, state.seen) {
            seen.restore(&bytes)?;
        }
        Ok(())
    }

    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn checkpoint_aborted(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.outgoing.clear();
        self.next.clear();
        self.seen = None;
        self.reservation.try_resize(0)
    }
}

#[derive(Serialize, Deserialize)]
struct HeadState {
    phase: u8,
    outgoing: StateSnapshot,
    next: StateSnapshot,
    seen: Option<Vec<u8>>,
}

/// The tail of an iteration: what reaches it goes back to the head. It marks the place and keeps nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationTailSpec {}

/// The running tail.
#[derive(Default)]
pub struct IterationTail {
    input: Option<Batch>,
    ended: bool,
}

impl Operator for IterationTail {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(&mut self, _port: PortId, element: StreamElement, _cx: &mut OperatorContext<'_>) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => self.ended = true,
            other => return Err(Error::Internal(format!("an iteration cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        Ok(match self.input.take() {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None if self.ended => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    stateless_operator!();

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        Ok(())
    }
}
