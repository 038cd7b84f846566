//! From logical plan to relational tree: one function per kind of node.
//!
//! Invariant: `Bound::columns` is aligned with the fields of the logical node's schema; ids may repeat there.

use datafusion_common::{DFSchema, JoinType, NullEquality};
use datafusion_expr::logical_plan::{
    Distinct, EmptyRelation, FetchType, Filter, Join, Limit, Projection, SkipType, Sort, Union,
    Unnest,
};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Expr, LogicalPlan, RecursiveQuery, Values};

use thalweg_planner::{RowWindows, is_lookup_mark};

use crate::error::{OptimizerError, Result};
use crate::input::OptimizerInput;
use crate::physical::{ColumnId, ColumnTable, UnnestColumn, UnnestSource};
use crate::relational::expressions::{Scope, Subqueries, prepare};
use crate::relational::{AggregateSpec, JoinSpec, Rel, RelOp, RelQuery, RelShared};
use crate::streaming::Emission;

/// State while a query is bound.
pub(super) struct Binder<'a> {
    /// The query.
    pub input: &'a OptimizerInput,
    /// All columns so far.
    pub columns: ColumnTable,
    /// The output ids of the shared plans that were bound, by their id.
    pub shared: Vec<(u32, Vec<ColumnId>)>,
    /// Recursive queries around the place being bound, innermost last.
    pub work_tables: Vec<(String, u32)>,
    /// How many recursive queries were met.
    pub work_table_count: u32,
    /// Relations by the names that hints use, with their columns.
    pub named: Vec<(String, Vec<ColumnId>)>,
}

/// A bound node: the tree and the ids of its fields by position.
pub(super) struct Bound {
    pub rel: Rel,
    pub columns: Vec<ColumnId>,
}

/// Binds the shared plans and the query.
pub(super) fn bind_query(input: &OptimizerInput) -> Result<RelQuery> {
    let mut binder = Binder {
        input,
        columns: ColumnTable::default(),
        shared: Vec::new(),
        work_tables: Vec::new(),
        work_table_count: 0,
        named: Vec::new(),
    };
    binder.columns.track_places(!input.buffer_timeouts.is_empty());
    let mut shared = Vec::with_capacity(input.shared.len());
    for plan in &input.shared {
        binder.columns.enter(&plan.name);
        let bound = binder.plan(&plan.plan)?;
        binder.columns.leave();
        binder.shared.push((plan.id, bound.columns));
        shared.push(RelShared { id: plan.id, name: plan.name.clone(), root: bound.rel });
    }
    let bound = binder.plan(&input.plan)?;
    binder.columns.track_places(false);
    let names = input.plan.schema().fields().iter().map(|field| field.name().clone());
    Ok(RelQuery {
        root: bound.rel,
        output: bound.columns.into_iter().zip(names).collect(),
        shared,
        columns: binder.columns,
        named: binder.named,
    })
}

