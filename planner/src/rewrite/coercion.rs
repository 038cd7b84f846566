//! The types of all expressions, from the inside out.
//!
//! What is bound does not have its last type yet: a CASE is bound with the type of its first branch, and gets another when
//! its branches are coerced. So a node's turn comes when all that it reads has its types: first its inputs, then the
//! subqueries in its expressions, whose outer columns are columns of the inputs, and then the node itself, by our rules
//! for decimals and after them by the library's.
//!
//! Invariant: what has been coerced is left as it is.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::Filter;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion_optimizer::AnalyzerRule;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use super::unnesting::{has_subquery, is_lateral, refreshed, subquery_of, with_subquery};
use super::{decimals, time_texts};

/// The rule for whole plans.
#[derive(Debug)]
pub(super) struct Coercion;

impl AnalyzerRule for Coercion {
    fn name(&self) -> &str {
        "coercion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        coerce(plan)
    }
}

/// The plan with the types that its expressions end up with.
pub(super) fn coerce(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = match plan {
        LogicalPlan::Join(mut join) if is_lateral(&join) => {
            join.left = Arc::new(coerce(Arc::unwrap_or_clone(join.left))?);
            let right = retyped(Arc::unwrap_or_clone(join.right), join.left.schema())?;
            join.right = Arc::new(coerce(right)?);
            LogicalPlan::Join(join)
        }
        other => other.map_children(|input| Ok(Transformed::yes(coerce(input)?)))?.data,
    };
    let plan = match plan {
        LogicalPlan::Subquery(subquery) => LogicalPlan::Subquery(refreshed(subquery)),
        other => other,
    };
    let plan = with_coerced_subqueries(plan)?;
    by_library(time_texts::fit(decimals::coerce(plan)?.data)?)
}

fn with_coerced_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.expressions().iter().any(has_subquery) {
        return Ok(plan);
    }
    let rows = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let coerced = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let coerced = expr.transform_up(|e| {
            let Some(subquery) = subquery_of(&e) else { return Ok(Transformed::no(e)) };
            let inner = coerce(retyped(subquery.subquery.as_ref().clone(), &rows)?)?;
            Ok(Transformed::yes(with_subquery(e, inner)))
        })?;
        Ok(coerced.update_data(|e| name.restore(e)))
    })?;
    Ok(coerced.data)
}

/// A subquery whose outer columns have the types that they have in the rows of the query around it. Those that belong to
/// a query further inside get theirs when its turn comes.
fn retyped(plan: LogicalPlan, rows: &DFSchema) -> Result<LogicalPlan> {
    let retyped = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|e| {
                let Expr::OuterReferenceColumn(field, column) = &e else {
                    return Ok(Transformed::no(e));
                };
                let Some(at) = rows.maybe_index_of_column(column) else {
                    return Ok(Transformed::no(e));
                };
                let now = Arc::clone(&rows.fields()[at]);
                if now.data_type() == field.data_type() {
                    return Ok(Transformed::no(e));
                }
                Ok(Transformed::yes(Expr::OuterReferenceColumn(now, column.clone())))
            })
        })
    })?;
    Ok(retyped.data)
}

/// The library's coercion of one node, whose inputs and subqueries have been coerced.
fn by_library(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = scan.source.schema();
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)?);
    }
    let plan = match plan {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let predicate = predicate.cast_to(&DataType::Boolean, &schema)?;
            LogicalPlan::Filter(Filter::try_new(predicate, input)?)
        }
        other => other,
    };
    let mut rewriter = TypeCoercionRewriter::new(&schema);
    let names = NamePreserver::new(&plan);
    let coerced = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.rewrite(&mut rewriter)?.update_data(|e| name.restore(e)))
    })?;
    rewriter.coerce_plan(coerced.data)?.recompute_schema()
}
