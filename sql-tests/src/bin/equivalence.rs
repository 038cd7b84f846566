//! Runs random queries under drawn settings and reports those on which the settings disagree.

use std::process::ExitCode;

use clap::Parser;
use thalweg_sql_tests::generate::{Plan, check};

/// Random queries must have the same answer under all settings.
#[derive(Debug, Parser)]
#[command(name = "equivalence")]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Queries of each seed.
    #[arg(long, default_value_t = 300)]
    queries: usize,
    /// Settings that each query runs under.
    #[arg(long, default_value_t = 8)]
    settings: usize,
    /// Runs this query of the seed alone.
    #[arg(long)]
    only: Option<usize>,
    /// Prints what was refused.
    #[arg(long)]
    refused: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic is reported with its query; the default hook would print it once more.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut answered, mut refused, mut failed) = (0, 0, 0);
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let plan = Plan {
            seed,
            queries: arguments.queries,
            settings: arguments.settings,
            only: arguments.only,
        };
        let report = match check(plan) {
            Ok(report) => report,
            Err(message) => {
                eprintln!("Error: {message}");
                return ExitCode::from(2);
            }
        };
        if arguments.refused {
            report.refused.iter().for_each(|reason| println!("refused: {reason}"));
        }
        report.failures.iter().for_each(|failure| println!("FAILED {}\n", failure.text));
        answered += report.answered;
        refused += report.refused.len();
        failed += report.failures.len();
    }
    println!("{answered} answered, {refused} refused, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
