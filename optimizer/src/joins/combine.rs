//! From a pair of sets to candidates: which edges apply, what the result looks like, which strategies compute it.
//!
//! Invariant: a pair is refused unless all edges that become complete with it apply at once, as one operator or as
//! conjuncts of one inner join.

use std::rc::Rc;

use datafusion_common::JoinType;

use crate::cardinality::{KeyPart, Logical};
use crate::cost::Cost;
use crate::joins::PairConsumer;
use crate::joins::graph::{Edge, JoinGraph};
use crate::joins::hints::ResolvedHint;
use crate::joins::memo::{Entry, EntryPlan, Group, JoinStep, JoinStrategy, Memo, Pair, Read};
use crate::joins::probe_filters::ProbePath;
use crate::joins::relset::RelSet;
use crate::physical::{ColumnId, Parallelism, Side};
use crate::properties::{InterestingProperties, Partitioning, ProvidedProperties};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::Planned;
use crate::streaming::Expiry;

/// The search within one block.
pub(crate) struct BlockSearch<'a, 's> {
    pub search: &'a Search<'s>,
    pub graph: &'a JoinGraph,
    /// Columns needed above the block.
    pub output: &'a [ColumnId],
    pub interesting: &'a InterestingProperties,
    /// When rows of the only two operands can match nothing more.
    pub expiry: &'a [Expiry],
    /// Whether rows without a match wait until they expire.
    pub patient: bool,
    /// The operand that is looked up, if the only two are joined so.
    pub lookup: Option<RelSet>,
    pub memo: Memo,
}

/// Two operands, oriented as the operator wants them.
pub(crate) struct Operands<'a> {
    pub pair: &'a Rc<Pair>,
    pub left: &'a Group,
    pub right: &'a Group,
    /// Facts of the result.
    pub logical: &'a Logical,
    /// Bytes of a result row.
    pub width: f64,
    /// What operators above could use.
    pub wanted: &'a InterestingProperties,
}

/// A strategy's decision on two entries.
pub(crate) struct Choice {
    pub strategy: JoinStrategy,
    pub left_read: Read,
    pub right_read: Read,
    pub provided: ProvidedProperties,
    pub parallelism: Parallelism,
    /// The join's own work.
    pub work: Cost,
    /// Exchanges and sorts of the operands.
    pub reading: Cost,
}

impl Operands<'_> {
    /// Whether a build of that side would have to be made again in every superstep although the other side's would
    /// not: inside a recursive term the build is made once and the work table probes it.
    pub fn rebuilds(&self, build: Side) -> bool {
        match build {
            Side::Left => self.left.dynamic && !self.right.dynamic,
            Side::Right => self.right.dynamic && !self.left.dynamic,
        }
    }

    /// Whether an operand is a stream, of which no build is made.
    pub fn is_live(&self, side: Side) -> bool {
        match side {
            Side::Left => self.left.live,
            Side::Right => self.right.live,
        }
    }
}

impl<'a, 's> BlockSearch<'a, 's> {
    pub fn new(
        search: &'a Search<'s>,
        graph: &'a JoinGraph,
        rel: &'a Rel,
        interesting: &'a InterestingProperties,
        leaves: Vec<Planned>,
    ) -> Self {
        let expiry = match &rel.op {
            RelOp::Join(spec) if graph.relations.len() == 2 => spec.expiry.as_slice(),
            _ => &[],
        };
        let patient = matches!(&rel.op, RelOp::Join(spec) if spec.patient);
        let looks_up = matches!(&rel.op, RelOp::Join(spec) if spec.lookup);
        let mut block = Self {
            search,
            graph,
            output: &rel.output,
            interesting,
            expiry,
            patient,
            lookup: looks_up.then(|| RelSet::single(1)),
            memo: Memo::default(),
        };
        for (index, planned) in leaves.into_iter().enumerate() {
            block.add_leaf(RelSet::single(index), planned);
        }
        block
    }

    fn add_leaf(&mut self, set: RelSet, planned: Planned) {
        let output = planned.cheapest().node.output.clone();
        let group = self.new_group(set, planned.logical, output);
        let index = set.iter().next().expect("a leaf is one relation");
        let relation = &self.graph.relations[index];
        let entries = planned
            .candidates
            .into_iter()
            .map(|candidate| Entry {
                set,
                path: ProbePath::of_leaf(relation, candidate.time),
                provided: candidate.node.provided.clone(),
                parallelism: candidate.node.parallelism,
                cost: candidate.node.cumulative,
                time: candidate.time,
                plan: EntryPlan::Leaf(candidate),
            })
            .collect();
        self.memo.insert(set, group);
        self.memo.add(self.search, set, entries);
    }

