//! The operator contract, and one file for each operator.
//!
//! An operator is a state machine that a task drives: it is stepped until it asks for input, waits for
//! something, or is finished. A step handles at most a batch, so that cancellation, back pressure and
//! checkpoints never wait long. Nothing here has a default body: what an operator does at a watermark, at a
//! barrier and under memory pressure is decided by whoever writes it. Only the size of its state may be left out, by which
//! nothing is decided.

mod context;
mod contract;
mod doubled;
mod spec;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod ttl_tests;

pub use context::{OperatorContext, OperatorMetrics};
pub use contract::{
    Operator, Output, PortId, PortSet, StateSize, StateSnapshot, TimeDomain, WaitReason,
    stateless_operator, untimed_operator,
};
pub use spec::OperatorSpec;

pub mod assert_single_row;
pub mod assigned_windows;
pub mod changelog_window;
pub mod event_time_window;
pub mod filter;
pub mod fold;
#[cfg(test)]
pub(crate) mod harness;
pub mod hash_aggregate;
pub mod hash_join;
pub mod iteration;
pub mod join_kind;
#[cfg(test)]
pub(crate) mod join_model;
pub(crate) mod join_output;
pub(crate) mod join_pairs;
pub mod limit;
pub mod merge;
pub mod nested_loop_join;
pub mod project;
pub mod sink;
pub mod sort;
pub mod sort_aggregate;
pub mod sort_key_spec;
pub mod sort_merge_join;
pub mod source_scan;
pub mod stream_join;
mod time_bound;
pub mod top_n;
pub mod union;
pub mod unnest;
mod untouched;
pub mod values;
pub mod window;

/// What every operator file uses.
pub mod prelude {
    pub use super::{
        Operator, OperatorContext, OperatorMetrics, Output, PortId, PortSet, StateSize,
        StateSnapshot, TimeDomain, WaitReason, stateless_operator, untimed_operator,
    };
    pub use crate::batch::Batch;
    pub use crate::element::{CheckpointId, StreamElement, Superstep, Watermark};
    pub use crate::error::{Error, Result};
}
