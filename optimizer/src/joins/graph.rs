//! The hypergraph of a join block: relations, and edges that are operators or conjuncts.
//!
//! Invariant: every inner conjunct is an edge of its own; every other join is one edge with its whole condition.
//! Directions are normalised: the preserved side is left. Equalities are closed under transitivity within a tree of
//! inner joins. A condition on one relation is moved into that relation.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::JoinType;
use datafusion_expr::Expr;

use crate::joins::conflicts::find_conflicts;
use crate::joins::relset::{MAX_RELATIONS, RelSet};
use crate::physical::ColumnId;
use crate::properties::{EquivalenceClasses, InterestingProperties};
use crate::relational::{JoinSpec, Rel, RelOp, add_conjuncts};
use crate::strategies::scan::column_equality;

/// Equalities are closed under transitivity in classes of at most that many columns.
const MAX_CLOSED_CLASS: usize = 8;

/// An edge: an operator, or one conjunct of an inner join.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    /// `Inner`, `Left`, `Full`, `LeftSemi`, `LeftAnti` or `LeftMark`.
    pub op: JoinType,
    /// Key columns, the left operand's first.
    pub on: Vec<(ColumnId, ColumnId)>,
    pub filter: Vec<Expr>,
    pub null_equal: bool,
    pub null_aware: bool,
    pub mark: Option<ColumnId>,
    /// Relations that must be on the left before the operator applies.
    pub left: RelSet,
    /// Relations that must be on the right.
    pub right: RelSet,
    /// If a relation of the first set takes part, all of the second must.
    pub rules: Vec<(RelSet, RelSet)>,
}

/// The written order over the graph's relations.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Leaf(usize),
    Node { edges: Vec<usize>, left: Box<Tree>, right: Box<Tree>, set: RelSet },
}

/// Relations, edges and the written order.
pub(crate) struct JoinGraph {
    pub relations: Vec<Rel>,
    pub edges: Vec<Edge>,
    pub tree: Tree,
    /// Where a column comes from; a mark column comes from all relations of its join.
    sources: BTreeMap<ColumnId, RelSet>,
}

impl Edge {
    pub fn set(&self) -> RelSet {
        self.left.union(self.right)
    }

    /// All columns the edge reads.
    pub fn columns(&self) -> BTreeSet<ColumnId> {
        let mut columns = BTreeSet::new();
        self.filter.iter().for_each(|expr| ColumnId::collect(expr, &mut columns));
        columns.extend(self.on.iter().flat_map(|&(left, right)| [left, right]));
        columns
    }

    /// An edge with a join's condition, not yet placed.
    pub fn of(spec: &JoinSpec) -> Self {
        Self {
            op: spec.join_type,
            on: spec.on.clone(),
            filter: spec.filter.clone(),
            null_equal: spec.null_equal,
            null_aware: spec.null_aware,
            mark: spec.mark,
            left: RelSet::EMPTY,
            right: RelSet::EMPTY,
            rules: Vec::new(),
        }
    }
}

impl Tree {
    pub fn set(&self) -> RelSet {
        match self {
            Self::Leaf(index) => RelSet::single(*index),
            Self::Node { set, .. } => *set,
        }
    }
}

impl JoinGraph {
    /// Collects the block under a join.
    pub fn build(rel: &Rel) -> Self {
        let mut graph = Self {
            relations: Vec::new(),
            edges: Vec::new(),
            tree: Tree::Leaf(0),
            sources: BTreeMap::new(),
        };
        let mut budget = MAX_RELATIONS;
        graph.tree = graph.collect(rel.clone(), &mut budget, true);
        let tree = graph.tree.clone();
        find_conflicts(&tree, &mut graph);
        graph
    }

    /// The relations a conjunct or key reads.
    pub fn relations_of(&self, columns: &BTreeSet<ColumnId>) -> RelSet {
        let source = |column| self.sources.get(column).copied().unwrap_or_default();
        columns.iter().map(source).fold(RelSet::EMPTY, RelSet::union)
    }

    /// Key pairs by the relations they connect.
    pub fn key_parts(
        &self,
        keys: &[(ColumnId, ColumnId)],
    ) -> BTreeMap<(RelSet, RelSet), Vec<(ColumnId, ColumnId)>> {
        let mut parts: BTreeMap<_, Vec<(ColumnId, ColumnId)>> = BTreeMap::new();
        let source = |column: ColumnId| self.relations_of(&[column].into());
        for &(left, right) in keys {
            parts.entry((source(left), source(right))).or_default().push((left, right));
        }
        parts
    }

