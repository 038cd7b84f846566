//! Queries: planned now, run when their frame is read.

use thalweg_planner::QueryPlan;

use super::frame::{Frame, Query};
use super::plan::{physical_plan, result_schema};
use super::statement::StatementContext;
use crate::error::Result;

/// The frame of a query.
pub(super) fn frame(cx: &StatementContext<'_>, plan: QueryPlan) -> Result<Frame> {
    let physical = physical_plan(&plan, &cx.settings)?;
    let query = Query {
        plan: physical,
        executor: cx.session.inner.executor.clone(),
        settings: cx.settings.clone(),
    };
    Ok(Frame::of_query(result_schema(&plan), query, cx.token.clone()))
}
