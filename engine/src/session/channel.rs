//! The way of result rows out of the runtime: a byte-bounded channel between a job's sink and a frame's stream.
//!
//! Invariant: the channel holds at most [`CHANNEL_BYTES_MAX`] bytes, or one batch that is larger. A full channel holds
//! the job back; a reader that goes away ends it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Batch, Error as RuntimeError};

/// Bytes that wait for the reader at most.
const CHANNEL_BYTES_MAX: usize = 4 << 20;

/// The name under which the sink is registered.
pub(crate) const RESULT_SINK: &str = "result";

/// One result's channel.
#[derive(Default)]
pub(crate) struct ResultChannel {
    state: Mutex<ChannelState>,
}

#[derive(Default)]
struct ChannelState {
    batches: VecDeque<(Batch, usize)>,
    bytes: usize,
    reader: Option<Waker>,
    writers: Vec<Waker>,
    closed: bool,
}

/// What a reader finds.
pub(crate) enum Received {
    /// The next rows.
    Batch(Batch),
    /// Nothing now; the waker is registered.
    Pending,
}

impl ResultChannel {
    /// The next batch; registers the waker when there is none.
    pub(crate) fn receive(&self, waker: &Waker) -> Received {
        let mut state = self.state.lock();
        if let Some((batch, bytes)) = state.batches.pop_front() {
            state.bytes -= bytes;
            let writers = std::mem::take(&mut state.writers);
            drop(state);
            writers.into_iter().for_each(Waker::wake);
            return Received::Batch(batch);
        }
        state.reader = Some(waker.clone());
        Received::Pending
    }

    /// Tells the sink that nothing more is wanted.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.batches.clear();
        state.bytes = 0;
        let writers = std::mem::take(&mut state.writers);
        drop(state);
        writers.into_iter().for_each(Waker::wake);
    }

    fn send(&self, batch: Batch, waker: &Waker) -> SinkPoll {
        let bytes = batch.memory_bytes();
        let mut state = self.state.lock();
        if state.closed {
            return SinkPoll::Closed;
        }
        if !state.batches.is_empty() && state.bytes + bytes > CHANNEL_BYTES_MAX {
            state.writers.push(waker.clone());
            return SinkPoll::Full(batch);
        }
        state.bytes += bytes;
        state.batches.push_back((batch, bytes));
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        SinkPoll::Ready
    }
}

/// A job's end wakes the reader as a batch does.
impl Wake for ResultChannel {
    fn wake(self: Arc<Self>) {
        let reader = self.state.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The channels of all running queries, and the sink that finds them by number.
#[derive(Default)]
pub(crate) struct ResultChannels {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<ResultChannel>>>,
}

impl ResultChannels {
    /// A new channel and its number.
    pub(crate) fn open(&self) -> (u64, Arc<ResultChannel>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let channel = Arc::<ResultChannel>::default();
        self.open.lock().insert(id, channel.clone());
        (id, channel)
    }

    /// Forgets a channel that nobody reads any more.
    pub(crate) fn close(&self, id: u64) {
        if let Some(channel) = self.open.lock().remove(&id) {
            channel.close();
        }
    }
}

impl SinkConnector for ResultChannels {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>, RuntimeError> {
        let id = options.get("channel").and_then(serde_json::Value::as_u64);
        let channel = id.and_then(|id| self.open.lock().get(&id).cloned()).unwrap_or_else(|| {
            // The reader has gone before the job began.
            let channel = Arc::<ResultChannel>::default();
            channel.close();
            channel
        });
        Ok(Box::new(ResultWriter { channel }))
    }
}

struct ResultWriter {
    channel: Arc<ResultChannel>,
}

impl SinkWriter for ResultWriter {
    fn write(
        &mut self,
        batch: Batch,
        cx: &mut OperatorContext<'_>,
    ) -> Result<SinkPoll, RuntimeError> {
        Ok(self.channel.send(batch, cx.waker))
    }

    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool, RuntimeError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    fn batch(rows: usize) -> Batch {
        Batch::new(vec![Arc::new(Int64Array::from(vec![1; rows]))], rows)
    }

    #[test]
    fn a_full_channel_refuses_until_it_is_read() {
        let channel = Arc::<ResultChannel>::default();
        let waker = Waker::noop();
        assert!(
            matches!(channel.send(batch(1 << 20), waker), SinkPoll::Ready),
            "one batch may be larger"
        );
        assert!(matches!(channel.send(batch(1), waker), SinkPoll::Full(_)));
        assert!(matches!(channel.receive(waker), Received::Batch(_)));
        assert!(matches!(channel.send(batch(1), waker), SinkPoll::Ready));
        assert!(matches!(channel.receive(waker), Received::Batch(_)));
        assert!(matches!(channel.receive(waker), Received::Pending));
    }

    #[test]
    fn a_closed_channel_wants_nothing() {
        let channels = ResultChannels::default();
        let (id, channel) = channels.open();
        assert!(matches!(channel.send(batch(1), Waker::noop()), SinkPoll::Ready));
        channels.close(id);
        assert!(matches!(channel.send(batch(1), Waker::noop()), SinkPoll::Closed));
        assert!(matches!(channel.receive(Waker::noop()), Received::Pending));
    }
}