    fn new_group(&self, set: RelSet, logical: Logical, output: Vec<ColumnId>) -> Group {
        let wanted = self.graph.wanted(set, self.interesting);
        Group {
            width: self.search.estimator.row_width(&output),
            wanted: wanted.map(|column| Some(logical.classes.canonical(column))),
            logical,
            output,
            dynamic: set.iter().any(|index| self.graph.relations[index].reads_work_table()),
            live: set.iter().any(|index| self.graph.relations[index].flow.live),
            entries: Vec::new(),
        }
    }

    /// The edges that become complete by joining two sets, if they can all be applied there; the flag tells that the
    /// operands must be swapped.
    pub fn applicable(&self, left: RelSet, right: RelSet) -> Option<(Vec<&'a Edge>, bool)> {
        let both = left.union(right);
        let graph = self.graph;
        let complete = |edge: &&Edge| {
            let set = edge.set();
            set.is_subset(both) && !set.is_subset(left) && !set.is_subset(right)
        };
        let edges: Vec<&Edge> = graph.edges.iter().filter(complete).collect();
        let obeys = |edge: &&Edge| {
            edge.rules.iter().all(|(from, to)| !from.intersects(both) || to.is_subset(both))
        };
        let straight = |edge: &&Edge| edge.left.is_subset(left) && edge.right.is_subset(right);
        let swapped = |edge: &&Edge| edge.left.is_subset(right) && edge.right.is_subset(left);
        if edges.is_empty() || !edges.iter().all(obeys) {
            return None;
        }
        let inner = edges.iter().all(|edge| edge.op == JoinType::Inner && !edge.null_equal);
        if inner {
            let placed =
                edges.iter().all(|edge| edge.on.is_empty() || straight(edge) || swapped(edge));
            return placed.then_some((edges, false));
        }
        match edges[..] {
            [edge] if straight(&edge) => Some((edges, false)),
            [edge] if swapped(&edge) => Some((edges, true)),
            _ => None,
        }
    }

    /// Joins two sets, if that is allowed.
    pub fn join(&mut self, left: RelSet, right: RelSet) {
        let Some((edges, swap)) = self.applicable(left, right) else { return };
        let (left, right) = if swap { (right, left) } else { (left, right) };
        let set = left.union(right);
        let pair = Rc::new(self.describe(&edges, left, right));
        if !self.memo.has(set) {
            let logical = self.joined_logical(&pair, left, right);
            let output = self.visible(set, left, right, &pair);
            let group = self.new_group(set, logical, output);
            self.memo.insert(set, group);
        }
        let entries = self.entries(set, left, right, &pair);
        self.memo.add(self.search, set, entries);
    }

    /// Gathers the condition of a pair; equalities that others imply are dropped.
    fn describe(&self, edges: &[&Edge], left: RelSet, right: RelSet) -> Pair {
        let (l, r) = (self.memo.group(left), self.memo.group(right));
        let mut classes = l.logical.classes.clone();
        classes.merge(&r.logical.classes);
        let (mut keys, mut filter) = (Vec::new(), Vec::new());
        let first = edges[0];
        for edge in edges {
            filter.extend(edge.filter.iter().cloned());
            for &(a, b) in &edge.on {
                let (a, b) = if edge.left.is_subset(left) { (a, b) } else { (b, a) };
                let inner = edge.op == JoinType::Inner && !edge.null_equal;
                if !inner || !classes.same(a, b) {
                    keys.push((a, b));
                    if inner {
                        classes.unite(a, b);
                    }
                }
            }
        }
        let parts = self.key_parts(&keys);
        let estimate =
            self.search.estimator.join(first.op, &parts, &filter, l.logical.rows, r.logical.rows);
        let left_keys = keys.iter().map(|pair| pair.0).collect();
        let right_keys = keys.iter().map(|pair| pair.1).collect();
        Pair {
            op: first.op,
            unique: (l.logical.unique_on(&left_keys), r.logical.unique_on(&right_keys)),
            keys,
            filter,
            null_equal: first.null_equal,
            null_aware: first.null_aware,
            mark: first.mark,
            estimate,
        }
    }

    /// Key pairs by the relations they connect, with the sizes of these.
    pub fn key_parts(&self, keys: &[(ColumnId, ColumnId)]) -> Vec<KeyPart> {
        let rows = |set: RelSet| match set.len() {
            1 => self.memo.group(set).logical.rows,
            _ => f64::INFINITY,
        };
        let parts = self.graph.key_parts(keys).into_iter();
        parts.map(|((l, r), keys)| KeyPart { keys, rows: (rows(l), rows(r)) }).collect()
    }

