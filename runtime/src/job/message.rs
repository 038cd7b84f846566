//! What the job manager and its task managers say to each other. All of it can be sent over a wire.

use serde::{Deserialize, Serialize};

use super::JobOptions;
use crate::error::Error;
use crate::graph::{JobGraph, VertexId};

/// One message, in either direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Start the tasks of a graph.
    Deploy {
        /// The job.
        job: u64,
        /// What to run.
        graph: JobGraph,
        /// Its settings.
        options: JobOptions,
    },
    /// End the job's tasks.
    Cancel {
        /// The job.
        job: u64,
    },
    /// A task came to its end.
    TaskFinished {
        /// The job.
        job: u64,
        /// The task's vertex.
        vertex: VertexId,
        /// The task's number in it.
        subtask: usize,
    },
    /// A task failed, or was told to end.
    TaskFailed {
        /// The job.
        job: u64,
        /// The task's vertex.
        vertex: VertexId,
        /// The task's number in it.
        subtask: usize,
        /// Why.
        error: Error,
    },
}
