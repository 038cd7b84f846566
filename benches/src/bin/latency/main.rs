//! What buffer timeouts do: latency at a fixed rate and throughput of a streaming search, by timeout.
//!
//! `cargo run --release -p thalweg-benches --bin latency` prints a table. Lines come in an open loop: latency counts
//! from the time that a line was due, whether or not the job was behind. Other work on the machine shows in the figures;
//! of several runs the best is kept. With `--check` the bounds that the engine is to keep are verified.

mod channel;
mod connectors;
mod cpu;
mod histogram;
mod job;
mod lines;
mod pace;
mod plot;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use thalweg_runtime::Result;
use thalweg_runtime::job::BufferTimeout;

use crate::histogram::Histogram;
use crate::job::{Load, Measured, Variant, measure};
use crate::lines::Lines;
use crate::pace::Pace;
use crate::report::{CpuCost, Point, broken, label, millis};

/// The allocator of the shell, so that both are measured alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The timeouts that are compared, in microseconds.
const TIMEOUTS_US: [i64; 7] = [0, 1_000, 5_000, 10_000, 50_000, 100_000, -1];

/// A rate at which a job has little to do, in lines a second.
const MODERATE_RATE: u64 = 100_000;

/// The timeout of a second, in microseconds.
const SECOND_US: i64 = 1_000_000;

#[derive(Debug, Parser)]
#[command(about = "Latency and throughput by buffer timeout")]
struct Arguments {
    /// Lines a second at which latency is measured.
    #[arg(long, default_value_t = 500_000)]
    events_per_second: u64,
    /// Seconds of each run, without a warm-up of a quarter of that.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Runs of each kind, of which the best is kept.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Draws the plot into a file.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Also measures with timeouts that are steered towards this latency, in milliseconds.
    #[arg(long)]
    latency_target: Option<u64>,
    /// Ends with status 1 if a bound is broken.
    #[arg(long)]
    check: bool,
    /// Measures one timeout in milliseconds alone; may be given several times.
    #[arg(long, allow_negative_numbers = true)]
    timeout: Vec<i64>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all that was checked holds.
fn run(arguments: &Arguments) -> Result<bool> {
    let bench = Bench { lines: Arc::new(Lines::generate()), arguments };
    let channel = bench.channel();
    println!(
        "bare channel at {} lines/s: p50 {} ms, p99 {} ms, max {} ms",
        arguments.events_per_second,
        millis(channel.quantile_ns(0.5)),
        millis(channel.quantile_ns(0.99)),
        millis(channel.greatest_ns())
    );
    println!("{}", report::head());
    let mut points = Vec::new();
    for variant in Variant::ALL {
        for timeout_us in bench.timeouts_us() {
            let point = bench.point(variant, timeout_us)?;
            println!("{}", point.row());
            points.push(point);
        }
    }
    if let Some(target_ms) = arguments.latency_target {
        bench.print_steered(target_ms * 1_000)?;
    }
    let costs = Variant::ALL.map(|variant| bench.cost(variant));
    let costs = costs.into_iter().collect::<Result<Vec<_>>>()?;
    println!("at {MODERATE_RATE} lines/s");
    costs.iter().for_each(|cost| println!("{}", cost.row()));
    if let Some(path) = &arguments.svg {
        let svg = plot::svg(&points, arguments.events_per_second);
        std::fs::write(path, svg)
            .map_err(|e| thalweg_runtime::Error::io("writing the plot", &e))?;
    }
    let broken = broken(&points, &channel, &costs);
    if arguments.check {
        broken.iter().for_each(|bound| println!("broken: {bound}"));
        println!("{}", if broken.is_empty() { "all bounds hold" } else { "bounds are broken" });
    }
    Ok(broken.is_empty() || !arguments.check)
}

struct Bench<'a> {
    lines: Arc<Lines>,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn timeouts_us(&self) -> Vec<i64> {
        match self.arguments.timeout.as_slice() {
            [] => TIMEOUTS_US.to_vec(),
            given => given.iter().map(|&ms| if ms < 0 { ms } else { ms * 1_000 }).collect(),
        }
    }

    fn warm_up_ns(&self) -> u64 {
        (self.arguments.seconds * 0.25e9) as u64
    }

    fn load(&self, events_per_second: u64, timeout_us: i64) -> Load {
        Load {
            events_per_second,
            length_ns: (self.arguments.seconds * 1e9) as u64 + self.warm_up_ns(),
            warm_up_ns: self.warm_up_ns(),
            buffer_timeout: BufferTimeout::of_micros(timeout_us),
            latency_target_us: 0,
        }
    }

    /// The best of several runs, where less is better.
    fn best(
        &self,
        variant: Variant,
        load: Load,
        by: impl Fn(&Measured) -> f64,
    ) -> Result<Measured> {
        let mut best = measure(&self.lines, variant, load)?;
        for _ in 1..self.arguments.runs {
            let next = measure(&self.lines, variant, load)?;
            if by(&next) < by(&best) {
                best = next;
            }
        }
        Ok(best)
    }

    fn channel(&self) -> Histogram {
        let load = self.load(self.arguments.events_per_second, 0);
        let pace = Pace {
            events_per_second: load.events_per_second,
            sender: 0,
            senders: 1,
            length_ns: load.length_ns,
        };
        let runs = (0..self.arguments.runs.max(1))
            .map(|_| channel::measure(&self.lines, pace, load.warm_up_ns));
        runs.min_by_key(|run| run.quantile_ns(0.99)).unwrap_or_default()
    }

    fn point(&self, variant: Variant, timeout_us: i64) -> Result<Point> {
        let paced = self.load(self.arguments.events_per_second, timeout_us);
        let flat_out = self.load(0, timeout_us);
        Ok(Point {
            variant,
            timeout_us,
            paced: self.best(variant, paced, |m| m.latency.quantile_ns(0.99) as f64)?,
            flat_out: self.best(variant, flat_out, |m| -m.throughput_a_core())?,
        })
    }

    fn print_steered(&self, target_us: u64) -> Result<()> {
        for variant in Variant::ALL {
            let load = Load {
                latency_target_us: target_us,
                ..self.load(self.arguments.events_per_second, TIMEOUTS_US[5])
            };
            let steered = self.best(variant, load, |m| m.latency.quantile_ns(0.99) as f64)?;
            println!(
                "{variant:6} steered to {}: p50 {} ms, p99 {} ms, {:.2} cores",
                label(target_us as i64),
                millis(steered.latency.quantile_ns(0.5)),
                millis(steered.latency.quantile_ns(0.99)),
                steered.cores()
            );
        }
        Ok(())
    }

    /// The least of several runs each. They take turns, so that what else the machine does is in all of them.
    fn cost(&self, variant: Variant) -> Result<CpuCost> {
        let mut least = [f64::MAX; 3];
        for _ in 0..self.arguments.runs.max(1) {
            for (least, timeout_us) in least.iter_mut().zip([0, SECOND_US, -1]) {
                let measured = measure(&self.lines, variant, self.load(MODERATE_RATE, timeout_us))?;
                *least = least.min(measured.cores());
            }
        }
        let [at_once, a_second, full_only] = least;
        Ok(CpuCost { variant, at_once, a_second, full_only })
    }
}
