//! Rows of answers as text.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Sorted lines, values separated by blanks.
pub fn sorted_lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).expect("a test runs what works"))
            .collect();
        lines.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" ")
        }));
    }
    lines.sort();
    lines
}
