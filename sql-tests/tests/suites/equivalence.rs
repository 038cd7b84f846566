//! Random queries must have one answer, however they are run. The binary `equivalence` runs as many as one likes.
//!
//! Under eight settings of a matrix: every strategy off in turn, one to eight threads, batches of 1, 7, 1,024 and 8,192
//! rows, pipelined and blocking exchanges. As streams: rows in several orders, over several files. With rows that come too
//! late. As views of tables that change.

use thalweg_sql_tests::generate::continuous::{self, Kind, check_views};
use thalweg_sql_tests::generate::{Plan, Report, check};

/// What some seeds come to together; a failure is told in full.
fn all(seeds: u64, check: impl Fn(u64) -> Result<Report, String>) -> Report {
    let mut all = Report::default();
    for seed in 1..=seeds {
        let report = check(seed).expect("sessions start");
        let failures: Vec<&str> = report.failures.iter().map(|f| f.text.as_str()).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        all.answered += report.answered;
        all.refused.extend(report.refused);
    }
    assert!(
        all.answered > 4 * all.refused.len(),
        "most queries must be answered, not {} of {}: {:#?}",
        all.refused.len(),
        all.answered + all.refused.len(),
        all.refused
    );
    all
}

fn plan(seed: u64, queries: usize, settings: usize, late: bool) -> continuous::Plan {
    let kinds = if late { Kind::OF_ONE_TABLE.to_vec() } else { Kind::ALL.to_vec() };
    continuous::Plan { seed, queries, settings, kinds, late, only: None }
}

#[test]
fn settings_do_not_change_answers() {
    let all = all(5, |seed| check(Plan { seed, queries: 60, settings: 8, only: None }));
    assert!(all.answered >= 150);
}

#[test]
fn streams_leave_what_batches_answer() {
    let all = all(8, |seed| continuous::check(&plan(seed, 26, 4, false)));
    assert!(all.answered >= 180);
}

#[test]
fn which_rows_are_late_does_not_depend_on_settings() {
    let all = all(4, |seed| continuous::check(&plan(seed, 15, 6, true)));
    assert!(all.answered >= 50);
}

#[test]
fn views_follow_their_tables() {
    let all = all(4, |seed| check_views(&plan(seed, 24, 1, false)));
    assert!(all.answered >= 70);
}
