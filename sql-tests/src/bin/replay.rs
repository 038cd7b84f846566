//! Replays hours of event time over many keys and prints what the operators kept, hour by hour.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use thalweg_sql_tests::replay::{Size, State, replay};

/// State that a watermark bounds must not grow with the hours that are replayed.
#[derive(Debug, Parser)]
#[command(name = "replay")]
struct Arguments {
    /// Hours of event time.
    #[arg(long, default_value_t = 10)]
    hours: u64,
    /// Different keys.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Rows in a second of event time, up to 1,000.
    #[arg(long, default_value_t = 1_000)]
    rows_per_second: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// What is kept; all in turn if not given.
    #[arg(long)]
    state: Vec<State>,
    /// More growth than this is a failure.
    #[arg(long, default_value_t = 1.25)]
    growth_max: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { hours, keys, rows_per_second, threads, .. } = arguments;
    let size = Size { hours, keys, rows_per_second, threads };
    let states = if arguments.state.is_empty() { State::ALL.to_vec() } else { arguments.state };
    let mut flat = true;
    for state in states {
        let since = Instant::now();
        let curve = match replay(state, size) {
            Ok(curve) => curve,
            Err(message) => {
                eprintln!("Error: {message}");
                return ExitCode::from(2);
            }
        };
        let mib: Vec<String> =
            curve.bytes.iter().map(|bytes| format!("{:.1}", *bytes as f64 / 1_048_576.0)).collect();
        println!(
            "{state}: {} results in {:.1} s; MiB by hours of event time: {}; growth {:.2}",
            curve.rows,
            since.elapsed().as_secs_f64(),
            mib.join(" "),
            curve.growth()
        );
        flat &= curve.growth() <= arguments.growth_max;
    }
    if flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
