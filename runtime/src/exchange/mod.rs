//! Exchanges: how elements get from the subtasks of one vertex to those of another.
//!
//! A consumer subtask has one [`queue::InputQueue`], bounded by bytes, into which all producers write; each
//! producer subtask has a [`partition::ResultPartition`] for each out edge that decides the consumer. A full
//! queue makes the producer wait, never block.

pub mod buffer;
pub mod gate;
pub mod partition;
pub mod partitioner;
pub mod queue;
