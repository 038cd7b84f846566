//! Stream join: joins two inputs that both go on, each of which may withdraw rows.
//!
//! The rows of both sides are kept by key. A batch of either side is taken into the state of its side and matched with
//! the rows of the other side as they are; what comes out turns the join of the inputs before the batch into that after
//! it. A row whose matches matter (of outer, semi, anti and mark joins) is emitted anew when it gets its first match or
//! loses its last one. Where one side is looked up, only rows of the other one make output, by what there is when they
//! come. All output of a batch leaves before the next one is taken, in pieces, so that nothing is held
//! back at a barrier. A watermark lets rows be forgotten that can match nothing more (see `expiry`), and so does the
//! time for which the job keeps state, counted from a row's last change, on sides that no watermark bounds. The state is
//! charged to a reservation and does not spill.

mod expiry;
#[cfg(test)]
mod expiry_tests;
mod listed;
mod looked_up;
#[cfg(test)]
mod lookup_tests;
mod shape;
mod spec;
mod states;
mod sweep;
#[cfg(test)]
mod tests;
mod work;

pub use self::spec::{
    ExpirySpec, StreamJoinColumn, StreamJoinKind, StreamJoinSide, StreamJoinSpec,
};

use std::collections::VecDeque;

use self::looked_up::{LookedUp, by_kind};
use self::shape::Shape;
use self::states::States;
use self::sweep::Sweep;
use self::work::{Work, own_alone};
use super::prelude::*;
use crate::batch::Coalescer;
use crate::job::JobContext;
use crate::memory::Reservation;

/// The running operator.
pub struct StreamJoin {
    shape: Shape,
    states: States,
    batch_rows: usize,
    input: Option<(usize, Batch)>,
    work: Option<Work>,
    /// What was looked up for rows that may be withdrawn.
    looked_up: Option<LookedUp>,
    /// Such rows of the batch in hand.
    withdrawn: Option<Batch>,
    /// Rows that are to leave the state, side by side.
    sweeps: VecDeque<Sweep>,
    /// Sides of which rows have expired.
    due: [bool; 2],
    /// Output of the batch in hand.
    gathered: Coalescer,
    ended: [bool; 2],
    /// Whether the rows that are left at the end are being emitted.
    closing: bool,
    /// How often rows are looked for that were kept for long enough, and when next, in microseconds.
    ttl_pause_us: i64,
    ttl_sweep_us: i64,
    /// The holder of all that is kept.
    reservation: Reservation,
}

/// How often rows are looked for within the time that they are kept.
const TTL_SWEEPS: u64 = 4;

impl StreamJoin {
    /// Compiles the join.
    ///
    /// # Errors
    /// `Unsupported` for types that cannot be kept.
    pub fn new(spec: &StreamJoinSpec, job: &JobContext) -> Result<Self> {
        let shape = Shape::new(spec, job)?;
        let reservation = job.memory.reserve("StreamJoin");
        let states = States::new(&shape, &reservation)?;
        Ok(StreamJoin {
            shape,
            states,
            batch_rows: job.options.batch_rows.max(1),
            input: None,
            work: None,
            looked_up: LookedUp::of(spec, &reservation)?,
            withdrawn: None,
            sweeps: VecDeque::new(),
            due: [false; 2],
            gathered: Coalescer::new(job.options.batch_rows),
            ended: [false; 2],
            closing: false,
            ttl_pause_us: i64::try_from(job.options.state_ttl_us / TTL_SWEEPS).unwrap_or(i64::MAX),
            ttl_sweep_us: i64::MIN,
            reservation,
        })
    }

    /// Takes a batch into the state; what it emits is work to be done.
    fn take_up(&mut self, side: usize, batch: Batch, cx: &OperatorContext<'_>) -> Result<()> {
        if self.shape.lookup == Some(side) {
            let arrived = self.states.arrive(&self.shape, side, batch, cx.job.env.now_us())?;
            self.states.rows[side].settle(&arrived.changes.keys);
            return self.states.compact(side);
        }
        let batch = match &mut self.looked_up {
            None => batch,
            Some(looked_up) => {
                let [comes, goes] = by_kind(batch.compact()?)?;
                self.withdrawn = goes;
                let Some(comes) = comes else { return Ok(()) };
                looked_up.add(&comes)?;
                comes
            }
        };
        let before = self.states.regime();
        let mut arrived = self.states.arrive(&self.shape, side, batch, cx.job.env.now_us())?;
        cx.drop_late(PortId(side as u16), arrived.late.take().into_iter().collect())?;
        if let Some(keyless) = arrived.keyless.take() {
            let rows: Vec<u32> = (0..keyless.num_rows() as u32).collect();
            let out = own_alone(&self.shape, side, &keyless, &rows, &vec![0; rows.len()])?;
            self.take_note(&out)?;
            self.gathered.keep(out);
        }
        let came = (side, arrived);
        let work = Work::begin(&self.shape, &mut self.states, came, before, self.batch_rows)?;
        self.work = Some(work);
        Ok(())
    }

