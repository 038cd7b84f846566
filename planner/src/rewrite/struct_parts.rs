//! Structs that a query makes of columns, and takes apart again further up: the parts are carried beside the struct, so
//! that fields, keys of groupings, of partitions and of joins are plain columns.
//!
//! `window.start` of a window that a query below grouped by is the column `window_start`, which closes groups; a struct
//! would not. Invariant: a plan has the columns that it had; parts are carried only where the struct is never NULL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::logical_plan::{Aggregate, Join, Projection, SubqueryAlias, Window};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion_functions::core::expr_fn::named_struct;

/// The fields of a struct, each with the column that has its values.
type Parts = Vec<(String, Column)>;
/// The structs of a plan's columns whose parts are columns, too.
type Known = HashMap<Column, Parts>;

/// The plan, with structs taken apart.
pub(super) fn take_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !makes_structs(&plan)? {
        return Ok(plan);
    }
    Carrier::default().without_parts(plan)
}

fn makes_structs(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let LogicalPlan::Projection(projection) = node {
            found |= projection.expr.iter().any(|expr| parts_of(expr).is_some());
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Field names and columns of an expression that makes a struct of columns.
fn parts_of(expr: &Expr) -> Option<Parts> {
    let Expr::ScalarFunction(call) = without_aliases(expr) else { return None };
    if call.func.name() != "named_struct" {
        return None;
    }
    let parts = call.args.chunks(2).map(|pair| match pair {
        [Expr::Literal(name, _), Expr::Column(column)] => {
            Some((name.try_as_str()??.to_string(), column.clone()))
        }
        _ => None,
    });
    parts.collect()
}

fn without_aliases(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// Carries parts up a plan under names that are there once.
#[derive(Default)]
struct Carrier {
    carried: usize,
}

impl Carrier {
    /// The plan with its own columns alone.
    fn without_parts(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let columns = plan.schema().columns();
        let (plan, _) = self.with_parts(plan)?;
        if plan.schema().fields().len() == columns.len() {
            return Ok(plan);
        }
        LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()
    }

    /// The plan with further columns for the parts of structs.
    fn with_parts(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Known)> {
        match plan {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
                let exprs = plan.expressions();
                let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else {
                    return Ok((plan, Known::new()));
                };
                let (input, known) = self.with_parts(input)?;
                let exprs = exprs.into_iter().map(|expr| fields_as_columns(expr, &known));
                let exprs = exprs.collect::<Result<Vec<_>>>()?;
                Ok((plan.with_new_exprs(exprs, vec![input])?, known))
            }
            LogicalPlan::RecursiveQuery(_) => Ok((plan, Known::new())),
            other => {
                let other =
                    other.map_children(|input| self.without_parts(input).map(Transformed::yes))?;
                Ok((other.data, Known::new()))
            }
        }
    }

    fn projection(&mut self, projection: Projection) -> Result<(LogicalPlan, Known)> {
        let Projection { expr, input, schema, .. } = projection;
        let (input, below) = self.with_parts(Arc::unwrap_or_clone(input))?;
        let (mut known, mut carried) = (Known::new(), Vec::new());
        for (expr, column) in expr.iter().zip(schema.columns()) {
            if let Some(parts) = parts_of(expr) {
                let parts = parts.into_iter().map(|(field, part)| {
                    self.carried += 1;
                    let name = format!("{}.{field}#{}", column.name, self.carried);
                    carried.push(Expr::Column(part).alias(name.as_str()));
                    (field, Column::new_unqualified(name))
                });
                let parts = parts.collect();
                known.insert(column, parts);
            } else if let Expr::Column(of) = without_aliases(expr)
                && let Some(parts) = below.get(of)
            {
                for (_, part) in parts {
                    let part = Expr::Column(part.clone());
                    if !carried.contains(&part) {
                        carried.push(part);
                    }
                }
                known.insert(column, parts.clone());
            }
        }
        let exprs = expr.into_iter().map(|expr| with_columns(expr, &below));
        let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
        exprs.extend(carried);
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), known))
    }

    fn alias(&mut self, alias: SubqueryAlias) -> Result<(LogicalPlan, Known)> {
        let SubqueryAlias { input, alias, .. } = alias;
        let (input, below) = self.with_parts(Arc::unwrap_or_clone(input))?;
        let columns = input.schema().columns();
        let named = SubqueryAlias::try_new(Arc::new(input), alias)?;
        let renamed: HashMap<Column, Column> =
            columns.into_iter().zip(named.schema.columns()).collect();
        let of = |column: &Column| renamed.get(column).cloned();
        let known = below.iter().filter_map(|(column, parts)| {
            let parts = parts.iter().map(|(field, part)| Some((field.clone(), of(part)?)));
            Some((of(column)?, parts.collect::<Option<Parts>>()?))
        });
        let known = known.collect();
        Ok((LogicalPlan::SubqueryAlias(named), known))
    }

    /// A grouping by a struct groups by its parts, and makes the struct anew.
    fn aggregate(&mut self, aggregate: Aggregate) -> Result<(LogicalPlan, Known)> {
        let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
        let (input, below) = self.with_parts(Arc::unwrap_or_clone(input))?;
        let has_sets = group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
        let keys: Vec<Option<&Parts>> = group_expr
            .iter()
            .map(|expr| match expr {
                Expr::Column(column) if !has_sets => below.get(column),
                _ => None,
            })
            .collect();
        let (mut groups, mut outputs, mut carried) = (Vec::new(), Vec::new(), Vec::new());
        let (mut known, mut apart) = (Known::new(), false);
        let mut columns = schema.columns().into_iter();
        if has_sets {
            let grouped = Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?;
            return Ok((LogicalPlan::Aggregate(grouped), known));
        }
        for ((expr, parts), column) in group_expr.iter().zip(&keys).zip(columns.by_ref()) {
            let Some(parts) = parts else {
                let key = fields_as_columns(expr.clone(), &below)?;
                apart |= key != *expr;
                outputs.push(output_of(&key, expr, column));
                if !groups.contains(&key) {
                    groups.push(key);
                }
                continue;
            };
            apart = true;
            for (_, part) in *parts {
                let part = Expr::Column(part.clone());
                if !groups.contains(&part) {
                    groups.push(part.clone());
                }
                if !carried.contains(&part) {
                    carried.push(part);
                }
            }
            outputs.push(made_of(parts).alias_qualified(column.relation.clone(), &column.name));
            known.insert(column, (*parts).clone());
        }
        let mut aggregates = Vec::new();
        for (expr, column) in aggr_expr.into_iter().zip(columns) {
            let computed = fields_as_columns(expr.clone(), &below)?;
            apart |= computed != expr;
            outputs.push(output_of(&computed, &expr, column));
            aggregates.push(computed);
        }
        let grouped =
            LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?);
        if !apart {
            return Ok((grouped, Known::new()));
        }
        outputs.extend(carried);
        let made = Projection::try_new(outputs, Arc::new(grouped))?;
        Ok((LogicalPlan::Projection(made), known))
    }

    /// Window functions over partitions by a struct have partitions by its parts.
    fn window(&mut self, window: Window) -> Result<(LogicalPlan, Known)> {
        let Window { input, window_expr, .. } = window;
        let (input, known) = self.with_parts(Arc::unwrap_or_clone(input))?;
        let mut outputs: Vec<Expr> =
            input.schema().columns().into_iter().map(Expr::Column).collect();
        let (mut calls, mut apart) = (Vec::new(), false);
        for call in window_expr {
            let name = call.schema_name().to_string();
            let call = with_partitions(call, &known);
            let new = Expr::Column(Column::new_unqualified(call.schema_name().to_string()));
            let renamed = call.schema_name().to_string() != name;
            apart |= renamed;
            outputs.push(if renamed { new.alias(name) } else { new });
            calls.push(call);
        }
        let windowed = LogicalPlan::Window(Window::try_new(calls, Arc::new(input))?);
        if !apart {
            return Ok((windowed, known));
        }
        let named = Projection::try_new(outputs, Arc::new(windowed))?;
        Ok((LogicalPlan::Projection(named), known))
    }

    /// Structs that are joined are joined by their parts.
    fn join(&mut self, join: Join) -> Result<(LogicalPlan, Known)> {
        let (left, left_known) = self.with_parts(Arc::unwrap_or_clone(join.left))?;
        let (right, right_known) = self.with_parts(Arc::unwrap_or_clone(join.right))?;
        let mut both = left_known.clone();
        both.extend(right_known.clone());
        let mut on = Vec::new();
        for (one, other) in join.on {
            match equal_parts(&one, &other, &both) {
                Some(parts) => on.extend(parts),
                None => on.push((fields_as_columns(one, &both)?, fields_as_columns(other, &both)?)),
            }
        }
        let conjuncts = split_conjunction_owned(join.filter.unwrap_or_else(true_value));
        let conjuncts = conjuncts.into_iter().map(|expr| match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                match equal_parts(left, right, &both) {
                    Some(parts) => {
                        let parts = parts.into_iter().map(|(one, other)| one.eq(other));
                        Ok(parts.reduce(Expr::and).unwrap_or_else(true_value))
                    }
                    None => fields_as_columns(expr, &both),
                }
            }
            _ => fields_as_columns(expr, &both),
        });
        let conjuncts = conjuncts.collect::<Result<Vec<_>>>()?;
        let conjuncts = conjuncts.into_iter().filter(|expr| *expr != true_value());
        let known = match join.join_type {
            JoinType::Inner => both,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                left_known
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                right_known
            }
            JoinType::Full => Known::new(),
        };
        let joined = Join {
            left: Arc::new(left),
            right: Arc::new(right),
            on,
            filter: conjunction(conjuncts),
            ..join
        };
        Ok((LogicalPlan::Join(joined).recompute_schema()?, known))
    }
}

