//! Thalweg: SQL and tables over files and streams, on one dataflow runtime.
//!
//! The only crate that knows planner, optimizer and runtime. A [`Session`] is the way in.

pub mod catalog;
pub mod connectors;
pub mod lower;
