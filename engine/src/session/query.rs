//! Queries: planned now, run when their frame is read.

use thalweg_optimizer::ResultUse;
use thalweg_planner::QueryPlan;

use super::changelog;
use super::frame::{Frame, Query};
use super::plan::{physical_plan, result_schema};
use super::statement::StatementContext;
use crate::error::Result;

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
    };
    Ok(Frame::of_query(schema, query, cx.token.clone()))
}
