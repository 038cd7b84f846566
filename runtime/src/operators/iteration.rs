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
use crate::rows::Selected;
use crate::state::KeyedState;

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

    seen: Option<KeyedState>,
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
            true => {
                let reservation = job.memory.reserve_revocable("distinct iteration");
                Some(KeyedState::new(&spec.types, &[], reservation)?)
            }
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
                let rows = Selected::All(batch.num_rows());
                let (mut ids, mut new) = (Vec::new(), Vec::new());
                seen.lookup_or_insert(batch.columns(), None, rows, &mut ids, &mut new)?;
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

    fn push(
        &mut self,
        port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
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
        self.phase = Phase::Sending;
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        Ok(0)
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let state = HeadState {
            phase: self.phase as u8,
            outgoing: StateSnapshot::of_batches(self.outgoing.make_contiguous(), &self.types)?,
            next: StateSnapshot::of_batches(&self.next, &self.types)?,
            seen: self.seen.as_ref().map(|seen| {
                let mut bytes = Vec::new();
                seen.snapshot(&mut bytes);
                bytes
            }),
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
            seen.restore(&mut bytes.as_slice())?;
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

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::super::OperatorSpec;
    use super::super::harness::{self, Driver, Interruptions};
    use super::*;

    fn batch(values: &[i64]) -> Batch {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        harness::batch(vec![column])
    }

    /// Sends `initial` and, after the end of superstep n, `sets[n]`; gives what each superstep sent.
    fn iterate(
        distinct: bool,
        initial: &[i64],
        sets: &[&[i64]],
        how: Interruptions,
    ) -> Vec<Vec<i64>> {
        let spec = IterationHeadSpec { types: vec![DataType::Int64], distinct };
        let job = harness::context(1024);
        let spec = OperatorSpec::IterationHead(spec);
        let mut head = Driver::new(&spec, &job, how).unwrap();
        let end = Superstep { number: 0, last: false };
        let mut feedback = Vec::new();
        for set in sets {
            feedback.extend((!set.is_empty()).then(|| StreamElement::Batch(batch(set))));
            feedback.push(StreamElement::Superstep(end));
        }
        let initial = vec![StreamElement::Batch(batch(initial))];
        let mut supersteps = vec![Vec::new()];
        for element in head.run(vec![initial, feedback]).unwrap() {
            match element {
                StreamElement::Batch(batch) => {
                    let values = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
                    supersteps.last_mut().unwrap().extend(values);
                }
                StreamElement::Superstep(_) => supersteps.push(Vec::new()),
                other => panic!("{other:?}"),
            }
        }
        // The end of the last superstep that had rows; the empty one ends the iteration.
        assert_eq!(supersteps.pop(), Some(Vec::new()));
        supersteps
    }

    #[test]
    fn sets_go_round_until_one_is_empty() {
        for how in [Interruptions::None, Interruptions::EveryBatch] {
            let sent = iterate(false, &[1, 1], &[&[2, 2], &[3], &[]], how);
            assert_eq!(sent, vec![vec![1, 1], vec![2, 2], vec![3]]);
        }
    }

    #[test]
    fn distinct_rows_enter_once() {
        for how in [Interruptions::None, Interruptions::EveryBatch] {
            let sent = iterate(true, &[1, 1], &[&[2, 1], &[2, 3], &[1, 2, 3]], how);
            assert_eq!(sent, vec![vec![1], vec![2], vec![3]]);
        }
    }
}
