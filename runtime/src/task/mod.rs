//! Tasks: one subtask of one vertex, stepped by our own threads.

mod chain;
mod flusher;
mod panics;
mod scheduler;
mod times;

pub use chain::{Progress, Task, TaskParts, Waiting};
pub use scheduler::{Scheduler, TaskRef};
pub use times::{TaskTimes, TimeSpent};
