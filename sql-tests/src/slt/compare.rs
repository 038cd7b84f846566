//! Whether rows are those that a record expects.

use md5::{Digest, Md5};
use regex::Regex;
use sqllogictest::{ResultMode, SortMode};

use super::dialect::Dialect;

/// How a record states its rows.
pub(super) struct Expectation<'a> {
    pub dialect: Dialect,
    pub lines: &'a [String],
    pub sort: Option<SortMode>,
    pub mode: Option<ResultMode>,
    /// Whether the statement orders its rows; if not, their order says nothing.
    pub ordered: bool,
    /// More values than this are stated as a hash; 0 means never.
    pub hash_threshold: usize,
}

impl Expectation<'_> {
    /// Whether the rows, in the order of the answer, are the expected ones.
    pub fn is_met(&self, rows: Vec<Vec<String>>) -> bool {
        let rows = self.sorted(rows);
        let values = rows.iter().map(Vec::len).sum::<usize>();
        if let [line] = self.lines
            && let Some(hash) = line.trim().strip_prefix(&format!("{values} values hashing to "))
        {
            return hash == hash_of(&rows);
        }
        if self.hash_threshold > 0 && values > self.hash_threshold && self.lines.len() == 1 {
            return false;
        }
        if self.lines.iter().any(|line| line.contains(IGNORED)) {
            return self.fragments_match(&rows);
        }
        let by_value = matches!(self.mode, Some(ResultMode::ValueWise));
        if !by_value && self.rows_match(self.ordered_lines(), &rows) {
            return true;
        }
        if (by_value || self.lines.len() == values) && self.values_match(&rows) {
            return true;
        }
        !self.ordered && self.sort.is_none() && self.unordered_rows_match(rows)
    }

    /// Whether the rows are the expected ones in any order.
    fn unordered_rows_match(&self, mut rows: Vec<Vec<String>>) -> bool {
        let width = rows.first().map_or(1, Vec::len).max(1);
        let mut lines: Vec<String> = if self.lines.len() == rows.len() {
            self.lines.to_vec()
        } else {
            self.lines.chunks(width).map(|row| row.join("\t")).collect()
        };
        rows.sort_unstable_by_key(|row| cells(&row.join(" ")));
        lines.sort_by_key(|line| cells(&line.replace('\t', " ")));
        self.rows_match(lines, &rows)
    }

    fn sorted(&self, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
        match self.sort {
            None | Some(SortMode::NoSort) => rows,
            Some(SortMode::RowSort) => {
                rows.sort_unstable();
                rows
            }
            Some(SortMode::ValueSort) => {
                let mut values: Vec<Vec<String>> =
                    rows.into_iter().flatten().map(|v| vec![v]).collect();
                values.sort_unstable();
                values
            }
        }
    }

    fn rows_match(&self, lines: Vec<String>, rows: &[Vec<String>]) -> bool {
        lines.len() == rows.len()
            && lines.iter().zip(rows).all(|(line, row)| self.row_matches(line, row))
    }

    /// The lines in the order that rows are compared in: a file may list sorted rows in another collation.
    fn ordered_lines(&self) -> Vec<String> {
        let mut lines = self.lines.to_vec();
        if self.dialect != Dialect::Sqlite
            && matches!(self.sort, Some(SortMode::RowSort | SortMode::ValueSort))
        {
            lines.sort_by_key(|line| cells(line));
        }
        lines
    }

    fn row_matches(&self, line: &str, row: &[String]) -> bool {
        if line.contains('\t') {
            let cells: Vec<&str> = line.split('\t').collect();
            let same =
                || cells.iter().zip(row).all(|(cell, value)| self.value_matches(cell, value));
            if cells.len() == row.len() && same() {
                return true;
            }
        }
        if let [value] = row
            && self.value_matches(line, value)
        {
            return true;
        }
        let (line, actual) = (tight_lists(line), tight_lists(&row.join(" ")));
        let (expected, actual): (Vec<&str>, Vec<&str>) =
            (line.split_whitespace().collect(), actual.split_whitespace().collect());
        expected.len() == actual.len()
            && expected.iter().zip(&actual).all(|(e, a)| self.value_matches(e, a))
    }

    fn values_match(&self, rows: &[Vec<String>]) -> bool {
        let values: Vec<&String> = rows.iter().flatten().collect();
        values.len() == self.lines.len()
            && self.lines.iter().zip(values).all(|(line, value)| self.value_matches(line, value))
    }

    fn value_matches(&self, expected: &str, actual: &str) -> bool {
        if expected == actual || squeezed(expected) == squeezed(actual) {
            return true;
        }
        if let Some(digits) = expected.strip_prefix("\\x")
            && digits.replace("\\x", "").eq_ignore_ascii_case(actual)
        {
            // Engines write bytes in several forms, which have the digits in common.
            return true;
        }
        if let (Some(expected), Some(actual)) = (elements(expected), elements(actual)) {
            return expected.len() == actual.len()
                && expected.iter().zip(&actual).all(|(e, a)| self.value_matches(e, a));
        }
        if matches!(self.dialect, Dialect::Postgres | Dialect::Risingwave)
            && truth(expected).is_some_and(|t| truth(actual) == Some(t))
        {
            return true;
        }
        if self.dialect == Dialect::Duckdb {
            if let Some(pattern) = expected.strip_prefix("<REGEX>:") {
                return Regex::new(&format!("(?s){pattern}"))
                    .is_ok_and(|regex| regex.is_match(actual));
            }
            if let Some(pattern) = expected.strip_prefix("<!REGEX>:") {
                return Regex::new(&format!("(?s){pattern}"))
                    .is_ok_and(|regex| !regex.is_match(actual));
            }
            if matches!(
                (expected, actual),
                ("1", "true") | ("0", "false") | ("True", "true") | ("False", "false")
            ) {
                return true;
            }
            return numbers_agree(expected, actual, 1e-9);
        }
        let inexact = |text: &str| text.contains(['.', 'e', 'E']);
        let rounds = matches!(self.dialect, Dialect::Thalweg | Dialect::Datafusion);
        if rounds && inexact(expected) && rounds_to(expected, actual) {
            return true;
        }
        (inexact(expected) || inexact(actual)) && numbers_agree(expected, actual, 1e-11)
    }

    /// The text between the ignored parts must occur in its order.
    fn fragments_match(&self, rows: &[Vec<String>]) -> bool {
        let actual: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        let actual = actual.join("\n");
        let expected = self.lines.join("\n");
        let mut rest = actual.as_str();
        expected.split(IGNORED).all(|fragment| match rest.find(fragment) {
            Some(at) => {
                rest = &rest[at + fragment.len()..];
                true
            }
            None => false,
        })
    }
}

