//! Jobs: deploying a graph as tasks, watching them, ending them.

mod context;
mod manager;
mod message;
mod task_manager;
mod watchdog;

pub use context::{BufferTimeout, JobContext, JobOptions, Services};
pub use manager::{JobHandle, JobManager, OperatorReport};
pub use message::Message;
pub use task_manager::TaskManager;
