//! The real environment.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use super::timers::Timers;
use super::{Environment, IoJob, ReadFile};

/// Threads that blocking work may occupy at a time; more work waits for one.
const IO_THREADS_MAX: usize = 64;

/// How long the thread for timers waits for the next one.
const TIMER_THREAD_IDLE: Duration = Duration::from_secs(5);

/// Clocks, threads and files of the operating system.
#[derive(Debug)]
pub struct System {
    start: Instant,
    pool: Arc<IoPool>,
    clock: Arc<Clock>,
}

/// Timers, and the one thread that waits for them while there are any.
#[derive(Debug, Default)]
struct Clock {
    timers: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    timers: Timers,
    /// Whether the thread runs.
    watched: bool,
}

impl Clock {
    fn add(self: &Arc<Self>, start: Instant, at_ns: u64, waker: Waker) {
        let mut waiting = self.timers.lock();
        if waiting.timers.add(at_ns, waker) {
            self.changed.notify_one();
        }
        if waiting.watched {
            return;
        }
        let clock = self.clone();
        let spawned = std::thread::Builder::new()
            .name("timers".to_string())
            .spawn(move || clock.watch(start));
        waiting.watched = spawned.is_ok();
        if spawned.is_err() {
            // Without a thread everyone looks again at once, which is slow but right.
            let due = waiting.timers.take_due(u64::MAX);
            drop(waiting);
            due.into_iter().for_each(Waker::wake);
        }
    }

    fn watch(&self, start: Instant) {
        let mut waiting = self.timers.lock();
        loop {
            let now = elapsed_ns(start);
            let Some(first) = waiting.timers.first() else {
                let lapsed = self.changed.wait_for(&mut waiting, TIMER_THREAD_IDLE).timed_out();
                if lapsed && waiting.timers.first().is_none() {
                    break;
                }
                continue;
            };
            if first > now {
                self.changed.wait_for(&mut waiting, Duration::from_nanos(first - now));
                continue;
            }
            let due = waiting.timers.take_due(now);
            drop(waiting);
            due.into_iter().for_each(Waker::wake);
            waiting = self.timers.lock();
        }
        waiting.watched = false;
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl System {
    /// Starts no thread yet.
    pub fn new() -> Arc<Self> {
        Arc::new(System { start: Instant::now(), pool: Arc::default(), clock: Arc::default() })
    }
}

#[derive(Debug, Default)]
struct IoPool {
    queue: Mutex<IoQueue>,
    ready: Condvar,
}

#[derive(Default)]
struct IoQueue {
    jobs: VecDeque<IoJob>,
    idle: usize,
    threads: usize,
}

impl std::fmt::Debug for IoQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs, {} threads, {} idle", self.jobs.len(), self.threads, self.idle)
    }
}

impl IoPool {
    fn submit(self: &Arc<Self>, job: IoJob) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() || queue.threads == IO_THREADS_MAX {
            self.ready.notify_one();
            return;
        }
        queue.threads += 1;
        let pool = self.clone();
        let name = format!("io-{}", queue.threads);
        drop(queue);
        let spawned = std::thread::Builder::new().name(name).spawn(move || pool.run());
        if spawned.is_err() {
            self.queue.lock().threads -= 1;
            self.ready.notify_one();
        }
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                queue.idle += 1;
                self.ready.wait(&mut queue);
                queue.idle -= 1;
            };
            drop(queue);
            job();
        }
    }
}

impl Environment for System {
    fn now_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        elapsed_ns(self.start)
    }

    fn random_u64(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(self.monotonic_ns())
    }

    fn spawn_io(&self, job: IoJob) {
        self.pool.submit(job);
    }

    fn wake_at(&self, at_ns: u64, waker: Waker) {
        self.clock.add(self.start, at_ns, waker);
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        let len = metadata.is_file().then_some(metadata.len());
        Ok(Arc::new(SystemFile { file, len }))
    }
}

#[derive(Debug)]
struct SystemFile {
    file: File,
    len: Option<u64>,
}

impl ReadFile for SystemFile {
    fn len_bytes(&self) -> Option<u64> {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.len.is_none() {
            return (&self.file).read(buffer);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            match std::os::unix::fs::FileExt::read_at(&self.file, &mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}
