//! A modest number of random queries under drawn settings; the binary `equivalence` runs as many as one likes.

use thalweg_sql_tests::generate::{Plan, check};

#[test]
fn settings_do_not_change_answers() {
    for seed in 1..=3 {
        let report =
            check(Plan { seed, queries: 25, settings: 3, only: None }).expect("sessions start");
        let failures: Vec<&str> = report.failures.iter().map(|f| f.text.as_str()).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        assert!(
            report.answered > report.refused.len(),
            "most queries must be answered: {:#?}",
            report.refused
        );
    }
}
