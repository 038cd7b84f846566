//! The dialects of test files: which engine they were written for.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// Whose expectations a file states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// Ours: values as DataFusion's runner prints them, and every record is meant as it stands.
    Thalweg,
    /// Apache DataFusion: values as its own runner prints them.
    Datafusion,
    /// SQLite: integers, reals with three digits, text by the query's column types.
    Sqlite,
    /// DuckDB: loops, requirements, tab-separated rows, patterns.
    Duckdb,
    /// PostgreSQL and those who print values like it.
    Postgres,
    /// RisingWave: PostgreSQL's values, lists as `{1,2}`, rows as `(1,2)`; views that are kept up to date.
    Risingwave,
}

impl Dialect {
    /// Whether a `skipif` or `onlyif` label means this dialect's engine.
    pub fn is_engine(self, label: &str) -> bool {
        let names: &[&str] = match self {
            Dialect::Thalweg => &["thalweg"],
            Dialect::Datafusion => &["datafusion"],
            Dialect::Sqlite => &["sqlite"],
            Dialect::Duckdb => &["duckdb"],
            Dialect::Postgres => &["postgres", "postgresql", "risingwave", "risinglight"],
            Dialect::Risingwave => &["risingwave"],
        };
        names.iter().any(|name| name.eq_ignore_ascii_case(label))
    }

    /// Statements that configure or describe the other engine, and say nothing of ours.
    pub fn is_foreign(self, sql: &str) -> bool {
        let sql = sql.trim_start().to_ascii_lowercase();
        let starts = |words: &[&str]| words.iter().any(|word| sql.starts_with(word));
        match self {
            Dialect::Thalweg => false,
            Dialect::Datafusion => starts(&[
                "set datafusion.",
                "reset datafusion.",
                "explain",
                "show datafusion",
                "show all",
            ]),
            Dialect::Sqlite => starts(&["pragma", "explain"]),
            Dialect::Duckdb => starts(&[
                "pragma",
                "explain",
                "set ",
                "reset ",
                "checkpoint",
                "load ",
                "install ",
                "attach",
                "detach",
                "use ",
            ]),
            Dialect::Postgres => starts(&["explain", "set ", "show "]),
            // Its own session variables, and the recovery of its cluster.
            Dialect::Risingwave => starts(&["set ", "show ", "recover", "wait", "alter system"]),
        }
    }

    /// Whether an answer satisfies a record that expects an error. DataFusion's and SQLite's records pin limits of
    /// theirs, so that an answer shows no fault.
    pub fn forgives_answers(self) -> bool {
        match self {
            Dialect::Datafusion | Dialect::Sqlite => true,
            Dialect::Thalweg | Dialect::Duckdb | Dialect::Postgres | Dialect::Risingwave => false,
        }
    }

    /// Whether DML is seen by views as soon as its statement ends, as files of this dialect expect.
    pub fn flushes(self) -> bool {
        match self {
            Dialect::Risingwave => true,
            Dialect::Thalweg
            | Dialect::Datafusion
            | Dialect::Sqlite
            | Dialect::Duckdb
            | Dialect::Postgres => false,
        }
    }

    /// Whether files may name others that are not there: samples of a larger suite.
    pub fn misses_files(self) -> bool {
        self.flushes()
    }

    /// Settings under which a text means what it means to the dialect's engine.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // A number with a point is a double there, and COPY adds to what a folder holds.
            Dialect::Datafusion => &[
                ("decimal_literals", "off"),
                ("copy.existing_files", "append"),
                ("series_in_select", "list"),
            ],
            // What a view there cannot compute is NULL.
            Dialect::Risingwave => &[("materialized_view_errors", "null")],
            Dialect::Sqlite => &[("decimal_literals", "off"), ("division_by_zero", "null")],
            Dialect::Duckdb => &[("division_by_zero", "null")],
            Dialect::Thalweg | Dialect::Postgres => &[],
        }
    }

    /// A statement of the other engine's own in SQL, if it has a counterpart; else the statement as it is.
    pub fn translated(self, sql: &str) -> Cow<'_, str> {
        let words: Vec<&str> = sql.trim().trim_end_matches(';').split_whitespace().collect();
        let text = match words.as_slice() {
            // RisingLight's optimizer orders joins, and little else.
            [pragma, "disable_optimizer"] if pragma.eq_ignore_ascii_case("pragma") => {
                "SET optimizer.join_reordering = off".to_string()
            }
            [pragma, "enable_optimizer"] if pragma.eq_ignore_ascii_case("pragma") => {
                "RESET optimizer.join_reordering".to_string()
            }
            // A command of RisingLight's shell: rows and distinct values of a column.
            ["\\stat", table, column] => format!(
                "SELECT 'postgres', '{table}', '{column}', count({column}), \
                 count(DISTINCT {column}) FROM {table}"
            ),
            // DataFusion's names of the options of delimited text.
            _ if sql.contains("'format.") => sql
                .replace("'format.delimiter'", "'csv.delimiter'")
                .replace("'format.has_header'", "'csv.header'"),
            _ => return Cow::Borrowed(sql),
        };
        Cow::Owned(text)
    }

    /// The folder that relative paths in a file start from: the one above the suite's folder of tests.
    pub fn base_directory(self, file: &Path) -> PathBuf {
        let is_suite = |folder: &&Path| {
            let name = folder.file_name().and_then(|name| name.to_str());
            matches!(name, Some("test_files" | "test" | "tests"))
        };
        let above = file.ancestors().find(is_suite);
        let base = above.or(Some(file)).and_then(Path::parent);
        base.unwrap_or(Path::new(".")).to_path_buf()
    }
}
