//! Pushing a domain through what looks at many rows: groupings, windows and LIMIT.

use std::sync::Arc;

use datafusion_common::{Column, Result};
use datafusion_expr::expr::{Sort as SortExpr, WindowFunction, WindowFunctionDefinition};
use datafusion_expr::logical_plan::{
    Aggregate, FetchType, Limit, Projection, SkipType, Sort, SubqueryAlias, Window,
};
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, lit, when};
use datafusion_functions_window::row_number::row_number_udwf;

use super::domain::{Domain, Pushed, join_same, keep_name, restored};

impl Domain<'_> {
    /// Groups of each row of the domain; there is none where a group has no rows.
    pub(super) fn groups(&self, node: &Aggregate) -> Result<Pushed> {
        if node.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
            return Err(self.refused("grouping sets"));
        }
        let input = self.push(&node.input)?;
        let named = |from: usize, exprs: &[Expr]| {
            let exprs = exprs
                .iter()
                .enumerate()
                .map(|(at, expr)| Ok(keep_name(self.over(expr, &input)?, &node.schema, from + at)));
            exprs.collect::<Result<Vec<Expr>>>()
        };
        let mut groups = named(0, &node.group_expr)?;
        let aggregates = named(groups.len(), &node.aggr_expr)?;
        groups.extend(input.keys.iter().cloned().map(Expr::Column));
        let aggregate = Aggregate::try_new(Arc::new(input.plan), groups, aggregates)?;
        let plan = restored(LogicalPlan::Aggregate(aggregate), &node.schema, &input.keys)?;
        Ok(Pushed { plan, keys: input.keys, strict: input.strict })
    }

    /// A grouping of all rows has one row also where there are none.
    pub(super) fn total(&self, node: &Aggregate) -> Result<Pushed> {
        let groups = self.groups(node)?;
        let here = self.context.fresh();
        let columns = node.schema.columns().into_iter().map(Expr::Column);
        let keys = self.context.named(&groups.keys);
        let found = columns.chain(keys).chain([lit(true).alias(here.clone())]);
        let found = LogicalPlanBuilder::from(groups.plan).project(found)?.build()?;
        let keys = found.schema().columns().split_off(node.schema.fields().len());
        let keys = &keys[..self.outer.len()];
        let domain = self.instance()?;
        let on = (domain.keys.as_slice(), keys);
        let strict = groups.strict || domain.strict;
        let joined = join_same(domain.plan, found, on, strict)?;
        let values = node.aggr_expr.iter().enumerate().map(|(at, aggregate)| {
            let (qualifier, field) = node.schema.qualified_field(at);
            let value = Expr::Column(Column::from((qualifier, field)));
            let Expr::AggregateFunction(call) = aggregate.clone().unalias() else {
                return Err(self.refused("an aggregate"));
            };
            let empty = call.func.default_value(field.data_type())?;
            if empty.is_null() {
                return Ok(value);
            }
            let missing = Expr::Column(Column::from_name(here.clone())).is_null();
            let value = when(missing, lit(empty)).otherwise(value)?;
            Ok(value.alias_qualified(qualifier.cloned(), field.name()))
        });
        let mut exprs = values.collect::<Result<Vec<Expr>>>()?;
        exprs.extend(domain.keys.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(joined).project(exprs)?.build()?;
        Ok(Pushed { plan, keys: domain.keys, strict: domain.strict })
    }

    /// A LIMIT within each row of the domain: rows are numbered, and the numbers compared.
    pub(super) fn limit(&self, node: &Limit) -> Result<Pushed> {
        let below = |input: &Arc<LogicalPlan>| {
            let limit = Limit { input: Arc::clone(input), ..node.clone() };
            Arc::new(LogicalPlan::Limit(limit))
        };
        let (input, order): (&LogicalPlan, &[SortExpr]) = match node.input.as_ref() {
            // What keeps all rows in their order can as well come later.
            LogicalPlan::Projection(p) => {
                return self.projection(&Projection::try_new(p.expr.clone(), below(&p.input))?);
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = below(&alias.input);
                return self.alias(&SubqueryAlias::try_new(input, alias.alias.clone())?);
            }
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (input, expr),
            other => (other, &[]),
        };
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (node.get_skip_type()?, node.get_fetch_type()?)
        else {
            return Err(self.refused("a LIMIT that is not constant"));
        };
        let schema = Arc::clone(input.schema());
        let input = self.push(input)?;
        let order = order
            .iter()
            .map(|key| Ok(SortExpr { expr: self.over(&key.expr, &input)?, ..key.clone() }));
        let order = order.collect::<Result<Vec<SortExpr>>>()?;
        let partition: Vec<Expr> = input.keys.iter().cloned().map(Expr::Column).collect();
        let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let number = Expr::from(WindowFunction::new(function, Vec::new()));
        let number = number.partition_by(partition).order_by(order).build()?;
        let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
        let mut kept = column.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            kept = kept.and(column.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let numbered = LogicalPlanBuilder::from(input.plan).window(vec![number])?;
        let plan = restored(numbered.filter(kept)?.build()?, &schema, &input.keys)?;
        Ok(Pushed { plan, keys: input.keys, strict: input.strict })
    }

    pub(super) fn window(&self, node: &Window) -> Result<Pushed> {
        let input = self.push(&node.input)?;
        let own = node.input.schema().columns().into_iter().map(Expr::Column);
        let mut exprs: Vec<Expr> = own.collect();
        let mut windows = Vec::with_capacity(node.window_expr.len());
        for expr in &node.window_expr {
            let Expr::WindowFunction(mut call) = self.over(expr, &input)?.unalias() else {
                return Err(self.refused("a window function"));
            };
            call.params.partition_by.extend(input.keys.iter().cloned().map(Expr::Column));
            let window = Expr::WindowFunction(call);
            let column = Expr::Column(Column::from_name(window.schema_name().to_string()));
            exprs.push(keep_name(column, &node.schema, exprs.len()));
            windows.push(window);
        }
        exprs.extend(input.keys.iter().cloned().map(Expr::Column));
        let windows = LogicalPlan::Window(Window::try_new(windows, Arc::new(input.plan))?);
        let projection = Projection::try_new(exprs, Arc::new(windows))?;
        let plan = LogicalPlan::Projection(projection);
        Ok(Pushed { plan, keys: input.keys, strict: input.strict })
    }
}
