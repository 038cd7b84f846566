//! What a join of two streams is, as lowering writes it.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::expr::Expr;

/// A join of two inputs that both go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamJoinSpec {
    /// What it emits.
    pub kind: StreamJoinKind,
    /// The input of port 0.
    pub left: StreamJoinSide,
    /// The input of port 1.
    pub right: StreamJoinSide,
    /// Whether NULL keys equal each other.
    pub null_equal: bool,
    /// NOT IN: of an anti join with one key, whose rows come out if the other side is empty, or if their key is not
    /// NULL, no key of the other side is NULL and none equals it.
    pub null_aware: bool,
    /// The side, by its port, whose rows are looked up as they are when a row of the other side comes: what becomes of
    /// them later changes nothing that has left. The output has all columns of the other side where its rows may be
    /// withdrawn.
    pub lookup: Option<u16>,
    /// Whether rows whose matches matter leave once, when they expire, where both sides do and nothing is withdrawn;
    /// otherwise they leave when they come, and are withdrawn when they find a match.
    pub patient: bool,
    /// What pairs with equal keys must satisfy besides, over the left side's columns, then the right side's.
    pub filter: Option<Expr>,
    /// The output's columns.
    pub output: Vec<StreamJoinColumn>,
}

/// One input of the join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamJoinSide {
    /// Types of its columns.
    pub types: Vec<DataType>,
    /// The keys, as many as the other side has and of the same types; without any every pair is a candidate.
    pub keys: Vec<Expr>,
    /// Whether rows may be withdrawn.
    pub withdrawn: bool,
    /// When its rows can be forgotten.
    pub expiry: Option<ExpirySpec>,
}

/// When rows of a side can match nothing more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpirySpec {
    /// A timestamp, date or integer over the side's columns.
    pub time: Expr,
    /// Over the watermark as the only column: rows with a time below it match no row of the other side that is still to
    /// come. It has the type of the time.
    pub bound: Expr,
    /// What no time of a row of this side that comes in time is below, over the watermark likewise: a row below both is
    /// late. Without it no row is.
    pub own: Option<Expr>,
    /// The type of the watermark there: a timestamp.
    pub watermark_type: DataType,
}

/// What a join of two streams emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StreamJoinKind {
    /// Pairs that match.
    Inner,
    /// The same, and left rows without a match beside NULLs.
    Left,
    /// The same for right rows.
    Right,
    /// The same for rows of both sides.
    Full,
    /// Left rows with a match.
    LeftSemi,
    /// Left rows without one.
    LeftAnti,
    /// All left rows, and whether they have a match.
    LeftMark,
    /// Right rows with a match.
    RightSemi,
    /// Right rows without one.
    RightAnti,
    /// All right rows, and whether they have a match.
    RightMark,
}

/// An output column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StreamJoinColumn {
    /// A column of the left side.
    Left(usize),
    /// A column of the right side.
    Right(usize),
    /// The mark of the Mark kinds, a boolean that is never NULL.
    Mark,
}
