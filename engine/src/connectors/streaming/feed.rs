//! Bytes as they come in through a descriptor: a pipe, a terminal, a socket.
//!
//! Reading happens on I/O threads. A thread that waits looks a few times a second whether anyone still wants the bytes, so
//! that a query that ends leaves no thread behind and takes nothing from whoever reads next.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_runtime::env::{Environment, IoTask};
use thalweg_runtime::{Error, Result};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are handed on at once.
const STEP_BYTES: usize = 1 << 20;
/// How long a thread waits before it looks whether anyone still wants the bytes.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Where bytes come from.
pub trait ByteOrigin: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> String;
    /// Opens it. Blocks.
    fn open(&self) -> io::Result<File>;
}

/// What became of a look at a feed.
#[derive(Debug)]
pub enum Arrival {
    /// Bytes that were not there before.
    Bytes(Vec<u8>),
    /// Nothing more comes.
    End,
    /// Nothing now; the waker is registered.
    Wait {
        /// Whether nothing is left to be read at the moment.
        caught_up: bool,
    },
}

/// A descriptor being read, one read ahead of whoever takes the bytes.
pub struct Feed {
    /// Kept as long as it is read.
    _origin: Arc<dyn ByteOrigin>,
    env: Arc<dyn Environment>,
    reading: Option<Reading>,
    wanted: Wanted,
}

struct Reading {
    task: IoTask<Chunk>,
    /// Whether it waits until there is something.
    waits: bool,
}

struct Chunk {
    input: Input,
    bytes: Vec<u8>,
    ended: bool,
}

struct Input {
    file: File,
    name: String,
    wanted: Arc<AtomicBool>,
}

/// Tells waiting threads when the feed is dropped.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Feed {
    /// Opens the origin and starts to read.
    pub fn new(env: &Arc<dyn Environment>, origin: Arc<dyn ByteOrigin>) -> Self {
        let wanted = Arc::new(AtomicBool::new(true));
        let (opened, still) = (origin.clone(), wanted.clone());
        let task = IoTask::spawn(env, move || {
            let name = opened.name();
            let file = opened.open().map_err(|e| Error::io(format!("cannot open {name}"), &e))?;
            Input { file, name, wanted: still }.read(false)
        });
        Feed {
            _origin: origin,
            env: env.clone(),
            reading: Some(Reading { task, waits: false }),
            wanted: Wanted(wanted),
        }
    }

    /// What has come in.
    pub fn poll(&mut self, waker: &Waker) -> Result<Arrival> {
        loop {
            let Some(reading) = &mut self.reading else { return Ok(Arrival::End) };
            let Some(read) = reading.task.poll(waker) else {
                return Ok(Arrival::Wait { caught_up: reading.waits });
            };
            let Chunk { input, bytes, ended } = read?;
            self.reading = None;
            if !ended && self.wanted.0.load(Ordering::Relaxed) {
                // With nothing there the next read may take as long as it likes.
                let waits = bytes.is_empty();
                let task = IoTask::spawn(&self.env, move || input.read(waits));
                self.reading = Some(Reading { task, waits });
            }
            if !bytes.is_empty() {
                return Ok(Arrival::Bytes(bytes));
            }
        }
    }
}

impl Input {
    /// Reads what is there, or, if it is to wait, at least a byte.
    fn read(self, waits: bool) -> Result<Chunk> {
        let mut bytes = Vec::new();
        match self.fill(waits, &mut bytes) {
            Ok(ended) => Ok(Chunk { input: self, bytes, ended }),
            Err(error) => Err(Error::io(format!("cannot read {}", self.name), &error)),
        }
    }

    /// Whether this was the end.
    fn fill(&self, waits: bool, bytes: &mut Vec<u8>) -> io::Result<bool> {
        while bytes.len() < STEP_BYTES {
            if !self.wanted.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let now = !waits || !bytes.is_empty();
            let patience = if now { Timespec { tv_sec: 0, tv_nsec: 0 } } else { PATIENCE };
            if !is_readable(&self.file, &patience)? {
                match now {
                    true => return Ok(false),
                    false => continue,
                }
            }
            let from = bytes.len();
            bytes.resize(from + READ_BYTES, 0);
            let read = (&self.file).read(&mut bytes[from..]);
            bytes.truncate(from + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Whether there is something to read, an end or an error included.
fn is_readable(file: &File, patience: &Timespec) -> io::Result<bool> {
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(patience)) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error == rustix::io::Errno::INTR => Ok(false),
        Err(error) => Err(error.into()),
    }
}
