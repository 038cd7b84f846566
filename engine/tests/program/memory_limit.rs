//! The memory limit is a promise about the process: its largest resident size stays below the limit and what the
//! program takes for itself. A statement that needs more ends with an error that names the largest holders.
//!
//! The program's own share (code, allocator, threads) is measured as what `SELECT 1` takes.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

/// The limit in MB, small enough that every statement below would pass it.
const LIMIT_MB: u64 = 128;

/// What the process may take beyond the limit and its own share, in MB: batches under way between operators, buffers
/// of readers and writers, and free memory that the allocator has not given back yet.
const SLACK_MB: u64 = 96;

/// How often the resident size is looked at when the kernel's own record cannot be had any more.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

struct Run {
    peak_mb: u64,
    succeeded: bool,
    stderr: String,
}

/// Runs a script under a limit; the rows go to a pipe that is read and dropped.
fn run(sql: &str, format: &str, limit_mb: u64) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["--no-rc", "--threads", "2", "--format", format])
        .args(["--memory-limit", &format!("{limit_mb}MB"), "-c", sql])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while stdout.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_mb = 0;
    let status = loop {
        // The kernel's record only grows; the last look before the end tells all but the last moment.
        peak_mb = peak_mb.max(high_water_mb(Path::new(&status_file)));
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        std::thread::sleep(LOOK_INTERVAL);
    };
    reader.join().expect("reading does not panic");
    let mut stderr = String::new();
    let errors = child.stderr.take().expect("it is a pipe").read_to_string(&mut stderr);
    errors.expect("errors are text");
    Run { peak_mb, succeeded: status.success(), stderr }
}

fn high_water_mb(status_file: &Path) -> u64 {
    let status = std::fs::read_to_string(status_file).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|kb| kb.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

static OWN_MB: LazyLock<u64> = LazyLock::new(|| run("SELECT 1", "none", LIMIT_MB).peak_mb);

/// Runs a statement under the limit, to its end or to an error that says who holds the memory.
fn bounded(sql: &str, format: &str) -> Run {
    let run = run(sql, format, LIMIT_MB);
    println!(
        "{} of {LIMIT_MB} + {SLACK_MB} + {} MB, {}: {sql}",
        run.peak_mb, *OWN_MB, run.succeeded
    );
    assert!(run.peak_mb <= LIMIT_MB + SLACK_MB + *OWN_MB, "{} MB, {}", run.peak_mb, run.stderr);
    if !run.succeeded {
        assert!(
            run.stderr.contains("out of memory") && run.stderr.contains("holds"),
            "{}",
            run.stderr
        );
    }
    run
}

/// A Parquet file of 2,000,000 rows, about 60 MB when decoded: a key, one of few, and a text.
fn data() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("there is room for files");
    let path = dir.path().join("data.parquet").display().to_string();
    let sql = format!(
        "COPY (SELECT value AS k, value % 1000 AS few, 'a text of some length ' || value AS s \
         FROM generate_series(1, 2000000)) TO '{path}'"
    );
    let written = run(&sql, "none", 512);
    assert!(written.succeeded, "{}", written.stderr);
    (dir, path)
}

#[test]
fn scans_and_results() {
    let (_dir, path) = data();
    let scan = bounded(&format!("SELECT count(*), max(s), sum(k) FROM '{path}'"), "csv");
    assert!(scan.succeeded, "{}", scan.stderr);
    for format in ["csv", "jsonl", "none"] {
        let result =
            bounded(&format!("SELECT * FROM '{path}' UNION ALL SELECT * FROM '{path}'"), format);
        assert!(result.succeeded, "a result is handed on as it is read: {}", result.stderr);
    }
}

