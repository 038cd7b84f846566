//! The connector "print": writes one line a row to standard output or standard error. Nothing can be read from it.
//!
//! A line is what happened to the row and its values: `+I[1, a]`. The table's identifier stands before it, and the
//! number of the writer where there are several: `prices:2> +I[1, a]`.

use std::io::{self, Write};
use std::sync::Arc;

use datafusion_common::{Constraint, Constraints};
use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::CheckpointId;
use thalweg_runtime::env::IoTask;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::registry::TableDefinition;
use super::row_ops;
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::write::RowCounter;
use super::write::format::Values;
use crate::catalog::{SinkKind, TableSink};
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "print";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PrintSpec {
    identifier: String,
    standard_error: bool,
    key: Option<Vec<usize>>,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_format(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let spec = PrintSpec {
        identifier: options.text("print-identifier").unwrap_or_default(),
        standard_error: options.boolean("standard-error")?.unwrap_or(false),
        key: primary_key(&definition.constraints),
    };
    options.finish()?;
    let options = serde_json::to_value(&spec)
        .map_err(|e| error::Error::internal(format!("the options of a printer: {e}")))?;
    let spec = SinkSpec { sink: CONNECTOR.to_string(), options: options.clone() };
    // One writer, so that lines come in the order of the rows.
    let sink = TableSink { spec, parallel: false, kind: SinkKind::Retract };
    let table = ConnectorTable::unbounded(CONNECTOR, options, schema, definition.constraints);
    Ok(table.bounded(Some(0)).with_sink(sink))
}

/// Prints rows.
#[derive(Debug, Default)]
pub struct PrintSink;

impl SinkConnector for PrintSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let spec: PrintSpec = serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of a printer: {e}")))?;
        Ok(Box::new(PrintWriter {
            prefix: prefix(&spec.identifier, cx.subtask, cx.parallelism),
            key: key_of(spec.key, options),
            counter: RowCounter::by_options(options),
            printer: Printer::new(spec.standard_error),
        }))
    }
}

fn prefix(identifier: &str, subtask: usize, parallelism: usize) -> String {
    match (identifier.is_empty(), parallelism > 1) {
        (true, false) => String::new(),
        (true, true) => format!("{}> ", subtask + 1),
        (false, false) => format!("{identifier}> "),
        (false, true) => format!("{identifier}:{}> ", subtask + 1),
    }
}

struct PrintWriter {
    prefix: String,
    /// Columns that tell rows apart, by position.
    key: Option<Vec<usize>>,
    counter: RowCounter,
    printer: Printer,
}

/// The columns that tell rows apart: the table's own word counts before what is known of the query.
pub(super) fn key_of(
    declared: Option<Vec<usize>>,
    options: &serde_json::Value,
) -> Option<Vec<usize>> {
    let of_query = || serde_json::from_value(options.get("result_key")?.clone()).ok();
    declared.or_else(of_query)
}

/// The columns of a declared primary key.
pub(super) fn primary_key(constraints: &Constraints) -> Option<Vec<usize>> {
    constraints.iter().find_map(|key| match key {
        Constraint::PrimaryKey(columns) => Some(columns.clone()),
        Constraint::Unique(_) => None,
    })
}

/// Where text goes. Writing may block.
pub(super) trait TextTarget: Send + Sync {
    /// Writes all of a text.
    fn write(&self, text: &[u8]) -> Result<Printed>;
}

struct Standard {
    error: bool,
}

impl TextTarget for Standard {
    fn write(&self, text: &[u8]) -> Result<Printed> {
        print(text, self.error)
    }
}

/// Hands text to standard output, to standard error or to another target.
pub(super) struct Printer {
    target: Arc<dyn TextTarget>,
    /// Text on its way: whoever reads it may let us wait.
    printing: Option<IoTask<Printed>>,
    /// Whether the reader has gone.
    closed: bool,
}

/// What became of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Printed {
    /// It was written.
    Whole,
    /// Nobody reads any more, and nothing is wanted.
    ReaderGone,
}

