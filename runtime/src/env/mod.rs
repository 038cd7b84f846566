//! The seam between the runtime and the world: clocks, randomness, blocking I/O, files.
//!
//! Everything that could make two runs differ goes through [`Environment`]. [`System`] is the real one;
//! [`Sim`] runs blocking work at once, on one thread, from a seed and with injected faults, for tests.

mod io_task;
mod sim;
mod system;
mod timers;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

pub use io_task::IoTask;
pub use sim::Sim;
pub use system::System;

/// An open file that is read by position.
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Length in bytes when it was opened; `None` for what has no length (pipes).
    fn len_bytes(&self) -> Option<u64>;
    /// Reads up to `buffer.len()` bytes at an offset; fewer only at the end. Pipes ignore the offset.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// Work that may block, for the I/O threads.
pub type IoJob = Box<dyn FnOnce() + Send>;

/// Clocks, randomness, threads and files.
pub trait Environment: Send + Sync + fmt::Debug {
    /// Microseconds since 1970.
    fn now_us(&self) -> i64;
    /// Nanoseconds of a clock that never goes back, from an arbitrary start.
    fn monotonic_ns(&self) -> u64;
    /// A random number.
    fn random_u64(&self) -> u64;
    /// Runs blocking work where it does not hold up a task.
    fn spawn_io(&self, job: IoJob);
    /// Wakes a task when [`Environment::monotonic_ns`] has come to `at_ns`, once.
    fn wake_at(&self, at_ns: u64, waker: Waker);
    /// Opens a file for reading. Blocks: call it inside [`Environment::spawn_io`].
    fn open_file(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;
}