    /// Properties that operators outside a set could use: what the block is asked for, and the keys of edges that
    /// leave the set.
    pub fn wanted(&self, set: RelSet, outer: &InterestingProperties) -> InterestingProperties {
        let mut wanted = outer.clone();
        let mut keys = BTreeSet::new();
        for edge in self
            .edges
            .iter()
            .filter(|edge| !edge.set().is_subset(set) && edge.set().intersects(set))
        {
            for column in edge.on.iter().flat_map(|&(left, right)| [left, right]) {
                if self.sources.get(&column).is_some_and(|source| source.is_subset(set)) {
                    keys.insert(column);
                }
            }
        }
        for &key in &keys {
            wanted.want_grouping([key].into());
        }
        wanted.want_grouping(keys.clone());
        wanted.want_partitioning(keys);
        wanted
    }

    fn collect(&mut self, rel: Rel, budget: &mut usize, root: bool) -> Tree {
        let RelOp::Join(spec) = &rel.op else { return self.leaf(rel, budget) };
        if !root && (*budget < 2 || spec.lookup) {
            return self.leaf(rel, budget);
        }
        if spec.lookup {
            // When rows are looked up must not change: both operands stay as they are.
            return self.collect_alone(rel, budget);
        }
        if is_open_inner(spec) {
            self.collect_inner(rel, budget)
        } else {
            self.collect_operator(rel, budget)
        }
    }

    fn leaf(&mut self, rel: Rel, budget: &mut usize) -> Tree {
        let index = self.relations.len();
        for &column in &rel.output {
            self.sources.insert(column, RelSet::single(index));
        }
        self.relations.push(rel);
        *budget = budget.saturating_sub(1);
        Tree::Leaf(index)
    }

    /// One join, of which neither operand is looked into.
    fn collect_alone(&mut self, rel: Rel, budget: &mut usize) -> Tree {
        let Rel { op: RelOp::Join(spec), mut inputs, .. } = rel else {
            unreachable!("the caller checked")
        };
        let right = inputs.pop().expect("a join has two inputs");
        let left = inputs.pop().expect("a join has two inputs");
        let left = self.leaf(left, budget);
        let right = self.leaf(right, budget);
        self.edges.push(Edge::of(&spec));
        node(vec![self.edges.len() - 1], left, right)
    }

    /// One join that is a single edge; right-hand kinds are turned around.
    fn collect_operator(&mut self, rel: Rel, budget: &mut usize) -> Tree {
        let Rel { op: RelOp::Join(mut spec), mut inputs, .. } = rel else {
            unreachable!("the caller checked")
        };
        let right_preserved = matches!(
            spec.join_type,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
        );
        if right_preserved {
            spec.join_type = spec.join_type.swap();
            spec.on.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
            inputs.reverse();
        }
        let right = inputs.pop().expect("a join has two inputs");
        let left = inputs.pop().expect("a join has two inputs");
        *budget = budget.saturating_sub(1);
        let left = self.collect(left, budget, false);
        *budget += 1;
        let right = self.collect(right, budget, false);
        if let Some(mark) = spec.mark {
            self.sources.insert(mark, left.set().union(right.set()));
        }
        self.edges.push(Edge::of(&spec));
        node(vec![self.edges.len() - 1], left, right)
    }

    /// A maximal tree of inner joins: its inputs are connected by its conjuncts, products are left to the end.
    fn collect_inner(&mut self, rel: Rel, budget: &mut usize) -> Tree {
        let (mut inputs, mut conjuncts) = (Vec::new(), Vec::new());
        flatten(rel, &mut inputs, &mut conjuncts, *budget);
        close_equalities(&mut conjuncts);
        let inputs = push_down(inputs, &mut conjuncts);
        let mut parts = Vec::with_capacity(inputs.len());
        let mut left = inputs.len();
        for input in inputs {
            left -= 1;
            let mut own = budget.saturating_sub(left).max(1);
            let before = own;
            parts.push(self.collect(input, &mut own, false));
            *budget = budget.saturating_sub(before - own.min(before));
        }
        self.connect(parts, conjuncts)
    }

    fn connect(&mut self, parts: Vec<Tree>, conjuncts: Vec<Expr>) -> Tree {
        let mut open: Vec<(RelSet, Expr)> = conjuncts
            .into_iter()
            .map(|conjunct| (self.relations_of(&ColumnId::referenced(&conjunct)), conjunct))
            .collect();
        let mut waiting = parts;
        let mut components = Vec::new();
        while !waiting.is_empty() {
            let mut tree = waiting.remove(0);
            while let Some(next) =
                waiting.iter().position(|part| connected(&open, tree.set(), part.set()))
            {
                let part = waiting.remove(next);
                tree = self.inner_node(tree, part, &mut open);
            }
            components.push(tree);
        }
        let mut components = components.into_iter();
        let first = components.next().expect("a join has inputs");
        components.fold(first, |tree, part| self.inner_node(tree, part, &mut open))
    }

