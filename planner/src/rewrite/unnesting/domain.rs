//! The domain of a subquery: the distinct values of the outer columns that it reads. A subquery that is evaluated for a
//! whole domain at once depends on nothing outside any more.
//!
//! Invariant: [`Domain::push`] gives a plan with the columns of the subquery, and behind them the outer columns under
//! names of their own: the rows of the subquery for each row of the domain. A domain may have values that no outer row
//! has, and so may what is pushed; the join with the outer rows loses them.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema, DataFusionError, Result, TableReference};
use datafusion_expr::logical_plan::Projection;
use datafusion_expr::{
    Distinct, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr,
};

use super::references::{OuterColumn, Replacements, free, substitute};
use super::shared_rows::Context;
use crate::bind::carry;
use crate::error::PlannerError;
use crate::rewrite::leftovers;

/// See the module.
pub(super) struct Domain<'a> {
    plan: LogicalPlan,
    /// The outer columns, in the order of the plan's.
    pub(super) outer: Vec<OuterColumn>,
    pub(super) context: &'a Context,
}

/// A plan and its last columns: the values of the domain that each row belongs to.
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Column>,
    /// No key is ever NULL: rows for a NULL of the outer query there are none.
    pub(super) strict: bool,
}

impl<'a> Domain<'a> {
    /// The distinct values of these columns of a plan's rows.
    pub(super) fn new(
        rows: LogicalPlan,
        outer: Vec<OuterColumn>,
        context: &'a Context,
    ) -> Result<Self> {
        let domain = Self::of_rows(rows, outer, context)?;
        if let Some((_, column)) = domain.outer.iter().find(|(f, _)| has_looks(f.data_type())) {
            let error = PlannerError::not_supported("this subquery")
                .with_detail(format!("It reads the interval {column} of the outer query."))
                .with_hint("write it as a join".to_string());
            return Err(carry(leftovers::at(error, column)));
        }
        Ok(Domain { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(domain.plan))), ..domain })
    }

    /// The rows themselves, each as often as it is there.
    pub(super) fn of_rows(
        rows: LogicalPlan,
        outer: Vec<OuterColumn>,
        context: &'a Context,
    ) -> Result<Self> {
        let columns: Vec<Column> = outer.iter().map(|(_, column)| column.clone()).collect();
        let named = context.named(&columns);
        let plan = LogicalPlanBuilder::from(rows).project(named)?.build()?;
        Ok(Domain { plan, outer, context })
    }

    /// The names that the outer columns have in the outer query.
    pub(super) fn columns(&self) -> Vec<Column> {
        self.outer.iter().map(|(_, column)| column.clone()).collect()
    }

    /// The domain's rows under new names.
    pub(super) fn instance(&self) -> Result<Pushed> {
        let named = self.context.named(&self.plan.schema().columns());
        let plan = LogicalPlanBuilder::from(self.plan.clone()).project(named)?.build()?;
        let strict = !self.outer.iter().any(|(field, _)| field.is_nullable());
        Ok(Pushed { keys: plan.schema().columns(), plan, strict })
    }

    /// Whether a plan depends on the domain.
    pub(super) fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        free(plan).iter().any(|(_, column)| self.outer.iter().any(|(_, ours)| ours == column))
    }

    /// What the outer columns are called in pushed rows.
    pub(super) fn replacements(&self, keys: &[Column]) -> Replacements {
        self.columns().into_iter().zip(keys.iter().cloned()).collect()
    }

    /// An expression over pushed rows.
    pub(super) fn over(&self, expr: &Expr, pushed: &Pushed) -> Result<Expr> {
        substitute(expr.clone(), &self.replacements(&pushed.keys), pushed.plan.schema())
    }

    /// The refusal of a subquery that nothing here takes apart.
    pub(super) fn refused(&self, what: &str) -> DataFusionError {
        let error = PlannerError::not_supported("this subquery")
            .with_detail(format!("It depends on the outer query inside {what}."))
            .with_hint("write it as a join".to_string());
        carry(match self.outer.first() {
            Some((_, column)) => leftovers::at(error, column),
            None => error,
        })
    }
}

/// That two rows belong to the same row of the domain.
pub(super) fn same(left: &[Column], right: &[Column], strict: bool) -> Vec<Expr> {
    let op = if strict { Operator::Eq } else { Operator::IsNotDistinctFrom };
    let pairs = left.iter().cloned().zip(right.iter().cloned());
    pairs.map(|(l, r)| binary_expr(Expr::Column(l), op, Expr::Column(r))).collect()
}

/// Joins rows by the values of the domain that they belong to.
pub(super) fn join_same(
    left: LogicalPlan,
    right: LogicalPlan,
    on: (&[Column], &[Column]),
    strict: bool,
) -> Result<LogicalPlan> {
    let same = same(on.0, on.1, strict);
    LogicalPlanBuilder::from(left).join_on(right, JoinType::Left, same)?.build()
}

/// Whether values that are equal may look different, so that one cannot stand for the other.
fn has_looks(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_looks(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_looks(field.data_type())),
        _ => false,
    }
}

/// The expression under the name that a field of a schema has.
pub(super) fn keep_name(expr: Expr, schema: &DFSchema, at: usize) -> Expr {
    let (qualifier, field) = schema.qualified_field(at);
    let name = (qualifier.cloned(), field.name().clone());
    if expr.qualified_name() == name {
        return expr;
    }
    let (qualifier, name): (Option<TableReference>, String) = name;
    expr.unalias().alias_qualified(qualifier, name)
}

/// The columns of a schema out of rows that have them, and behind them the keys.
pub(super) fn restored(
    plan: LogicalPlan,
    schema: &DFSchema,
    keys: &[Column],
) -> Result<LogicalPlan> {
    let columns = schema.columns().into_iter().chain(keys.iter().cloned());
    let exprs: Vec<Expr> = columns.map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}
