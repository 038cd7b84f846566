//! From winning entries to nodes.

use std::collections::HashMap;
use std::rc::Rc;

use datafusion_expr::{BinaryExpr, Expr, Operator};

use crate::joins::combine::BlockSearch;
use crate::joins::memo::{Entry, EntryPlan, JoinStep, JoinStrategy, Read};
use crate::joins::relset::RelSet;
use crate::physical::{ColumnId, Parallelism, PhysicalOp, Side};
use crate::search::candidate::{Candidate, Draft, Input};
use crate::strategies::conjunction;

type Finished = HashMap<*const Entry, Candidate>;

impl BlockSearch<'_, '_> {
    /// The plans of a set as nodes.
    pub fn materialize(&self, set: RelSet) -> Vec<Candidate> {
        let mut finished = Finished::new();
        let entries = self.memo.group(set).entries.clone();
        entries.iter().map(|entry| self.finish(entry, &mut finished)).collect()
    }

    fn finish(&self, entry: &Rc<Entry>, finished: &mut Finished) -> Candidate {
        let key = Rc::as_ptr(entry);
        if let Some(candidate) = finished.get(&key) {
            return candidate.clone();
        }
        let candidate = match &entry.plan {
            EntryPlan::Leaf(candidate) => candidate.clone(),
            EntryPlan::Join(step) => self.finish_join(entry, step, finished),
        };
        finished.insert(key, candidate.clone());
        candidate
    }

    fn finish_join(&self, entry: &Entry, step: &JoinStep, finished: &mut Finished) -> Candidate {
        let left = self.finish(&step.left, finished);
        let right = self.finish(&step.right, finished);
        let inputs = vec![
            self.read(&left, &step.left_read, step.left.set),
            self.read(&right, &step.right_read, step.right.set),
        ];
        let group = self.memo.group(entry.set);
        let draft = Draft {
            op: self.operator(step),
            inputs,
            output: self.ordered_output(entry, step),
            provided: entry.provided.clone(),
            work: step.work,
            parallelism: entry.parallelism,
        };
        self.search.node(draft, &group.logical)
    }

    /// The group's columns, the left operand's first.
    fn ordered_output(&self, entry: &Entry, step: &JoinStep) -> Vec<ColumnId> {
        let needed = &self.memo.group(entry.set).output;
        let left = &self.memo.group(step.left.set).output;
        let mut output: Vec<ColumnId> =
            left.iter().copied().filter(|id| needed.contains(id)).collect();
        output.extend(needed.iter().filter(|id| !left.contains(id)));
        output
    }

    fn read(&self, candidate: &Candidate, read: &Read, set: RelSet) -> Input {
        let input = self.search.ship(candidate, read.ship.clone());
        match &read.sort {
            Some(order) => self.search.sorted(input, order, &self.memo.group(set).logical),
            None => input,
        }
    }

    fn operator(&self, step: &JoinStep) -> PhysicalOp {
        let pair = &step.pair;
        let on = |&(left, right): &(ColumnId, ColumnId)| (left.expr(), right.expr());
        match &step.strategy {
            JoinStrategy::Hash { build } => PhysicalOp::HashJoin {
                join_type: pair.op,
                build: *build,
                on: pair.keys.iter().map(on).collect(),
                filter: conjunction(&pair.filter),
                null_equal: pair.null_equal,
                null_aware: pair.null_aware,
                mark: pair.mark,
                build_unique: match build {
                    Side::Left => pair.unique.0,
                    Side::Right => pair.unique.1,
                },
                runtime_filters: Vec::new(),
                late_columns: None,
            },
            JoinStrategy::SortMerge { order, keys } => PhysicalOp::SortMergeJoin {
                join_type: pair.op,
                on: order.iter().map(|&index| on(&pair.keys[index])).collect(),
                keys: keys.clone(),
                filter: conjunction(&pair.filter),
                null_equal: pair.null_equal,
                mark: pair.mark,
            },
            JoinStrategy::Stream => PhysicalOp::StreamJoin {
                join_type: pair.op,
                on: pair.keys.iter().map(on).collect(),
                filter: conjunction(&pair.filter),
                null_equal: pair.null_equal,
                null_aware: pair.null_aware,
                mark: pair.mark,
                expiry: self.expiry.to_vec(),
                patient: self.patient,
                lookup: self.lookup.map(|set| match step.right.set == set {
                    true => Side::Right,
                    false => Side::Left,
                }),
            },
            JoinStrategy::NestedLoop { build } => PhysicalOp::NestedLoopJoin {
                join_type: pair.op,
                build: *build,
                filter: whole_condition(step),
                mark: pair.mark,
            },
        }
    }
}

/// Keys and filter as one condition.
fn whole_condition(step: &JoinStep) -> Option<Expr> {
    let op = if step.pair.null_equal { Operator::IsNotDistinctFrom } else { Operator::Eq };
    let equal = |&(left, right): &(ColumnId, ColumnId)| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left.expr()), op, Box::new(right.expr())))
    };
    let parts: Vec<Expr> =
        step.pair.keys.iter().map(equal).chain(step.pair.filter.iter().cloned()).collect();
    conjunction(&parts)
}

impl Entry {
    /// Whether the entry runs in one subtask.
    pub fn is_singleton(&self) -> bool {
        self.parallelism == Parallelism::Singleton
    }
}
