//! What was measured at one buffer timeout, and the bounds that hold.

use thalweg_runtime::job::BufferTimeout;

use crate::histogram::Histogram;
use crate::job::{EXCHANGE_BYTES, Measured, Variant};

/// p99 may be this much above that of a bare channel when buffers leave at once, in nanoseconds.
const OVER_CHANNEL_NS: u64 = 1_000_000;

/// Lines a second of CPU time that are wanted at `THROUGHPUT_TIMEOUT_US`.
const THROUGHPUT_MIN: f64 = 5e6;
const THROUGHPUT_TIMEOUT_US: i64 = 50_000;

/// CPU time at once over that of full buffers only, at most; or else the part that the longest wait must save.
const CPU_RATIO_MAX: f64 = 1.2;
const CPU_SAVED_MIN: f64 = 0.3;

/// The runs of one variant with one timeout.
#[derive(Debug, Clone)]
pub struct Point {
    /// Which job.
    pub variant: Variant,
    /// The timeout in microseconds, as the setting gives it.
    pub timeout_us: i64,
    /// At the fixed rate.
    pub paced: Measured,
    /// As fast as possible.
    pub flat_out: Measured,
}

impl Point {
    /// The timeout as it is written.
    pub fn label(&self) -> String {
        label(self.timeout_us)
    }

    /// The line of the table.
    pub fn row(&self) -> String {
        let latency = &self.paced.latency;
        format!(
            "{:6} {:>8} {:>9} {:>9} {:>9} {:>7.2} {:>9.2} {:>9.2} {:>9.0} {:>9} {:016x}",
            self.variant,
            self.label(),
            millis(latency.quantile_ns(0.5)),
            millis(latency.quantile_ns(0.99)),
            millis(latency.greatest_ns()),
            self.paced.cores(),
            self.flat_out.throughput() / 1e6,
            self.flat_out.throughput_a_core() / 1e6,
            self.flat_out.throughput() * EXCHANGE_BYTES as f64 / 1e6,
            self.paced.tally.count + self.flat_out.tally.count,
            self.paced.tally.plus(self.flat_out.tally).checksum,
        )
    }
}

/// The head of the table.
pub fn head() -> String {
    format!(
        "{:6} {:>8} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {}",
        "job",
        "timeout",
        "p50 ms",
        "p99 ms",
        "max ms",
        "cores",
        "Mlines/s",
        "a core",
        "MB/s",
        "matches",
        "checksum"
    )
}

/// A timeout as it is written.
pub fn label(timeout_us: i64) -> String {
    match BufferTimeout::of_micros(timeout_us) {
        BufferTimeout::Never => "-1".to_string(),
        BufferTimeout::AtOnce => "0".to_string(),
        BufferTimeout::Micros(micros) if micros % 1_000 == 0 => format!("{} ms", micros / 1_000),
        BufferTimeout::Micros(micros) => format!("{micros} µs"),
    }
}

/// Nanoseconds as milliseconds.
pub fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// CPU time at a moderate rate: of one variant at once, after a second, and with full buffers only, in cores.
#[derive(Debug, Clone, Copy)]
pub struct CpuCost {
    /// Which job.
    pub variant: Variant,
    /// With buffers that leave at once.
    pub at_once: f64,
    /// With buffers that wait a second.
    pub a_second: f64,
    /// With buffers that leave when they are full.
    pub full_only: f64,
}

impl CpuCost {
    /// The line that is printed.
    pub fn row(&self) -> String {
        format!(
            "{:6} cores at 0: {:.3}, at 1 s: {:.3}, at -1: {:.3}; 0 is {:.2} times -1, 1 s saves {:.0} %",
            self.variant,
            self.at_once,
            self.a_second,
            self.full_only,
            self.ratio(),
            self.saved() * 100.0
        )
    }

    fn ratio(&self) -> f64 {
        self.at_once / self.full_only
    }

    fn saved(&self) -> f64 {
        1.0 - self.a_second / self.at_once
    }
}

/// The bounds that are broken, in words.
pub fn broken(points: &[Point], channel: &Histogram, costs: &[CpuCost]) -> Vec<String> {
    let mut broken = Vec::new();
    let bound_ns = channel.quantile_ns(0.99) + OVER_CHANNEL_NS;
    for point in points {
        let (variant, p99_ns) = (point.variant, point.paced.latency.quantile_ns(0.99));
        if point.timeout_us == 0 && p99_ns > bound_ns {
            let (p99, bound) = (millis(p99_ns), millis(bound_ns));
            broken
                .push(format!("{variant}: p99 at 0 is {p99} ms and should be at most {bound} ms"));
        }
        let rate = point.flat_out.throughput_a_core();
        if point.timeout_us == THROUGHPUT_TIMEOUT_US && rate < THROUGHPUT_MIN {
            let millions = rate / 1e6;
            broken.push(format!("{variant}: {millions:.2} million lines/s a core at 50 ms, not 5"));
        }
    }
    let dear = |c: &&CpuCost| c.ratio() > CPU_RATIO_MAX && c.saved() < CPU_SAVED_MIN;
    broken.extend(costs.iter().filter(dear).map(|cost| format!("CPU time: {}", cost.row())));
    broken
}
