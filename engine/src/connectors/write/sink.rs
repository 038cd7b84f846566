//! The sink "file-write".
//!
//! One subtask writes one file; several, or a path without an extension, write a folder of files. With `partition_by`
//! rows go to a folder for each combination of values, and at most [`OPEN_FILES_MAX`] files are open at a time. What a
//! folder holds already is looked at before the sink starts, see [`super::Replaced`]. Files appear at the end, all of them
//! or none. Where rows have no end, the files of a folder appear as they have taken rows for long enough, and all that is
//! left when the job is ended; a file that is there is never written again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortColumn, lexsort_to_indices, partition, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::CheckpointId;
use thalweg_runtime::env::Environment;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

use super::encoder::{Encoder, encoder};
use super::format::Values;
use super::options::FileWriteOptions;
use super::output::OutputFile;
use super::{RowCounter, typed_batch};
use crate::connectors::files::{Compression, FileFormat, partition_folder};

/// Bytes of an encoder's output that are written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Files that a writer has open at a time; the least recently used is closed for a new one.
const OPEN_FILES_MAX: usize = 128;
/// Bytes that the encoders of a writer may hold together before the largest is closed.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Writes files.
#[derive(Debug, Default)]
pub struct FileSink;

impl SinkConnector for FileSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let counter = RowCounter::by_options(options);
        let options = FileWriteOptions::from_value(options)?;
        let single = options.is_single_file();
        if single && cx.parallelism > 1 {
            return Err(Error::Internal("a single file needs a sink with one subtask".into()));
        }
        Ok(Box::new(FileWriter::new(options, single, counter, cx)))
    }
}

struct FileWriter {
    options: FileWriteOptions,
    single: bool,
    subtask: usize,
    env: Arc<dyn Environment>,
    counter: RowCounter,
    /// All columns that come in, and those that go into files.
    input: SchemaRef,
    written: SchemaRef,

    files: HashMap<String, Writing>,
    /// Files with all their rows that are not there yet.
    closed: Vec<Writing>,
    /// Whether some file is there.
    published: bool,
    clock: u64,
    files_made: u64,
    ending: bool,
}

/// A file with its encoder.
struct Writing {
    encoder: Box<dyn Encoder>,
    output: OutputFile,
    rows: u64,
    begun_ns: u64,
    used_at: u64,
    ended: bool,
}

impl FileWriter {
    fn new(
        options: FileWriteOptions,
        single: bool,
        counter: RowCounter,
        cx: &OperatorContext<'_>,
    ) -> Self {
        let input: SchemaRef = Arc::new(options.schema.clone());
        let kept = (0..input.fields().len()).filter(|i| !options.partition_by.contains(i));
        let written =
            Arc::new(Schema::new(kept.map(|i| input.field(i).clone()).collect::<Vec<_>>()));
        FileWriter {
            options,
            single,
            subtask: cx.subtask,
            env: cx.job.env.clone(),
            counter,
            input,
            written,
            files: HashMap::new(),
            closed: Vec::new(),
            published: false,
            clock: 0,
            files_made: 0,
            ending: false,
        }
    }

    /// Whether all files can take bytes; what encoders have made is handed on.
    fn flush(&mut self, bytes_min: usize, waker: &Waker) -> Result<bool> {
        let mut all = true;
        for writing in self.files.values_mut().chain(&mut self.closed) {
            all &= writing.flush(bytes_min, waker)?;
        }
        Ok(all)
    }