#[test]
fn groups_joins_and_sorts() {
    let (_dir, path) = data();
    bounded(&format!("SELECT s, count(*), max(k) FROM '{path}' GROUP BY s"), "none");
    bounded(&format!("SELECT k % 500000, array_agg(s) FROM '{path}' GROUP BY 1"), "none");
    bounded(&format!("SELECT count(DISTINCT s), count(DISTINCT k) FROM '{path}'"), "none");
    bounded(&format!("SELECT a.s, b.s FROM '{path}' a JOIN '{path}' b ON a.k = b.k + 1"), "none");
    bounded(&format!("SELECT * FROM '{path}' ORDER BY s DESC"), "none");
    bounded(&format!("SELECT *, sum(k) OVER (ORDER BY s) FROM '{path}'"), "none");
    bounded(&format!("SELECT * FROM '{path}' UNION SELECT k + 1, few, s FROM '{path}'"), "none");
    bounded(
        &format!(
            "SELECT count(*) FROM '{path}' a JOIN '{path}' b ON a.few = b.few AND a.k < b.few"
        ),
        "none",
    );
}

/// What a sort may take beyond the limit and the program's own share, in MB: it keeps nothing that it is not charged
/// for, and only few rows are under way.
const SORT_SLACK_MB: u64 = 40;

/// The MB that a message says holders of this name have, together.
fn held_mb(message: &str, name: &str) -> f64 {
    let words = format!("\"{name}\" holds ");
    let holders = message.split(&words).skip(1);
    holders.filter_map(|rest| rest.split_once(" MB")?.0.parse::<f64>().ok()).sum()
}

#[test]
fn long_text_is_charged_to_the_sort_that_keeps_it() {
    let text =
        ["md5(value::varchar)", "repeat(md5(value::varchar), 10)", "'a text of its own ' || value"];
    for text in text {
        let sort = format!("SELECT value, {text} AS t FROM range(4000000) ORDER BY t");
        let failed = bounded(&sort, "none");
        assert!(!failed.succeeded, "the rows do not fit");
        let held = held_mb(&failed.stderr, "Sort");
        assert!(held > 0.8 * LIMIT_MB as f64, "{held} MB in {}", failed.stderr);
        assert!(failed.peak_mb <= LIMIT_MB + SORT_SLACK_MB + *OWN_MB, "{} MB", failed.peak_mb);
    }
    let fits =
        bounded("SELECT value, md5(value::varchar) AS t FROM range(700000) ORDER BY t", "csv");
    assert!(fits.succeeded, "{}", fits.stderr);
    assert!(fits.peak_mb <= LIMIT_MB + SORT_SLACK_MB + *OWN_MB, "{} MB", fits.peak_mb);
}

#[test]
fn writes() {
    let (dir, path) = data();
    let copy = dir.path().join("copy");
    for format in ["parquet", "csv"] {
        let copy = copy.display();
        let sql = format!("COPY (SELECT * FROM '{path}') TO '{copy}.{format}'");
        let written = bounded(&sql, "none");
        assert!(written.succeeded, "{}", written.stderr);
    }
    let twice = format!("SELECT * FROM '{path}' UNION ALL SELECT * FROM '{path}'");
    let table = bounded(&format!("CREATE TABLE t AS {twice}"), "none");
    assert!(!table.succeeded, "the rows of a table in memory do not fit");
    bounded(
        &format!("CREATE TABLE t (k BIGINT, few BIGINT, s VARCHAR); INSERT INTO t {twice}"),
        "none",
    );
}

#[test]
fn a_table_in_memory_is_a_holder_and_lets_go() {
    let fill =
        "CREATE TABLE big AS SELECT value AS k, value * 2 AS d FROM generate_series(1, 4000000)";
    let sort = "SELECT * FROM generate_series(1, 6000000) ORDER BY value % 1000";
    let beside = bounded(&format!("{fill}; {sort}"), "none");
    assert!(beside.stderr.contains("\"table big\" holds"), "{}", beside.stderr);
    let after = bounded(&format!("{fill}; DROP TABLE big; {fill}; DROP TABLE big; {fill}"), "none");
    assert!(after.succeeded, "{}", after.stderr);
}
