//! Jobs: deploying a graph as tasks, watching them, ending them.

mod alignment;
mod barriers;
mod context;
mod late_rows;
mod latency;
mod manager;
mod message;
mod split_times;
mod task_manager;
mod watchdog;

pub use alignment::{AlignmentGroup, Alignments, Standing};
pub use barriers::Barriers;
pub use context::{BufferTimeout, JobContext, JobOptions, Services};
pub use late_rows::{KeepLate, LateBatch, LateRows};
pub use latency::LatencySteering;
pub use manager::{JobHandle, JobManager, OperatorReport};
pub use message::Message;
pub use split_times::{ScanTimes, SplitReport, SplitTime, SplitTimes};
pub use task_manager::TaskManager;
