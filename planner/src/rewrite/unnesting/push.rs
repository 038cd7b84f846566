//! Pushing a domain through the nodes of a subquery.
//!
//! Each node does for all rows of the domain at once what it does for one: groups and partitions get the domain's columns
//! as further keys, a LIMIT counts within each, and a grouping of no rows still has its one row for each.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr::{BinaryExpr, Sort as SortExpr};
use datafusion_expr::logical_plan::{
    Distinct, DistinctOn, Filter, Projection, SubqueryAlias, Union, Unnest, Values,
};
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{
    EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
};

use super::domain::{Domain, Pushed, keep_name, restored};
use super::references::{OuterColumn, has_subquery, reads_outer};

impl Domain<'_> {
    /// The plan's rows for each row of the domain.
    pub(super) fn push(&self, plan: &LogicalPlan) -> Result<Pushed> {
        if !self.is_read_by(plan) {
            return self.beside(plan);
        }
        match plan {
            LogicalPlan::Projection(node) => self.projection(node),
            LogicalPlan::Filter(node) => self.filter(node),
            LogicalPlan::SubqueryAlias(node) => self.alias(node),
            LogicalPlan::Subquery(node) => self.push(&node.subquery),
            LogicalPlan::Aggregate(node) if node.group_expr.is_empty() => self.total(node),
            LogicalPlan::Aggregate(node) => self.groups(node),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Pushed { plan, keys, strict } = self.push(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
                Ok(Pushed { plan, keys, strict })
            }
            LogicalPlan::Distinct(Distinct::On(node)) => self.distinct_on(node),
            // Outside of a LIMIT the order of a subquery's rows means nothing.
            LogicalPlan::Sort(node) if node.fetch.is_none() => self.push(&node.input),
            LogicalPlan::Limit(node) => self.limit(node),
            LogicalPlan::Join(node) => self.join(node),
            LogicalPlan::Union(node) => self.union(node),
            LogicalPlan::Window(node) => self.window(node),
            LogicalPlan::Unnest(node) => self.unnest(node),
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::RecursiveQuery(_) => Err(self.refused("a recursive query")),
            LogicalPlan::Sort(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_) => Err(self.refused("a part that cannot be moved")),
        }
    }

    /// Rows that are the same for the whole domain.
    fn beside(&self, plan: &LogicalPlan) -> Result<Pushed> {
        let domain = self.instance()?;
        if let LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema }) = plan
            && schema.fields().is_empty()
        {
            return Ok(domain);
        }
        let plan = LogicalPlanBuilder::from(plan.clone()).cross_join(domain.plan)?.build()?;
        Ok(Pushed { plan, ..domain })
    }

    pub(super) fn projection(&self, node: &Projection) -> Result<Pushed> {
        let input = self.push(&node.input)?;
        let exprs = node
            .expr
            .iter()
            .enumerate()
            .map(|(at, expr)| Ok(keep_name(self.over(expr, &input)?, &node.schema, at)));
        let mut exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        exprs.extend(input.keys.iter().cloned().map(Expr::Column));
        let projection = Projection::try_new(exprs, Arc::new(input.plan))?;
        Ok(Pushed { plan: LogicalPlan::Projection(projection), ..input })
    }

    fn filter(&self, node: &Filter) -> Result<Pushed> {
        if !self.is_read_by(&node.input)
            && let Some(pushed) = self.filter_by_equals(node)?
        {
            return Ok(pushed);
        }
        let input = self.push(&node.input)?;
        let predicate = self.over(&node.predicate, &input)?;
        let filter = Filter::try_new(predicate, Arc::new(input.plan))?;
        Ok(Pushed { plan: LogicalPlan::Filter(filter), ..input })
    }

    /// Where each outer column equals something inside, that is its value: the domain need not be read.
    fn filter_by_equals(&self, node: &Filter) -> Result<Option<Pushed>> {
        let mut conjuncts = split_conjunction(&node.predicate);
        let mut values: Vec<Expr> = Vec::new();
        for column in &self.outer {
            let found =
                conjuncts.iter().map(|c| value_of(c, column, node)).position(|v| v.is_some());
            let Some(at) = found else { return Ok(None) };
            values.extend(value_of(conjuncts.remove(at), column, node));
        }
        let others = conjunction(conjuncts.into_iter().cloned());
        let known = values.iter().map(|value| value.clone().is_not_null());
        let known = conjunction(known)
            .map(|known| LogicalPlanBuilder::from(Arc::clone(&node.input)).filter(known)?.build());
        let input = known.transpose()?.unwrap_or_else(|| node.input.as_ref().clone());
        let own = input.schema().columns().into_iter().map(Expr::Column);
        let keys = values.into_iter().map(|value| value.alias(self.context.fresh()));
        let width = input.schema().fields().len();
        let input = Projection::try_new(own.chain(keys).collect(), Arc::new(input))?;
        let keys = input.schema.columns().split_off(width);
        let input = Pushed { plan: LogicalPlan::Projection(input), keys, strict: true };
        let Some(others) = others else { return Ok(Some(input)) };
        let predicate = self.over(&others, &input)?;
        let filter = Filter::try_new(predicate, Arc::new(input.plan))?;
        Ok(Some(Pushed { plan: LogicalPlan::Filter(filter), ..input }))
    }

    pub(super) fn alias(&self, node: &SubqueryAlias) -> Result<Pushed> {
        let input = self.push(&node.input)?;
        let requalified = |key: Column| Column::new(Some(node.alias.clone()), key.name);
        let keys = input.keys.into_iter().map(requalified).collect();
        let alias = SubqueryAlias::try_new(Arc::new(input.plan), node.alias.clone())?;
        Ok(Pushed { plan: LogicalPlan::SubqueryAlias(alias), keys, strict: input.strict })
    }

    fn distinct_on(&self, node: &DistinctOn) -> Result<Pushed> {
        let input = self.push(&node.input)?;
        let keys: Vec<Expr> = input.keys.iter().cloned().map(Expr::Column).collect();
        let over = |exprs: &[Expr]| -> Result<Vec<Expr>> {
            exprs.iter().map(|expr| self.over(expr, &input)).collect()
        };
        let on = keys.iter().cloned().chain(over(&node.on_expr)?).collect();
        let selected = over(&node.select_expr)?.into_iter().enumerate();
        let selected = selected.map(|(at, expr)| keep_name(expr, &node.schema, at));
        let selected = selected.chain(keys.iter().cloned()).collect();
        let sort = node.sort_expr.as_ref().map(|sort| -> Result<Vec<SortExpr>> {
            let first = keys.iter().map(|key| Ok(key.clone().sort(true, false)));
            let then = sort
                .iter()
                .map(|key| Ok(SortExpr { expr: self.over(&key.expr, &input)?, ..key.clone() }));
            first.chain(then).collect()
        });
        let plan = Arc::new(input.plan);
        let distinct = DistinctOn::try_new(on, selected, sort.transpose()?, plan)?;
        let plan = LogicalPlan::Distinct(Distinct::On(distinct));
        Ok(Pushed { plan, keys: input.keys, strict: input.strict })
    }

    fn union(&self, node: &Union) -> Result<Pushed> {
        let inputs = node.inputs.iter().map(|input| self.push(input));
        self.together(inputs.collect::<Result<Vec<_>>>()?, &node.schema)
    }

    /// The rows of all, under the names of a schema. All inputs get the same names, for the library moves projections
    /// from above a union into its inputs.
    fn together(&self, inputs: Vec<Pushed>, schema: &DFSchema) -> Result<Pushed> {
        let strict = inputs.iter().all(|input| input.strict);
        let own = schema.fields().iter().map(|field| field.name().clone());
        let names: Vec<String> =
            own.chain(self.outer.iter().map(|_| self.context.fresh())).collect();
        let inputs = inputs.into_iter().map(|input| {
            let columns = input.plan.schema().columns().into_iter().zip(&names);
            let exprs = columns.map(|(c, name)| Expr::Column(c).alias(name)).collect();
            let projection = Projection::try_new(exprs, Arc::new(input.plan))?;
            Ok(Arc::new(LogicalPlan::Projection(projection)))
        });
        let union = Union::try_new(inputs.collect::<Result<Vec<_>>>()?)?;
        let columns = union.schema.columns();
        let width = schema.fields().len();
        let (own, keys) = columns.split_at(width);
        let own = own.iter().enumerate();
        let exprs = own.map(|(at, c)| keep_name(Expr::Column(c.clone()), schema, at));
        let exprs = exprs.chain(keys.iter().cloned().map(Expr::Column)).collect();
        let projection = Projection::try_new(exprs, Arc::new(LogicalPlan::Union(union)))?;
        let keys = projection.schema.columns().split_off(width);
        Ok(Pushed { plan: LogicalPlan::Projection(projection), keys, strict })
    }

    fn values(&self, node: &Values) -> Result<Pushed> {
        let rows = node.values.iter().map(|row| {
            let domain = self.instance()?;
            let exprs = row.iter().enumerate().map(|(at, expr)| {
                let data_type = node.schema.field(at).data_type();
                let expr = self.over(expr, &domain)?.cast_to(data_type, domain.plan.schema())?;
                Ok(keep_name(expr, &node.schema, at))
            });
            let mut exprs = exprs.collect::<Result<Vec<Expr>>>()?;
            exprs.extend(domain.keys.iter().cloned().map(Expr::Column));
            let projection = Projection::try_new(exprs, Arc::new(domain.plan))?;
            let plan = LogicalPlan::Projection(projection);
            Ok(Pushed { plan, keys: domain.keys, strict: domain.strict })
        });
        let mut rows = rows.collect::<Result<Vec<_>>>()?;
        if rows.len() == 1 {
            return Ok(rows.remove(0));
        }
        self.together(rows, &node.schema)
    }

    fn unnest(&self, node: &Unnest) -> Result<Pushed> {
        let Pushed { plan, keys, strict } = self.push(&node.input)?;
        let unnest =
            Unnest::try_new(Arc::new(plan), node.exec_columns.clone(), node.options.clone())?;
        let plan = restored(LogicalPlan::Unnest(unnest), &node.schema, &keys)?;
        Ok(Pushed { plan, keys, strict })
    }
}

/// What equals the outer column by a condition on rows, when it can stand for it: equal values of its type are the same.
fn value_of(condition: &Expr, outer: &OuterColumn, node: &Filter) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let is_outer = |e: &Expr| matches!(e, Expr::OuterReferenceColumn(_, c) if *c == outer.1);
    let value = match (is_outer(left), is_outer(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let data_type = value.get_type(node.input.schema()).ok()?;
    let inside = !reads_outer(value)
        && !has_subquery(value)
        && !value.is_volatile()
        && value.any_column_refs();
    let exact = data_type.is_integer()
        || data_type.is_string()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(..)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Binary
                | DataType::BinaryView
        );
    (inside && exact && data_type == *outer.0.data_type()).then(|| value.as_ref().clone())
}
