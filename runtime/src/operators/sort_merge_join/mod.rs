//! Sort-merge join: two inputs in the order of their keys, joined as they come.
//!
//! The probe side is port 0, the build side port 1. Kept are one batch of each side, and of the build side the rows
//! with the key at hand, however many batches they fill: a key with many rows on both sides needs no more than the
//! build side's. Pairs are collected over the keys of both batches, so that short runs do not make short batches.
//! Nothing happens at a watermark but handing on what was gathered. Both sides must be bounded in each key, ordered
//! as the spec says, and insert-only. The group held is charged; it is not spilled.

mod merge;
mod sides;
#[cfg(test)]
mod tests;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

pub use merge::SortMergeJoin;

use super::join_kind::{JoinColumn, JoinKind};
use crate::expr::Expr;

/// What to join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortMergeJoinSpec {
    /// Types of the probe side's columns (port 0).
    pub left: Vec<DataType>,
    /// Types of the build side's columns (port 1).
    pub right: Vec<DataType>,
    /// The keys of both sides, the first one deciding first.
    pub keys: Vec<(Expr, Expr)>,
    /// For each key whether the inputs are descending, and whether NULLs come first.
    pub directions: Vec<(bool, bool)>,
    /// What to emit.
    pub kind: JoinKind,
    /// A further condition over the left columns, then the right ones.
    pub filter: Option<Expr>,
    /// The output's columns.
    pub output: Vec<JoinColumn>,
    /// Whether NULL equals NULL.
    pub null_equal: bool,
}
