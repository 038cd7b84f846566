//! The flusher of a task: lets its incomplete buffers go when they have waited long enough.
//!
//! There is one for each task, and it has a name. A look costs nothing while no buffer holds rows: a timer is set when a
//! buffer gets its first row, and there is at most one. The timer only wakes the task. It is the task itself that sends,
//! between two of its steps, so that an error in sending ends the task that wrote the rows.

use std::fmt;
use std::task::Waker;

use crate::error::Result;
use crate::exchange::partition::ResultPartition;
use crate::graph::VertexId;
use crate::job::{BufferTimeout, JobContext};

/// See the module.
#[derive(Debug)]
pub(super) struct Flusher {
    vertex: VertexId,
    subtask: usize,
    /// The timeout of the task's operators, which goes before the job's.
    own: Option<BufferTimeout>,
    /// When the buffers are due, in nanoseconds of the environment's monotonic clock.
    due_ns: Option<u64>,
    /// When the last timer that was set wakes the task; it may be earlier than what is due now.
    timer_ns: u64,
}

impl fmt::Display for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flusher-{}-{}", self.vertex.0, self.subtask)
    }
}

impl Flusher {
    /// The flusher of a subtask of a vertex, which may have a timeout of its own.
    pub(super) fn new(vertex: VertexId, subtask: usize, own: Option<BufferTimeout>) -> Self {
        Flusher { vertex, subtask, own, due_ns: None, timer_ns: 0 }
    }

    /// When the buffers are due at the latest, in nanoseconds from now, for the wait graph.
    pub(super) fn due_in_ns(&self, now_ns: u64) -> Option<u64> {
        self.due_ns.map(|due| due.saturating_sub(now_ns))
    }

    /// How long buffers wait at the moment, in microseconds; `None` is for ever.
    fn timeout_us(&self, job: &JobContext) -> Option<u64> {
        let timeout = match (self.own, &job.latency) {
            (Some(own), _) => own,
            (None, Some(latency)) => return Some(latency.timeout_us()),
            (None, None) => job.options.buffer_timeout,
        };
        match timeout {
            BufferTimeout::Never => None,
            BufferTimeout::AtOnce => Some(0),
            BufferTimeout::Micros(micros) => Some(micros),
        }
    }

    /// Called after each step: flushes what is due, and sets a timer for what is not.
    pub(super) fn look(
        &mut self,
        partitions: &mut [ResultPartition],
        job: &JobContext,
        waker: &Waker,
    ) -> Result<()> {
        if !partitions.iter().any(ResultPartition::holds_rows) {
            self.due_ns = None;
            return Ok(());
        }
        let Some(timeout_us) = self.timeout_us(job) else { return Ok(()) };
        if timeout_us == 0 {
            return self.flush(partitions);
        }
        let now_ns = job.env.monotonic_ns();
        let wait_ns = timeout_us.saturating_mul(1_000);
        // A timeout that was lowered meanwhile holds for buffers that wait already.
        let latest_ns = now_ns.saturating_add(wait_ns);
        let due_ns = self.due_ns.map_or(latest_ns, |due| due.min(latest_ns));
        self.due_ns = Some(due_ns);
        if now_ns >= due_ns {
            return self.flush(partitions);
        }
        if self.timer_ns <= now_ns || self.timer_ns > due_ns {
            self.timer_ns = due_ns;
            job.env.wake_at(due_ns, waker.clone());
        }
        Ok(())
    }

