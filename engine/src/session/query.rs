//! Queries: planned now, run when their frame is read.

use arrow::compute::SortOptions;
use datafusion_expr::{Expr, LogicalPlan, SortExpr};
use thalweg_optimizer::ResultUse;
use thalweg_planner::QueryPlan;

use super::changelog;
use super::frame::{Frame, Query};
use super::plan::{physical_plan, result_schema};
use super::statement::StatementContext;
use crate::error::Result;

/// The columns of its result by which a query orders its rows, up to the first key that is none.
fn order_of(plan: &LogicalPlan) -> Vec<(usize, SortOptions)> {
    match plan {
        LogicalPlan::Limit(limit) => order_of(&limit.input),
        LogicalPlan::Sort(sort) => {
            let key = |key: &SortExpr| {
                let Expr::Column(column) = &key.expr else { return None };
                let at = plan.schema().maybe_index_of_column(column)?;
                Some((at, SortOptions { descending: !key.asc, nulls_first: key.nulls_first }))
            };
            sort.expr.iter().map_while(key).collect()
        }
        _ => Vec::new(),
    }
}

/// The frame of a query.
pub(super) fn frame(cx: &StatementContext<'_>, plan: QueryPlan) -> Result<Frame> {
    let wanted = cx.query_use(&plan)?;
    let physical = physical_plan(&plan, &cx.settings, wanted)?;
    let rows = result_schema(&plan);
    let schema = match wanted.result {
        ResultUse::Rows => rows,
        ResultUse::Changelog => changelog::schema(&rows),
    };
    let query = Query {
        plan: physical,
        executor: cx.session.inner.executor.clone(),
        settings: cx.settings.clone(),
        result: wanted.result,
        order: order_of(&plan.plan),
    };
    Ok(Frame::of_query(schema, query, cx.token.clone()))
}
