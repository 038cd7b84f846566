//! The kinds of joins, seen from the probe side, and what each one emits.
//!
//! The build side is complete before the first probe row is looked at. What a kind says about build rows without (or
//! with) a match can only be emitted after the last probe row.

use serde::{Deserialize, Serialize};

/// What a join emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// Pairs that match, and probe rows without a match beside NULLs.
    ProbeOuter,
    /// Pairs that match, and build rows without a match beside NULLs.
    BuildOuter,
    /// Pairs that match, and rows of either side without a match beside NULLs.
    FullOuter,
    /// Probe rows with a match, each once.
    ProbeSemi,
    /// Probe rows without a match.
    ProbeAnti,
    /// Build rows with a match, each once.
    BuildSemi,
    /// Build rows without a match.
    BuildAnti,
    /// All probe rows, and for each whether it has a match: true or false, never NULL.
    ProbeMark,
    /// All build rows, and for each whether it has a match: true or false, never NULL.
    BuildMark,
}

impl JoinKind {
    /// Whether pairs of rows come out.
    pub fn emits_pairs(self) -> bool {
        match self {
            JoinKind::Inner | JoinKind::ProbeOuter | JoinKind::BuildOuter | JoinKind::FullOuter => {
                true
            }
            JoinKind::ProbeSemi
            | JoinKind::ProbeAnti
            | JoinKind::BuildSemi
            | JoinKind::BuildAnti
            | JoinKind::ProbeMark
            | JoinKind::BuildMark => false,
        }
    }

    /// Whether probe rows without a match come out as pairs with NULLs.
    pub fn keeps_probe_rows(self) -> bool {
        matches!(self, JoinKind::ProbeOuter | JoinKind::FullOuter)
    }

    /// Whether build rows come out after the last probe row, which takes a flag for each.
    pub fn tracks_matches(self) -> bool {
        match self {
            JoinKind::BuildOuter
            | JoinKind::FullOuter
            | JoinKind::BuildSemi
            | JoinKind::BuildAnti
            | JoinKind::BuildMark => true,
            JoinKind::Inner
            | JoinKind::ProbeOuter
            | JoinKind::ProbeSemi
            | JoinKind::ProbeAnti
            | JoinKind::ProbeMark => false,
        }
    }

    /// Whether a build row comes out at the end, by whether it was matched; `None` if all do, with a mark.
    pub fn wanted_at_end(self) -> Option<bool> {
        match self {
            JoinKind::BuildOuter | JoinKind::FullOuter | JoinKind::BuildAnti => Some(false),
            JoinKind::BuildSemi => Some(true),
            JoinKind::BuildMark
            | JoinKind::Inner
            | JoinKind::ProbeOuter
            | JoinKind::ProbeSemi
            | JoinKind::ProbeAnti
            | JoinKind::ProbeMark => None,
        }
    }

    /// Whether nothing at all comes out when the build side has no rows.
    pub fn needs_build_rows(self) -> bool {
        match self {
            JoinKind::Inner
            | JoinKind::ProbeSemi
            | JoinKind::BuildOuter
            | JoinKind::BuildSemi
            | JoinKind::BuildAnti
            | JoinKind::BuildMark => true,
            JoinKind::ProbeOuter
            | JoinKind::FullOuter
            | JoinKind::ProbeAnti
            | JoinKind::ProbeMark => false,
        }
    }
}

/// An output column of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinColumn {
    /// A column of the probe side.
    Probe(usize),
    /// A column of the build side.
    Build(usize),
    /// The reference to the build row, for columns that are fetched late; of hash joins only.
    BuildReference,
    /// The mark of the Mark kinds, a boolean.
    Mark,
}