    fn flush(&mut self, partitions: &mut [ResultPartition]) -> Result<()> {
        self.due_ns = None;
        partitions.iter_mut().try_for_each(ResultPartition::flush)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::batch::Batch;
    use crate::element::StreamElement;
    use crate::env::Sim;
    use crate::exchange::partition::{Drained, Gathering, Shipping, Target};
    use crate::exchange::queue::{InputQueue, PortKind, PortSpec};
    use crate::expr::FunctionRegistry;
    use crate::graph::{EdgeRole, JobGraph};
    use crate::job::{JobOptions, Services};
    use crate::memory::MemoryManager;
    use crate::operators::{PortId, PortSet};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task's end of an edge in simulated time.
    struct Edge {
        sim: Arc<Sim>,
        job: Arc<JobContext>,
        queue: Arc<InputQueue>,
        partitions: Vec<ResultPartition>,
        flusher: Flusher,
        wakes: Arc<Wakes>,
    }

    impl Edge {
        fn new(own: Option<BufferTimeout>, buffer_timeout: BufferTimeout) -> Self {
            let sim = Sim::new(1);
            let memory = MemoryManager::unlimited();
            let services = Services {
                env: sim.clone(),
                memory: memory.clone(),
                functions: FunctionRegistry::built_in(),
                sources: Default::default(),
                sinks: Default::default(),
                windowings: Default::default(),
            };
            let options = JobOptions { buffer_timeout, continuous: true, ..JobOptions::default() };
            let job = JobContext::new(1, &JobGraph::default(), options, services);
            let port = PortSpec::of_operators(1, PortKind::Pipelined);
            let queue = InputQueue::new(&[port], 1 << 20, &memory);
            let target = Target { queue: queue.clone(), port: PortId(0), channel: 0 };
            let partition = ResultPartition::new(Shipping::Single, vec![target], EdgeRole::Data)
                .with_gathering(Gathering::Buffers { rows: 1_000 });
            let flusher = Flusher::new(VertexId(3), 1, own);
            let wakes = Arc::default();
            Edge { sim, job, queue, partitions: vec![partition], flusher, wakes }
        }

        /// A step that wrote a column, or none, and the look after it. Gives the rows that arrived.
        fn step(&mut self, column: Option<ArrayRef>) -> Result<usize> {
            let waker = Waker::from(self.wakes.clone());
            if let Some(column) = column {
                let batch = Batch::new(vec![column.clone()], column.len());
                self.partitions[0].emit(StreamElement::Batch(batch))?;
            }
            self.flusher.look(&mut self.partitions, &self.job, &waker)?;
            assert_eq!(self.partitions[0].drain(&waker)?, Drained::Yes);
            let mut rows = 0;
            while let Some(arrival) = self.queue.poll(PortSet::Any, Waker::noop()) {
                if let StreamElement::Batch(batch) = arrival.element {
                    rows += batch.num_rows();
                }
            }
            Ok(rows)
        }

        fn wakes(&self) -> usize {
            self.wakes.0.load(Ordering::Relaxed)
        }
    }

    fn numbers(rows: i64) -> Option<ArrayRef> {
        Some(Arc::new(Int64Array::from_iter_values(0..rows)))
    }

    #[test]
    fn rows_leave_when_their_buffer_has_waited_and_one_timer_wakes_the_task() {
        let mut edge = Edge::new(None, BufferTimeout::Micros(100));
        assert_eq!(edge.step(numbers(2)).unwrap(), 0);
        edge.sim.advance_us(60);
        assert_eq!(edge.step(numbers(3)).unwrap(), 0);
        assert_eq!((edge.wakes(), edge.flusher.due_in_ns(60_000)), (0, Some(40_000)));
        edge.sim.advance_us(40);
        assert_eq!((edge.wakes(), edge.step(None).unwrap()), (1, 5));
        edge.sim.advance_us(1_000_000);
        assert_eq!((edge.wakes(), edge.step(None).unwrap()), (1, 0), "no rows, no timer");
        assert_eq!(edge.step(numbers(600)).unwrap(), 600, "a full buffer does not wait");
        assert_eq!(edge.flusher.to_string(), "flusher-3-1");
    }

    #[test]
    fn the_timeout_of_the_operators_goes_before_that_of_the_job() {
        let mut edge = Edge::new(Some(BufferTimeout::AtOnce), BufferTimeout::Never);
        assert_eq!(edge.step(numbers(2)).unwrap(), 2);
        let mut edge = Edge::new(Some(BufferTimeout::Never), BufferTimeout::Micros(1));
        assert_eq!(edge.step(numbers(2)).unwrap(), 0);
        edge.sim.advance_us(1_000_000);
        assert_eq!((edge.wakes(), edge.step(None).unwrap()), (0, 0), "full buffers only");
        let mut edge = Edge::new(None, BufferTimeout::AtOnce);
        assert_eq!(edge.step(numbers(2)).unwrap(), 2);
    }

    #[test]
    fn an_error_in_flushing_reaches_the_task_that_wrote_the_rows() {
        let mut edge = Edge::new(None, BufferTimeout::Micros(10));
        assert_eq!(edge.step(numbers(2)).unwrap(), 0);
        // Rows of two types cannot become one buffer.
        assert_eq!(edge.step(Some(Arc::new(StringArray::from(vec!["a"])))).unwrap(), 0);
        edge.sim.advance_us(10);
        assert!(edge.step(None).is_err());
    }
}
