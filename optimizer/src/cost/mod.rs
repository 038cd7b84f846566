//! Cost: three components kept apart, compared as time.
//!
//! Invariant: every component is a share of the elapsed time of the slowest subtask, so that work which is divided over
//! the threads is divided before it is added. Components are never compared one by one.

pub mod constants;
mod profile;

use std::ops::{Add, AddAssign};

pub use profile::CostProfile;

/// What an operator or a plan costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Bytes that are exchanged between subtasks.
    pub network: f64,
    /// Bytes that are read from or written to disk.
    pub disk: f64,
    /// Nanoseconds of computation.
    pub cpu: f64,
}

impl Cost {
    /// Only computation, in nanoseconds.
    pub fn cpu(nanoseconds: f64) -> Self {
        Self { cpu: nanoseconds, ..Self::default() }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            network: self.network + other.network,
            disk: self.disk + other.disk,
            cpu: self.cpu + other.cpu,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
