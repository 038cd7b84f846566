//! Input that can be read only once, or only from its beginning, kept in an unlinked temporary file.
//!
//! Standard input is read to its end the first time a statement names it; later statements see the same bytes.
//! Reading a pipe can be interrupted, and is bounded by the same setting as spilling. Both hold for the whole process, as
//! standard input does.
//! Formats that need random access (Parquet, Arrow files) inside a compressed file are decompressed here too.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thalweg_runtime::{Error, Result};

use super::Compression;

/// Where the temporary files are, and how many bytes one may have.
static PLACE: LazyLock<Mutex<(PathBuf, Option<u64>)>> =
    LazyLock::new(|| Mutex::new((std::env::temp_dir(), None)));

/// How often reading has been interrupted.
static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);

/// How long a reader waits for a pipe before it looks whether it has been interrupted.
const WAIT_MS: i64 = 50;

/// Bytes that are read from a pipe at a time.
const READ_BYTES: usize = 256 << 10;

/// Tells where temporary files are put from now on, and how many bytes one may have.
pub fn configure(directory: PathBuf, bytes_max: Option<u64>) {
    *PLACE.lock() = (directory, bytes_max);
}

/// Ends the reading of pipes in the whole process; each reader gets `Cancelled`.
pub fn interrupt() {
    INTERRUPTIONS.fetch_add(1, Ordering::SeqCst);
}

/// The open temporary files; closing one frees its bytes. Keyed by the path and the time of the original.
static SPOOLED: LazyLock<Mutex<HashMap<(PathBuf, i64), File>>> = LazyLock::new(Mutex::default);

/// Reads a pipe to its end; the answer is a path under which its bytes can be read by position.
pub fn pipe(path: &Path, name: &str) -> Result<PathBuf> {
    let is_stdin = matches!(path.to_str(), Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"));
    let key = (if is_stdin { PathBuf::from("/dev/stdin") } else { path.to_path_buf() }, 0);
    let mut spooled = SPOOLED.lock();
    if is_stdin && let Some(file) = spooled.get(&key) {
        return Ok(path_of(file));
    }
    let file = copy_pipe(path, name)?;
    let path = path_of(&file);
    spooled.insert(key, file);
    Ok(path)
}

fn copy_pipe(path: &Path, name: &str) -> Result<File> {
    let failed = |e: &io::Error| Error::io(format!("cannot read \"{name}\""), e);
    let interruptions = INTERRUPTIONS.load(Ordering::SeqCst);
    let mut source = File::open(path).map_err(|e| failed(&e))?;
    let (mut target, bytes_max) = temporary_file()?;
    let (mut buffer, mut bytes) = (vec![0; READ_BYTES], 0);
    loop {
        if INTERRUPTIONS.load(Ordering::SeqCst) != interruptions {
            return Err(Error::Cancelled);
        }
        if !is_readable(&source).map_err(|e| failed(&e))? {
            continue;
        }
        let read = match source.read(&mut buffer) {
            Ok(0) => return Ok(target),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(&e)),
        };
        bytes += read as u64;
        if bytes_max.is_some_and(|max| bytes > max) {
            return Err(Error::User {
                message: format!("\"{name}\" has more bytes than max_spill_size"),
                detail: Some("What can be read only once is kept in a temporary file.".into()),
                hint: None,
            });
        }
        target.write_all(&buffer[..read]).map_err(|e| cannot_keep(name, &e))?;
    }
}

/// Whether there is something to read, or nothing will come any more; waits for a moment.
fn is_readable(source: &File) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: WAIT_MS * 1_000_000 };
    let mut sources = [PollFd::new(source, PollFlags::IN)];
    match poll(&mut sources, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file without a name in the directory of spill files, and how many bytes it may have.
fn temporary_file() -> Result<(File, Option<u64>)> {
    let (directory, bytes_max) = PLACE.lock().clone();
    let file = tempfile::tempfile_in(&directory).map_err(|e| {
        Error::io(format!("cannot create a file in \"{}\"", directory.display()), &e)
    })?;
    Ok((file, bytes_max))
}

fn cannot_keep(name: &str, error: &io::Error) -> Error {
    Error::io(format!("cannot keep the bytes of \"{name}\" in spill_directory"), error)
}

/// Decompresses a file; the answer is a path under which the plain bytes can be read by position.
pub fn decompressed(path: &Path, mtime_ns: i64, compression: Compression) -> Result<PathBuf> {
    let key = (path.to_path_buf(), mtime_ns);
    let mut spooled = SPOOLED.lock();
    if let Some(file) = spooled.get(&key) {
        return Ok(path_of(file));
    }
    let copy = |mut target: File| -> io::Result<File> {
        let mut source = reader(File::open(path)?, compression)?;
        io::copy(&mut source, &mut target)?;
        target.seek(SeekFrom::Start(0))?;
        Ok(target)
    };
    let file = copy(temporary_file()?.0)
        .map_err(|e| Error::io(format!("cannot decompress \"{}\"", path.display()), &e))?;
    let path = path_of(&file);
    spooled.insert(key, file);
    Ok(path)
}

/// The plain bytes behind a compression.
pub fn reader(
    source: impl Read + Send + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(source),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(source)),
        Compression::Zstd => Box::new(zstd::Decoder::new(source)?),
    })
}

/// The file has no name any more, but the process can open its descriptor anew.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
