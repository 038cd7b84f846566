//! Correlated subqueries of any shape, made independent of the query around them.
//!
//! The library's rules take apart what `simple` describes, and get other shapes wrong or refuse them. Such a subquery is
//! evaluated here for all distinct values of its outer columns at once (its domain), and what is left is to compare these
//! columns: a join for a value or for LATERAL, and for EXISTS and IN a correlated subquery of the simplest shape.
//!
//! Queries are taken apart from the outside in, so that a reference to a query further up has become one to the next
//! query around when its turn comes.

mod conditions;
mod domain;
mod factors;
mod hoist;
mod laterals;
mod push;
mod push_groups;
mod push_joins;
mod references;
mod shared_rows;
mod simple;
mod single_value;

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, JoinType, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::{Filter, Join, Projection};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, binary_expr, lit};
use datafusion_functions_aggregate::expr_fn::{count, first_value};
use datafusion_optimizer::AnalyzerRule;

use self::domain::{Domain, Pushed, join_same, restored};
use self::references::{OuterColumn, read_of, reads_outer};
use self::shared_rows::Context;
use self::simple::{Use, always_has_a_row, is_simple};
use crate::rewrite::shared::SharedPlans;

pub(super) use references::{has_subquery, is_lateral, refreshed, subquery_of, with_subquery};
pub(crate) use single_value::single_value;

/// See the module. Runs behind all coercions, and before the library checks the shapes of subqueries.
#[derive(Debug)]
pub(super) struct Unnesting {
    shared: SharedPlans,
}

impl Unnesting {
    /// Adds what it shares to these plans.
    pub(super) fn new(shared: SharedPlans) -> Self {
        Unnesting { shared }
    }
}

impl AnalyzerRule for Unnesting {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = factors::factor(plan)?;
        Pass { context: Context::new(self.shared.clone()) }.plan(plan)
    }

    fn name(&self) -> &str {
        "unnesting"
    }
}

struct Pass {
    context: Context,
}

impl Pass {
    fn plan(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let unnested = plan.transform_down_with_subqueries(|node| self.visit(node))?;
        if !unnested.transformed {
            return Ok(unnested.data);
        }
        // A joined value may be NULL where the subquery seemed not to be.
        let recomputed = unnested
            .data
            .transform_up_with_subqueries(|node| Ok(Transformed::yes(node.recompute_schema()?)))?;
        Ok(recomputed.data)
    }

