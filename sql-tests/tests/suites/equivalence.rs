//! 300 random queries, each under eight settings of a matrix: every strategy off in turn, one to eight threads, batches
//! of 1, 7, 1,024 and 8,192 rows, pipelined and blocking exchanges. The binary `equivalence` runs as many as one likes.

use thalweg_sql_tests::generate::{Plan, check};

const SEEDS: u64 = 5;
const QUERIES_A_SEED: usize = 60;
const SETTINGS_A_QUERY: usize = 8;

#[test]
fn settings_do_not_change_answers() {
    let (mut answered, mut refused) = (0, Vec::new());
    for seed in 1..=SEEDS {
        let plan = Plan { seed, queries: QUERIES_A_SEED, settings: SETTINGS_A_QUERY, only: None };
        let report = check(plan).expect("sessions start");
        let failures: Vec<&str> = report.failures.iter().map(|f| f.text.as_str()).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        answered += report.answered;
        refused.extend(report.refused);
    }
    assert!(answered > refused.len(), "most queries must be answered: {refused:#?}");
}
