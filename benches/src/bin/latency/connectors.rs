//! The source that sends lines on time and the sink that measures how late they are.
//!
//! The source copies each line into the buffer that it sends, and the sink reads every byte that arrives.

use std::sync::Arc;
use std::sync::OnceLock;

use arrow::array::{Array, AsArray, Int64Array, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::Int64Type;
use parking_lot::Mutex;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::{OperatorContext, WaitReason};
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::source::{Source, SourceConnector, SourceOutput, SourceReader, SourceSpec};
use thalweg_runtime::{Batch, Result};

use crate::histogram::Histogram;
use crate::lines::{LINE_BYTES, Lines, Tally, mixed};
use crate::pace::{Pace, TICK_NS};

/// Distinct keys of the lines.
const KEYS: u64 = 10_000;

/// What one run shares: what is to be sent, and what was.
pub struct Run {
    /// The lines.
    pub lines: Arc<Lines>,
    /// Lines a second; 0 is as many as possible.
    pub events_per_second: u64,
    /// How long lines are sent.
    pub length_ns: u64,
    /// Lines that were due before are not measured.
    pub warm_up_ns: u64,
    /// Subtasks that send.
    pub senders: usize,
    /// When the first subtask began, in nanoseconds of the environment's clock.
    pub start_ns: OnceLock<u64>,
    /// Lines that were sent.
    pub sent: Mutex<u64>,
    /// Matches among them.
    pub expected: Mutex<Tally>,
    /// Matches that arrived, and how late they were.
    pub arrived: Mutex<(Tally, Histogram)>,
}

impl Run {
    /// Nanoseconds since the start, on the environment's clock.
    fn now_ns(&self, cx: &OperatorContext<'_>) -> u64 {
        let now = cx.job.env.monotonic_ns();
        now - *self.start_ns.get_or_init(|| now)
    }
}

/// Both ends of a run.
#[derive(Clone)]
pub struct Connector(pub Arc<Run>);

impl SourceConnector for Connector {
    fn open(&self, _spec: &SourceSpec, _job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Source for Connector {
    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        let run = self.0.clone();
        let pace = Pace {
            events_per_second: run.events_per_second,
            sender: subtask as u64,
            senders: run.senders as u64,
            length_ns: run.length_ns,
        };
        // Subtasks begin at different places of the pool, so that they send different lines.
        let first = run.lines.len() / run.senders * subtask;
        Ok(Box::new(Reader { run, pace, first, sent: 0, next_look_ns: 0 }))
    }

    fn progress(&self) -> Option<(u64, u64)> {
        None
    }

    fn pending_from_us(&self) -> Option<i64> {
        None
    }
}

struct Reader {
    run: Arc<Run>,
    pace: Pace,
    first: usize,
    sent: u64,
    next_look_ns: u64,
}

/// Lines in a batch.
pub const BATCH_ROWS: u64 = 8192;

impl Reader {
    /// The next lines, copied into buffers of their own, with the time they are due.
    fn batch(&mut self, rows: u64, now_ns: u64, arrived_us: i64) -> Result<Batch> {
        let pool = self.run.lines.len();
        let at = ((self.first as u64 + self.sent) % pool as u64) as usize;
        let bytes = self.run.lines.stretch(at, rows as usize).to_vec();
        let rows = bytes.len() / LINE_BYTES;
        let numbers = self.sent..self.sent + rows as u64;
        let due = |n| if self.pace.is_unbounded() { now_ns } else { self.pace.due_ns(n) };
        let times = Int64Array::from_iter_values(numbers.clone().map(|n| due(n) as i64));
        let key = |n: u64| ((u128::from(mixed(n)) * u128::from(KEYS)) >> 64) as i64;
        let keys = Int64Array::from_iter_values(numbers.map(key));
        let offsets = OffsetBuffer::from_repeated_length(LINE_BYTES, rows);
        let texts = StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?;
        self.sent += rows as u64;
        let mut batch = Batch::new(vec![Arc::new(times), Arc::new(keys), Arc::new(texts)], rows);
        batch.ingest_time_us = arrived_us;
        Ok(batch)
    }

    fn end(&self) -> SourceOutput {
        *self.run.sent.lock() += self.sent;
        let mut expected = self.run.expected.lock();
        *expected = expected.plus(self.run.lines.matches(self.first, self.sent));
        SourceOutput::Finished
    }
}

impl SourceReader for Reader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        let (now_ns, arrived_us) = (self.run.now_ns(cx), cx.job.env.now_us());
        if self.pace.is_unbounded() {
            return match now_ns < self.pace.length_ns {
                true => self.batch(BATCH_ROWS, now_ns, arrived_us).map(SourceOutput::Batch),
                false => Ok(self.end()),
            };
        }
        let due = self.pace.due_before(now_ns) - self.sent;
        if due == 0 && now_ns >= self.pace.length_ns {
            return Ok(self.end());
        }
        if due == 0 || now_ns < self.next_look_ns {
            let next_ns = self.next_look_ns.max(self.pace.due_ns(self.sent) + 1);
            let start_ns = cx.job.env.monotonic_ns() - now_ns;
            cx.job.env.wake_at(start_ns + next_ns, cx.waker.clone());
            return Ok(SourceOutput::Wait(WaitReason::Io));
        }
        if due <= BATCH_ROWS {
            self.next_look_ns = now_ns + TICK_NS;
        }
        self.batch(due.min(BATCH_ROWS), now_ns, arrived_us).map(SourceOutput::Batch)
    }

    fn is_at_cut(&self) -> bool {
        true
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Ok(self.sent.to_le_bytes().to_vec())
    }

    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl SinkConnector for Connector {
    fn writer(
        &self,
        _options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let run = self.0.clone();
        Ok(Box::new(Writer { run, tally: Tally::default(), histogram: Histogram::default() }))
    }
}

struct Writer {
    run: Arc<Run>,
    tally: Tally,
    histogram: Histogram,
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        let now_ns = self.run.now_ns(cx);
        for due_ns in batch.column(0).as_primitive::<Int64Type>().values() {
            if *due_ns as u64 >= self.run.warm_up_ns {
                self.histogram.record(now_ns.saturating_sub(*due_ns as u64));
            }
        }
        let lines = batch.column(1).as_string::<i32>();
        (0..lines.len()).for_each(|row| self.tally.take(lines.value(row).as_bytes()));
        Ok(SinkPoll::Ready)
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        let mut arrived = self.run.arrived.lock();
        arrived.0 = arrived.0.plus(std::mem::take(&mut self.tally));
        arrived.1.add(&std::mem::take(&mut self.histogram));
        Ok(true)
    }
}
