//! The operator harness: drives one operator by hand, with and without interruptions.
//!
//! [`run`] feeds inputs and collects what comes out. [`run_interrupted`] does the same, but between any two
//! batches it revokes memory, takes a snapshot, and goes on with a new instance restored from it. Both must
//! give the same rows; [`check`] compares them as multisets.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{Array, ArrayRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{Operator, OperatorContext, OperatorMetrics, OperatorSpec, Output, PortId};
use crate::batch::Batch;
use crate::element::{CheckpointId, StreamElement};
use crate::env::System;
use crate::error::{Error, Result};
use crate::expr::FunctionRegistry;
use crate::graph::{JobGraph, VertexId};
use crate::job::{JobContext, JobOptions, Services};
use crate::memory::MemoryManager;
use crate::windowing::WindowingRegistry;

/// A job context for a test: unlimited memory, no connectors.
pub fn context(batch_rows: usize) -> Arc<JobContext> {
    context_with_memory(batch_rows, MemoryManager::unlimited())
}

/// The same with a given budget.
pub fn context_with_memory(batch_rows: usize, memory: Arc<MemoryManager>) -> Arc<JobContext> {
    context_with(batch_rows, memory, Default::default())
}

/// The same with kinds of windows.
pub fn context_with(
    batch_rows: usize,
    memory: Arc<MemoryManager>,
    windowings: WindowingRegistry,
) -> Arc<JobContext> {
    let services = Services {
        env: System::new(),
        memory,
        functions: FunctionRegistry::built_in(),
        sources: Default::default(),
        sinks: Default::default(),
        windowings,
    };
    let options = JobOptions { batch_rows, ..JobOptions::default() };
    JobContext::new(1, &JobGraph::default(), options, services)
}

/// Whether to revoke, snapshot and restore between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruptions {
    /// No.
    None,
    /// Before each element goes in and after each one comes out.
    EveryBatch,
}

/// An operator under test. Several may share one job, as builds and probes do.
pub struct Driver {
    spec: OperatorSpec,
    operator: Box<dyn Operator>,
    job: Arc<JobContext>,
    interruptions: Interruptions,
    /// The operator's counters, over all its instances.
    pub metrics: Arc<OperatorMetrics>,
}

impl Driver {
    /// Builds and opens the operator as the only subtask of its vertex.
    pub fn new(
        spec: &OperatorSpec,
        job: &Arc<JobContext>,
        interruptions: Interruptions,
    ) -> Result<Self> {
        let operator = spec.build(job)?;
        let metrics = Arc::default();
        let (spec, job) = (spec.clone(), job.clone());
        let mut driver = Driver { spec, operator, job, interruptions, metrics };
        driver.call(|operator, cx| operator.open(cx))?;
        Ok(driver)
    }