impl Binder<'_> {
    /// Binds any plan node.
    pub(super) fn plan(&mut self, plan: &LogicalPlan) -> Result<Bound> {
        match plan {
            LogicalPlan::Projection(node) => self.projection(node),
            LogicalPlan::Filter(node) => self.filter(node),
            LogicalPlan::Window(node) => self.window(node),
            LogicalPlan::Aggregate(node) => self.aggregate(node),
            LogicalPlan::Sort(node) => self.sort(node),
            LogicalPlan::Join(node) => self.join(node),
            LogicalPlan::Repartition(node) => self.plan(&node.input),
            LogicalPlan::Union(node) => self.union(node),
            LogicalPlan::TableScan(node) => {
                self.columns.enter(node.table_name.table());
                let bound = self.scan(node)?;
                self.columns.leave();
                Ok(self.remembered(node.table_name.table(), bound))
            }
            LogicalPlan::EmptyRelation(node) => Ok(self.empty(node)),
            LogicalPlan::Subquery(node) => self.plan(&node.subquery),
            LogicalPlan::SubqueryAlias(node) => {
                self.columns.enter(node.alias.table());
                let bound = self.plan(&node.input)?;
                self.columns.leave();
                Ok(self.remembered(node.alias.table(), bound))
            }
            LogicalPlan::Limit(node) => self.limit(node),
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::Distinct(node) => self.distinct(node),
            LogicalPlan::Unnest(node) => self.unnest(node),
            LogicalPlan::RecursiveQuery(node) => self.recursive(node),
            LogicalPlan::Extension(_) if let Some(windows) = RowWindows::of(plan) => {
                self.row_windows(windows)
            }
            LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_) => Err(OptimizerError::unsupported(format!(
                "a query cannot contain the step {}",
                plan.display()
            ))),
        }
    }

    /// Remembers a relation under a name that a hint uses.
    fn remembered(&mut self, name: &str, bound: Bound) -> Bound {
        if self.input.hints.iter().any(|hint| hint.relation == name) {
            self.named.push((name.to_owned(), bound.columns.clone()));
        }
        bound
    }

    /// New columns for all fields of a schema.
    pub(super) fn fresh(&mut self, schema: &DFSchema) -> Vec<ColumnId> {
        let fields = schema.fields().iter();
        fields
            .map(|field| {
                self.columns.add(
                    field.name().clone(),
                    field.data_type().clone(),
                    field.is_nullable(),
                )
            })
            .collect()
    }

    fn projection(&mut self, node: &Projection) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let scope = Scope::of(node.input.schema(), &input.columns);
        let (mut subqueries, mut computed) = (Subqueries::default(), Vec::new());
        let mut columns = Vec::with_capacity(node.expr.len());
        for (expr, field) in node.expr.iter().zip(node.schema.fields()) {
            let bound = self.expr(expr, &scope, &mut subqueries)?;
            let id = match ColumnId::from_expr(&bound) {
                Some(id) => id,
                None => {
                    let id = self.columns.add(
                        field.name().clone(),
                        field.data_type().clone(),
                        field.is_nullable(),
                    );
                    computed.push((id, bound));
                    id
                }
            };
            columns.push(id);
        }
        let rel = prepare(input, subqueries, computed);
        Ok(Bound { rel, columns })
    }

    fn filter(&mut self, node: &Filter) -> Result<Bound> {
        let mut input = self.plan(&node.input)?;
        let scope = Scope::of(node.input.schema(), &input.columns);
        let mut subqueries = Subqueries::default();
        let mut conjuncts = Vec::new();
        for conjunct in split_conjunction(&node.predicate) {
            if is_lookup_mark(conjunct) {
                look_up(&mut input.rel);
                continue;
            }
            conjuncts.push(self.expr(conjunct, &scope, &mut subqueries)?);
        }
        let columns = input.columns.clone();
        let rel = filtered(prepare(input, subqueries, Vec::new()), conjuncts);
        Ok(Bound { rel, columns })
    }

    fn sort(&mut self, node: &Sort) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let (mut subqueries, mut computed) = (Subqueries::default(), Vec::new());
        let keys = self.sort_keys(
            &node.expr,
            (node.input.schema(), &input.columns),
            &mut subqueries,
            &mut computed,
        )?;
        let columns = input.columns.clone();
        let rel = prepare(input, subqueries, computed);
        let op = RelOp::Sort { keys, fetch: node.fetch };
        Ok(Bound { rel: Rel::new(op, vec![rel]), columns })
    }

    fn limit(&mut self, node: &Limit) -> Result<Bound> {
        let refuse = || OptimizerError::unsupported("LIMIT and OFFSET must be constants");
        let skip = match node.get_skip_type()? {
            SkipType::Literal(skip) => skip,
            SkipType::UnsupportedExpr => return Err(refuse()),
        };
        let fetch = match node.get_fetch_type()? {
            FetchType::Literal(fetch) => fetch,
            FetchType::UnsupportedExpr => return Err(refuse()),
        };
        let Bound { rel, columns } = self.plan(&node.input)?;
        Ok(Bound { rel: Rel::new(RelOp::Limit { skip, fetch }, vec![rel]), columns })
    }

    fn join(&mut self, node: &Join) -> Result<Bound> {
        let left = self.plan(&node.left)?;
        let right = self.plan(&node.right)?;
        let (left_columns, right_columns) = (left.columns.clone(), right.columns.clone());
        let left_scope = Scope::of(node.left.schema(), &left_columns);
        let right_scope = Scope::of(node.right.schema(), &right_columns);
        let (mut left_sub, mut right_sub) = (Subqueries::default(), Subqueries::default());
        let (mut left_computed, mut right_computed) = (Vec::new(), Vec::new());
        let mut on = Vec::with_capacity(node.on.len());
        for (l, r) in &node.on {
            let l =
                self.key(l, node.left.schema(), &left_scope, &mut left_sub, &mut left_computed)?;
            let r = self.key(
                r,
                node.right.schema(),
                &right_scope,
                &mut right_sub,
                &mut right_computed,
            )?;
            on.push((l, r));
        }
        let both =
            Scope::of(node.left.schema(), &left_columns).and(node.right.schema(), &right_columns);
        let mut filter = Vec::new();
        let mut lookup = false;
        for conjunct in node.filter.iter().flat_map(split_conjunction) {
            if is_lookup_mark(conjunct) {
                lookup = true;
                continue;
            }
            filter.push(self.expr(conjunct, &both, &mut left_sub)?);
        }
        let (columns, mark) = self.join_output(node, &left_columns, &right_columns);
        let spec = JoinSpec {
            join_type: node.join_type,
            on,
            filter,
            null_equal: node.null_equality == NullEquality::NullEqualsNull,
            null_aware: node.null_aware,
            mark,
            expiry: Vec::new(),
            patient: false,
            lookup,
        };
        let inputs =
            vec![prepare(left, left_sub, left_computed), prepare(right, right_sub, right_computed)];
        Ok(Bound { rel: Rel::new(RelOp::Join(spec), inputs), columns })
    }

    fn join_output(
        &mut self,
        node: &Join,
        left: &[ColumnId],
        right: &[ColumnId],
    ) -> (Vec<ColumnId>, Option<ColumnId>) {
        let (null_left, null_right) = match node.join_type {
            JoinType::Left => (false, true),
            JoinType::Right => (true, false),
            JoinType::Full => (true, true),
            JoinType::Inner
            | JoinType::LeftSemi
            | JoinType::RightSemi
            | JoinType::LeftAnti
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => (false, false),
        };
        for (columns, null) in [(left, null_left), (right, null_right)] {
            columns.iter().filter(|_| null).for_each(|&column| self.columns.set_nullable(column));
        }
        let is_mark = matches!(node.join_type, JoinType::LeftMark | JoinType::RightMark);
        let mark =
            is_mark.then(|| self.columns.add("mark", arrow::datatypes::DataType::Boolean, true));
        let (with_left, with_right) = super::visible_sides(node.join_type);
        let left = left.iter().copied().filter(|_| with_left);
        let right = right.iter().copied().filter(|_| with_right);
        (left.chain(right).chain(mark).collect(), mark)
    }

    fn union(&mut self, node: &Union) -> Result<Bound> {
        let targets = self.fresh(&node.schema);
        let (mut inputs, mut columns) = (Vec::new(), Vec::new());
        for plan in &node.inputs {
            let input = self.plan(plan)?;
            let (rel, ids) = self.coerced(input, &targets);
            inputs.push(rel);
            columns.push(ids);
        }
        let op = RelOp::Union { targets: targets.clone(), columns };
        Ok(Bound { rel: Rel::new(op, inputs), columns: targets })
    }

    /// Casts the columns of an input to the types of the targets where they differ; a target turns nullable with
    /// any of its sources.
    fn coerced(&mut self, input: Bound, targets: &[ColumnId]) -> (Rel, Vec<ColumnId>) {
        let (mut computed, mut ids) = (Vec::new(), Vec::new());
        for (&source, &target) in input.columns.iter().zip(targets) {
            let (from, to) = (self.columns.get(source).clone(), self.columns.get(target).clone());
            if from.nullable {
                self.columns.set_nullable(target);
            }
            if from.data_type == to.data_type {
                ids.push(source);
            } else {
                let id = self.columns.add(to.name, to.data_type.clone(), from.nullable);
                let cast = datafusion_expr::cast(source.expr(), to.data_type);
                computed.push((id, cast));
                ids.push(id);
            }
        }
        (prepare(input, Subqueries::default(), computed), ids)
    }

    fn empty(&mut self, node: &EmptyRelation) -> Bound {
        let columns = self.fresh(&node.schema);
        let op = RelOp::Empty { one_row: node.produce_one_row, columns: columns.clone() };
        Bound { rel: Rel::new(op, Vec::new()), columns }
    }

    fn values(&mut self, node: &Values) -> Result<Bound> {
        let schema = DFSchema::empty();
        let mut subqueries = Subqueries::default();
        let mut rows = Vec::with_capacity(node.values.len());
        for row in &node.values {
            let scope = Scope::of(&schema, &[]);
            let bound: Result<Vec<Expr>> =
                row.iter().map(|expr| self.expr(expr, &scope, &mut subqueries)).collect();
            rows.push(bound?);
        }
        if !subqueries.is_empty() {
            return Err(OptimizerError::unsupported("a subquery inside VALUES is not supported"));
        }
        let columns = self.fresh(&node.schema);
        columns.iter().for_each(|&column| self.columns.set_nullable(column));
        let op = RelOp::Values { columns: columns.clone(), rows };
        Ok(Bound { rel: Rel::new(op, Vec::new()), columns })
    }

    fn distinct(&mut self, node: &Distinct) -> Result<Bound> {
        let Distinct::All(input) = node else {
            return Err(OptimizerError::Unsupported {
                message: "DISTINCT ON was not rewritten into an aggregate".to_owned(),
                hint: Some("use row_number() OVER (PARTITION BY ...) = 1".to_owned()),
            });
        };
        let Bound { rel, columns } = self.plan(input)?;
        let mut group_by: Vec<(ColumnId, ColumnId)> = Vec::new();
        for &column in &columns {
            if !group_by.contains(&(column, column)) {
                group_by.push((column, column));
            }
        }
        let spec = AggregateSpec {
            group_by,
            grouping_sets: None,
            aggregates: Vec::new(),
            emission: Emission::AtEnd,
        };
        Ok(Bound { rel: Rel::new(RelOp::Aggregate(spec), vec![rel]), columns })
    }

    fn unnest(&mut self, node: &Unnest) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let mut seen = vec![0_usize; input.columns.len()];
        let mut columns = Vec::with_capacity(node.dependency_indices.len());
        for (&index, field) in node.dependency_indices.iter().zip(node.schema.fields()) {
            let source = *input.columns.get(index).ok_or_else(|| {
                OptimizerError::InvalidPlan("an unnested column does not exist".to_owned())
            })?;
            let lists: Vec<usize> = node
                .list_type_columns
                .iter()
                .filter(|(i, _)| *i == index)
                .map(|(_, list)| list.depth)
                .collect();
            let occurrence = seen[index];
            seen[index] += 1;
            let mut fresh =
                || self.columns.add(field.name().clone(), field.data_type().clone(), true);
            let column = if let Some(&depth) = lists.get(occurrence) {
                let output = fresh();
                let source = UnnestSource::List { input: source, depth };
                UnnestColumn { output, source }
            } else if node.struct_type_columns.contains(&index) {
                let output = fresh();
                let field = occurrence;
                let source = UnnestSource::StructField { input: source, field };
                UnnestColumn { output, source }
            } else {
                let forward = UnnestSource::Forward(source);
                UnnestColumn { output: source, source: forward }
            };
            columns.push(column);
        }
        let positions = columns.iter().map(|column| column.output).collect();
        let op = RelOp::Unnest { columns, null_handling: node.options.null_handling };
        Ok(Bound { rel: Rel::new(op, vec![input.rel]), columns: positions })
    }

    fn recursive(&mut self, node: &RecursiveQuery) -> Result<Bound> {
        let targets = self.fresh(&node.schema);
        targets.iter().for_each(|&column| self.columns.set_nullable(column));
        let static_term = self.plan(&node.static_term)?;
        let (static_rel, static_columns) = self.coerced(static_term, &targets);
        let work_table = self.work_table_count;
        self.work_table_count += 1;
        self.work_tables.push((node.name.clone(), work_table));
        let recursive_term = self.plan(&node.recursive_term);
        self.work_tables.pop();
        let (recursive_rel, recursive_columns) = self.coerced(recursive_term?, &targets);
        let op = RelOp::RecursiveCte {
            name: node.name.clone(),
            work_table,
            distinct: node.is_distinct,
            targets: targets.clone(),
            static_columns,
            recursive_columns,
        };
        Ok(Bound { rel: Rel::new(op, vec![static_rel, recursive_rel]), columns: targets })
    }
}

/// The mark of a lookup has been taken out of its inner join's condition: the join is the next one below.
fn look_up(rel: &mut Rel) {
    match &mut rel.op {
        RelOp::Join(spec) => spec.lookup = true,
        _ => rel.inputs.iter_mut().take(1).for_each(look_up),
    }
}

/// Adds conjuncts above a tree, inside a scan or an inner join where they can be.
pub(crate) fn filtered(mut rel: Rel, conjuncts: Vec<Expr>) -> Rel {
    let (volatile, mut stable): (Vec<Expr>, Vec<Expr>) =
        conjuncts.into_iter().partition(Expr::is_volatile);
    if let RelOp::Scan { filters, fetch: None, .. } | RelOp::Filter { conjuncts: filters } =
        &mut rel.op
    {
        filters.append(&mut stable);
    } else if let RelOp::Join(spec) = &mut rel.op
        && spec.join_type == JoinType::Inner
    {
        spec.filter.append(&mut stable);
    }
    stable.extend(volatile);
    if stable.is_empty() { rel } else { Rel::new(RelOp::Filter { conjuncts: stable }, vec![rel]) }
}
