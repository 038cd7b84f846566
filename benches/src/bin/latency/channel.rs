//! The yardstick: two threads and a channel of the standard library, with the same lines at the same pace.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::lines::{LINE_BYTES, Lines};
use crate::pace::{Pace, TICK_NS};

/// Latencies of lines that were due after `warm_up_ns`, in nanoseconds from the time they were due.
pub fn measure(lines: &Arc<Lines>, pace: Pace, warm_up_ns: u64) -> Histogram {
    let (sender, receiver) = channel::<(u64, [u8; LINE_BYTES])>();
    let start = Instant::now();
    let since_start = move || start.elapsed().as_nanos() as u64;
    let lines = lines.clone();
    let sending = std::thread::spawn(move || {
        let (mut sent, total) = (0, pace.due_before(u64::MAX));
        while sent < total {
            let due = pace.due_before(since_start());
            for n in sent..due {
                let line = lines.stretch(n as usize % lines.len(), 1);
                let mut bytes = [0; LINE_BYTES];
                bytes.copy_from_slice(line);
                if sender.send((pace.due_ns(n), bytes)).is_err() {
                    return;
                }
            }
            sent = due;
            std::thread::sleep(Duration::from_nanos(TICK_NS));
        }
    });
    let mut histogram = Histogram::default();
    for (due_ns, bytes) in receiver {
        std::hint::black_box(&bytes);
        if due_ns >= warm_up_ns {
            histogram.record(since_start().saturating_sub(due_ns));
        }
    }
    // A sender that panicked has sent too little, which the receiver cannot see.
    sending.join().expect("the sender does not panic");
    histogram
}
