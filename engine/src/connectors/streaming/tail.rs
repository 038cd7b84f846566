//! A file that grows: read to its end, and on from there when it has become longer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_runtime::env::{Environment, IoTask};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::{Error, Result};

use super::reader::{StreamProgress, StreamSplit};
use super::text::TextRecords;
use super::watch::{Files, Presence, Seen};
use crate::connectors::metadata::RowOrigin;
use crate::connectors::scan::ScanFile;
use crate::connectors::text::{Block, Decoded};

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// Where the next record of a file begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Bytes before the record.
    offset: u64,
    /// Lines before it.
    lines: u64,
    /// Which file it is, if it was opened.
    identity: Option<(u64, u64)>,
}

/// A file being read.
pub struct Tail {
    split: u64,
    path: PathBuf,
    name: String,
    files: Arc<Files>,
    env: Arc<dyn Environment>,
    records: TextRecords,

    block: Block,
    /// Whether the block has no further whole record.
    parsed: bool,
    /// Bytes of the file up to the end of the block.
    read: u64,
    file: Option<Arc<File>>,
    identity: Option<(u64, u64)>,
    /// What the last read saw of the file.
    seen: Option<Seen>,
    reading: Option<IoTask<Option<Read>>>,
    /// What a listing said of a file that has nothing more than was read: the file may be ahead of listings.
    settled: Option<Seen>,
}

/// What a read gave: the open file, what it is now, and bytes behind those before.
type Read = (Arc<File>, Seen, Vec<u8>);

impl Tail {
    /// Starts on a file, at a place if one is given.
    pub fn new(
        split: u64,
        path: PathBuf,
        place: Option<Place>,
        records: TextRecords,
        files: Arc<Files>,
        env: &Arc<dyn Environment>,
    ) -> Self {
        let name = path.display().to_string();
        let read = place.as_ref().map_or(0, |place| place.offset);
        let identity = place.as_ref().and_then(|place| place.identity);
        let block = match place {
            Some(place) if place.offset > 0 => Block::behind(place.lines),
            _ => Block::unread(),
        };
        Tail {
            split,
            path,
            name,
            files,
            env: env.clone(),
            records,
            block,
            parsed: true,
            read,
            file: None,
            identity,
            seen: None,
            reading: None,
            settled: None,
        }
    }

    /// Goes on reading if there is more; otherwise says what is to be done.
    fn look(&mut self) -> Result<Option<StreamProgress>> {
        match self.files.presence(self.split) {
            Presence::Unknown => return Ok(Some(StreamProgress::Wait { caught_up: false })),
            Presence::There(seen) => {
                self.check_identity(seen)?;
                if seen.size == self.read || self.settled == Some(seen) {
                    return Ok(Some(StreamProgress::Wait { caught_up: true }));
                }
            }
            // Who has it open reads what was in it.
            Presence::Gone if self.file.is_some() => {}
            Presence::Gone => return Ok(Some(StreamProgress::Finished)),
        }
        let (file, path, from, name) =
            (self.file.take(), self.path.clone(), self.read, self.name.clone());
        self.reading = Some(IoTask::spawn(&self.env, move || {
            read(file, path, from).map_err(|e| Error::io(format!("cannot read \"{name}\""), &e))
        }));
        Ok(None)
    }

    /// Fails unless the file is the one that was read, and not shorter.
    fn check(&mut self, seen: Seen) -> Result<()> {
        self.check_identity(seen)?;
        if seen.size >= self.read {
            return Ok(());
        }
        let detail = format!("it has {} bytes, of {} that were read", seen.size, self.read);
        Err(self.changed("became shorter", Some(detail)))
    }

    fn check_identity(&mut self, seen: Seen) -> Result<()> {
        match *self.identity.get_or_insert(seen.identity) == seen.identity {
            true => Ok(()),
            false => Err(self.changed("is another file than before", None)),
        }
    }

    fn changed(&self, how: &str, detail: Option<String>) -> Error {
        Error::User {
            message: format!("\"{}\" {how} while it was watched", self.name),
            detail,
            hint: Some("watched files must only grow".into()),
        }
    }
}

impl StreamSplit for Tail {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<StreamProgress> {
        if !self.parsed {
            let decoded = self.records.decode(&mut self.block, &self.name)?;
            self.records.deliver_rejects(&self.name, cx.job)?;
            match decoded {
                Decoded::Rows(_, 0) => return Ok(StreamProgress::Working),
                Decoded::Rows(columns, rows) => return Ok(StreamProgress::Rows(columns, rows)),
                Decoded::Changes(columns, kinds) => {
                    return Ok(StreamProgress::Changes(columns, kinds));
                }
                Decoded::NeedsMore | Decoded::Finished if self.block.last => {
                    return Ok(StreamProgress::Finished);
                }
                Decoded::NeedsMore | Decoded::Finished => self.parsed = true,
            }
        }
        if self.reading.is_none()
            && let Some(progress) = self.look()?
        {
            return Ok(progress);
        }
        let Some(task) = &mut self.reading else { return Ok(StreamProgress::Working) };
        let Some(read) = task.poll(cx.waker) else {
            return Ok(StreamProgress::Wait { caught_up: false });
        };
        self.reading = None;
        let Some((file, seen, bytes)) = read? else { return Ok(StreamProgress::Finished) };
        self.check(seen)?;
        self.seen = Some(seen);
        self.file = Some(file);
        self.read += bytes.len() as u64;
        let presence = self.files.presence(self.split);
        if let Presence::There(listed) = presence
            && bytes.is_empty()
        {
            self.settled = Some(listed);
        }
        // Nothing more in a file that has gone is its end.
        if !bytes.is_empty() || presence == Presence::Gone {
            self.block.check_record(&self.name)?;
            self.block.move_on(&bytes, &self.name)?;
            self.parsed = false;
        }
        Ok(StreamProgress::Working)
    }

    fn origin(&self) -> RowOrigin {
        let file = self.seen.map(|seen| ScanFile {
            path: self.path.clone(),
            name: self.name.clone(),
            size: seen.size,
            mtime_ns: seen.mtime_ns,
            partition: Vec::new(),
            columns: None,
        });
        RowOrigin { file, lines: Some(self.block.lines_of(&self.records.starts())) }
    }

    fn position(&self) -> Value {
        let left = self.block.bytes.len().saturating_sub(self.block.at) as u64;
        let place = Place {
            path: self.path.clone(),
            offset: self.read - left,
            lines: self.block.line_of(self.block.at) - 1,
            identity: self.identity,
        };
        serde_json::to_value(place).unwrap_or(Value::Null)
    }
}

/// Bytes of a file behind others; `None` if it has gone before it was opened.
fn read(file: Option<Arc<File>>, path: PathBuf, from: u64) -> io::Result<Option<Read>> {
    let file = match file.map_or_else(|| File::open(path).map(Arc::new), Ok) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let seen = Seen::new(&file.metadata()?);
    let mut bytes = vec![0; READ_BYTES.min(seen.size.saturating_sub(from) as usize)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Some((file, seen, bytes)))
}
