//! Join hints: which relations of a block they decide about, and which strategies they leave.
//!
//! In every join tree a relation is an operand of its own exactly once. A hint leaves only its strategy for all pairs of
//! which one operand is that relation alone, so that whatever order is chosen obeys it. Where the strategy cannot compute
//! the join, the hint gives way; a hint that was obeyed nowhere becomes a warning.

use std::cell::Cell;

use crate::input::{HintedStrategy, JoinHint};
use crate::joins::combine::{BlockSearch, Choice, Operands};
use crate::joins::memo::{Entry, JoinStrategy};
use crate::joins::relset::RelSet;
use crate::physical::{ColumnId, ShipStrategy, Side};
use crate::search::Search;

/// A hint and the relations of its name.
pub(crate) struct ResolvedHint {
    hint: JoinHint,
    /// The columns of each of them.
    relations: Vec<Vec<ColumnId>>,
    obeyed: Cell<bool>,
}

impl ResolvedHint {
    /// Finds the relations that hints name.
    pub fn resolve(hints: &[JoinHint], named: &[(String, Vec<ColumnId>)]) -> Vec<Self> {
        let resolved = hints.iter().map(|hint| {
            let same = named.iter().filter(|(name, _)| *name == hint.relation);
            let relations = same.map(|(_, columns)| columns.clone()).collect();
            ResolvedHint { hint: hint.clone(), relations, obeyed: Cell::new(false) }
        });
        resolved.collect()
    }

    /// What the user is told if no join obeyed.
    pub fn warning(&self) -> Option<String> {
        let (name, relation) = (self.hint.strategy.name(), &self.hint.relation);
        (!self.obeyed.get()).then(|| format!("the hint {name}({relation}) cannot be applied"))
    }
}

impl BlockSearch<'_, '_> {
    /// The hint that decides a pair, and the side of the relation it names.
    pub fn hint_of(&self, left: RelSet, right: RelSet) -> Option<(&ResolvedHint, Side)> {
        if self.search.hints.is_empty() {
            return None;
        }
        let meant = |set: RelSet, hint: &&ResolvedHint| {
            let output = &self.memo.group(set).output;
            let whole =
                |columns: &Vec<ColumnId>| output.iter().all(|column| columns.contains(column));
            set.len() == 1 && !output.is_empty() && hint.relations.iter().any(whole)
        };
        let find = |set| self.search.hints.iter().find(|hint| meant(set, hint));
        let right = find(right).map(|hint| (hint, Side::Right));
        right.or_else(|| find(left).map(|hint| (hint, Side::Left)))
    }
}

impl Search<'_> {
    /// The ways to join two entries that obey a hint about one side.
    pub fn hinted_choices(
        &self,
        (hint, side): (&ResolvedHint, Side),
        operands: &Operands<'_>,
        (left, right): (&Entry, &Entry),
        into: &mut Vec<Choice>,
    ) {
        let keyed = !operands.pair.keys.is_empty();
        let null_aware = operands.pair.null_aware;
        let dynamic = operands.left.dynamic || operands.right.dynamic;
        let before = into.len();
        match hint.hint.strategy {
            HintedStrategy::Broadcast if !keyed => {
                self.nested_loop_joins(operands, left, right, into);
            }
            HintedStrategy::Broadcast | HintedStrategy::ShuffleHash if keyed => {
                self.hash_joins(operands, left, right, into);
            }
            HintedStrategy::ShuffleMerge if keyed && !null_aware && !dynamic => {
                self.sort_merge_joins(operands, left, right, into);
            }
            HintedStrategy::NestLoop if !null_aware => {
                self.nested_loop_joins(operands, left, right, into);
            }
            HintedStrategy::Broadcast
            | HintedStrategy::ShuffleHash
            | HintedStrategy::ShuffleMerge
            | HintedStrategy::NestLoop => {}
        }
        let strategy = hint.hint.strategy;
        into.retain(|choice| obeys(choice, strategy, side, self.single_threaded()));
        hint.obeyed.set(hint.obeyed.get() || into.len() > before);
    }
}

/// Whether a choice is what a hint about one side asks for. With one thread nothing is shared or spread.
fn obeys(choice: &Choice, hint: HintedStrategy, hinted: Side, single_threaded: bool) -> bool {
    let build_read = |build| match build {
        Side::Left => &choice.left_read.ship,
        Side::Right => &choice.right_read.ship,
    };
    match &choice.strategy {
        JoinStrategy::Hash { build } => {
            let shared =
                matches!(build_read(*build), ShipStrategy::Broadcast | ShipStrategy::Singleton);
            let wanted = match hint {
                HintedStrategy::Broadcast => shared || single_threaded,
                HintedStrategy::ShuffleHash => !shared || single_threaded,
                HintedStrategy::ShuffleMerge | HintedStrategy::NestLoop => false,
            };
            *build == hinted && wanted
        }
        JoinStrategy::SortMerge { .. } => hint == HintedStrategy::ShuffleMerge,
        JoinStrategy::Stream => false,
        JoinStrategy::NestedLoop { build } => {
            *build == hinted && matches!(hint, HintedStrategy::NestLoop | HintedStrategy::Broadcast)
        }
    }
}