/// The column of an expression of a grouping, under the name that the grouping had for it.
fn output_of(now: &Expr, before: &Expr, column: Column) -> Expr {
    match now == before {
        true => Expr::Column(column),
        false => {
            let (relation, name) = now.qualified_name();
            Expr::Column(Column::new(relation, name))
                .alias_qualified(column.relation.clone(), &column.name)
        }
    }
}

fn true_value() -> Expr {
    Expr::Literal(ScalarValue::Boolean(Some(true)), None)
}

fn made_of(parts: &Parts) -> Expr {
    let args = parts.iter().flat_map(|(field, part)| {
        let name = ScalarValue::Utf8(Some(field.clone()));
        [Expr::Literal(name, None), Expr::Column(part.clone())]
    });
    named_struct(args.collect())
}

/// The parts of two structs of the same fields, in pairs.
fn equal_parts(one: &Expr, other: &Expr, known: &Known) -> Option<Vec<(Expr, Expr)>> {
    let (Expr::Column(one), Expr::Column(other)) = (one, other) else { return None };
    let (one, other) = (known.get(one)?, known.get(other)?);
    if one.len() != other.len() {
        return None;
    }
    let pairs = one.iter().zip(other).map(|((field, part), (same, counterpart))| {
        let columns = (Expr::Column(part.clone()), Expr::Column(counterpart.clone()));
        (field == same).then_some(columns)
    });
    pairs.collect()
}