    /// Remembers what rows gave that may be withdrawn.
    fn take_note(&mut self, output: &Batch) -> Result<()> {
        match &mut self.looked_up {
            Some(looked_up) => looked_up.add_given(&output.clone().compact()?),
            None => Ok(()),
        }
    }

    /// Looks from time to time for rows that were kept for long enough, and asks to be woken for it.
    fn grow_old(&mut self, cx: &OperatorContext<'_>) {
        let now_us = cx.job.env.now_us();
        if cx.job.options.state_ttl_us == 0 || now_us < self.ttl_sweep_us {
            return;
        }
        let pause_us = self.ttl_pause_us.max(1);
        self.ttl_sweep_us = now_us.saturating_add(pause_us);
        let pause_ns = pause_us.unsigned_abs().saturating_mul(1_000);
        let at_ns = cx.job.env.monotonic_ns().saturating_add(pause_ns);
        cx.job.env.wake_at(at_ns, cx.waker.clone());
        let due = self.states.grow_old(&self.shape, now_us);
        self.due = [self.due[0] || due[0], self.due[1] || due[1]];
    }

    /// The next output of what is to be done; none when everything is.
    fn next_output(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Batch>> {
        if let Some((side, batch)) = self.input.take() {
            self.take_up(side, batch, cx)?;
        }
        while let Some(work) = &mut self.work {
            match work.next(&self.shape, &mut self.states, cx)? {
                Some(batch) => {
                    self.take_note(&batch)?;
                    if let Some(ready) = self.gathered.push(batch)? {
                        return Ok(Some(ready));
                    }
                }
                None => {
                    if let Some(work) = self.work.take() {
                        work.finish(&self.shape, &mut self.states)?;
                    }
                }
            }
        }
        if let (Some(goes), Some(looked_up)) = (self.withdrawn.take(), &mut self.looked_up)
            && let Some(batch) = looked_up.withdraw(&goes)?
            && let Some(ready) = self.gathered.push(batch)?
        {
            return Ok(Some(ready));
        }
        for side in 0..2 {
            if std::mem::take(&mut self.due[side]) {
                self.sweeps.push_back(Sweep::of_expired(&self.shape, &mut self.states, side));
            }
        }
        while let Some(sweep) = self.sweeps.front_mut() {
            match sweep.next(&self.shape, &self.states, self.batch_rows)? {
                Some(batch) => {
                    if let Some(ready) = self.gathered.push(batch)? {
                        return Ok(Some(ready));
                    }
                }
                None => {
                    if let Some(sweep) = self.sweeps.pop_front() {
                        sweep.finish(&mut self.states)?;
                    }
                }
            }
        }
        self.gathered.flush()
    }
}

impl Operator for StreamJoin {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        let side = usize::from(port.0);
        match element {
            StreamElement::Batch(batch) if side < 2 => self.input = Some((side, batch)),
            StreamElement::End if side < 2 => self.ended[side] = true,
            other => return Err(Error::Internal(format!("a stream join cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        self.grow_old(cx);
        loop {
            if let Some(batch) = self.next_output(cx)? {
                return Ok(Output::Element(PortId(0), StreamElement::Batch(batch)));
            }
            match self.ended {
                [false, false] => return Ok(Output::NeedInput(PortSet::Any)),
                [true, false] => return Ok(Output::NeedInput(PortSet::Only(PortId(1)))),
                [false, true] => return Ok(Output::NeedInput(PortSet::Only(PortId(0)))),
                [true, true] if self.closing || !self.shape.deferred => {
                    return Ok(Output::Finished);
                }
                [true, true] => {
                    self.closing = true;
                    self.sweeps.extend((0..2).map(|side| Sweep::of_all(&self.states, side)));
                }
            }
        }
    }

    fn on_watermark(&mut self, watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let due = self.states.advance(&self.shape, watermark)?;
        self.due = [self.due[0] || due[0], self.due[1] || due[1]];
        Ok(())
    }

    untimed_operator!();

    /// The rows of both sides; there is no work in hand when input is needed. What a watermark made due is found again
    /// by its bound.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let mut bytes = vec![u8::from(self.ended[0]), u8::from(self.ended[1])];
        self.states.write_to(&mut bytes);
        let mut looked_up = Vec::new();
        self.looked_up.iter().for_each(|rows| rows.write_to(&mut looked_up));
        bytes.splice(2..2, looked_up);
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let mut bytes = snapshot.bytes.as_slice();
        self.ended = crate::rows::take_array::<2>(&mut bytes)?.map(|ended| ended != 0);
        if let Some(looked_up) = &mut self.looked_up {
            looked_up.read_from(&mut bytes)?;
        }
        self.states.read_from(&self.shape, &mut bytes)?;
        self.due = [true; 2];
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        let rows = self.states.rows.iter().map(|side| side.len()).sum::<usize>();
        StateSize { rows: rows as u64, bytes: self.reservation.total() as u64 }
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.states.clear();
        if let Some(looked_up) = &mut self.looked_up {
            looked_up.clear();
        }
        self.withdrawn = None;
        self.gathered.clear();
        self.sweeps.clear();
        (self.input, self.work) = (None, None);
        Ok(())
    }
}
