//! A file that appears whole or not at all.
//!
//! Bytes go to a temporary name in the target's folder; committing writes them through to the disk and renames.
//! A file that is dropped before leaves nothing behind, nor the folders that were made for it. Pipes and devices get the bytes as they are made.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use rustix::io::dup;
use thalweg_runtime::env::{Environment, IoTask};
use thalweg_runtime::{Error, Result};

use super::options::{Standard, is_stream, standard_stream};

/// Removes the temporary file unless it was renamed. Work under way holds it too, so that a file which such work
/// creates late is removed as well.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    renamed: AtomicBool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed.load(Ordering::Acquire) {
            // Nothing can be done about a file that cannot be removed.
            let _ = fs::remove_file(&self.path);
            remove_folders(&self.path);
        }
    }
}

/// The folders that were made for files of which none is there yet.
static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Makes the folders of a file.
fn make_folders(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    make_folders(folder)?;
    // Between this and the file's creation a COPY into the same folder that fails may remove it: opening fails then.
    let mut made = MADE.lock();
    match fs::create_dir(folder) {
        Ok(()) => {
            made.insert(folder.to_path_buf());
            Ok(())
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes those of a file's folders that were made for it and are empty.
fn remove_folders(path: &Path) {
    let mut made = MADE.lock();
    for folder in path.ancestors().skip(1) {
        if !made.contains(folder) || fs::remove_dir(folder).is_err() {
            return;
        }
        made.remove(folder);
    }
}

/// Keeps the folders of a file that is there now.
fn keep_folders(path: &Path) {
    let mut made = MADE.lock();
    for folder in path.ancestors().skip(1) {
        made.remove(folder);
    }
}

/// The file being written.
pub struct OutputFile {
    env: Arc<dyn Environment>,
    target: PathBuf,
    /// Whether bytes go to the target itself.
    direct: bool,
    temporary: Arc<Temporary>,
    state: State,
}

enum State {
    Unopened,
    Idle(File),
    Writing(IoTask<File>),
    Committing(IoTask<()>),
    Committed,
}

impl OutputFile {
    /// A file that will be at `target`; `tag` makes the temporary name unique.
    pub fn new(env: &Arc<dyn Environment>, target: PathBuf, tag: u64) -> Self {
        let name = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let direct = is_stream(&target.to_string_lossy());
        let path = match direct {
            true => target.clone(),
            false => target.with_file_name(format!(".{name}.{tag:016x}.tmp")),
        };
        OutputFile {
            env: env.clone(),
            target,
            direct,
            // What is not renamed is not removed either.
            temporary: Arc::new(Temporary { path, renamed: AtomicBool::new(direct) }),
            state: State::Unopened,
        }
    }

    /// Whether the file can take bytes; otherwise the waker is registered.
    pub fn ready(&mut self, waker: &Waker) -> Result<bool> {
        if let State::Writing(task) = &mut self.state {
            match task.poll(waker) {
                None => return Ok(false),
                Some(file) => self.state = State::Idle(file?),
            }
        }
        Ok(true)
    }

    /// Starts writing bytes; the file must be ready.
    pub fn write(&mut self, bytes: Vec<u8>) {
        let (opened, temporary) = (self.take_file(), self.temporary.clone());
        self.state = State::Writing(IoTask::spawn(&self.env, move || {
            let mut file = open(opened, &temporary.path)?;
            file.write_all(&bytes).map_err(|e| cannot_write(&temporary.path, &e))?;
            Ok(file)
        }));
    }

    /// Makes the file visible: false means "not yet", with the waker registered. The file must be ready at first.
    pub fn commit(&mut self, waker: &Waker) -> Result<bool> {
        if matches!(self.state, State::Unopened | State::Idle(_)) {
            let opened = self.take_file();
            if self.direct {
                self.state = State::Committed;
                return Ok(true);
            }
            let (temporary, target) = (self.temporary.clone(), self.target.clone());
            self.state = State::Committing(IoTask::spawn(&self.env, move || {
                let file = open(opened, &temporary.path)?;
                file.sync_all().map_err(|e| cannot_write(&temporary.path, &e))?;
                fs::rename(&temporary.path, &target).map_err(|e| cannot_write(&target, &e))?;
                temporary.renamed.store(true, Ordering::Release);
                keep_folders(&target);
                sync_folder(&target);
                Ok(())
            }));
        }
        if let State::Committing(task) = &mut self.state {
            match task.poll(waker) {
                None => return Ok(false),
                Some(done) => done?,
            }
            self.state = State::Committed;
        }
        Ok(matches!(self.state, State::Committed))
    }

    fn take_file(&mut self) -> Option<File> {
        match std::mem::replace(&mut self.state, State::Unopened) {
            State::Idle(file) => Some(file),
            State::Unopened | State::Writing(_) | State::Committing(_) | State::Committed => None,
        }
    }
}

fn open(opened: Option<File>, path: &Path) -> Result<File> {
    if let Some(file) = opened {
        return Ok(file);
    }
    make_folders(path).map_err(|e| {
        let folder = path.parent().unwrap_or(path);
        Error::io(format!("cannot create the folder \"{}\"", folder.display()), &e)
    })?;
    let text = path.to_string_lossy();
    let opened = match standard_stream(&text) {
        // Opened anew, a file behind it would be written from its beginning.
        Some(Standard::Output) => dup(io::stdout()).map(File::from).map_err(io::Error::from),
        Some(Standard::Error) => dup(io::stderr()).map(File::from).map_err(io::Error::from),
        None if is_stream(&text) => File::options().write(true).open(path),
        None => File::create(path),
    };
    opened.map_err(|e| cannot_write(path, &e))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("cannot write \"{}\"", path.display()), error)
}

/// A rename is durable once its folder is. Not every file system can do that, and the file is there in any case.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_made_for_nothing_are_removed_by_the_last_file() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        fs::create_dir(&own).unwrap();
        let temporary = |path: &str| {
            let path = own.join(path);
            File::create({
                make_folders(&path).unwrap();
                &path
            })
            .unwrap();
            Temporary { path, renamed: AtomicBool::new(false) }
        };
        let (first, second) = (temporary("new/k=1/a"), temporary("new/k=1/b"));
        drop(first);
        assert!(own.join("new/k=1").is_dir());
        drop(second);
        assert!(own.is_dir() && !own.join("new").exists());
        let (kept, lost) = (temporary("new/k=1/a"), temporary("new/k=2/b"));
        kept.renamed.store(true, Ordering::Release);
        keep_folders(&kept.path);
        drop((kept, lost));
        assert!(own.join("new/k=1/a").exists() && !own.join("new/k=2").exists());
    }
}