    /// Joins two parts by all conjuncts that are complete now; without any it is a product.
    fn inner_node(&mut self, left: Tree, right: Tree, open: &mut Vec<(RelSet, Expr)>) -> Tree {
        let set = left.set().union(right.set());
        let (ready, rest): (Vec<_>, Vec<_>) =
            open.drain(..).partition(|(sources, _)| sources.is_subset(set));
        *open = rest;
        let mut edges = Vec::new();
        for (_, conjunct) in ready {
            edges.push(self.edges.len());
            self.edges.push(self.inner_edge(conjunct, left.set()));
        }
        if edges.is_empty() {
            edges.push(self.edges.len());
            self.edges.push(Edge::of(&JoinSpec::cross()));
        }
        node(edges, left, right)
    }

    fn inner_edge(&self, conjunct: Expr, left: RelSet) -> Edge {
        let mut edge = Edge::of(&JoinSpec::cross());
        let side = |column: ColumnId| self.relations_of(&[column].into()).is_subset(left);
        match column_equality(&conjunct) {
            Some((a, b)) if side(a) && !side(b) => edge.on.push((a, b)),
            Some((a, b)) if side(b) && !side(a) => edge.on.push((b, a)),
            _ => edge.filter.push(conjunct),
        }
        edge
    }
}

fn node(edges: Vec<usize>, left: Tree, right: Tree) -> Tree {
    Tree::Node {
        edges,
        set: left.set().union(right.set()),
        left: Box::new(left),
        right: Box::new(right),
    }
}

/// Inner joins whose conjuncts can be taken apart; joins that match NULL keys stay whole.
fn is_open_inner(spec: &JoinSpec) -> bool {
    spec.join_type == JoinType::Inner && (!spec.null_equal || spec.on.is_empty())
}

fn connected(open: &[(RelSet, Expr)], left: RelSet, right: RelSet) -> bool {
    let both = left.union(right);
    open.iter().any(|(set, _)| set.is_subset(both) && set.intersects(left) && set.intersects(right))
}

fn flatten(rel: Rel, inputs: &mut Vec<Rel>, conjuncts: &mut Vec<Expr>, budget: usize) {
    let room = inputs.len() + 2 <= budget.max(2);
    if !matches!(&rel.op, RelOp::Join(spec) if room && is_open_inner(spec) && !spec.lookup) {
        inputs.push(rel);
        return;
    }
    if let RelOp::Join(spec) = rel.op {
        conjuncts.extend(spec.on.iter().map(|(left, right)| left.expr().eq(right.expr())));
        conjuncts.extend(spec.filter);
    }
    for input in rel.inputs {
        flatten(input, inputs, conjuncts, budget);
    }
}

/// Adds the equalities that follow from others, and drops repeated conjuncts.
fn close_equalities(conjuncts: &mut Vec<Expr>) {
    let mut classes = EquivalenceClasses::default();
    let mut known: BTreeSet<(ColumnId, ColumnId)> = BTreeSet::new();
    conjuncts.retain(|conjunct| match column_equality(conjunct) {
        Some((a, b)) => {
            classes.unite(a, b);
            known.insert((a.min(b), a.max(b)))
        }
        None => true,
    });
    for members in
        classes.classes().into_values().filter(|members| members.len() <= MAX_CLOSED_CLASS)
    {
        for (i, &a) in members.iter().enumerate() {
            for &b in &members[i + 1..] {
                if known.insert((a.min(b), a.max(b))) {
                    conjuncts.push(a.expr().eq(b.expr()));
                }
            }
        }
    }
}

/// Moves conjuncts that read one input only into that input; constant conjuncts go to the first.
fn push_down(inputs: Vec<Rel>, conjuncts: &mut Vec<Expr>) -> Vec<Rel> {
    let mut own: Vec<Vec<Expr>> = vec![Vec::new(); inputs.len()];
    conjuncts.retain(|conjunct| {
        let columns = ColumnId::referenced(conjunct);
        let covers = |input: &Rel| columns.iter().all(|column| input.output.contains(column));
        match inputs.iter().position(covers) {
            Some(index) => {
                own[index].push(conjunct.clone());
                false
            }
            None => true,
        }
    });
    let moved = inputs.into_iter().zip(own);
    moved
        .map(|(input, own)| if own.is_empty() { input } else { add_conjuncts(input, own) })
        .collect()
}
