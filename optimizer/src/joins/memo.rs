//! The memo of a join block: for each set of relations the candidates that nothing dominates.
//!
//! Invariant: a group's logical facts do not depend on which pair was found first beyond rounding; entries are light
//! and become nodes only when they win.

use std::collections::HashMap;
use std::rc::Rc;

use datafusion_common::JoinType;
use datafusion_expr::Expr;

use crate::cardinality::{JoinEstimate, Logical};
use crate::cost::Cost;
use crate::joins::probe_filters::ProbePath;
use crate::joins::relset::RelSet;
use crate::physical::{ColumnId, Parallelism, ShipStrategy, Side};
use crate::properties::{InterestingProperties, Ordering, ProvidedProperties, SortKey};
use crate::search::Search;
use crate::search::candidate::Candidate;

/// How many entries of one group are kept at most.
const MAX_ENTRIES: usize = 6;

/// All plans for one set of relations.
pub(crate) struct Group {
    pub logical: Logical,
    /// The columns that leave the set.
    pub output: Vec<ColumnId>,
    /// Bytes of one row.
    pub width: f64,
    /// What operators outside could use, in canonical columns.
    pub wanted: InterestingProperties,
    /// Whether the rows change with every superstep of a recursive query around.
    pub dynamic: bool,
    /// Whether the rows come as a stream.
    pub live: bool,
    pub entries: Vec<Rc<Entry>>,
}

/// One plan for a set of relations.
pub(crate) struct Entry {
    pub set: RelSet,
    pub plan: EntryPlan,
    /// What the plan provides and somebody could use.
    pub provided: ProvidedProperties,
    pub parallelism: Parallelism,
    /// Where its rows stream from.
    pub path: ProbePath,
    /// Cumulative, less what runtime filters save.
    pub cost: Cost,
    pub time: f64,
}

/// How an entry is computed.
pub(crate) enum EntryPlan {
    Leaf(Candidate),
    Join(JoinStep),
}

/// A join of two entries.
pub(crate) struct JoinStep {
    pub pair: Rc<Pair>,
    pub left: Rc<Entry>,
    pub right: Rc<Entry>,
    pub left_read: Read,
    pub right_read: Read,
    pub strategy: JoinStrategy,
    /// The join's own work.
    pub work: Cost,
}

/// How an operand is read.
#[derive(Clone)]
pub(crate) struct Read {
    pub ship: ShipStrategy,
    /// The order it is sorted into, if it must be.
    pub sort: Option<Ordering>,
}

/// Which operator computes the join.
#[derive(Clone)]
pub(crate) enum JoinStrategy {
    Hash { build: Side },
    SortMerge { order: Vec<usize>, keys: Vec<SortKey> },
    NestedLoop { build: Side },
    Stream,
}

/// What all plans for one pair of sets share; left and right are in the operator's sense.
pub(crate) struct Pair {
    pub op: JoinType,
    /// Key columns, left and right.
    pub keys: Vec<(ColumnId, ColumnId)>,
    pub filter: Vec<Expr>,
    pub null_equal: bool,
    pub null_aware: bool,
    pub mark: Option<ColumnId>,
    pub estimate: JoinEstimate,
    /// Whether the keys are unique on the left and on the right.
    pub unique: (bool, bool),
}

/// Groups by set.
#[derive(Default)]
pub(crate) struct Memo {
    groups: HashMap<RelSet, Group>,
}

impl Memo {
    pub fn has(&self, set: RelSet) -> bool {
        self.groups.contains_key(&set)
    }

    pub fn group(&self, set: RelSet) -> &Group {
        self.groups.get(&set).expect("callers ask for sets that have plans")
    }

    pub fn insert(&mut self, set: RelSet, group: Group) {
        self.groups.insert(set, group);
    }

    /// Adds entries to a group, dropping those that others beat even after paying for what they lack.
    pub fn add(&mut self, search: &Search<'_>, set: RelSet, entries: Vec<Entry>) {
        let group = self.groups.get_mut(&set).expect("the group was inserted");
        let (rows, bytes) = (group.logical.rows, group.logical.rows * group.width);
        for mut entry in entries {
            entry.provided = group.wanted.filter(entry.provided);
            let beats = |better: &Entry, worse: &Entry| {
                better.time <= worse.time
                    && better.time
                        + search.enforce_ns(&better.provided, &worse.provided, rows, bytes)
                        <= worse.time
            };
            if group.entries.iter().any(|kept| beats(kept, &entry)) {
                continue;
            }
            group.entries.retain(|kept| !beats(&entry, kept));
            group.entries.push(Rc::new(entry));
            if group.entries.len() > MAX_ENTRIES {
                drop_slowest(&mut group.entries);
            }
        }
    }
}

fn drop_slowest(entries: &mut Vec<Rc<Entry>>) {
    let slowest = entries.iter().enumerate().max_by(|a, b| a.1.time.total_cmp(&b.1.time));
    if let Some(index) = slowest.map(|(index, _)| index) {
        entries.swap_remove(index);
    }
}