/// Whether a statement has an ORDER BY of its own, outside all parentheses and quotes.
pub(super) fn orders_rows(sql: &str) -> bool {
    let (mut depth, mut quote, mut outside) = (0_usize, None, String::new());
    for c in sql.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth = depth.saturating_sub(1),
            (None, c) if depth == 0 => outside.push(c.to_ascii_lowercase()),
            (None, _) => {}
        }
    }
    squeezed(&outside).contains("order by")
}

const IGNORED: &str = "<slt:ignore>";

/// PostgreSQL's files write `t`, those of its kin `true`.
fn truth(text: &str) -> Option<bool> {
    match text {
        "t" | "true" => Some(true),
        "f" | "false" => Some(false),
        _ => None,
    }
}

/// The elements of a list's text that holds no list.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    (!inner.contains(['[', '{'])).then(|| inner.split(',').map(str::trim).collect())
}

/// The text without spaces behind the commas of lists.
fn tight_lists(text: &str) -> String {
    if text.contains('[') { text.replace(", ", ",") } else { text.to_string() }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cells(line: &str) -> Vec<String> {
    let separator: &[char] = if line.contains('\t') { &['\t'] } else { &[' '] };
    line.split(separator)
        .filter(|cell| !cell.is_empty())
        .map(|cell| truth(cell).map_or_else(|| cell.to_string(), |truth| truth.to_string()))
        .collect()
}

/// Whether the actual text is the expected number rounded to the digits after the point that the dialect prints.
fn rounds_to(expected: &str, actual: &str) -> bool {
    match (expected.trim().parse::<f64>(), actual.trim().parse::<f64>()) {
        (Ok(e), Ok(a)) => (e - a).abs() <= 0.5001 * 10_f64.powi(-DIGITS_AFTER_POINT),
        _ => false,
    }
}

/// Digits after the point that DataFusion's runner prints.
const DIGITS_AFTER_POINT: i32 = 12;

/// Whether both are numbers that differ by rounding alone.
fn numbers_agree(expected: &str, actual: &str, tolerance: f64) -> bool {
    match (expected.trim().parse::<f64>(), actual.trim().parse::<f64>()) {
        (Ok(e), Ok(a)) => {
            e == a
                || (e - a).abs() <= tolerance * e.abs().max(a.abs())
                || (e.is_nan() && a.is_nan())
        }
        _ => false,
    }
}

fn hash_of(rows: &[Vec<String>]) -> String {
    let mut hash = Md5::new();
    for value in rows.iter().flatten() {
        hash.update(value.as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(dialect: Dialect, lines: &[&str], sort: Option<SortMode>, rows: &[&[&str]]) -> bool {
        let lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
        let expectation = Expectation {
            dialect,
            lines: &lines,
            sort,
            mode: None,
            ordered: true,
            hash_threshold: 8,
        };
        expectation
            .is_met(rows.iter().map(|row| row.iter().map(|v| v.to_string()).collect()).collect())
    }

    #[test]
    fn rows_values_and_hashes() {
        let two: &[&[&str]] = &[&["2", "b"], &["1", "a"]];
        assert!(met(Dialect::Datafusion, &["2 b", "1 a"], None, two));
        assert!(!met(Dialect::Datafusion, &["1 a", "2 b"], None, two));
        assert!(met(Dialect::Datafusion, &["1 a", "2 b"], Some(SortMode::RowSort), two));
        assert!(met(Dialect::Sqlite, &["1", "2", "a", "b"], Some(SortMode::ValueSort), two));
        assert!(met(Dialect::Duckdb, &["2\tb", "1\t<REGEX>:[ab]"], None, two));
        // The hash of "2\nb\n1\na\n".
        let hashed = format!(
            "4 values hashing to {}",
            hash_of(&[vec!["2".into(), "b".into()], vec!["1".into(), "a".into()]])
        );
        assert!(met(Dialect::Sqlite, &[&hashed], None, two));
        assert!(!met(Dialect::Sqlite, &["4 values hashing to 0"], None, two));
        assert!(met(Dialect::Datafusion, &["0.3"], None, &[&["0.30000000000000004"]]));
        assert!(!met(Dialect::Datafusion, &["3"], None, &[&["4"]]));
        assert!(met(Dialect::Datafusion, &["[1,2] b"], None, &[&["[1.0, 2.0]", "b"]]));
        assert!(!met(Dialect::Datafusion, &["[1,2] b"], None, &[&["[1.0, 2.5]", "b"]]));
        assert!(met(Dialect::Duckdb, &["\\xAA\\xFF"], None, &[&["aaff"]]));
    }

    #[test]
    fn rows_without_an_order_may_come_in_any() {
        assert!(!orders_rows("select row_number() over (order by a) from t"));
        assert!(orders_rows("select 'x' from t ORDER\n BY 1"));
        let lines = ["1 a".to_string(), "2 b".to_string()];
        let unordered = |ordered| {
            let expectation = Expectation {
                dialect: Dialect::Datafusion,
                lines: &lines,
                sort: None,
                mode: None,
                ordered,
                hash_threshold: 0,
            };
            expectation.is_met(vec![vec!["2".into(), "b".into()], vec!["1".into(), "a".into()]])
        };
        assert!(unordered(false));
        assert!(!unordered(true));
    }
}
