//! The project's own SQL tests, each under several settings: an answer must not depend on them.

use std::path::Path;
use std::time::Duration;

use thalweg_sql_tests::slt::{Dialect, Options, run_file};

const MATRIX: [&[(&str, &str)]; 9] = [
    &[],
    &[("threads", "1")],
    &[("threads", "8"), ("batch_size", "7")],
    &[("threads", "3"), ("execution.exchange_mode", "blocking")],
    &[("threads", "2"), ("optimizer.hash_join", "off")],
    &[("threads", "2"), ("optimizer.sort_merge_join", "off")],
    &[("threads", "2"), ("optimizer.broadcast", "off")],
    &[("threads", "2"), ("optimizer.hash_aggregate", "off")],
    &[("threads", "2"), ("optimizer.runtime_filters", "off"), ("optimizer.join_reordering", "off")],
];

#[test]
fn answers_do_not_depend_on_settings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there are tests in {}", folder.display());
    for settings in MATRIX {
        for file in &files {
            let scratch = tempfile::tempdir().unwrap();
            let options = Options {
                dialect: Dialect::Thalweg,
                settings: settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
                timeout: Duration::from_secs(60),
                scratch: scratch.path().to_path_buf(),
            };
            let report = run_file(file, &options);
            let failures: Vec<String> = report.failures.iter().map(|f| f.to_string()).collect();
            let name = file.display();
            assert!(failures.is_empty(), "{name} with {settings:?}:\n{}", failures.join("\n\n"));
            assert_eq!(report.skipped, 0, "nothing is skipped in {name}");
            assert!(report.passed > 0, "{name} has records");
        }
    }
}
