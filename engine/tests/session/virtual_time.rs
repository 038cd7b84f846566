//! Windows of processing time over a clock that moves only when a generator waits for it: which rows are in which window
//! is known to the microsecond. The generator gives an event each 10 ms, and the clock starts at the time that the first
//! one carries, so that an event comes at the time that it carries, or at the next tick of the clock.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;

use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use thalweg::Session;
use thalweg_runtime::env::{Environment, IoJob, ReadFile, System};

/// 2015-07-15 00:00:00.01 UTC, the time of the generator's first event.
const START_US: i64 = 1_436_918_400_010_000;

/// The first one that waits moves the clock to the next tick at which its time has come.
#[derive(Debug)]
struct Ticking {
    passed_us: AtomicI64,
    tick_us: i64,
    system: Arc<System>,
}

impl Environment for Ticking {
    fn now_us(&self) -> i64 {
        START_US + self.passed_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.passed_us.load(Ordering::Relaxed)).unwrap_or(0) * 1_000
    }

    fn random_u64(&self) -> u64 {
        self.system.random_u64()
    }

    fn spawn_io(&self, job: IoJob) {
        self.system.spawn_io(job);
    }

    fn wake_at(&self, at_ns: u64, waker: Waker) {
        let at_us = i64::try_from(at_ns.div_ceil(1_000)).expect("a test is short");
        let tick = (at_us + self.tick_us - 1) / self.tick_us * self.tick_us;
        self.passed_us.fetch_max(tick, Ordering::Relaxed);
        waker.wake();
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.system.open_file(path)
    }
}

fn session(tick_ms: i64) -> Session {
    let clock =
        Ticking { passed_us: AtomicI64::new(0), tick_us: tick_ms * 1_000, system: System::new() };
    let session = Session::builder()
        .environment(Arc::new(clock))
        // Nobody but the generator waits.
        .set("buffer_timeout", "-1")
        .build()
        .expect("the settings are right");
    run(
        &session,
        "CREATE TABLE events (event_type INT, bid ROW<auction BIGINT, bidder BIGINT>, `dateTime` TIMESTAMP) \
         WITH ('connector' = 'nexmark', 'events.num' = '3500', 'first-event.rate' = '100', 'next-event.rate' = '100', \
         'rate-limited' = 'true')",
    );
    session
}

fn run(session: &Session, sql: &str) -> Vec<RecordBatch> {
    block_on(async { session.sql(sql).await?.collect().await })
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn rows(session: &Session, sql: &str) -> Vec<String> {
    let text = pretty_format_batches(&run(session, sql)).unwrap().to_string();
    let mut rows: Vec<String> =
        text.lines().filter(|line| line.starts_with('|')).skip(1).map(String::from).collect();
    rows.sort();
    rows
}

/// The benchmark's q12: bids of each bidder in windows of ten seconds of processing time.
const Q12: &str = "SELECT bidder, count(*) AS bid_count, window_start AT TIME ZONE 'UTC' AS starttime, \
     window_end AT TIME ZONE 'UTC' AS endtime FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(p_time), INTERVAL '10' SECOND)) \
     GROUP BY bidder, window_start, window_end";

#[test]
fn windows_of_processing_time_hold_the_rows_of_their_time() {
    for (tick_ms, threads, batch_size) in [(10, 1, 8192), (10, 3, 1), (700, 1, 1), (3_000, 2, 16)] {
        let session = session(tick_ms);
        run(&session, &format!("SET threads = {threads}"));
        run(&session, &format!("SET batch_size = {batch_size}"));
        run(&session, "SET execution.runtime_mode = streaming");
        run(
            &session,
            "CREATE VIEW b AS SELECT bid.bidder AS bidder, proctime() AS p_time FROM events WHERE event_type = 2",
        );
        let found = rows(&session, Q12);
        // An event is seen at the first tick that is not before it.
        let seen = format!(
            "date_bin(INTERVAL '{tick_ms} milliseconds', `dateTime` + INTERVAL '{} milliseconds', TIMESTAMP '2015-07-15 00:00:00.01')",
            tick_ms - 1
        );
        let window = format!("date_bin(INTERVAL '10 seconds', {seen}, TIMESTAMP '2015-07-15')");
        run(&session, "SET execution.runtime_mode = batch");
        let expected = rows(
            &session,
            &format!(
                "SELECT bid.bidder AS bidder, count(*) AS bid_count, {window} AS starttime, \
                 {window} + INTERVAL '10 seconds' AS endtime FROM events WHERE event_type = 2 GROUP BY 1, 3, 4"
            ),
        );
        assert!(expected.len() > 20, "{} groups", expected.len());
        assert_eq!(
            found, expected,
            "a tick of {tick_ms} ms, {threads} threads, batches of {batch_size}"
        );
    }
}
