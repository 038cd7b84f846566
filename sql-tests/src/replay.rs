//! Hours of event time replayed as fast as they can be, over many keys: what a query keeps once windows close.
//!
//! A generator gives rows whose times rise by the same step, a little out of order, with keys by chance, in one split: of
//! several one may run ahead, and what it brings has to be kept. [`replay`] reads a query's results and notes for each hour of event time the most bytes that operators had reserved while results of that
//! hour came. State that a watermark bounds does not grow with the number of hours ([`Curve::growth`]); nothing here looks
//! at a clock.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use futures::StreamExt;
use futures::executor::block_on;
use thalweg::Session;

const HOUR_US: i64 = 3_600_000_000;

/// What is kept while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Groups of windows of ten minutes.
    Tumble,
    /// Groups of windows of half an hour that begin each ten minutes.
    Hop,
    /// Distinct values in windows of ten minutes.
    Distinct,
    /// Rows of two streams that may still match: they do within a minute.
    IntervalJoin,
}

impl State {
    /// All of them.
    pub const ALL: [State; 4] = [State::Tumble, State::Hop, State::Distinct, State::IntervalJoin];

    fn name(self) -> &'static str {
        match self {
            State::Tumble => "tumble",
            State::Hop => "hop",
            State::Distinct => "distinct",
            State::IntervalJoin => "interval-join",
        }
    }

    /// A query whose first column is the time of a result.
    fn query(self) -> &'static str {
        match self {
            State::Tumble => {
                "SELECT window_end, k, count(*), sum(v) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), \
                 INTERVAL '10' MINUTE) GROUP BY window_start, window_end, k"
            }
            State::Hop => {
                "SELECT window_end, k, count(*), max(v) FROM HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTE, \
                 INTERVAL '30' MINUTE) GROUP BY window_start, window_end, k"
            }
            State::Distinct => {
                "SELECT window_end, v, count(DISTINCT k) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), \
                 INTERVAL '10' MINUTE) GROUP BY window_start, window_end, v"
            }
            State::IntervalJoin => {
                "SELECT l.ts, l.k, r.v FROM events AS l JOIN events AS r ON l.k = r.k \
                 AND r.ts BETWEEN l.ts - INTERVAL '1' MINUTE AND l.ts AND l.v <> r.v"
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = State::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| format!("there are {}", State::ALL.map(State::name).join(", ")))
    }
}

/// How much to replay.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Hours of event time.
    pub hours: u64,
    /// Different keys.
    pub keys: u64,
    /// Rows in a second of event time, at most 1,000.
    pub rows_per_second: u64,
    /// Threads of the session.
    pub threads: usize,
}

/// What the operators kept, by hours of event time.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// The most bytes that were reserved while results of an hour came, the first hour first.
    pub bytes: Vec<usize>,
    /// Results.
    pub rows: u64,
}

impl Curve {
    /// The most of the last hours by the most of those before: at most about 1 where state is bounded, and 1.6 where each
    /// hour leaves the same behind. The first hours fill buffers, so that they alone say little.
    pub fn growth(&self) -> f64 {
        let most = |hours: &[usize]| hours.iter().copied().max().unwrap_or_default().max(1) as f64;
        let (first, later) = self.bytes.split_at(self.bytes.len() * 6 / 10);
        most(later) / most(first)
    }
}

/// Replays a query's input and reads its results.
///
/// # Errors
/// The engine's message.
pub fn replay(state: State, size: Size) -> Result<Curve, String> {
    let text = |error: thalweg::Error| error.to_string();
    let session = Session::builder()
        .threads(size.threads)
        .set("execution.runtime_mode", "streaming")
        .build()
        .map_err(text)?;
    let run = |sql: &str| block_on(async { session.sql(sql).await?.collect().await }).map_err(text);
    run(&declaration(size))?;
    let mut hours: BTreeMap<i64, usize> = BTreeMap::new();
    let mut curve = Curve::default();
    block_on(async {
        let mut stream = session.sql(state.query()).await?.stream()?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            curve.rows += batch.num_rows() as u64;
            if let Some(latest) = latest_us(&batch) {
                let most = hours.entry(latest.div_euclid(HOUR_US)).or_default();
                *most = (*most).max(session.reserved_bytes());
            }
        }
        Ok(())
    })
    .map_err(text)?;
    curve.bytes = hours.into_values().collect();
    Ok(curve)
}

/// The latest time in the first column, one unit before, so that the end of an hour is within it.
fn latest_us(batch: &RecordBatch) -> Option<i64> {
    let times = batch.column(0).as_primitive_opt::<TimestampMicrosecondType>()?;
    times.iter().flatten().max().map(|at| at - 1)
}

fn declaration(size: Size) -> String {
    let step_ms = 1_000 / size.rows_per_second.clamp(1, 1_000);
    let rows = size.hours * 3_600_000 / step_ms;
    format!(
        "CREATE TABLE events (k BIGINT, v INT, jitter INT, at TIMESTAMP, ts AS at - jitter * INTERVAL '1 millisecond', \
         WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
         'number-of-rows' = '{rows}', 'seed' = '7', 'splits' = '1', 'fields.k.min' = '0', 'fields.k.max' = '{}', \
         'fields.v.min' = '0', 'fields.v.max' = '9', 'fields.jitter.min' = '0', 'fields.jitter.max' = '4000', \
         'fields.at.kind' = 'sequence', 'fields.at.start' = '2024-01-01 00:00:00', 'fields.at.step' = '{step_ms} ms')",
        size.keys - 1
    )
}