    fn visit(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match node {
            node if node.expressions().iter().any(may_be_empty) => {
                let node = with_null_for_no_row(node)?;
                Ok(Transformed::yes(self.visit(node)?.data))
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Sort(sort) => hoist::sort(sort, &self.context),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
                if node.expressions().iter().any(has_subquery) =>
            {
                self.node(node)
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn join(&self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let plan = if is_lateral(&join) {
            let outer = read_of(join.left.schema(), &join.right);
            let supported = matches!(join.join_type, JoinType::Inner | JoinType::Left);
            if !supported || is_simple(&join.right, Use::Lateral) {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            self.lateral_join(join, outer)?
        } else if hoist::is_wanted(&join) {
            hoist::join(join, &self.context)?
        } else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        // What is below comes next, but not the node itself.
        match plan {
            LogicalPlan::Filter(_) => self.node(plan),
            other => Ok(Transformed::yes(other)),
        }
    }

    /// A node whose expressions have subqueries.
    fn node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else { return Ok(Transformed::no(node)) };
        let schema = Arc::clone(input.schema());
        let node = compared(node, &schema)?;
        if !self.is_wanted(&node.data, &schema) {
            return Ok(node);
        }
        let node = filtered_first(node.data)?;
        let mut input = node.inputs()[0].clone();
        let original = Arc::clone(node.schema());
        let names = NamePreserver::new(&node);
        let mut exprs = Vec::new();
        for expr in node.expressions() {
            let name = names.save(&expr);
            exprs.push(name.restore(self.unnested(expr, &mut input, &node, &schema)?));
        }
        let node = node.with_new_exprs(exprs, vec![input])?;
        if node.schema().fields().len() == original.fields().len() {
            return Ok(Transformed::yes(node));
        }
        // The joined values end where the node has read them.
        Ok(Transformed::yes(restored(node, &original, &[])?))
    }

    /// An expression of a node with all subqueries that are ours taken apart.
    fn unnested(
        &self,
        expr: Expr,
        input: &mut LogicalPlan,
        node: &LogicalPlan,
        schema: &DFSchema,
    ) -> Result<Expr> {
        let unnested = expr.transform_down(|e| {
            let Some(outer) = self.outer_of(&e, node, schema) else {
                return Ok(Transformed::no(e));
            };
            if let Expr::ScalarSubquery(subquery) = &e
                && let Some(value) = of_one_row(&subquery.subquery, &outer)?
            {
                // It may be the value of a subquery within, which is the node's now.
                let value = self.unnested(value, input, node, schema)?;
                return Ok(Transformed::new(value, true, TreeNodeRecursion::Jump));
            }
            Ok(Transformed::yes(self.unnest(e, input, outer)?))
        })?;
        Ok(unnested.data)
    }

    /// Whether one of a node's subqueries is ours.
    fn is_wanted(&self, node: &LogicalPlan, input: &DFSchema) -> bool {
        let ours = |e: &Expr| self.outer_of(e, node, input).is_some();
        node.expressions().iter().any(|expr| expr.exists(|e| Ok(ours(e))).unwrap_or(false))
    }

    /// The columns that a subquery reads of the input's rows, if it is one that is to be taken apart here.
    fn outer_of(
        &self,
        expr: &Expr,
        node: &LogicalPlan,
        input: &DFSchema,
    ) -> Option<Vec<OuterColumn>> {
        let subquery = subquery_of(expr)?.subquery.as_ref();
        let outer = read_of(input, subquery);
        let used = match expr {
            Expr::Exists(_) => Use::Exists,
            Expr::ScalarSubquery(_) => Use::Scalar,
            _ => Use::In,
        };
        let at_home = used != Use::Scalar
            || matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_));
        let left_alone = outer.is_empty() || (at_home && is_simple(subquery, used));
        (!left_alone).then_some(outer)
    }

    /// What stands for a subquery over the input's rows; a value is joined to them.
    fn unnest(&self, expr: Expr, input: &mut LogicalPlan, outer: Vec<OuterColumn>) -> Result<Expr> {
        if let Expr::Exists(exists) = &expr
            && always_has_a_row(&exists.subquery.subquery)
        {
            return Ok(lit(!exists.negated));
        }
        let Some(subquery) = subquery_of(&expr) else { return Ok(expr) };
        let plan = Arc::clone(&subquery.subquery);
        let domain = self.domain(input, outer)?;
        let pushed = domain.push(&plan)?;
        if matches!(expr, Expr::ScalarSubquery(_)) {
            let single = plan.max_rows().is_some_and(|rows| rows <= 1);
            return join_value(input, &domain, pushed, single);
        }
        let value = pushed.plan.schema().columns().swap_remove(0);
        let strict = pushed.strict || domain.outer.iter().all(|(field, _)| !field.is_nullable());
        let same = domain.outer.iter().zip(&pushed.keys).map(|((field, column), key)| {
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
            let key = Expr::Column(key.clone());
            match strict {
                true => key.eq(outer),
                false => binary_expr(key, datafusion_expr::Operator::IsNotDistinctFrom, outer),
            }
        });
        let mut plan = LogicalPlanBuilder::from(pushed.plan);
        if let Some(condition) = conjunction(same) {
            plan = plan.filter(condition)?;
        }
        // Under a name of its own the value differs from all other columns.
        let value = Expr::Column(value).alias(self.context.fresh());
        Ok(with_subquery(expr, plan.project([value])?.build()?))
    }

    /// The domain of these columns of an outer query, which reads the same rows afterwards.
    fn domain(&self, input: &mut LogicalPlan, outer: Vec<OuterColumn>) -> Result<Domain<'_>> {
        let columns: Vec<Column> = outer.iter().map(|(_, column)| column.clone()).collect();
        let rows = self.context.split(input.clone(), &columns, &|plan| self.plan(plan))?;
        *input = rows.input;
        Domain::new(rows.values, outer, &self.context)
    }
}

/// The node with its comparisons as EXISTS and IN.
fn compared(node: LogicalPlan, rows: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    if !node.expressions().iter().any(conditions::is_affected) {
        return Ok(Transformed::no(node));
    }
    if let LogicalPlan::Filter(filter) = node {
        let predicate = conditions::filter(filter.predicate, rows)?;
        let filter = Filter::try_new(predicate, filter.input)?;
        return Ok(Transformed::yes(LogicalPlan::Filter(filter)));
    }
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        Ok(name.restore(conditions::value(expr, rows)?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let inputs = node.inputs().into_iter().cloned().collect();
    Ok(Transformed::yes(node.with_new_exprs(exprs, inputs)?))
}

/// A filter with its plain conditions below the others, so that subqueries are for the rows that are left.
fn filtered_first(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = node else { return Ok(node) };
    let plain = |e: &Expr| !has_subquery(e) && !reads_outer(e) && !e.is_volatile();
    let (early, late): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(filter.predicate).into_iter().partition(plain);
    let input = match conjunction(early) {
        Some(early) => Arc::new(LogicalPlan::Filter(Filter::try_new(early, filter.input)?)),
        None => filter.input,
    };
    let late = conjunction(late).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(late, input)?))
}

/// Whether an expression has a scalar subquery that is NULL without rows, where the library takes it for never NULL.
fn may_be_empty(expr: &Expr) -> bool {
    let found = expr.exists(|e| {
        let Expr::ScalarSubquery(subquery) = e else { return Ok(false) };
        let plan = subquery.subquery.as_ref();
        let nullable = plan.schema().fields().iter().all(|field| field.is_nullable());
        Ok(!nullable && !always_has_a_row(plan))
    });
    found.unwrap_or(false)
}

fn with_null_for_no_row(node: LogicalPlan) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|e| match e {
            Expr::ScalarSubquery(ref subquery) if may_be_empty(&e) => {
                let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
                let (relation, field) = plan.schema().qualified_field(0);
                let (relation, name) = (relation.cloned(), field.name().clone());
                let value = Expr::Column(Column::new(relation.clone(), name.clone()));
                let value = single_value::call(value, lit(1_i64)).alias_qualified(relation, name);
                let plan = plan.project([value])?.build()?;
                Ok(Transformed::yes(with_subquery(e, plan)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.update_data(|e| name.restore(e)))
    })?;
    rewritten.data.recompute_schema()
}

/// The value of a subquery without FROM: an expression over the outer row.
fn of_one_row(plan: &LogicalPlan, outer: &[OuterColumn]) -> Result<Option<Expr>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(None) };
    let [expr] = projection.expr.as_slice() else { return Ok(None) };
    let LogicalPlan::EmptyRelation(empty) = projection.input.as_ref() else { return Ok(None) };
    if !empty.produce_one_row {
        return Ok(None);
    }
    let replaced = expr.clone().unalias().transform(|e| match e {
        Expr::OuterReferenceColumn(_, column) if outer.iter().any(|(_, c)| *c == column) => {
            Ok(Transformed::yes(Expr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some(replaced.data))
}

/// Joins the value of a scalar subquery to the rows, and gives the expression that has it.
fn join_value(
    input: &mut LogicalPlan,
    domain: &Domain<'_>,
    pushed: Pushed,
    single: bool,
) -> Result<Expr> {
    let value = pushed.plan.schema().columns().swap_remove(0);
    let keys = domain.context.named(&pushed.keys);
    let strict = pushed.strict || domain.outer.iter().all(|(field, _)| !field.is_nullable());
    let right = if single {
        let value = Expr::Column(value).alias(domain.context.fresh());
        let exprs = keys.into_iter().chain([value]).collect();
        LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(pushed.plan))?)
    } else {
        let value = first_value(Expr::Column(value), Vec::new()).alias(domain.context.fresh());
        let rows = count(lit(1_i64)).alias(domain.context.fresh());
        LogicalPlanBuilder::from(pushed.plan).aggregate(keys, vec![value, rows])?.build()?
    };
    let mut keys = right.schema().columns();
    let values = keys.split_off(domain.outer.len());
    let left = std::mem::take(input);
    let on = (domain.columns(), keys);
    *input = join_same(left, right, (&on.0, &on.1), strict)?;
    let mut values = values.into_iter().map(Expr::Column);
    match (values.next(), values.next()) {
        (Some(value), Some(rows)) => Ok(single_value::call(value, rows)),
        (Some(value), None) => Ok(value),
        (None, _) => Err(domain.refused("a query without columns")),
    }
}
