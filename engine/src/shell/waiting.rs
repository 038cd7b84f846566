//! Waiting for the next rows of a result: for a limited time, without an executor, and not without a word.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use futures::StreamExt;
use futures::executor::block_on;

use super::output::to_stderr;
use crate::error::Result;
use crate::session::{FrameStream, QueryStatus};

/// How long the first row of a continuous query may take before it is said why.
const SILENCE: Duration = Duration::from_secs(10);

/// A result of which no row has come yet.
pub(super) struct Silence {
    began: Instant,
    /// Whether a row has come, or it was said why none has.
    pub(super) broken: bool,
}

impl Silence {
    /// Of a stream that begins; only continuous queries are long silent for a reason worth telling.
    pub(super) fn of(stream: &FrameStream) -> Self {
        Silence { began: Instant::now(), broken: !stream.is_continuous() }
    }

    /// The next rows or the end; says once on standard error why it takes so long for the first ones.
    pub(super) fn wait(&mut self, stream: &mut FrameStream) -> Option<Result<RecordBatch>> {
        if !self.broken {
            let left = SILENCE.saturating_sub(self.began.elapsed());
            if let Some(next) = next_within(stream, left) {
                return next;
            }
            self.broken = true;
            let status = stream.progress_handle().and_then(|query| query.status());
            to_stderr(&why_silent(&status.unwrap_or_default()));
        }
        block_on(stream.next())
    }
}

/// Why a query has no result yet, for a person.
fn why_silent(status: &QueryStatus) -> String {
    let read = status.rows_read;
    let read = format!("{read} row{} read", if read == 1 { "" } else { "s" });
    let watermark = match &status.watermark {
        Some(watermark) => format!("the watermark is at {watermark}"),
        None => "there is no watermark".to_string(),
    };
    let holder = status.held_back_by.as_ref().map(|holder| format!(", held back by {holder}"));
    let holder = holder.unwrap_or_default();
    format!("Note: no result yet: {read}, {watermark}{holder}")
}

/// Lets a thread go on.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The next rows, or the end, as the stream gives them; `None` if neither comes within the time.
pub(super) fn next_within(
    stream: &mut FrameStream,
    at_most: Duration,
) -> Option<Option<Result<RecordBatch>>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let until = Instant::now() + at_most;
    loop {
        if let Poll::Ready(next) = stream.poll_next_unpin(&mut Context::from_waker(&waker)) {
            return Some(next);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_explained_by_what_holds_time_back() {
        let status = QueryStatus {
            rows_read: 1,
            watermark: None,
            late_rows: 0,
            held_back_by: Some("t, a.csv: no row yet".into()),
        };
        let wanted = "Note: no result yet: 1 row read, there is no watermark, held back by t, a.csv: no row yet";
        assert_eq!(why_silent(&status), wanted);
    }
}
