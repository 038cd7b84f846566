//! Continuous queries with known output, where their files are at hand: run in batch and as streams.

use std::path::Path;
use std::time::Duration;

use thalweg_sql_tests::golden::{InProcess, Outcome, Suite, check};

/// What the queries that call functions of their own mean by them.
const FUNCTIONS: &str = "CREATE MACRO double_negative(x) AS -2 * x;\n";

/// Queries whose functions, or whose approximations, are not ours.
const SKIPPED: [&str; 2] = ["udaf", "every_aggregate"];

#[test]
fn outputs_are_as_known() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora/08a_arroyo");
    if !folder.is_dir() {
        eprintln!("there are no such queries: \"{}\" is missing", folder.display());
        return;
    }
    let suite = Suite::find(&folder).unwrap();
    for mode in ["automatic", "streaming"] {
        let settings = vec![("execution.runtime_mode".to_string(), mode.to_string())];
        let runs = InProcess { settings, timeout: Duration::from_secs(60) };
        let scratch = tempfile::tempdir().unwrap();
        let mut wrong = Vec::new();
        for case in suite.cases.iter().filter(|case| !SKIPPED.contains(&case.name.as_str())) {
            if let Outcome::Wrong(why) = check(case, &suite, &runs, FUNCTIONS, scratch.path()) {
                wrong.push(format!("{}: {why}", case.name));
            }
        }
        assert!(wrong.is_empty(), "{mode}:\n{}", wrong.join("\n"));
    }
}
