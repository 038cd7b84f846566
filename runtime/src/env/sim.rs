//! A simulated environment: a clock that moves only when asked, seeded randomness, and faults on demand.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use super::timers::Timers;
use super::{Environment, IoJob, ReadFile};

/// One thread, no real time, files in memory.
#[derive(Debug)]
pub struct Sim {
    now_us: AtomicI64,
    random: AtomicU64,
    reads_until_fault: Arc<AtomicI64>,
    files: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
    timers: Mutex<Timers>,
}

impl Sim {
    /// The clock starts at 0.
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Sim {
            now_us: AtomicI64::new(0),
            random: AtomicU64::new(seed),
            reads_until_fault: Arc::new(AtomicI64::new(i64::MAX)),
            files: Mutex::default(),
            timers: Mutex::default(),
        })
    }

    /// Moves the clock, and wakes whom that concerns.
    pub fn advance_us(&self, by: i64) {
        self.now_us.fetch_add(by, Ordering::Relaxed);
        let due = self.timers.lock().take_due(self.monotonic_ns());
        due.into_iter().for_each(Waker::wake);
    }

    /// A file that can be opened from now on.
    pub fn add_file(&self, path: impl Into<PathBuf>, bytes: impl Into<Arc<[u8]>>) {
        self.files.lock().insert(path.into(), bytes.into());
    }

    /// The `k`-th read from now on (0 is the next) fails.
    pub fn fail_read(&self, k: u32) {
        self.reads_until_fault.store(i64::from(k), Ordering::Relaxed);
    }
}

impl Environment for Sim {
    fn now_us(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.now_us()).unwrap_or(0) * 1_000
    }

    fn random_u64(&self) -> u64 {
        // SplitMix64: every seed gives a full-period sequence.
        let state = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn spawn_io(&self, job: IoJob) {
        job();
    }

    fn wake_at(&self, at_ns: u64, waker: Waker) {
        self.timers.lock().add(at_ns, waker);
        let due = self.timers.lock().take_due(self.monotonic_ns());
        due.into_iter().for_each(Waker::wake);
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let bytes = self.files.lock().get(path).cloned();
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Arc::new(SimFile { bytes, reads_until_fault: self.reads_until_fault.clone() }))
    }
}

#[derive(Debug)]
struct SimFile {
    bytes: Arc<[u8]>,
    reads_until_fault: Arc<AtomicI64>,
}

impl ReadFile for SimFile {
    fn len_bytes(&self) -> Option<u64> {
        Some(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.reads_until_fault.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(io::Error::other("injected fault"));
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let n = buffer.len().min(self.bytes.len() - start);
        buffer[..n].copy_from_slice(&self.bytes[start..start + n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::IoTask;
    use super::*;

    #[test]
    fn an_injected_fault_reaches_the_reader_once() {
        let sim = Sim::new(1);
        sim.add_file("f", b"abc".to_vec());
        sim.fail_read(1);
        let file = sim.open_file(Path::new("f")).unwrap();
        let mut buffer = [0; 3];
        assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 2);
        assert!(file.read_at(&mut buffer, 0).is_err());
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 3);
        assert!(sim.open_file(Path::new("g")).is_err());
    }

    #[test]
    fn a_panic_in_blocking_work_is_an_error() {
        let env: Arc<dyn Environment> = Sim::new(1);
        let mut task = IoTask::<()>::spawn(&env, || panic!("on purpose"));
        assert!(task.poll(std::task::Waker::noop()).unwrap().is_err());
    }
}
