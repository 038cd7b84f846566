//! Files that appear and grow while a query runs: each is a split, read to its end and on from there.
//!
//! All readers look at the folders once an interval, and each takes the files whose names fall to it. A file must only
//! grow: one that became shorter, or another file under its name, is an error. A file that was removed ends.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, mem};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_runtime::env::IoTask;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::random::mix;
use super::reader::{Discovery, StreamFormat, StreamSource, StreamSplit};
use super::tail::Tail;
use super::text::TextFormat;
use crate::connectors::files::{Compression, expand_glob, is_glob, strip_compression};
use crate::connectors::scan::ReadLayout;

/// The connector's registered name.
pub const CONNECTOR: &str = "filesystem-watch";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSpec {
    /// Files, folders and patterns.
    pub paths: Vec<String>,
    /// Milliseconds between two looks at them.
    pub interval_ms: u64,
    /// Whether they are read one after another in the order of their names.
    pub ordered: bool,
    /// How the files are read.
    pub text: TextFormat,
}

/// Reads files as they appear and grow.
#[derive(Debug, Default)]
pub struct WatchConnector;

impl SourceConnector for WatchConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let watch: WatchSpec = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of watched files: {e}")))?;
        let format = WatchFormat { spec: spec.clone(), watch, files: Arc::default() };
        Ok(StreamSource::open(spec, Box::new(format), job))
    }
}

/// What a look at a file showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Bytes.
    pub size: u64,
    /// Which file it is, whatever its name.
    pub identity: (u64, u64),
    /// Nanoseconds since 1970 of its last change.
    pub mtime_ns: i64,
}

impl Seen {
    /// What metadata say.
    pub fn new(metadata: &Metadata) -> Self {
        let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000) + metadata.mtime_nsec();
        Seen { size: metadata.len(), identity: (metadata.dev(), metadata.ino()), mtime_ns }
    }
}

/// Whether a file is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nobody has looked yet.
    Unknown,
    /// It is.
    There(Seen),
    /// Not any more.
    Gone,
}

/// What is known of the files, by the numbers of their splits.
#[derive(Debug, Default)]
pub struct Files(Mutex<HashMap<u64, (PathBuf, Presence)>>);

impl Files {
    /// Whether a file is there, as far as is known.
    pub fn presence(&self, split: u64) -> Presence {
        self.0.lock().get(&split).map_or(Presence::Unknown, |(_, presence)| *presence)
    }

    fn path(&self, split: u64) -> Option<PathBuf> {
        self.0.lock().get(&split).map(|(path, _)| path.clone())
    }

    fn add(&self, split: u64, path: PathBuf) {
        self.0.lock().entry(split).or_insert((path, Presence::Unknown));
    }
}

struct WatchFormat {
    spec: SourceSpec,
    watch: WatchSpec,
    files: Arc<Files>,
}

impl StreamFormat for WatchFormat {
    fn splits(&self) -> u64 {
        0
    }

    fn split_name(&self, split: u64) -> Option<String> {
        self.files.path(split).map(|path| path.display().to_string())
    }