    fn joined_logical(&self, pair: &Pair, left: RelSet, right: RelSet) -> Logical {
        let (l, r) = (&self.memo.group(left).logical, &self.memo.group(right).logical);
        let provenance = l.provenance.and(r.provenance).and(crate::physical::Provenance::Stats);
        let mut logical = Logical::new(pair.estimate.rows, provenance);
        logical.classes = l.classes.clone();
        logical.classes.merge(&r.classes);
        if pair.op == JoinType::Inner && !pair.null_equal {
            pair.keys.iter().for_each(|&(a, b)| logical.classes.unite(a, b));
        }
        let one_sided =
            matches!(pair.op, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        if one_sided || (pair.unique.1 && matches!(pair.op, JoinType::Inner | JoinType::Left)) {
            logical.unique.extend(l.unique.iter().cloned());
        }
        if pair.unique.0 && pair.op == JoinType::Inner {
            logical.unique.extend(r.unique.iter().cloned());
        }
        logical.unique.dedup();
        logical
    }

    /// Columns of the operands that are needed above the block or by edges that are still open.
    fn visible(&self, set: RelSet, left: RelSet, right: RelSet, pair: &Pair) -> Vec<ColumnId> {
        let open = self.graph.edges.iter().filter(|edge| !edge.set().is_subset(set));
        let needed: std::collections::BTreeSet<ColumnId> =
            open.flat_map(Edge::columns).chain(self.output.iter().copied()).collect();
        let (l, r) = (&self.memo.group(left).output, &self.memo.group(right).output);
        let hidden =
            matches!(pair.op, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        let right = r.iter().filter(|_| !hidden);
        l.iter().chain(right).chain(&pair.mark).copied().filter(|id| needed.contains(id)).collect()
    }

    fn entries(&self, set: RelSet, left: RelSet, right: RelSet, pair: &Rc<Pair>) -> Vec<Entry> {
        let target = self.memo.group(set);
        let operands = Operands {
            pair,
            left: self.memo.group(left),
            right: self.memo.group(right),
            logical: &target.logical,
            width: target.width,
            wanted: &target.wanted,
        };
        let hinted = self.hint_of(left, right);
        let entries = self.entries_of(set, &operands, hinted);
        if !entries.is_empty() || hinted.is_none() {
            return entries;
        }
        self.entries_of(set, &operands, None)
    }

    fn entries_of(
        &self,
        set: RelSet,
        operands: &Operands<'_>,
        hinted: Option<(&ResolvedHint, Side)>,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for l in &operands.left.entries {
            for r in &operands.right.entries {
                let mut choices = Vec::new();
                match hinted {
                    Some(hint) => {
                        self.search.hinted_choices(hint, operands, (l, r), &mut choices);
                    }
                    None => self.search.join_choices(operands, l, r, &mut choices),
                }
                let made = choices
                    .into_iter()
                    .map(|choice| self.entry(set, operands.pair, l, r, choice, operands));
                entries.extend(made);
            }
        }
        entries
    }

    fn entry(
        &self,
        set: RelSet,
        pair: &Rc<Pair>,
        left: &Rc<Entry>,
        right: &Rc<Entry>,
        choice: Choice,
        operands: &Operands<'_>,
    ) -> Entry {
        let work_ns = choice.work.cpu;
        let (saved, path) = self.probe_path(pair, (left, right), &choice.strategy, work_ns);
        let mut work = choice.work;
        work.cpu = (work.cpu - saved).max(0.0);
        let mut cost = left.cost + right.cost + choice.work + choice.reading;
        cost.cpu = (cost.cpu - saved).max(0.0);
        let classes = &operands.logical.classes;
        let mut provided = choice.provided.map(|column| classes.canonical(column));
        provided.unique.clone_from(&operands.logical.unique);
        if choice.parallelism == Parallelism::Singleton {
            provided.partitioning = Partitioning::Singleton;
        }
        let step = JoinStep {
            pair: pair.clone(),
            left: left.clone(),
            right: right.clone(),
            left_read: choice.left_read,
            right_read: choice.right_read,
            strategy: choice.strategy,
            work,
        };
        Entry {
            path,
            set,
            plan: EntryPlan::Join(step),
            provided,
            parallelism: choice.parallelism,
            cost,
            time: self.search.profile.time_ns(&cost),
        }
    }
}

impl PairConsumer for BlockSearch<'_, '_> {
    fn has(&self, set: RelSet) -> bool {
        self.memo.has(set)
    }

    fn pair(&mut self, left: RelSet, right: RelSet) -> bool {
        self.join(left, right);
        true
    }
}
