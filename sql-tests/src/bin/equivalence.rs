//! Runs random queries in several ways and reports those whose answers differ: under drawn settings, as streams whose
//! rows arrive in many orders, with rows that come late, and as views of tables that change.

use std::process::ExitCode;

use clap::Parser;
use thalweg_sql_tests::generate::continuous::{self, Kind, check_views};
use thalweg_sql_tests::generate::{Plan, Report, check};

/// Random queries must have the same answer in all the ways they can be run.
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
    /// Continuous queries: what their changes leave is compared with the batch, whatever the order of rows.
    #[arg(long)]
    streams: bool,
    /// Continuous queries over rows that come too late: which ones do must not depend on settings.
    #[arg(long)]
    late: bool,
    /// Materialized views over tables that change.
    #[arg(long)]
    views: bool,
    /// Continuous queries of this kind alone; may be given several times.
    #[arg(long)]
    about: Vec<Kind>,
    /// Prints what was refused.
    #[arg(long)]
    refused: bool,
}

impl Arguments {
    /// What one seed comes to, in all the ways that are asked for.
    fn check(&self, seed: u64) -> Result<Vec<Report>, String> {
        let (queries, settings, only) = (self.queries, self.settings, self.only);
        let mut reports = Vec::new();
        if !(self.streams || self.late || self.views) {
            reports.push(check(Plan { seed, queries, settings, only })?);
        }
        let plan = |late: bool, all: &[Kind]| {
            let mut kinds = self.about.clone();
            if kinds.is_empty() {
                kinds = all.to_vec();
            }
            continuous::Plan { seed, queries, settings, kinds, late, only }
        };
        if self.streams {
            reports.push(continuous::check(&plan(false, &Kind::ALL))?);
        }
        if self.late {
            reports.push(continuous::check(&plan(true, &Kind::OF_ONE_TABLE))?);
        }
        if self.views {
            reports.push(check_views(&plan(false, &Kind::ALL))?);
        }
        Ok(reports)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic is reported with its query; the default hook would print it once more.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut answered, mut refused, mut failed) = (0, 0, 0);
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let reports = match arguments.check(seed) {
            Ok(reports) => reports,
            Err(message) => {
                eprintln!("Error: {message}");
                return ExitCode::from(2);
            }
        };
        for report in reports {
            if arguments.refused {
                report.refused.iter().for_each(|reason| println!("refused: {reason}"));
            }
            report.failures.iter().for_each(|failure| println!("FAILED {}\n", failure.text));
            answered += report.answered;
            refused += report.refused.len();
            failed += report.failures.len();
        }
    }
    println!("{answered} answered, {refused} refused, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
