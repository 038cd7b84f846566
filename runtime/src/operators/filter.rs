//! Filter: keeps the rows for which a predicate is true.
//!
//! Small results are gathered until they make a batch worth handing on, but not in a continuous job; they leave before a
//! watermark, a superstep or the end does. Nothing else is kept, so a snapshot is the gathered rows alone.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::batch::Coalescer;
use crate::expr::{CompiledExpr, Expr, compile, positional_schema};
use crate::job::JobContext;
use crate::operators::contract::restore_batches;

/// What to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// A boolean over the input.
    pub predicate: Expr,
    /// The input's columns to hand on, in order.
    pub output: Vec<usize>,
}

/// The running operator.
pub struct Filter {
    predicate: CompiledExpr,
    output: Vec<usize>,
    types: Vec<DataType>,

    gathered: Coalescer,
    phase: Phase,
}

enum Phase {
    Running { input: Option<Batch>, flush: bool },
    Ended,
}

impl Filter {
    /// Compiles the predicate.
    pub fn new(spec: &FilterSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        Ok(Filter {
            predicate: compile(&spec.predicate, &schema, &job.functions)?,
            output: spec.output.clone(),
            types: spec.output.iter().map(|&i| spec.input[i].clone()).collect(),
            gathered: Coalescer::new(job.options.gathered_rows()),
            phase: Phase::Running { input: None, flush: false },
        })
    }

    fn keep(&self, batch: Batch) -> Result<Batch> {
        let batch = batch.compact()?;
        let mask = self.predicate.evaluate_predicate(&batch)?;
        let columns = self.output.iter().map(|&i| batch.column(i).clone()).collect();
        let projected = batch.with_columns(columns);
        if mask.true_count() == mask.len() {
            return Ok(projected);
        }
        projected.filter(&mask)
    }

    fn request_flush(&mut self) {
        if let Phase::Running { flush, .. } = &mut self.phase {
            *flush = true;
        }
    }
}

impl Operator for Filter {
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
            StreamElement::Batch(batch) => {
                self.phase = Phase::Running { input: Some(batch), flush: false }
            }
            StreamElement::End => self.phase = Phase::Ended,
            other => return Err(Error::Internal(format!("filter cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        match &mut self.phase {
            Phase::Running { input, flush } => {
                let flush = std::mem::take(flush);
                let ready = match input.take() {
                    Some(batch) => {
                        let kept = self.keep(batch)?;
                        self.gathered.push(kept)?
                    }
                    None => None,
                };
                let ready = match ready {
                    None if flush => self.gathered.flush()?,
                    other => other,
                };
                Ok(match ready {
                    Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
                    None => Output::NeedInput(PortSet::Any),
                })
            }
            Phase::Ended => Ok(match self.gathered.flush()? {
                Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
                None => Output::Finished,
            }),
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.request_flush();
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
        self.request_flush();
        Ok(())
    }

    fn on_superstep(&mut self, _superstep: Superstep, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.request_flush();
        Ok(())
    }

    fn revoke(&mut self, _bytes: usize, _cx: &mut OperatorContext<'_>) -> Result<usize> {
        self.request_flush();
        Ok(0)
    }

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        StateSnapshot::of_batches(self.gathered.pending(), &self.types)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        for batch in restore_batches(&snapshot)? {
            self.gathered.keep(batch);
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
        self.gathered.clear();
        Ok(())
    }
}
