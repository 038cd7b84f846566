//! The progress line: on a terminal's stderr, for queries that take longer than a second.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::session::ProgressHandle;

/// How long a query runs before its progress is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(200);

/// Columns of the bar.
const BAR_WIDTH: usize = 30;

/// Shows a query's progress until it is dropped.
pub struct ProgressLine {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Begins to watch a query; nothing when stderr is no terminal.
    pub fn show(query: ProgressHandle) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        let shared = stop.clone();
        let thread = thread::Builder::new()
            .name("progress".to_string())
            .spawn(move || draw(&query, &shared))
            .ok();
        Some(ProgressLine { stop, thread })
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A line that could not be drawn is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn draw(query: &ProgressHandle, (stopped, changed): &(Mutex<bool>, Condvar)) {
    let start = Instant::now();
    let mut drawn = false;
    let mut pace = Pace::default();
    let mut stop = stopped.lock();
    while !*stop {
        let wait = if drawn {
            INTERVAL
        } else {
            SHOWN_AFTER.saturating_sub(start.elapsed()).max(INTERVAL)
        };
        changed.wait_for(&mut stop, wait);
        if *stop || start.elapsed() < SHOWN_AFTER {
            continue;
        }
        drawn = true;
        let line = pace.line(query.progress(), start.elapsed());
        let _ = write!(io::stderr().lock(), "\r{line}\x1b[K");
    }
    if drawn {
        let _ = write!(io::stderr().lock(), "\r\x1b[K");
    }
}

/// How far the query was when it last moved on.
#[derive(Debug, Default)]
struct Pace {
    share: f64,
    seconds: f64,
}

impl Pace {
    /// The line of a moment. It never says 100 % before the end. The rest is estimated from the time that the share took
    /// which is done, and runs down while nothing moves; a share that has stood still for as long as it took says nothing
    /// any more, and is not shown.
    fn line(&mut self, progress: Option<(u64, u64)>, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let Some((done, all)) = progress.filter(|(_, all)| *all > 0) else {
            return format!("running, {seconds:.0} s");
        };
        let share = (done as f64 / all as f64).clamp(0.0, 0.99);
        if share != self.share || self.seconds == 0.0 {
            *self = Pace { share, seconds };
        }
        let still = seconds - self.seconds;
        if share > 0.0 && still > self.seconds {
            return format!("running, {seconds:.0} s");
        }
        let filled = (share * BAR_WIDTH as f64) as usize;
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
        let left = self.seconds / share - self.seconds - still;
        let left = match share > 0.02 && left >= 0.0 {
            true => format!(", about {left:.0} s left"),
            false => String::new(),
        };
        format!("{bar} {:2.0} %, {seconds:.0} s{left}", share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(progress: Option<(u64, u64)>, seconds: u64) -> String {
        Pace::default().line(progress, Duration::from_secs(seconds))
    }

    #[test]
    fn the_line_never_says_that_all_is_done() {
        let text = line(Some((10, 10)), 4);
        assert!(text.contains("99 %"), "{text}");
        assert_eq!(line(None, 4), "running, 4 s");
        assert_eq!(line(Some((0, 0)), 4), "running, 4 s");
        assert!(line(Some((1, 4)), 3).ends_with("25 %, 3 s, about 9 s left"));
    }

    #[test]
    fn the_time_left_does_not_grow_while_nothing_moves() {
        let mut pace = Pace::default();
        let mut at = |done, seconds| pace.line(Some((done, 4)), Duration::from_secs(seconds));
        assert!(at(1, 10).ends_with("25 %, 10 s, about 30 s left"));
        assert!(at(1, 15).ends_with("25 %, 15 s, about 25 s left"));
        assert_eq!(at(1, 21), "running, 21 s");
        assert!(at(2, 22).ends_with("50 %, 22 s, about 22 s left"));
        assert!(at(3, 40).ends_with("75 %, 40 s, about 13 s left"));
        assert!(at(3, 60).ends_with("75 %, 60 s"));
    }
}