    fn open(
        &self,
        split: u64,
        position: Option<&Value>,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn StreamSplit>> {
        let place = position.map(|position| {
            serde_json::from_value(position.clone())
                .map_err(|e| Error::Internal(format!("the position in a watched file: {e}")))
        });
        let place: Option<super::tail::Place> = place.transpose()?;
        if let Some(place) = &place {
            self.files.add(split, place.path.clone());
        }
        let path = self.files.path(split);
        let path = path.ok_or_else(|| Error::Internal("a file that nobody has found".into()))?;
        let records = self.watch.text.records(&self.spec, layout);
        Ok(Box::new(Tail::new(split, path, place, records, self.files.clone(), &job.env)))
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn ordered(&self) -> bool {
        self.watch.ordered
    }

    fn discovery(&self, cx: &OperatorContext<'_>) -> Option<Box<dyn Discovery>> {
        let share = match self.watch.ordered {
            true if cx.subtask > 0 => return None,
            true => (0, 1),
            false => (cx.subtask as u64, cx.parallelism.max(1) as u64),
        };
        Some(Box::new(Watcher {
            paths: self.watch.paths.clone(),
            interval_ns: self.watch.interval_ms.saturating_mul(1_000_000),
            files: self.files.clone(),
            share,
            state: Looking::Due,
        }))
    }
}

/// Looks for files, for one reader.
struct Watcher {
    paths: Vec<String>,
    interval_ns: u64,
    files: Arc<Files>,
    /// Which files are this reader's: those whose number leaves this remainder.
    share: (u64, u64),
    state: Looking,
}

enum Looking {
    Due,
    Under(IoTask<Vec<(PathBuf, Seen)>>),
    /// Until the clock that never goes back shows this; a wake-up is registered.
    Resting(u64),
}

impl Discovery for Watcher {
    fn poll(&mut self, cx: &OperatorContext<'_>) -> Result<Option<Vec<u64>>> {
        let env = &cx.job.env;
        loop {
            match mem::replace(&mut self.state, Looking::Due) {
                Looking::Resting(until) if env.monotonic_ns() < until => {
                    self.state = Looking::Resting(until);
                    return Ok(None);
                }
                Looking::Resting(_) | Looking::Due => {
                    let paths = self.paths.clone();
                    self.state = Looking::Under(IoTask::spawn(env, move || list(&paths)));
                }
                Looking::Under(mut task) => {
                    let Some(found) = task.poll(cx.waker) else {
                        self.state = Looking::Under(task);
                        return Ok(None);
                    };
                    let until = env.monotonic_ns().saturating_add(self.interval_ns);
                    env.wake_at(until, cx.waker.clone());
                    self.state = Looking::Resting(until);
                    return self.take(found?).map(Some);
                }
            }
        }
    }
}

impl Watcher {
    /// The files that are new to this reader.
    fn take(&self, found: Vec<(PathBuf, Seen)>) -> Result<Vec<u64>> {
        let (mine, of) = self.share;
        let mut known = self.files.0.lock();
        let before: Vec<u64> = known.keys().copied().filter(|split| split % of == mine).collect();
        let mut new = Vec::new();
        let mut there = HashSet::new();
        for (path, seen) in found {
            let split = number_of(&path);
            if split % of != mine {
                continue;
            }
            if strip_compression(&path.to_string_lossy()).0 != Compression::None {
                return Err(Error::user(format!(
                    "\"{}\" is compressed: such files cannot be watched",
                    path.display()
                )));
            }
            there.insert(split);
            let (_, presence) = known.entry(split).or_insert_with(|| {
                new.push(split);
                (path, Presence::Unknown)
            });
            *presence = Presence::There(seen);
        }
        for split in before.into_iter().filter(|split| !there.contains(split)) {
            if let Some((_, presence)) = known.get_mut(&split) {
                *presence = Presence::Gone;
            }
        }
        Ok(new)
    }
}

/// The number of a file's split, which follows from its name.
fn number_of(path: &Path) -> u64 {
    path.as_os_str().as_bytes().iter().fold(1, |number, byte| mix(number ^ u64::from(*byte)))
}

/// All files behind paths, sorted by name. What is not there yet may come.
fn list(paths: &[String]) -> Result<Vec<(PathBuf, Seen)>> {
    let mut found = Vec::new();
    for written in paths {
        let plain = written.strip_prefix("file://").unwrap_or(written);
        let failed = |e: &io::Error| Error::io(format!("cannot list \"{written}\""), e);
        if is_glob(plain) && !Path::new(plain).exists() {
            for path in expand_glob(plain).map_err(|e| failed(&e))? {
                add(&path, &mut found).map_err(|e| failed(&e))?;
            }
        } else {
            add(Path::new(plain), &mut found).map_err(|e| failed(&e))?;
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.dedup_by(|(a, _), (b, _)| a == b);
    Ok(found)
}

/// Adds a file, or the files below a folder but hidden ones.
fn add(path: &Path, found: &mut Vec<(PathBuf, Seen)>) -> io::Result<()> {
    // Files may go at any moment.
    let there = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return there(error),
    };
    if !metadata.is_dir() {
        found.push((path.to_path_buf(), Seen::new(&metadata)));
        return Ok(());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return there(error),
    };
    for entry in entries {
        let entry = entry?;
        let hidden = matches!(entry.file_name().as_bytes().first(), Some(b'.' | b'_'));
        if !hidden {
            add(&entry.path(), found)?;
        }
    }
    Ok(())
}
