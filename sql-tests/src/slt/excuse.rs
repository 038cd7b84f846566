//! Records of another engine's files that say nothing of ours, by the reason: they ask its system tables, or need its
//! sources and sinks, or objects that files make which are not in the sample.
//!
//! Invariant: everything else counts. What reads an object that is excused is excused for the same reason; the numbers
//! are printed, so that nothing is left out in silence.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::dialect::Dialect;

/// Why a record does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// It reads a system catalog, or a table whose name comes from there.
    SystemTables,
    /// It needs a source of another system's.
    Source,
    /// It needs a sink of another system's.
    Sink,
    /// It drops what a file that is not there creates.
    MissingFile,
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Excuse::SystemTables => "system tables",
            Excuse::Source => "sources",
            Excuse::Sink => "sinks",
            Excuse::MissingFile => "files that are not there",
        })
    }
}

/// Views that are created in files which the sample leaves out, and dropped in one that is there.
const MISSING: [&str; 4] = ["nexmark_q4", "nexmark_q6_group_top1", "nexmark_q7", "nexmark_q16"];

/// What is excused in one file, in its order.
#[derive(Debug)]
pub(super) struct Excuses {
    dialect: Dialect,
    /// The objects that were not made, and why.
    objects: HashMap<String, Excuse>,
    counts: BTreeMap<Excuse, usize>,
}

impl Excuses {
    pub(super) fn new(dialect: Dialect) -> Self {
        Excuses { dialect, objects: HashMap::new(), counts: BTreeMap::new() }
    }

    /// How many records were excused, by reason.
    pub(super) fn counts(&self) -> &BTreeMap<Excuse, usize> {
        &self.counts
    }

    /// Whether a record is excused; it is counted then.
    pub(super) fn excuses(&mut self, sql: &str) -> bool {
        let excuse = match self.dialect {
            Dialect::Risingwave => self.of(sql),
            Dialect::Thalweg
            | Dialect::Datafusion
            | Dialect::Sqlite
            | Dialect::Duckdb
            | Dialect::Postgres => None,
        };
        let Some(excuse) = excuse else { return false };
        if let Some(object) = created(sql) {
            self.objects.insert(object, excuse);
        }
        *self.counts.entry(excuse).or_default() += 1;
        true
    }

    fn of(&self, sql: &str) -> Option<Excuse> {
        let lower = sql.to_ascii_lowercase();
        let words: Vec<&str> = words(&lower).collect();
        match words.as_slice() {
            _ if lower.contains("rw_catalog") || lower.contains("${") => Some(Excuse::SystemTables),
            ["create" | "drop", "source", ..] => Some(Excuse::Source),
            ["create", "sink", ..] if words.contains(&"connector") => Some(Excuse::Sink),
            ["drop", .., last] if MISSING.contains(last) => Some(Excuse::MissingFile),
            _ => words.iter().find_map(|word| self.objects.get(*word)).copied(),
        }
    }
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The name of what a statement creates.
fn created(sql: &str) -> Option<String> {
    let lower = sql.to_ascii_lowercase();
    let mut words = words(&lower);
    if words.next() != Some("create") {
        return None;
    }
    let before =
        ["materialized", "view", "table", "source", "sink", "index", "if", "not", "exists"];
    words.find(|word| !before.contains(word)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_an_excused_object_is_excused() {
        let mut excuses = Excuses::new(Dialect::Risingwave);
        for (sql, excused) in [
            ("CREATE SOURCE s (a int) WITH (connector = 'x')", true),
            ("create materialized view v as select * from s", true),
            ("SELECT * FROM v", true),
            ("SELECT * FROM ${state}", true),
            ("create sink k into t from u", false),
            ("create sink k2 from u with (connector = 'x')", true),
            ("drop sink k2", true),
            ("drop materialized view nexmark_q7", true),
            ("SELECT * FROM sv", false),
        ] {
            assert_eq!(excuses.excuses(sql), excused, "{sql}");
        }
        assert_eq!(excuses.counts().values().sum::<usize>(), 7);
        assert!(!Excuses::new(Dialect::Postgres).excuses("CREATE SOURCE s"));
    }
}
