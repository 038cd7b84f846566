//! The watchdog: tells when nothing in a job can move any more, and why.
//!
//! A job is stuck when two looks in a row find that no step was done in between and every task that is left
//! waits for another task: for input, for room at a consumer, or for a shared build. Waits that the outside
//! can end (I/O, memory, a reader of the result) are not stuck.

use std::sync::atomic::Ordering;

use super::task_manager::DeployedJob;
use crate::operators::WaitReason;
use crate::task::Waiting;

/// What the last look at a job found.
#[derive(Debug, Default)]
pub struct Watchdog {
    steps: Option<u64>,
    suspicious: bool,
}

impl Watchdog {
    /// The wait graph if the job was stuck at this look and at the one before.
    pub fn look(&mut self, job: &DeployedJob) -> Option<String> {
        let steps = job.context.steps.load(Ordering::Relaxed);
        let still = self.steps == Some(steps) && all_wait_for_each_other(job);
        self.steps = Some(steps);
        let stuck = still && self.suspicious;
        self.suspicious = still;
        stuck.then(|| format!("nothing moves any more; the wait graph is\n{}", wait_graph(job)))
    }
}

fn all_wait_for_each_other(job: &DeployedJob) -> bool {
    let mut any = false;
    for task in &job.tasks {
        if task.has_ended() {
            continue;
        }
        match task.waiting() {
            Some((Waiting::Input(_) | Waiting::Output, _)) => any = true,
            Some((Waiting::Operator(_, WaitReason::SharedBuild(_)), _)) => any = true,
            Some((Waiting::Operator(..), _)) | None => return false,
        }
    }
    any
}

/// One line for each waiting task.
pub fn wait_graph(job: &DeployedJob) -> String {
    let mut lines = Vec::new();
    for task in &job.tasks {
        let (vertex, subtask) = task.place();
        let name = job.names.get(vertex.0 as usize).map_or("?", String::as_str);
        if let Some((waiting, inputs)) = task.waiting() {
            lines.push(format!("  {name}[{subtask}] waits for {waiting:?} ({inputs})"));
        }
    }
    lines.join("\n")
}
