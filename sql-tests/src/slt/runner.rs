//! Runs one file: each in a fresh session, every record counted, going on after a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqllogictest::{
    ColumnType, Condition, Control, DefaultColumnType, QueryExpect, Record, ResultMode, SortMode,
    StatementExpect,
};

use super::compare::{Expectation, orders_rows};
use super::dialect::Dialect;
use super::excuse::{Excuse, Excuses};
use super::fixtures::Fixture;
use super::include::{including, place, records};
use super::values;
use crate::engine::{Answer, Engine};

/// How to run files.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose files they are.
    pub dialect: Dialect,
    /// Settings of each session.
    pub settings: Vec<(String, String)>,
    /// A statement that runs longer is cancelled and has failed.
    pub timeout: Duration,
    /// Where files may write.
    pub scratch: PathBuf,
}

/// What a file came to.
#[derive(Debug, Clone, Default)]
pub struct FileReport {
    /// Records that did what they say.
    pub passed: usize,
    /// Records that did not, with the place and what was found instead.
    pub failures: Vec<String>,
    /// Records that do not concern the engine.
    pub skipped: usize,
    /// Records that need what only another engine has, by the reason.
    pub excused: BTreeMap<Excuse, usize>,
    /// Seconds it took.
    pub seconds: f64,
}

/// Runs a file. What cannot be read as records is one failure.
pub fn run_file(path: &Path, options: &Options) -> FileReport {
    let started = Instant::now();
    let mut report = FileReport::default();
    if let Err(message) = run_records(path, options, &mut report) {
        report.failures.push(format!("{}: {message}", path.display()));
    }
    report.seconds = started.elapsed().as_secs_f64();
    report
}

fn run_records(path: &Path, options: &Options, report: &mut FileReport) -> Result<(), String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    // DataFusion's runner gives each file a folder of its name to write to.
    let folder = options.scratch.join(path.file_stem().unwrap_or_default());
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let outer = including(&path);
    let fixture = Fixture::of(&path)?;
    let before = match &fixture.before {
        Some(file) => records(file, options, &fixture)?,
        None => Vec::new(),
    };
    let records = records(outer.as_deref().unwrap_or(&path), options, &fixture)?;
    let own = options.dialect.settings().iter().chain(&fixture.settings);
    let own = own.map(|(key, value)| (key.to_string(), value.to_string()));
    let settings: Vec<_> = own.chain(options.settings.iter().cloned()).collect();
    let engine = Engine::new(&settings, options.timeout)?;
    // Relative paths in statements start from the folder that the suite is run in.
    std::env::set_current_dir(options.dialect.base_directory(&path))
        .map_err(|error| error.to_string())?;
    let excuses = Excuses::new(options.dialect);
    let mut file =
        File { options, engine, report, excuses, sort: None, mode: None, hash_threshold: 0 };
    before.iter().for_each(|record| file.prepare(record));
    for statement in &fixture.statements {
        file.engine.run(statement)?;
    }
    let (own, mut begun) = (path.display().to_string(), false);
    for record in records {
        if let Record::Halt { .. } = record {
            break;
        }
        let elsewhere = outer.is_some() && place(&record).is_some_and(|loc| loc.file() != own);
        match (elsewhere, begun) {
            (false, _) => {
                begun |= place(&record).is_some();
                file.run(record);
            }
            (true, false) => file.prepare(&record),
            // A fragment may be included several times: the first counts.
            (true, true) => break,
        }
    }
    file.report.excused = file.excuses.counts().clone();
    Ok(())
}

struct File<'a> {
    options: &'a Options,
    engine: Engine,
    report: &'a mut FileReport,
    excuses: Excuses,
    sort: Option<SortMode>,
    mode: Option<ResultMode>,
    hash_threshold: usize,
}

