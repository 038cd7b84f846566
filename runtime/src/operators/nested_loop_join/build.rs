//! The build side of a nested loop join.

use std::sync::Arc;

use super::{Contribution, LoopBuild, NestedLoopBuildSpec, SharedLoopBuild};
use crate::batch::concat;
use crate::element::RowKind;
use crate::memory::{Reservation, SegmentArray};
use crate::operators::contract::restore_batches;
use crate::operators::prelude::*;
use crate::operators::sort_key_spec::compact_strings;
use crate::shared::WorkQueue;

/// The running build operator.
pub struct NestedLoopBuild {
    spec: NestedLoopBuildSpec,

    kept: Vec<Batch>,
    reservation: Option<Reservation>,
    shared: Option<Arc<SharedLoopBuild>>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Gathering,
    Ended,
    Done,
}

impl NestedLoopBuild {
    /// Nothing is kept yet.
    pub fn new(spec: &NestedLoopBuildSpec) -> Self {
        NestedLoopBuild {
            spec: spec.clone(),
            kept: Vec::new(),
            reservation: None,
            shared: None,
            phase: Phase::Gathering,
        }
    }

    fn keep(&mut self, batch: Batch) -> Result<()> {
        let batch = compact_strings(batch.compact()?);
        if batch.kinds().is_some_and(|kinds| kinds.iter().any(|&kind| kind != RowKind::Insert)) {
            return Err(Error::Unsupported(
                "changes on the build side of a nested loop join".into(),
            ));
        }
        if batch.num_rows() > 0 {
            if let Some(reservation) = &mut self.reservation {
                reservation.try_grow(batch.memory_bytes())?;
            }
            self.kept.push(batch);
        }
        Ok(())
    }

    /// Hands the batches over; whoever does so last lets the probes in.
    fn contribute(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let (Some(shared), Some(reservation)) = (&self.shared, self.reservation.take()) else {
            return Err(Error::Internal(
                "a nested loop build was used before it was opened".into(),
            ));
        };
        let contribution = Contribution { batches: std::mem::take(&mut self.kept), reservation };
        if let Some(all) = shared.contribute(cx.subtask, cx.parallelism, contribution)? {
            shared.start_filling(assemble(all, &self.spec, cx)?);
            shared.set_ready();
        }
        Ok(())
    }
}

/// Joins small batches up to the job's batch size, so that loops run over full ones.
fn assemble(
    all: Vec<Contribution>,
    spec: &NestedLoopBuildSpec,
    cx: &OperatorContext<'_>,
) -> Result<LoopBuild> {
    let (mut batches, mut pending, mut pending_rows) = (Vec::new(), Vec::new(), 0);
    let mut reservations = Vec::new();
    for Contribution { batches: contributed, reservation } in all {
        reservations.push(reservation);
        for batch in contributed {
            if pending_rows + batch.num_rows() > cx.job.options.batch_rows && pending_rows > 0 {
                batches.push(concat(&std::mem::take(&mut pending))?);
                pending_rows = 0;
            }
            pending_rows += batch.num_rows();
            pending.push(batch);
        }
    }
    if !pending.is_empty() {
        batches.push(concat(&pending)?);
    }
    let mut rows = 0;
    let mut starts = Vec::with_capacity(batches.len());
    for batch in &batches {
        starts.push(rows);
        rows += batch.num_rows();
    }
    let matched = match (spec.tracks_matches, reservations.first()) {
        (true, Some(reservation)) => Some(SegmentArray::zeroed(reservation, rows)?),
        (true, None) | (false, _) => None,
    };
    let emitting = WorkQueue::new(batches.len());
    Ok(LoopBuild { batches, starts, rows, matched, emitting, _reservations: reservations })
}

impl Operator for NestedLoopBuild {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.shared =
            Some(cx.job.shared.get_or_create(self.spec.shared, SharedLoopBuild::default)?);
        self.reservation = Some(cx.job.memory.reserve_revocable("NestedLoopBuild"));
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.keep(batch)?,
            StreamElement::End => self.phase = Phase::Ended,
            other => {
                return Err(Error::Internal(format!("a nested loop build cannot take {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        match self.phase {
            Phase::Gathering => return Ok(Output::NeedInput(PortSet::Any)),
            Phase::Ended => {
                self.contribute(cx)?;
                self.phase = Phase::Done;
            }
            Phase::Done => {}
        }
        Ok(Output::Finished)
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        StateSnapshot::of_batches(&self.kept, &self.spec.input)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        restore_batches(&snapshot)?.into_iter().try_for_each(|batch| self.keep(batch))
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.kept.clear();
        self.reservation = None;
        self.shared = None;
        Ok(())
    }
}
