//! Runs sqllogictest files and folders against the engine and counts what passes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use thalweg_sql_tests::slt::{Dialect, FileReport, Options, run_file, without_fragments};

/// Runs .slt and .test files against the engine, each in a fresh session.
#[derive(Debug, Parser)]
#[command(name = "slt")]
struct Arguments {
    /// Whose expectations the files state.
    #[arg(long, value_enum, default_value = "datafusion")]
    dialect: Dialect,
    /// Threads of each session.
    #[arg(long)]
    threads: Option<usize>,
    /// A setting of each session.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Prints every failed record with what was found instead.
    #[arg(long)]
    list_failures: bool,
    /// Prints totals alone, not a line for each file.
    #[arg(long)]
    quiet: bool,
    /// Seconds that a statement may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Reads the files' names from a list, one a line, relative to the folder above the list's.
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Files and folders.
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = match options(&arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("Error: {message}");
            return ExitCode::from(2);
        }
    };
    let mut files = Vec::new();
    listed(arguments.list.as_deref(), &mut files);
    for path in &arguments.paths {
        let mut found = Vec::new();
        collect(path, &mut found);
        let found = found.into_iter().filter_map(|file| file.canonicalize().ok()).collect();
        files.extend(if path.is_dir() { without_fragments(found) } else { found });
    }
    let files: Vec<PathBuf> =
        files.into_iter().filter_map(|file| file.canonicalize().ok()).collect();
    if files.is_empty() {
        eprintln!("Error: there is no file to run");
        return ExitCode::from(2);
    }
    // A panic is reported with its record; the default hook would print it once more.
    std::panic::set_hook(Box::new(|_| {}));
    let mut total = FileReport::default();
    let mut clean = 0;
    for file in &files {
        let report = run_file(file, &options);
        show(file, &report, &arguments);
        clean += usize::from(report.failures.is_empty());
        total.passed += report.passed;
        total.skipped += report.skipped;
        for (excuse, count) in report.excused {
            *total.excused.entry(excuse).or_default() += count;
        }
        total.seconds += report.seconds;
        total.failures.extend(report.failures);
    }
    println!(
        "total: {} passed, {} failed, {} skipped; {clean} of {} files without a failure; {:.1} s",
        total.passed,
        total.failures.len(),
        total.skipped,
        files.len(),
        total.seconds
    );
    if !total.excused.is_empty() {
        let reasons = total.excused.iter().map(|(excuse, count)| format!("{count} for {excuse}"));
        println!("excused beside these: {}", reasons.collect::<Vec<_>>().join(", "));
    }
    if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut settings = Vec::new();
    if let Some(threads) = arguments.threads {
        settings.push(("threads".to_string(), threads.to_string()));
    }
    for setting in &arguments.settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("--set wants KEY=VALUE, not {setting}"))?;
        settings.push((key.to_string(), value.to_string()));
    }
    Ok(Options {
        dialect: arguments.dialect,
        settings,
        timeout: Duration::from_secs(arguments.timeout),
        scratch: std::env::temp_dir().join(format!("thalweg-slt-{}", std::process::id())),
    })
}

fn listed(list: Option<&Path>, files: &mut Vec<PathBuf>) {
    let Some(list) = list else { return };
    let base = list.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let text = std::fs::read_to_string(list).unwrap_or_default();
    files.extend(
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| base.join(line.trim())),
    );
}

/// The test files below a path, in order.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_path_buf());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let is_test = entry.extension().is_some_and(|e| e == "slt" || e == "test");
        if entry.is_dir() || is_test {
            collect(&entry, files);
        }
    }
}

fn show(file: &Path, report: &FileReport, arguments: &Arguments) {
    if !arguments.quiet {
        let failed = report.failures.len();
        println!(
            "{}: {} passed, {failed} failed, {} skipped",
            file.display(),
            report.passed,
            report.skipped
        );
    }
    if arguments.list_failures {
        report.failures.iter().for_each(|failure| println!("FAILED {failure}\n"));
    }
}