    fn write_to(&mut self, folder: &str, batch: &RecordBatch) -> Result<()> {
        self.clock += 1;
        if !self.files.contains_key(folder) {
            if self.files.len() >= OPEN_FILES_MAX {
                let oldest =
                    self.files.iter().min_by_key(|(_, w)| w.used_at).map(|(k, _)| k.clone());
                self.close(oldest)?;
            }
            let writing = self.open(folder)?;
            self.files.insert(folder.to_string(), writing);
        }
        let writing = self.files.get_mut(folder).expect("it was put there just now");
        writing.used_at = self.clock;
        writing.rows += batch.num_rows() as u64;
        writing.encoder.write(batch)?;
        if self.files.len() > 1 {
            let held: usize = self.files.values().map(|w| w.encoder.held_bytes()).sum();
            if held > HELD_BYTES_MAX {
                let largest = self
                    .files
                    .iter()
                    .max_by_key(|(_, w)| w.encoder.held_bytes())
                    .map(|(k, _)| k.clone());
                self.close(largest)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, key: Option<String>) -> Result<()> {
        if let Some(mut writing) = key.and_then(|key| self.files.remove(&key)) {
            writing.end()?;
            self.closed.push(writing);
        }
        Ok(())
    }

    /// Closes all files that are open.
    fn close_all(&mut self) -> Result<()> {
        let files: Vec<String> = self.files.keys().cloned().collect();
        files.into_iter().try_for_each(|key| self.close(Some(key)))
    }

    /// Closes files of a folder that have taken rows for long enough, where rows have no end.
    fn roll(&mut self) -> Result<()> {
        if !self.options.endless || self.single {
            return Ok(());
        }
        let begun_before = self.env.monotonic_ns().saturating_sub(self.options.roll_interval_ns);
        let old = self.files.iter().filter(|(_, writing)| writing.begun_ns <= begun_before);
        let old: Vec<String> = old.map(|(key, _)| key.clone()).collect();
        old.into_iter().try_for_each(|key| self.close(Some(key)))
    }

    /// Lets closed files appear; whether all of them are there.
    fn publish(&mut self, waker: &Waker) -> Result<bool> {
        let mut left = Vec::new();
        for mut writing in std::mem::take(&mut self.closed) {
            if writing.flush(0, waker)? && writing.output.commit(waker)? {
                self.counter.add(writing.rows);
                self.published = true;
            } else {
                left.push(writing);
            }
        }
        self.closed = left;
        Ok(self.closed.is_empty())
    }

    fn open(&mut self, folder: &str) -> Result<Writing> {
        let target =
            if self.single { PathBuf::from(&self.options.path) } else { self.part_path(folder) };
        let tag = self.options.run ^ self.env.random_u64();
        Ok(Writing {
            encoder: encoder(&self.options, &self.written)?,
            output: OutputFile::new(&self.env, target, tag),
            rows: 0,
            begun_ns: self.env.monotonic_ns(),
            used_at: self.clock,
            ended: false,
        })
    }

    fn part_path(&mut self, folder: &str) -> PathBuf {
        let extension = extension(&self.options);
        let name = format!(
            "part-{:016x}-{:03}-{:05}{extension}",
            self.options.run, self.subtask, self.files_made
        );
        self.files_made += 1;
        Path::new(&self.options.path).join(folder).join(name)
    }

    fn write_partitioned(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys: Vec<ArrayRef> =
            self.options.partition_by.iter().map(|&i| batch.column(i).clone()).collect();
        let order: Vec<SortColumn> =
            keys.iter().map(|k| SortColumn { values: k.clone(), options: None }).collect();
        let sorted = take_record_batch(batch, &lexsort_to_indices(&order, None)?)?;
        let keys: Vec<ArrayRef> =
            self.options.partition_by.iter().map(|&i| sorted.column(i).clone()).collect();
        let names: Vec<String> =
            self.options.partition_by.iter().map(|&i| self.input.field(i).name().clone()).collect();
        let values = keys.iter().map(Values::new).collect::<Result<Vec<_>>>()?;
        let kept: Vec<usize> = (0..self.input.fields().len())
            .filter(|i| !self.options.partition_by.contains(i))
            .collect();
        let rows = sorted.project(&kept)?;
        for range in partition(&keys)?.ranges() {
            let folder: Vec<String> = names
                .iter()
                .zip(&values)
                .map(|(name, values)| {
                    partition_folder(name, text_of(values, range.start).as_deref())
                })
                .collect();
            self.write_to(&folder.join("/"), &rows.slice(range.start, range.len()))?;
        }
        Ok(())
    }
}

fn text_of(values: &Values, row: usize) -> Option<String> {
    if values.is_null(row) {
        return None;
    }
    let mut text = Vec::new();
    values.write_text(row, &mut text);
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn extension(options: &FileWriteOptions) -> String {
    let format = match options.format {
        FileFormat::Parquet => return ".parquet".into(),
        FileFormat::Arrow => return ".arrow".into(),
        FileFormat::Csv => ".csv",
        FileFormat::Json => ".ndjson",
    };
    let packed = match options.compression {
        Compression::None => "",
        Compression::Gzip => ".gz",
        Compression::Zstd => ".zst",
    };
    format!("{format}{packed}")
}

impl Writing {
    fn flush(&mut self, bytes_min: usize, waker: &Waker) -> Result<bool> {
        if !self.output.ready(waker)? {
            return Ok(false);
        }
        if self.encoder.held_bytes() < bytes_min && !self.ended {
            return Ok(true);
        }
        let bytes = self.encoder.take();
        if bytes.is_empty() {
            return Ok(true);
        }
        self.output.write(bytes);
        self.output.ready(waker)
    }

    fn end(&mut self) -> Result<()> {
        if !self.ended {
            self.ended = true;
            self.encoder.finish()?;
        }
        Ok(())
    }
}

impl SinkWriter for FileWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        if !self.flush(WRITE_BYTES, cx.waker)? {
            return Ok(SinkPoll::Full(batch));
        }
        self.roll()?;
        if self.options.endless {
            self.publish(cx.waker)?;
        }
        let batch = typed_batch(batch, &self.input)?;
        if self.options.partition_by.is_empty() {
            self.write_to("", &batch)?;
        } else {
            self.write_partitioned(&batch)?;
        }
        Ok(SinkPoll::Ready)
    }

    fn commit(&mut self, _id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if !self.options.endless {
            return Ok(true);
        }
        match cx.job.is_settling() {
            true => self.close_all()?,
            false => self.roll()?,
        }
        self.publish(cx.waker)
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        if !self.ending {
            // A single file, and the first of a folder, exist even without a row, so that they can be read.
            if self.files.is_empty()
                && self.closed.is_empty()
                && !self.published
                && self.options.partition_by.is_empty()
                && (self.single || self.subtask == 0)
            {
                let writing = self.open("")?;
                self.files.insert(String::new(), writing);
            }
            self.close_all()?;
            self.ending = true;
        }
        // All files have all their bytes before the first one appears.
        if !self.flush(0, cx.waker)? {
            return Ok(false);
        }
        self.publish(cx.waker)
    }
}
