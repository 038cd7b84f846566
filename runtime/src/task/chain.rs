//! A task's inside: a chain of operators between an input gate and result partitions.
//!
//! The chain is pulled from its end: the last operator is stepped; when it needs input, the one before it is,
//! and so on to the gate. So at most one batch for each operator is under way, and a scan does not start
//! before the joins above it have their builds. Control events travel down the chain one operator at a time:
//! an operator first emits what the event makes it emit, then the event goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::flusher::Flusher;
use super::scheduler::begin_deferred;
use super::times::{Doing, TaskTimes};
use crate::element::{StreamElement, Watermark};
use crate::error::{Error, Result};
use crate::exchange::gate::{GateEvent, InputGate};
use crate::exchange::partition::{Drained, ResultPartition};
use crate::graph::VertexId;
use crate::job::{BufferTimeout, JobContext};
use crate::operators::{
    Operator, OperatorContext, OperatorMetrics, Output, PortId, PortSet, StateSize, WaitReason,
};

/// Steps a task may do before it lets another one have the thread.
const STEPS_MAX: usize = 64;

/// Runs of a busy task after which the size of its state is told again.
const RUNS_UNMEASURED_MAX: usize = 16;
/// One in so many parts of the time may go into that.
const MEASURING_SHARE: u64 = 64;

/// What a run of a task came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It could go on; another task is let through first.
    Yield,
    /// It waits, and will be woken.
    Waiting(Waiting),
    /// It has ended well.
    Done,
}

/// What a task waits for, for the wait graph.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    /// Input on these ports.
    Input(PortSet),
    /// Room at a consumer.
    Output,
    /// Something an operator named.
    Operator(&'static str, WaitReason),
}

/// What a task is made of.
pub struct TaskParts {
    /// The vertex.
    pub vertex: VertexId,
    /// Which subtask.
    pub subtask: usize,
    /// Of how many.
    pub parallelism: usize,
    /// The chain with each operator's name, first to last.
    pub operators: Vec<(&'static str, Box<dyn Operator>)>,
    /// Inputs; none for sources.
    pub gate: Option<InputGate>,
    /// One for each out edge.
    pub partitions: Vec<ResultPartition>,
    /// When incomplete buffers leave, instead of when the job says.
    pub buffer_timeout: Option<BufferTimeout>,
    /// The job.
    pub job: Arc<JobContext>,
}

struct Link {
    name: &'static str,
    operator: Box<dyn Operator>,
    metrics: Arc<OperatorMetrics>,
    /// An event the operator has seen, to be passed on once it needs input again.
    passing: VecDeque<StreamElement>,
    finished: bool,
    watermark: Option<Watermark>,
    /// What was told of the operator's state.
    state_size: StateSize,
}

impl Link {
    /// Tells how much the operator keeps. The counters are sums over the subtasks, each of which adds its own change;
    /// to add one that has wrapped is to subtract.
    fn tell_state(&mut self, now: StateSize) {
        let before = std::mem::replace(&mut self.state_size, now);
        if now != before {
            OperatorMetrics::add(&self.metrics.state_rows, now.rows.wrapping_sub(before.rows));
            OperatorMetrics::add(&self.metrics.state_bytes, now.bytes.wrapping_sub(before.bytes));
        }
    }
}

/// A running subtask.
pub struct Task {
    vertex: VertexId,
    subtask: usize,
    parallelism: usize,
    links: Vec<Link>,
    gate: Option<InputGate>,
    partitions: Vec<ResultPartition>,
    job: Arc<JobContext>,
    phase: Phase,
    flusher: Flusher,
    times: Option<Arc<TaskTimes>>,
    /// Runs since the size of the state was told.
    runs_unmeasured: usize,
    /// Not before this time.
    measured_again_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    Running,
    Closed,
}

impl Task {
    /// A task that has not started.
    pub fn new(parts: TaskParts) -> Self {
        let links = parts
            .operators
            .into_iter()
            .enumerate()
            .map(|(i, (name, operator))| Link {
                name,
                operator,
                metrics: parts.job.metrics(parts.vertex, i),
                passing: VecDeque::new(),
                finished: false,
                watermark: None,
                state_size: StateSize::default(),
            })
            .collect();
        Task {
            vertex: parts.vertex,
            subtask: parts.subtask,
            parallelism: parts.parallelism,
            links,
            gate: parts.gate,
            partitions: parts.partitions,
            times: parts.job.times(parts.vertex).get(parts.subtask).cloned(),
            runs_unmeasured: 0,
            measured_again_ns: 0,
            job: parts.job,
            phase: Phase::Created,
            flusher: Flusher::new(parts.vertex, parts.subtask, parts.buffer_timeout),
        }
    }

