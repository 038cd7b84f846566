//! GROUP BY and its aggregates.
//!
//! Invariant: without grouping sets a group key keeps the id of the column it groups by; with them every key gets a
//! new id, because its values are NULL in some of the rows.

use std::collections::BTreeMap;

use datafusion_expr::expr::{AggregateFunction, GroupingSet};
use datafusion_expr::utils::powerset;
use datafusion_expr::{Aggregate, Expr};

use crate::error::{OptimizerError, Result};
use crate::physical::{AggregateCall, ColumnId, GroupingSets};
use crate::relational::entry::{Binder, Bound};
use crate::relational::expressions::{Scope, Subqueries, prepare};
use crate::relational::{AggregateSpec, Rel, RelOp};
use crate::streaming::Emission;

impl Binder<'_> {
    pub(super) fn aggregate(&mut self, node: &Aggregate) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let input_columns = input.columns.clone();
        let scope = Scope::of(node.input.schema(), &input_columns);
        let (mut subqueries, mut computed) = (Subqueries::default(), Vec::new());
        let sets = expand(&node.group_expr)?;
        let keys: Vec<&Expr> = match &sets {
            Some((keys, _)) => keys.iter().collect(),
            None => node.group_expr.iter().collect(),
        };
        let mut key_columns = Vec::with_capacity(keys.len());
        for key in keys {
            let schema = node.input.schema();
            key_columns.push(self.key(key, schema, &scope, &mut subqueries, &mut computed)?);
        }
        let (mut columns, group_by, grouping_sets) = match sets {
            None => (key_columns.clone(), distinct_keys(&key_columns), None),
            Some((_, sets)) => self.grouping_sets(node, &key_columns, sets),
        };
        let offset = columns.len();
        let mut aggregates = Vec::with_capacity(node.aggr_expr.len());
        for (i, expr) in node.aggr_expr.iter().enumerate() {
            let field = node.schema.field(offset + i);
            let output = self.columns.add(
                field.name().clone(),
                field.data_type().clone(),
                field.is_nullable(),
            );
            let function = aggregate_function(expr)?;
            let mut call = self.aggregate_call(output, function, &scope, &mut subqueries)?;
            if call.distinct && call.args.len() == 1 {
                let schema = node.input.schema();
                let argument = &function.params.args[0];
                let column = self.key(argument, schema, &scope, &mut subqueries, &mut computed)?;
                call.args = vec![column.expr()];
            }
            aggregates.push(call);
            columns.push(output);
        }
        let rel = prepare(input, subqueries, computed);
        let spec = AggregateSpec { group_by, grouping_sets, aggregates, emission: Emission::AtEnd };
        Ok(Bound { rel: Rel::new(RelOp::Aggregate(spec), vec![rel]), columns })
    }

    fn grouping_sets(
        &mut self,
        node: &Aggregate,
        keys: &[ColumnId],
        sets: Vec<Vec<usize>>,
    ) -> (Vec<ColumnId>, Vec<(ColumnId, ColumnId)>, Option<GroupingSets>) {
        let mut columns = Vec::with_capacity(keys.len() + 1);
        for &key in keys {
            let info = self.columns.get(key).clone();
            columns.push(self.columns.add(info.name, info.data_type, true));
        }
        let group_by = columns.iter().copied().zip(keys.iter().copied()).collect();
        let field = node.schema.field(keys.len());
        let id_column = self.columns.add(field.name().clone(), field.data_type().clone(), false);
        columns.push(id_column);
        let ids = set_ids(&sets, keys.len());
        let grouping_sets = GroupingSets { sets, ids, id_column };
        (columns, group_by, Some(grouping_sets))
    }

    fn aggregate_call(
        &mut self,
        output: ColumnId,
        function: &AggregateFunction,
        scope: &Scope<'_>,
        subqueries: &mut Subqueries,
    ) -> Result<AggregateCall> {
        let params = &function.params;
        let mut args = Vec::with_capacity(params.args.len());
        for arg in &params.args {
            args.push(self.expr(arg, scope, subqueries)?);
        }
        let filter = match &params.filter {
            Some(filter) => Some(self.expr(filter, scope, subqueries)?),
            None => None,
        };
        let mut order_by = Vec::with_capacity(params.order_by.len());
        for sort in &params.order_by {
            let expr = self.expr(&sort.expr, scope, subqueries)?;
            order_by.push(datafusion_expr::SortExpr::new(expr, sort.asc, sort.nulls_first));
        }
        Ok(AggregateCall {
            output,
            function: function.func.clone(),
            args,
            distinct: params.distinct,
            filter,
            order_by,
            null_treatment: params.null_treatment,
            data_type: self.columns.get(output).data_type.clone(),
        })
    }
}

fn aggregate_function(expr: &Expr) -> Result<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => aggregate_function(&alias.expr),
        Expr::AggregateFunction(function) => Ok(function),
        other => Err(OptimizerError::InvalidPlan(format!("{other} is not an aggregate"))),
    }
}

fn distinct_keys(keys: &[ColumnId]) -> Vec<(ColumnId, ColumnId)> {
    let mut pairs = Vec::with_capacity(keys.len());
    for &key in keys {
        if !pairs.contains(&(key, key)) {
            pairs.push((key, key));
        }
    }
    pairs
}

type ExpandedSets = (Vec<Expr>, Vec<Vec<usize>>);

/// The keys of a grouping set expression in order of first appearance, and the sets as indices into them.
fn expand(group_expr: &[Expr]) -> Result<Option<ExpandedSets>> {
    let set = match group_expr {
        [Expr::GroupingSet(set)] => set,
        exprs if exprs.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) => {
            return Err(OptimizerError::InvalidPlan("grouping sets were not combined".to_owned()));
        }
        _ => return Ok(None),
    };
    let keys: Vec<Expr> = set.distinct_expr().into_iter().cloned().collect();
    let groups: Vec<Vec<Expr>> = match set {
        GroupingSet::GroupingSets(groups) => groups.clone(),
        GroupingSet::Rollup(exprs) => {
            (0..=exprs.len()).rev().map(|n| exprs[..n].to_vec()).collect()
        }
        GroupingSet::Cube(exprs) => {
            let subsets = powerset(exprs).map_err(OptimizerError::DataFusion)?;
            subsets.into_iter().map(|subset| subset.into_iter().cloned().collect()).collect()
        }
    };
    let index_of =
        |expr: &Expr| keys.iter().position(|key| key == expr).expect("keys hold every expression");
    let sets = groups
        .iter()
        .map(|group| {
            let mut indices: Vec<usize> = group.iter().map(index_of).collect();
            indices.sort_unstable();
            indices.dedup();
            indices
        })
        .collect();
    Ok(Some((keys, sets)))
}

/// The id of each set: a bit per left-out key, the first key highest, and above them how often the set came before.
fn set_ids(sets: &[Vec<usize>], keys: usize) -> Vec<u64> {
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    let id = |set: &Vec<usize>| {
        let mask = (0..keys).fold(0_u64, |mask, i| (mask << 1) | u64::from(!set.contains(&i)));
        let ordinal = seen.entry(mask).or_default();
        let id = mask | ordinal.checked_shl(keys as u32).unwrap_or(0);
        *ordinal += 1;
        id
    };
    sets.iter().map(id).collect()
}
