//! What the components of a cost mean in time, for one kind of deployment.

use crate::cost::Cost;
use crate::cost::constants::{DISK_BYTE_NS, MEMORY_COPY_BYTE_NS};

/// Weights that turn a cost into time, and the resources they assume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostProfile {
    /// Nanoseconds per exchanged byte.
    pub network_byte_ns: f64,
    /// Nanoseconds per byte of disk traffic.
    pub disk_byte_ns: f64,
    /// Subtasks of an operator that runs in parallel.
    pub parallelism: f64,
    /// Bytes that the operators of one query may hold; beyond, they spill.
    pub memory_bytes: f64,
}

impl CostProfile {
    /// One process: an exchange is a memory copy, a broadcast into a build is one shared build.
    pub fn in_process(threads: usize, memory_bytes: f64) -> Self {
        Self {
            network_byte_ns: MEMORY_COPY_BYTE_NS,
            disk_byte_ns: DISK_BYTE_NS,
            parallelism: threads.max(1) as f64,
            memory_bytes,
        }
    }

    /// The time a cost stands for, nanoseconds.
    pub fn time_ns(&self, cost: &Cost) -> f64 {
        cost.network * self.network_byte_ns + cost.disk * self.disk_byte_ns + cost.cpu
    }
}