    /// Which subtask of which vertex.
    pub fn place(&self) -> (VertexId, usize) {
        (self.vertex, self.subtask)
    }

    /// The state of its inputs, for the wait graph.
    pub fn describe_inputs(&self) -> String {
        let inputs = self.gate.as_ref().map_or_else(String::new, |g| g.queue().describe());
        match self.flusher.due_in_ns(self.job.env.monotonic_ns()) {
            Some(ns) => format!("{inputs}; {} is due in {} µs", self.flusher, ns / 1_000),
            None => inputs,
        }
    }

    /// Runs until the task yields, waits or ends. After an error the task is closed.
    pub fn run(&mut self, waker: &Waker) -> Result<Progress> {
        if let Some(times) = &self.times {
            times.turn(Doing::Working, self.job.env.monotonic_ns());
        }
        let result = self.run_inner(waker);
        self.measure(&result);
        match &result {
            Ok(Progress::Done) | Err(_) => self.close(waker),
            Ok(Progress::Yield | Progress::Waiting(_)) => {}
        }
        result
    }

    /// Notes what a run came to, and how much the operators keep, unless that was looked at so lately that it would cost
    /// more than a small share of the time.
    fn measure(&mut self, result: &Result<Progress>) {
        let now_ns = self.job.env.monotonic_ns();
        let waits = match result {
            Ok(Progress::Yield) => None,
            Ok(Progress::Waiting(Waiting::Output)) => Some(Doing::Blocked),
            Ok(Progress::Waiting(Waiting::Input(_) | Waiting::Operator(..))) => Some(Doing::Idle),
            Ok(Progress::Done) | Err(_) => Some(Doing::Nothing),
        };
        if let (Some(doing), Some(times)) = (waits, &self.times) {
            times.turn(doing, now_ns);
        }
        self.runs_unmeasured += 1;
        let due = waits.is_some() || self.runs_unmeasured >= RUNS_UNMEASURED_MAX;
        if !due || now_ns < self.measured_again_ns {
            return;
        }
        self.runs_unmeasured = 0;
        for link in &mut self.links {
            link.tell_state(link.operator.state_size());
        }
        let cost_ns = self.job.env.monotonic_ns().saturating_sub(now_ns);
        self.measured_again_ns = now_ns.saturating_add(cost_ns.saturating_mul(MEASURING_SHARE));
    }

    fn run_inner(&mut self, waker: &Waker) -> Result<Progress> {
        if self.phase == Phase::Created {
            self.phase = Phase::Running;
            for i in 0..self.links.len() {
                self.with_operator(i, waker, |operator, cx| operator.open(cx))?;
            }
        }
        for _ in 0..STEPS_MAX {
            if self.job.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let mut drained = self.drain(waker)?;
            let last = self.links.len() - 1;
            if !self.links[last].finished && self.is_left() {
                self.finish(last, waker)?;
                drained = self.drain(waker)?;
            }
            match drained {
                Drained::Yes => {}
                Drained::No => return Ok(Progress::Waiting(Waiting::Output)),
                Drained::AllClosed => return Ok(Progress::Done),
            }
            let progress = self.advance(waker)?;
            self.flusher.look(&mut self.partitions, &self.job, waker)?;
            if let Some(progress) = progress {
                let pending = progress != Progress::Done && self.drain(waker)? == Drained::No;
                return Ok(if pending { Progress::Waiting(Waiting::Output) } else { progress });
            }
            self.job.steps.fetch_add(1, Ordering::Relaxed);
            begin_deferred();
        }
        Ok(Progress::Yield)
    }

