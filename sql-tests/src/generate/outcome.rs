//! What a query came to, in a form that can be compared.

use arrow::array::{AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::continuous::fold;
use crate::engine::Engine;

/// Rows as text in one order, or why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Sorted, since the order of rows is nobody's promise.
    Rows(Vec<String>),
    /// The query cannot be asked like this: the engine says so.
    Refused(String),
    /// The engine is at fault: a panic, a broken invariant, a query that ends never.
    Broken(String),
}

impl Outcome {
    /// Runs a query.
    pub fn of(engine: &Engine, sql: &str) -> Self {
        match engine.run(sql) {
            Ok(answer) => {
                let mut rows: Vec<String> = answer.batches.iter().flat_map(rows).collect();
                rows.sort_unstable();
                Outcome::Rows(rows)
            }
            Err(message) => Outcome::of_error(message),
        }
    }

    /// Runs a query for the changes of its result; the rows that are left of them.
    pub fn of_changes(engine: &Engine, sql: &str) -> Self {
        match engine.changes(sql) {
            Ok(answer) => match folded(&answer.batches) {
                Ok(rows) => Outcome::Rows(rows),
                Err(message) => Outcome::Broken(message),
            },
            Err(message) => Outcome::of_error(message),
        }
    }

    fn of_error(message: String) -> Self {
        let broken = ["panic", "internal error", "cancelled", "never there"];
        match broken.iter().any(|word| message.contains(word)) {
            true => Outcome::Broken(message),
            false => Outcome::Refused(message),
        }
    }

    /// Whether the engine gave both with right. What is refused once must be refused always.
    pub fn agrees_with(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Rows(a), Outcome::Rows(b)) => a == b,
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
            (Outcome::Broken(_), _) | (_, Outcome::Broken(_)) => false,
            (Outcome::Rows(_), Outcome::Refused(_)) | (Outcome::Refused(_), Outcome::Rows(_)) => {
                false
            }
        }
    }

    /// A few lines for a report.
    pub fn to_text(&self) -> String {
        const SHOWN: usize = 12;
        match self {
            Outcome::Rows(rows) => {
                let shown: Vec<&str> = rows.iter().take(SHOWN).map(String::as_str).collect();
                format!("{} rows\n    {}", rows.len(), shown.join("\n    "))
            }
            Outcome::Refused(message) => format!("error: {message}"),
            Outcome::Broken(message) => format!("broken: {message}"),
        }
    }
}

/// What is left of changes, whose first column is their kind.
fn folded(batches: &[RecordBatch]) -> Result<Vec<String>, String> {
    let changes = batches.iter().flat_map(|batch| {
        let ops = batch.column(0).as_string::<i32>().clone();
        let columns: Vec<usize> = (1..batch.num_columns()).collect();
        let rows = rows(&batch.project(&columns).expect("the columns are there"));
        rows.into_iter().enumerate().map(move |(at, row)| (ops.value(at).to_string(), row))
    });
    fold(changes)
}

fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("∅");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a printable type"))
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| match column.value(row).to_string() {
                    // The zeros are equal, so either may stand for a group.
                    zero if zero == "-0.0" => "0.0".to_string(),
                    cell => cell,
                })
                .collect();
            cells.join("|")
        })
        .collect()
}