/// The expression with columns in the place of fields, under the name it had.
fn with_columns(expr: Expr, known: &Known) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let is_column = matches!(expr, Expr::Column(_));
    let expr = fields_as_columns(expr, known)?;
    Ok(match expr.schema_name().to_string() == name || is_column {
        true => expr,
        false => expr.alias(name),
    })
}

/// The expression with columns in the place of fields.
fn fields_as_columns(expr: Expr, known: &Known) -> Result<Expr> {
    if known.is_empty() {
        return Ok(expr);
    }
    let changed = expr.transform_up(|node| {
        let part = match &node {
            Expr::ScalarFunction(call) => field_of(call, known),
            _ => None,
        };
        Ok(match part {
            Some(part) => Transformed::yes(Expr::Column(part)),
            None => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// The column behind `get_field(struct, 'name')`.
fn field_of(call: &ScalarFunction, known: &Known) -> Option<Column> {
    let ("get_field", [Expr::Column(column), Expr::Literal(name, _)]) =
        (call.func.name(), call.args.as_slice())
    else {
        return None;
    };
    let name = name.try_as_str()??;
    let (_, part) = known.get(column)?.iter().find(|(field, _)| field == name)?;
    Some(part.clone())
}

/// The call with the parts of structs in its PARTITION BY.
fn with_partitions(call: Expr, known: &Known) -> Expr {
    let Expr::WindowFunction(mut call) = call else { return call };
    let keys = std::mem::take(&mut call.params.partition_by);
    call.params.partition_by = keys
        .into_iter()
        .flat_map(|key| match &key {
            Expr::Column(column) if known.contains_key(column) => {
                known[column].iter().map(|(_, part)| Expr::Column(part.clone())).collect()
            }
            _ => vec![key],
        })
        .collect();
    Expr::WindowFunction(call)
}