    /// Whether this is the head of an iteration whose rows nobody reads any more. The body would go on for ever by
    /// itself: it has to be told the end.
    fn is_left(&self) -> bool {
        let mut exits = self.partitions.iter().filter(|partition| partition.is_exit()).peekable();
        exits.peek().is_some() && exits.all(ResultPartition::is_left_exit)
    }

    /// Drains all partitions. `AllClosed` only when no edge at all wants anything.
    fn drain(&mut self, waker: &Waker) -> Result<Drained> {
        let mut all_closed = !self.partitions.is_empty();
        let mut drained = Drained::Yes;
        for partition in &mut self.partitions {
            match partition.drain(waker)? {
                Drained::Yes => all_closed = false,
                Drained::No => {
                    all_closed = false;
                    drained = Drained::No;
                }
                Drained::AllClosed => {}
            }
        }
        Ok(if all_closed { Drained::AllClosed } else { drained })
    }

    /// Walks from the last operator towards the gate until something moves. `None`: something did.
    fn advance(&mut self, waker: &Waker) -> Result<Option<Progress>> {
        let mut i = self.links.len() - 1;
        loop {
            if self.links[i].finished {
                // Only the last operator's end is looked at here; earlier ones have pushed theirs on.
                return Ok(Some(Progress::Done));
            }
            match self.step(i, waker)? {
                Output::Element(_, element) => {
                    self.hand_on(i, element, waker)?;
                    return Ok(None);
                }
                Output::Finished => {
                    self.finish(i, waker)?;
                    return Ok(None);
                }
                Output::Wait(reason) => {
                    let name = self.links[i].name;
                    return Ok(Some(Progress::Waiting(Waiting::Operator(name, reason))));
                }
                Output::NeedInput(ports) => {
                    if let Some(event) = self.links[i].passing.pop_front() {
                        self.hand_on(i, event, waker)?;
                        return Ok(None);
                    }
                    if i == 0 {
                        return self.take_input(ports, waker);
                    }
                    if self.links[i - 1].finished {
                        return Err(Error::Internal(format!(
                            "{} wants input after its end",
                            self.links[i].name
                        )));
                    }
                    i -= 1;
                }
            }
        }
    }

    fn step(&mut self, i: usize, waker: &Waker) -> Result<Output> {
        let started = self.job.env.monotonic_ns();
        let output = self.with_operator(i, waker, |operator, cx| operator.step(cx))?;
        let busy = self.job.env.monotonic_ns() - started;
        self.job.memory.check_heap(self.links[i].name)?;
        let metrics = &self.links[i].metrics;
        OperatorMetrics::add(&metrics.busy_ns, busy);
        if let Output::Element(_, element) = &output {
            OperatorMetrics::add(&metrics.rows_out, rows_of(element));
        }
        Ok(output)
    }

    fn take_input(&mut self, ports: PortSet, waker: &Waker) -> Result<Option<Progress>> {
        let Some(gate) = &mut self.gate else {
            return Err(Error::Internal(format!(
                "{} has no input to wait for",
                self.links[0].name
            )));
        };
        let Some(event) = gate.poll(ports, waker) else {
            return Ok(Some(Progress::Waiting(Waiting::Input(ports))));
        };
        match event {
            GateEvent::Data(port, element) => self.push(0, port, element, waker)?,
            GateEvent::End(port) => self.push(0, port, StreamElement::End, waker)?,
            GateEvent::Watermark(w) => self.control(0, StreamElement::Watermark(w), waker)?,
            GateEvent::Idle => self.control(0, StreamElement::Idle, waker)?,
            GateEvent::Active => self.control(0, StreamElement::Active, waker)?,
            GateEvent::Superstep(s) => self.control(0, StreamElement::Superstep(s), waker)?,
            GateEvent::Barrier(id) => self.control(0, StreamElement::Barrier(id), waker)?,
        }
        Ok(None)
    }