    fn call<T>(
        &mut self,
        f: impl FnOnce(&mut Box<dyn Operator>, &mut OperatorContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut cx = OperatorContext {
            vertex: VertexId(0),
            subtask: 0,
            position: 0,
            parallelism: 1,
            watermark: None,
            job: &self.job,
            waker: Waker::noop(),
            metrics: &self.metrics,
            cancelled: &self.job.cancelled,
        };
        f(&mut self.operator, &mut cx)
    }

    fn interrupt(&mut self) -> Result<()> {
        if self.interruptions == Interruptions::None {
            return Ok(());
        }
        self.call(|operator, cx| operator.revoke(usize::MAX, cx))?;
        let id = CheckpointId(1);
        let snapshot = self.call(|operator, cx| operator.snapshot(id, cx))?;
        self.call(|operator, cx| operator.close(cx))?;
        self.operator = self.spec.build(&self.job)?;
        self.call(|operator, cx| operator.open(cx))?;
        self.call(|operator, cx| operator.restore(snapshot, cx))?;
        self.operator.checkpoint_complete(id)
    }

    /// Feeds the inputs (for each port its elements, then `End`) in the order the operator asks for, and
    /// collects what comes out. An operator that waits fails the test: nobody would wake it.
    pub fn run(&mut self, inputs: Vec<Vec<StreamElement>>) -> Result<Vec<StreamElement>> {
        let mut inputs: Vec<_> = inputs
            .into_iter()
            .map(|port| {
                port.into_iter().chain([StreamElement::End]).collect::<Vec<_>>().into_iter()
            })
            .collect();
        let mut out = Vec::new();
        let mut passing = None;
        loop {
            match self.call(|operator, cx| operator.step(cx))? {
                Output::Element(_, element) => out.push(element),
                Output::Finished => break,
                Output::Wait(reason) => {
                    return Err(Error::Internal(format!("waits for {reason:?} in a harness")));
                }
                Output::NeedInput(ports) => {
                    // An event leaves after what it made the operator emit, as in a task.
                    out.extend(passing.take());
                    self.interrupt()?;
                    let next = inputs.iter_mut().enumerate().find_map(|(i, port)| {
                        let id = PortId(i as u16);
                        if ports.contains(id) { port.next().map(|e| (id, e)) } else { None }
                    });
                    let (port, element) =
                        next.ok_or_else(|| Error::Internal("wants more than there is".into()))?;
                    match element {
                        StreamElement::Superstep(superstep) => {
                            self.call(|operator, cx| operator.on_superstep(superstep, cx))?;
                            passing = Some(element);
                        }
                        StreamElement::Watermark(watermark) => {
                            self.call(|operator, cx| operator.on_watermark(watermark, cx))?;
                            passing = Some(element);
                        }
                        element => self.call(|operator, cx| operator.push(port, element, cx))?,
                    }
                }
            }
        }
        self.call(|operator, cx| operator.close(cx))?;
        Ok(out)
    }

    /// Feeds one element, between two interruptions, and collects what comes out before the operator wants more. The
    /// ports are fed in any order, as the caller says.
    pub fn feed(&mut self, port: PortId, element: StreamElement) -> Result<Vec<StreamElement>> {
        let mut out = self.drain()?;
        self.interrupt()?;
        match element {
            StreamElement::Superstep(superstep) => {
                self.call(|operator, cx| operator.on_superstep(superstep, cx))?;
            }
            StreamElement::Watermark(watermark) => {
                self.call(|operator, cx| operator.on_watermark(watermark, cx))?;
            }
            element => self.call(|operator, cx| operator.push(port, element, cx))?,
        }
        out.extend(self.drain()?);
        Ok(out)
    }

    /// What comes out before the operator wants more, or is finished.
    fn drain(&mut self) -> Result<Vec<StreamElement>> {
        let mut out = Vec::new();
        loop {
            match self.call(|operator, cx| operator.step(cx))? {
                Output::Element(_, element) => out.push(element),
                Output::Finished | Output::NeedInput(_) => return Ok(out),
                Output::Wait(reason) => {
                    return Err(Error::Internal(format!("waits for {reason:?} in a harness")));
                }
            }
        }
    }

    /// [`Driver::run`] for batches in and batches out.
    pub fn run_batches(&mut self, inputs: Vec<Vec<Batch>>) -> Result<Vec<Batch>> {
        let inputs = inputs
            .into_iter()
            .map(|port| port.into_iter().map(StreamElement::Batch).collect())
            .collect();
        self.run(inputs)?
            .into_iter()
            .map(|element| match element {
                StreamElement::Batch(batch) => batch.compact(),
                other => Err(Error::Internal(format!("emitted {other:?}"))),
            })
            .collect()
    }
}

/// Runs one operator over batches without interruptions.
pub fn run(spec: &OperatorSpec, inputs: Vec<Vec<Batch>>) -> Result<Vec<Batch>> {
    Driver::new(spec, &context(1024), Interruptions::None)?.run_batches(inputs)
}

/// The same with interruptions at every batch boundary.
pub fn run_interrupted(spec: &OperatorSpec, inputs: Vec<Vec<Batch>>) -> Result<Vec<Batch>> {
    Driver::new(spec, &context(1024), Interruptions::EveryBatch)?.run_batches(inputs)
}

/// Runs with and without interruptions, demands the same multiset of rows, and gives the rows as text.
pub fn check(spec: &OperatorSpec, inputs: Vec<Vec<Batch>>) -> Vec<String> {
    let plain = run(spec, inputs.clone()).expect("runs");
    let interrupted = run_interrupted(spec, inputs).expect("runs when interrupted");
    let (mut a, mut b) = (rows(&plain), rows(&interrupted));
    let in_order = a.clone();
    a.sort();
    b.sort();
    assert_eq!(a, b, "interruptions must not change the rows");
    in_order
}

/// Rows as text, columns separated by `|`, NULL as `∅`, in order.
pub fn rows(batches: &[Batch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).expect("a printable type"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns.iter().map(|c| c.value(row).to_string()).collect();
            lines.push(cells.join("|"));
        }
    }
    lines
}

/// A batch from columns.
pub fn batch(columns: Vec<ArrayRef>) -> Batch {
    let rows = columns.first().map_or(0, |c| c.len());
    Batch::new(columns, rows)
}