impl Printer {
    /// Nothing is printed yet.
    pub(super) fn new(standard_error: bool) -> Self {
        Printer::to(Arc::new(Standard { error: standard_error }))
    }

    /// Hands text to a target. Nothing is printed yet.
    pub(super) fn to(target: Arc<dyn TextTarget>) -> Self {
        Printer { target, printing: None, closed: false }
    }

    /// Whether the reader has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints a text, once the one before has been printed.
    pub(super) fn print(&mut self, text: Vec<u8>, cx: &OperatorContext<'_>) {
        let target = self.target.clone();
        self.printing = Some(IoTask::spawn(&cx.job.env, move || target.write(&text)));
    }

    /// Whether the text before has been printed; otherwise the waker is registered.
    pub(super) fn ready(&mut self, cx: &OperatorContext<'_>) -> Result<bool> {
        let Some(task) = &mut self.printing else { return Ok(true) };
        let Some(result) = task.poll(cx.waker) else { return Ok(false) };
        self.printing = None;
        self.closed |= result? == Printed::ReaderGone;
        Ok(true)
    }
}

impl SinkWriter for PrintWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        if !self.printer.ready(cx)? {
            return Ok(SinkPoll::Full(batch));
        }
        if self.printer.is_closed() {
            return Ok(SinkPoll::Closed);
        }
        self.counter.add(batch.num_rows() as u64);
        self.printer.print(lines(&batch, self.key.as_deref(), &self.prefix)?, cx);
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if cx.job.is_settling() { self.printer.ready(cx) } else { Ok(true) }
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        self.printer.ready(cx)
    }
}

fn print(text: &[u8], standard_error: bool) -> Result<Printed> {
    let written = match standard_error {
        true => io::stderr().lock().write_all(text),
        false => {
            let mut out = io::stdout().lock();
            out.write_all(text).and_then(|()| out.flush())
        }
    };
    match written {
        Ok(()) => Ok(Printed::Whole),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Printed::ReaderGone),
        Err(error) => Err(Error::io("cannot print rows", &error)),
    }
}

/// One line a row.
fn lines(batch: &Batch, key: Option<&[usize]>, prefix: &str) -> Result<Vec<u8>> {
    let ops = row_ops(batch, key)?;
    let columns = batch.columns().iter().map(Values::new).collect::<Result<Vec<_>>>()?;
    let mut text = Vec::new();
    for (row, op) in ops.into_iter().enumerate() {
        text.extend_from_slice(prefix.as_bytes());
        text.extend_from_slice(op.as_bytes());
        text.push(b'[');
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                text.extend_from_slice(b", ");
            }
            match column.is_null(row) {
                true => text.extend_from_slice(b"null"),
                false => column.write_text(row, &mut text),
            }
        }
        text.extend_from_slice(b"]\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use thalweg_runtime::element::RowKind;

    use super::*;

    #[test]
    fn a_row_is_a_line() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(StringViewArray::from(vec![Some("a"), Some(""), None])),
        ];
        let batch = Batch::new(columns, 3);
        let text = String::from_utf8(lines(&batch, None, "").unwrap()).unwrap();
        assert_eq!(text, "+I[1, a]\n+I[null, ]\n+I[3, null]\n");
        let kinds = [RowKind::Insert, RowKind::Delete, RowKind::Insert];
        let batch = batch.with_kinds(kinds.into());
        let text = lines(&batch, None, "p> ").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "p> +I[1, a]\np> -D[null, ]\np> +I[3, null]\n");
        let text = lines(&batch, Some(&[]), "").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "+I[1, a]\n-U[null, ]\n+U[3, null]\n");
    }

    #[test]
    fn lines_name_the_table_and_the_writer() {
        assert_eq!(prefix("", 0, 1), "");
        assert_eq!(prefix("", 1, 2), "2> ");
        assert_eq!(prefix("t", 0, 1), "t> ");
        assert_eq!(prefix("t", 1, 2), "t:2> ");
    }
}