    /// Gives what operator `i` emitted to the next one, or to the partitions.
    fn hand_on(&mut self, i: usize, element: StreamElement, waker: &Waker) -> Result<()> {
        if let (0, None, StreamElement::Watermark(w)) = (i, &self.gate, &element) {
            // A scan sees the watermarks that it makes.
            self.links[0].metrics.see_watermark(w.0);
        }
        if i + 1 == self.links.len() {
            // Pages have one owner, so the last edge gets the element itself.
            let Some((last, others)) = self.partitions.split_last_mut() else { return Ok(()) };
            others.iter_mut().try_for_each(|p| p.emit(element.clone()))?;
            return last.emit(element);
        }
        match element {
            StreamElement::Batch(_) | StreamElement::Pages(_) => {
                self.push(i + 1, PortId(0), element, waker)
            }
            event => self.control(i + 1, event, waker),
        }
    }

    fn push(
        &mut self,
        i: usize,
        port: PortId,
        element: StreamElement,
        waker: &Waker,
    ) -> Result<()> {
        OperatorMetrics::add(&self.links[i].metrics.rows_in, rows_of(&element));
        self.with_operator(i, waker, |operator, cx| operator.push(port, element, cx))
    }

    /// Shows an event to an operator and remembers to pass it on.
    fn control(&mut self, i: usize, event: StreamElement, waker: &Waker) -> Result<()> {
        match &event {
            StreamElement::Watermark(w) => {
                let w = *w;
                self.links[i].metrics.see_watermark(w.0);
                self.links[i].watermark = Some(w);
                if i == 0 {
                    self.job.furthest_us.fetch_max(w.0, Ordering::Relaxed);
                }
                self.with_operator(i, waker, |operator, cx| operator.on_watermark(w, cx))?;
            }
            StreamElement::Superstep(s) => {
                let s = *s;
                self.with_operator(i, waker, |operator, cx| operator.on_superstep(s, cx))?;
            }
            StreamElement::Barrier(id) => {
                let id = *id;
                self.with_operator(i, waker, |operator, cx| operator.on_barrier(id, cx))?;
            }
            StreamElement::Batch(_)
            | StreamElement::Pages(_)
            | StreamElement::Idle
            | StreamElement::Active
            | StreamElement::End => {}
        }
        self.links[i].passing.push_back(event);
        Ok(())
    }

    /// Operator `i` emits nothing more: what stands before it is not needed any longer.
    fn finish(&mut self, i: usize, waker: &Waker) -> Result<()> {
        for earlier in 0..=i {
            self.links[earlier].finished = true;
        }
        if let Some(gate) = &self.gate {
            gate.close();
        }
        if i + 1 < self.links.len() {
            return self.push(i + 1, PortId(0), StreamElement::End, waker);
        }
        self.partitions.iter_mut().try_for_each(|p| p.emit(StreamElement::End))
    }

    fn close(&mut self, waker: &Waker) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        if let Some(gate) = &self.gate {
            gate.close();
        }
        for i in 0..self.links.len() {
            // The first error is the one that counts; closing goes on whatever happens.
            let _ = self.with_operator(i, waker, |operator, cx| operator.close(cx));
        }
        self.links.iter_mut().for_each(|link| link.tell_state(StateSize::default()));
        self.links.clear();
        self.partitions.clear();
        self.gate = None;
    }

    fn with_operator<T>(
        &mut self,
        i: usize,
        waker: &Waker,
        call: impl FnOnce(&mut Box<dyn Operator>, &mut OperatorContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let link = &mut self.links[i];
        let mut cx = OperatorContext {
            vertex: self.vertex,
            subtask: self.subtask,
            position: i,
            parallelism: self.parallelism,
            watermark: link.watermark,
            job: &self.job,
            waker,
            metrics: &link.metrics,
            cancelled: &self.job.cancelled,
        };
        call(&mut link.operator, &mut cx)
    }
}

fn rows_of(element: &StreamElement) -> u64 {
    match element {
        StreamElement::Batch(batch) => batch.num_rows() as u64,
        StreamElement::Pages(pages) => pages.num_rows() as u64,
        StreamElement::Watermark(_)
        | StreamElement::Idle
        | StreamElement::Active
        | StreamElement::Barrier(_)
        | StreamElement::Superstep(_)
        | StreamElement::End => 0,
    }
}
