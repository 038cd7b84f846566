//! Input that can be read only once, or only from its beginning, kept in an unlinked temporary file.
//!
//! Standard input is read to its end the first time a statement names it; later statements see the same bytes.
//! Formats that need random access (Parquet, Arrow files) inside a compressed file are decompressed here too.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;
use thalweg_runtime::{Error, Result};

use super::Compression;

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
    let context = |e: &io::Error| Error::io(format!("cannot read \"{name}\""), e);
    let copy = || -> io::Result<File> {
        let mut source = File::open(path)?;
        let mut target = tempfile::tempfile()?;
        io::copy(&mut source, &mut target)?;
        Ok(target)
    };
    let file = copy().map_err(|e| context(&e))?;
    let path = path_of(&file);
    spooled.insert(key, file);
    Ok(path)
}

/// Decompresses a file; the answer is a path under which the plain bytes can be read by position.
pub fn decompressed(path: &Path, mtime_ns: i64, compression: Compression) -> Result<PathBuf> {
    let key = (path.to_path_buf(), mtime_ns);
    let mut spooled = SPOOLED.lock();
    if let Some(file) = spooled.get(&key) {
        return Ok(path_of(file));
    }
    let copy = || -> io::Result<File> {
        let mut source = reader(File::open(path)?, compression)?;
        let mut target = tempfile::tempfile()?;
        io::copy(&mut source, &mut target)?;
        target.seek(SeekFrom::Start(0))?;
        Ok(target)
    };
    let file =
        copy().map_err(|e| Error::io(format!("cannot decompress \"{}\"", path.display()), &e))?;
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
