//! `(a AND b) OR (a AND c)` as `a AND (b OR c)`, in conditions that read outer columns: an equality that every
//! alternative has is one that a subquery can be taken apart by.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::logical_plan::Filter;
use datafusion_expr::utils::{
    conjunction, disjunction, split_binary_owned, split_conjunction, split_conjunction_owned,
};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};

use super::references::{has_subquery, reads_outer};

/// Factors the filters of a plan, subqueries included.
pub(super) fn factor(plan: LogicalPlan) -> Result<LogicalPlan> {
    let factored = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter)
            if split_conjunction(&filter.predicate).iter().any(is_wanted) =>
        {
            let conjuncts = split_conjunction_owned(filter.predicate).into_iter();
            let conjuncts =
                conjuncts.flat_map(|c| if is_wanted(&&c) { factored(c) } else { vec![c] });
            let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
            let filter = Filter::try_new(predicate, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(factored.data)
}

fn is_wanted(expr: &&Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }))
        && reads_outer(expr)
        && !has_subquery(expr)
        && !expr.is_volatile()
}

/// The conjuncts that are as good as an OR.
fn factored(expr: Expr) -> Vec<Expr> {
    let alternatives: Vec<Vec<Expr>> =
        split_binary_owned(expr, Operator::Or).into_iter().map(split_conjunction_owned).collect();
    let Some((first, others)) = alternatives.split_first() else { return Vec::new() };
    let in_all = |e: &&Expr| others.iter().all(|other| other.contains(e));
    let mut conjuncts: Vec<Expr> = first.iter().filter(in_all).cloned().collect();
    let common = conjuncts.clone();
    let rests = alternatives
        .into_iter()
        .map(|alternative| conjunction(alternative.into_iter().filter(|e| !common.contains(e))));
    // An alternative without a rest holds whenever the common part does.
    if let Some(rests) = rests.collect::<Option<Vec<Expr>>>() {
        conjuncts.extend(disjunction(rests));
    }
    conjuncts
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;

    #[test]
    fn what_all_alternatives_have_comes_out() {
        let [a, b, c] = ["a", "b", "c"].map(col);
        let both = a.clone().and(b.clone()).or(c.clone().and(a.clone()));
        assert_eq!(factored(both), vec![a.clone(), b.clone().or(c.clone())]);
        assert_eq!(factored(a.clone().and(b.clone()).or(a.clone())), vec![a]);
        assert_eq!(factored(b.clone().or(c.clone())), vec![b.or(c)]);
    }
}
