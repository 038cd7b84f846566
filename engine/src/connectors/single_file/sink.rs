//! Writes a file of objects, which is there once all rows are in it, or once the job is ended that would write more.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, RowKind};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::encode::Objects;
use super::table::{RowFormat, WriteSpec};
use crate::connectors::debezium::write_changes;
use crate::connectors::write::{OutputFile, RowCounter, typed_batch};

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Writes single files.
#[derive(Debug, Default)]
pub struct SingleFileSink;

impl SinkConnector for SingleFileSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        if cx.parallelism > 1 {
            return Err(Error::Internal("a single file needs a sink with one subtask".into()));
        }
        let spec: WriteSpec = serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of a single file: {e}")))?;
        let run = options.get("run").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let output = OutputFile::new(&cx.job.env, spec.path, run ^ cx.job.env.random_u64());
        Ok(Box::new(SingleFileWriter {
            format: spec.format,
            schema: Arc::new(spec.schema),
            key: spec.key.or(spec.result_key),
            counter: RowCounter::by_options(options),
            rows: 0,
            text: Vec::new(),
            output,
            endless: options.get("endless").and_then(serde_json::Value::as_bool).unwrap_or(false),
            done: false,
        }))
    }
}

struct SingleFileWriter {
    format: RowFormat,
    schema: SchemaRef,
    /// Columns that tell rows apart, by position.
    key: Option<Vec<usize>>,
    counter: RowCounter,
    rows: u64,
    /// What is written and not handed on.
    text: Vec<u8>,
    output: OutputFile,
    /// Whether the rows have no end.
    endless: bool,
    /// Whether the file is there.
    done: bool,
}

impl SingleFileWriter {
    fn add(&mut self, batch: &RecordBatch, kinds: Option<&[RowKind]>) -> Result<()> {
        let objects = Objects::new(batch, self.format)?;
        match self.format {
            RowFormat::DebeziumJson => {
                write_changes(batch, kinds, &objects, self.key.as_deref(), &mut self.text)
            }
            RowFormat::Json => {
                if kinds.is_some_and(|kinds| kinds.iter().any(|kind| *kind != RowKind::Insert)) {
                    return Err(Error::Internal("rows are taken back from a file of rows".into()));
                }
                for row in 0..batch.num_rows() {
                    objects.write(row, &mut self.text);
                    self.text.push(b'\n');
                }
                Ok(())
            }
        }
    }
}

impl SinkWriter for SingleFileWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        // What comes behind the last barrier is not wanted.
        if self.done || !self.output.ready(cx.waker)? {
            return Ok(SinkPoll::Full(batch));
        }
        self.rows += batch.num_rows() as u64;
        let kinds: Option<Vec<RowKind>> = batch.kinds().map(<[RowKind]>::to_vec);
        let rows = typed_batch(batch, &self.schema)?;
        self.add(&rows, kinds.as_deref())?;
        if self.text.len() >= WRITE_BYTES {
            self.output.write(std::mem::take(&mut self.text));
        }
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if self.endless && cx.job.is_settling() { self.finish(cx) } else { Ok(true) }
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if self.done {
            return Ok(true);
        }
        if !self.output.ready(cx.waker)? {
            return Ok(false);
        }
        if !self.text.is_empty() {
            self.output.write(std::mem::take(&mut self.text));
            if !self.output.ready(cx.waker)? {
                return Ok(false);
            }
        }
        if !self.output.commit(cx.waker)? {
            return Ok(false);
        }
        self.counter.add(std::mem::take(&mut self.rows));
        self.done = true;
        Ok(true)
    }
}
