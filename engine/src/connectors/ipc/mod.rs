//! Reading Arrow IPC files and streams.
//!
//! A file is one split. Batches are read on I/O threads, one ahead; their columns are cast to the table's types.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use thalweg_runtime::env::{Environment, IoTask};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceSpec};
use thalweg_runtime::{Error, Result};

use crate::connectors::decoder::contained;
use crate::connectors::metadata::RowOrigin;
use crate::connectors::parquet::table_type;
use crate::connectors::scan::{
    ColumnSource, FileScan, ReadLayout, ScanFile, SplitFormat, SplitProgress, SplitScan,
    SplitSource, Wanted, constant, file_may_match, to_table_type,
};

mod frames;
#[cfg(test)]
mod tests;

use frames::Frames;

/// The first bytes of an IPC file; a stream has no such mark.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// The columns of a file as a table has them. Blocks.
pub fn file_schema(path: &Path, name: &str) -> Result<SchemaRef> {
    let schema = open_batches(path, name)?.schema;
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|f| Field::new(f.name(), table_type(f.data_type()), true))
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Opens the source.
pub fn open(spec: &SourceSpec, scan: FileScan, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
    let files = scan.files.iter().filter(|f| file_may_match(spec, &scan, f)).cloned().collect();
    Ok(SplitSource::open(spec, Box::new(IpcFormat { spec: spec.clone(), scan, files }), job))
}

struct IpcFormat {
    spec: SourceSpec,
    scan: FileScan,
    files: Vec<ScanFile>,
}

impl SplitFormat for IpcFormat {
    fn splits(&self) -> Vec<(usize, u64)> {
        self.files.iter().enumerate().map(|(i, f)| (i, f.size)).collect()
    }

    fn split_name(&self, split: usize) -> Option<String> {
        self.files.get(split).map(|file| file.name.clone())
    }

    fn open(
        &self,
        split: usize,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn SplitScan>> {
        let file = self.files[split].clone();
        let (path, name) = (file.path.clone(), file.name.clone());
        let task = IoTask::spawn(&job.env, move || {
            let mut batches = open_batches(&path, &name)?;
            let first = batches.next(&name)?;
            Ok((batches, first))
        });
        Ok(Box::new(IpcScan {
            env: job.env.clone(),
            spec: self.spec.clone(),
            scan: self.scan.clone(),
            file,
            layout: layout.clone(),
            sources: None,
            task: Some(task),
            batch: None,
        }))
    }
}

/// A file's batches, whichever of the two forms it has.
struct Batches {
    schema: SchemaRef,
    iterator: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
}

impl Batches {
    fn next(&mut self, name: &str) -> Result<Option<RecordBatch>> {
        guarded(name, || self.iterator.next().transpose())
    }
}

fn open_batches(path: &Path, name: &str) -> Result<Batches> {
    let opened = || -> std::io::Result<(File, bool)> {
        let mut file = File::open(path)?;
        let mut magic = Vec::new();
        file.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        Ok((file, magic == FILE_MAGIC))
    };
    let (file, is_file) = opened().map_err(|e| Error::io(format!("cannot open \"{name}\""), &e))?;
    guarded(name, || {
        let mut frames = Frames::of(&file)?;
        if is_file {
            frames.check_file()?
        } else {
            frames.check_stream()?
        }
        let mut source = BufReader::new(file);
        source.rewind()?;
        Ok(if is_file {
            let reader = FileReader::try_new(source, None)?;
            Batches { schema: reader.schema(), iterator: Box::new(reader) }
        } else {
            let reader = StreamReader::try_new(source, None)?;
            Batches { schema: reader.schema(), iterator: Box::new(reader) }
        })
    })
}

/// Runs decoder code: its errors name the file, and a panic in it is such an error too.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    let damaged = |detail: String| Error::User {
        message: format!("the Arrow IPC file \"{name}\" is damaged or of an unknown kind"),
        detail: Some(detail),
        hint: None,
    };
    match contained(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(ArrowError::NotYetImplemented(what))) => {
            Err(Error::Unsupported(format!("{what} (in the Arrow IPC file \"{name}\")")))
        }
        Some(Err(error)) => Err(damaged(error.to_string())),
        None => Err(damaged("its contents contradict each other".into())),
    }
}

/// The reader travels to the I/O thread and back with each batch.
type BatchTask = IoTask<(Batches, Option<RecordBatch>)>;

struct IpcScan {
    env: Arc<dyn Environment>,
    spec: SourceSpec,
    scan: FileScan,
    file: ScanFile,
    layout: ReadLayout,
    sources: Option<Vec<ColumnSource>>,
    task: Option<BatchTask>,
    /// The batch in hand and how many of its rows were delivered.
    batch: Option<(RecordBatch, usize)>,
}

impl SplitScan for IpcScan {
    fn step(&mut self, cx: &OperatorContext<'_>, _wanted: Wanted<'_>) -> Result<SplitProgress> {
        if let Some((batch, at)) = self.batch.take() {
            let rows = self.spec.batch_rows.max(1).min(batch.num_rows() - at);
            let part = batch.slice(at, rows);
            if at + rows < batch.num_rows() {
                self.batch = Some((batch, at + rows));
            }
            return Ok(SplitProgress::Rows(self.columns(&part)?, rows));
        }
        let Some(task) = &mut self.task else { return Ok(SplitProgress::Finished) };
        let Some(done) = task.poll(cx.waker) else { return Ok(SplitProgress::Wait) };
        let (mut batches, batch) = done?;
        self.task = None;
        if self.sources.is_none() {
            let sources =
                self.layout.sources(&self.spec.schema, &self.scan, &self.file, &batches.schema)?;
            self.sources = Some(sources);
        }
        if let Some(batch) = batch {
            if batch.num_rows() > 0 {
                self.batch = Some((batch, 0));
            }
            let name = self.file.name.clone();
            self.task = Some(IoTask::spawn(&self.env, move || {
                let next = batches.next(&name)?;
                Ok((batches, next))
            }));
        }
        Ok(SplitProgress::Working)
    }

    fn origin(&self) -> RowOrigin {
        RowOrigin { file: Some(self.file.clone()), lines: None }
    }
}

impl IpcScan {
    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let sources = self.sources.iter().flatten();
        let fields = self.layout.schema.fields().iter();
        sources
            .zip(fields)
            .map(|(source, field)| match source {
                ColumnSource::Constant(value) => constant(value, batch.num_rows()),
                ColumnSource::File(index) => {
                    let column = batch.column(*index).clone();
                    to_table_type(column, field.data_type(), &self.file.name, field.name())
                }
            })
            .collect()
    }
}
