//! The watchdog: tells when nothing in a job can move any more, and why.
//!
//! A job is stuck when two looks in a row find that no step was done in between and every task that is left
//! waits for another task: for input, for room at a consumer, or for a shared build. Waits that the outside
//! can end (I/O, memory, a reader of the result) are not stuck.

use std::sync::atomic::Ordering;

use super::task_manager::DeployedJob;
use crate::operators::WaitReason;
use crate::task::Waiting;

/// Looks at one job from time to time.
pub struct Watchdog<'a> {
    job: &'a DeployedJob,
    steps: u64,
    suspicious: bool,
}

impl<'a> Watchdog<'a> {
    /// Has not looked yet.
    pub fn new(job: &'a DeployedJob) -> Self {
        Watchdog { job, steps: u64::MAX, suspicious: false }
    }

    /// The wait graph if the job was stuck at this look and at the one before.
    pub fn look(&mut self) -> Option<String> {
        let steps = self.job.context.steps.load(Ordering::Relaxed);
        let still = steps == self.steps && self.all_wait_for_each_other();
        self.steps = steps;
        let stuck = still && self.suspicious;
        self.suspicious = still;
        stuck.then(|| format!("nothing moves any more; the wait graph is\n{}", self.graph()))
    }

    fn all_wait_for_each_other(&self) -> bool {
        let mut any = false;
        for task in &self.job.tasks {
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
    pub fn graph(&self) -> String {
        let mut lines = Vec::new();
        for task in &self.job.tasks {
            let (vertex, subtask) = task.place();
            let name = self.job.names.get(vertex.0 as usize).map_or("?", String::as_str);
            if let Some((waiting, inputs)) = task.waiting() {
                lines.push(format!("  {name}[{subtask}] waits for {waiting:?} ({inputs})"));
            }
        }
        lines.join("\n")
    }
}
