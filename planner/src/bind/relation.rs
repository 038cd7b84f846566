//! Relations in FROM that the library does not plan as we want them: quoted paths, windowing table functions, CTEs
//! marked for sharing, and set operations.

use std::path::Path;
use std::sync::Arc;

use datafusion_common::{Result, TableReference};
use datafusion_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{Ident, Query, TableAlias, TableFactor};

use super::asof::{is_asof, plan_asof};
use super::names::{as_path, span_of_name};
use super::provider::path_reference;
use super::set_operations::{Operation, is_operation};
use super::sharing::{SharedRegistry, Sharing};
use super::sources::SharedSource;
use super::temporal::{Declarations, is_temporal, plan_temporal};
use super::translate::{carry, translate};
use crate::windows::{EventTimes, WindowFunction, is_gap_fill, plan_gap_fill};

/// Begins the alias of a derived table that is the body of a CTE to be shared; no user can mean it.
const CANDIDATE: &str = "\u{1}share:";
const FORCED: &str = "\u{1}force:";
const INLINED: &str = "\u{1}inline:";

/// The alias that marks a CTE's body for sharing.
pub(super) fn sharing_alias(
    name: &str,
    sharing: Sharing,
    columns: Vec<datafusion_sql::sqlparser::ast::TableAliasColumnDef>,
) -> TableAlias {
    let prefix = match sharing {
        Sharing::Candidate => CANDIDATE,
        Sharing::Forced => FORCED,
        Sharing::Inlined => INLINED,
    };
    TableAlias {
        explicit: true,
        name: Ident::with_quote('"', format!("{prefix}{name}")),
        columns,
        at: None,
    }
}

fn marked(alias: &TableAlias) -> Option<(&str, Sharing)> {
    let name = alias.name.value.as_str();
    let marks =
        [(CANDIDATE, Sharing::Candidate), (FORCED, Sharing::Forced), (INLINED, Sharing::Inlined)];
    marks.into_iter().find_map(|(mark, sharing)| Some((name.strip_prefix(mark)?, sharing)))
}

/// See the module.
#[derive(Debug)]
pub(super) struct Relations {
    pub(super) registry: SharedRegistry,
    pub(super) event_times: Arc<EventTimes>,
    pub(super) declarations: Arc<Declarations>,
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Table { ref name, args: None, ref alias, .. }
                if as_path(name).is_some() =>
            {
                let path = as_path(name).unwrap_or_default();
                let source = context.context_provider().get_table_source(path_reference(path));
                let source = source
                    .map_err(|e| carry(translate(e).with_span(span_of_name(name)).about(path)))?;
                let plan =
                    LogicalPlanBuilder::scan(TableReference::bare(stem(path)), source, None)?
                        .build()?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
            }
            TableFactor::Table { ref name, args: Some(ref args), ref alias, .. }
                if let Some(function) = WindowFunction::named(name) =>
            {
                let plan = function.plan(name, args, &self.event_times, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
            }
            TableFactor::Table { ref name, args: Some(ref args), ref alias, .. }
                if is_gap_fill(name) =>
            {
                let plan = plan_gap_fill(name, args, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
            }
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } if is_asof(&alias) => {
                let plan = plan_asof(*table_with_joins, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) }
                if is_temporal(&alias) =>
            {
                let (declared, times) = (&self.declarations, &self.event_times);
                let plan = plan_temporal(*table_with_joins, declared, times, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } if is_operation(&alias) => {
                let Some(operation) = Operation::of(*subquery) else {
                    return datafusion_common::internal_err!("no set operation is marked as one");
                };
                let plan = operation.plan(|operand| context.plan(operand))?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            TableFactor::Derived { lateral, subquery, alias: Some(alias), sample } => {
                match marked(&alias) {
                    Some((name, sharing)) => {
                        let plan = self.shared(name, sharing, subquery, &alias, context)?;
                        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
                    }
                    None => {
                        let original =
                            TableFactor::Derived { lateral, subquery, alias: Some(alias), sample };
                        Ok(RelationPlanning::Original(Box::new(original)))
                    }
                }
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

impl Relations {
    fn shared(
        &self,
        name: &str,
        sharing: Sharing,
        subquery: Box<Query>,
        alias: &TableAlias,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let body = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
        let plan = context.plan(body)?;
        let names = alias.columns.iter().map(|c| context.normalize_ident(c.name.clone())).collect();
        let plan = rename(name, plan, names)?;
        let event_times = self.event_times.of(&plan);
        let plan = self.registry.admit(name, sharing, plan)?;
        if let LogicalPlan::TableScan(scan) = &plan
            && scan.source.is::<SharedSource>()
        {
            self.event_times.add(&scan.source, event_times);
        }
        Ok(plan)
    }
}

/// The plan with its columns renamed; no names leave it as it is.
pub(super) fn rename(relation: &str, plan: LogicalPlan, names: Vec<String>) -> Result<LogicalPlan> {
    if names.is_empty() {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    if columns.len() != names.len() {
        return datafusion_common::plan_err!(
            "{relation} has {} columns, but {} column names are given",
            columns.len(),
            names.len()
        );
    }
    let exprs: Vec<Expr> =
        columns.into_iter().zip(names).map(|(c, name)| Expr::Column(c).alias(name)).collect();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

/// The name under which a path's columns can be qualified: the file name up to its first dot.
pub(super) fn stem(path: &str) -> String {
    let file = Path::new(path)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    if stem.is_empty() || stem.contains('*') { path.to_string() } else { stem.to_string() }
}