impl File<'_> {
    /// Runs what a fragment may need of the records before it, without counting it.
    fn prepare(&mut self, record: &Record<DefaultColumnType>) {
        let (conditions, sql) = match record {
            Record::Statement { conditions, sql, .. } => (conditions, sql),
            Record::Query { conditions, sql, .. } if changes_something(sql) => (conditions, sql),
            _ => return,
        };
        if !self.is_unwanted(conditions, sql) {
            // What fails here shows in the fragment's records.
            let _ = self.engine.run(&self.options.dialect.translated(sql));
        }
    }

    /// Waits until views have seen what a statement changed, where files expect it.
    fn flush(&mut self, sql: &str) {
        if self.options.dialect.flushes() && changes_something(sql) {
            // A view that fails says so when it is read.
            let _ = self.engine.run("FLUSH");
        }
    }

    fn run(&mut self, record: Record<DefaultColumnType>) {
        match record {
            Record::Statement { loc, conditions, sql, expected, .. } => {
                if self.skips(&conditions, &sql) {
                    return;
                }
                let outcome = self.engine.run(&self.options.dialect.translated(&sql));
                self.flush(&sql);
                let verdict = self.statement_verdict(&expected, outcome);
                self.count(&loc.to_string(), &sql, verdict);
            }
            Record::Query { loc, conditions, sql, expected, .. } => {
                if self.skips(&conditions, &sql) {
                    return;
                }
                let outcome = self.engine.run(&self.options.dialect.translated(&sql));
                let verdict = self.query_verdict(&sql, &expected, outcome);
                self.count(&loc.to_string(), &sql, verdict);
            }
            Record::Control(Control::SortMode(sort)) => self.sort = Some(sort),
            Record::Control(Control::ResultMode(mode)) => self.mode = Some(mode),
            Record::HashThreshold { threshold, .. } => self.hash_threshold = threshold as usize,
            Record::System { .. } | Record::Let { .. } => self.report.skipped += 1,
            // The rest is layout, or has been taken into account by the parser.
            _ => {}
        }
    }

    fn skips(&mut self, conditions: &[Condition], sql: &str) -> bool {
        let skips = self.is_unwanted(conditions, sql);
        self.report.skipped += usize::from(skips);
        skips || self.excuses.excuses(sql)
    }

    fn is_unwanted(&self, conditions: &[Condition], sql: &str) -> bool {
        let dialect = self.options.dialect;
        let unwanted = conditions.iter().any(|condition| match condition {
            Condition::OnlyIf { label } => !dialect.is_engine(label),
            Condition::SkipIf { label } => dialect.is_engine(label),
        });
        unwanted || dialect.is_foreign(sql)
    }

    fn count(&mut self, place: &str, sql: &str, verdict: Result<(), String>) {
        match verdict {
            Ok(()) => self.report.passed += 1,
            Err(message) => {
                self.report.failures.push(format!("{place}\n  {}\n  {message}", sql.trim()))
            }
        }
    }

    fn statement_verdict(
        &self,
        expected: &StatementExpect,
        outcome: Result<Answer, String>,
    ) -> Result<(), String> {
        match (expected, outcome) {
            (StatementExpect::Ok, Ok(_)) => Ok(()),
            (StatementExpect::Ok | StatementExpect::Count(_), Err(message)) => {
                Err(format!("error: {message}"))
            }
            (StatementExpect::Count(wanted), Ok(answer)) => {
                let rows = answer.batches.iter().map(|b| b.num_rows() as u64).sum();
                match answer.rows_written.unwrap_or(rows) {
                    count if count == *wanted => Ok(()),
                    count => Err(format!("{count} rows, expected {wanted}")),
                }
            }
            (StatementExpect::Error(_), outcome) => self.error_verdict(outcome),
        }
    }

    fn query_verdict(
        &self,
        sql: &str,
        expected: &QueryExpect<DefaultColumnType>,
        outcome: Result<Answer, String>,
    ) -> Result<(), String> {
        let (types, sort, mode, lines) = match expected {
            QueryExpect::Error(_) => return self.error_verdict(outcome),
            QueryExpect::Results { types, sort_mode, result_mode, results, .. } => {
                (types, sort_mode, result_mode, results)
            }
        };
        let answer = outcome.map_err(|message| format!("error: {message}"))?;
        let types: Vec<char> = types.iter().map(ColumnType::to_char).collect();
        let rows = match answer.rows_written {
            // Other engines answer a statement that writes with the number of rows.
            Some(written) if answer.schema.fields().is_empty() => vec![vec![written.to_string()]],
            _ => values::rows(self.options.dialect, &answer.batches, &types),
        };
        let expectation = Expectation {
            dialect: self.options.dialect,
            lines,
            sort: sort.or(self.sort),
            mode: mode.or(self.mode),
            ordered: orders_rows(sql),
            hash_threshold: self.hash_threshold,
        };
        if expectation.is_met(rows.clone()) {
            return Ok(());
        }
        Err(difference(lines, &rows))
    }

    /// A panic is never the error that was meant.
    fn error_verdict(&self, outcome: Result<Answer, String>) -> Result<(), String> {
        match outcome {
            Err(message) if message.starts_with("panic") || message.contains("internal error") => {
                Err(format!("error: {message}"))
            }
            Err(_) => Ok(()),
            Ok(_) if self.options.dialect.forgives_answers() => Ok(()),
            Ok(_) => Err("an answer where an error is expected".into()),
        }
    }
}

/// Whether a query record's statement is none that only reads.
fn changes_something(sql: &str) -> bool {
    let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    ["insert", "copy", "create", "update", "delete"].contains(&first.as_str())
}

/// Lines of each side that a failure shows.
const SHOWN_LINES: usize = 12;

fn difference(expected: &[String], rows: &[Vec<String>]) -> String {
    let mut text = format!("expected {} lines:\n", expected.len());
    expected.iter().take(SHOWN_LINES).for_each(|line| text += &format!("    {line}\n"));
    text += &format!("  found {} rows:\n", rows.len());
    rows.iter().take(SHOWN_LINES).for_each(|row| text += &format!("    {}\n", row.join(" ")));
    text
}
