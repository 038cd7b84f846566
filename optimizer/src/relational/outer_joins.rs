//! Outer-join simplification: outer joins whose NULL-extended rows are dropped above become inner joins (or a full
//! join a one-sided one), and outer joins of which only the NULL-extended rows are kept become anti joins.
//!
//! What is dropped above is known as a set of columns on the way down: rows with a NULL in one of them cannot reach
//! the result. Invariant: an operator hands only those columns on for which dropping the rows below it is the same as
//! dropping them above it. Functions whose treatment of NULL is not known reject nothing.

use std::collections::BTreeSet;

use datafusion_common::{JoinType, ScalarValue};
use datafusion_expr::Expr;

use crate::error::Result;
use crate::physical::{ColumnId, ColumnTable};
use crate::relational::nulls::{never_null, rejected_by};
use crate::relational::{JoinSpec, Rel, RelOp, RelQuery, add_conjuncts};

/// Columns in which a NULL makes the row vanish above.
type Rejected = BTreeSet<ColumnId>;

/// Simplifies the outer joins of a query and of its shared plans.
pub(super) fn simplify_query(query: &mut RelQuery) -> Result<()> {
    let roots = query.shared.iter_mut().map(|shared| &mut shared.root).chain([&mut query.root]);
    for root in roots {
        let rel = std::mem::replace(root, Rel::new(nothing(), Vec::new()));
        *root = simplify(rel, &Rejected::new(), &query.columns)?;
    }
    Ok(())
}

fn nothing() -> RelOp {
    RelOp::Empty { one_row: false, columns: Vec::new() }
}

fn simplify(rel: Rel, rejected: &Rejected, columns: &ColumnTable) -> Result<Rel> {
    let mut rel = as_anti_join(pushed_into_sides(rel), columns)?;
    if let RelOp::Join(spec) = &mut rel.op {
        spec.join_type = without_null_rows(spec.join_type, &rel.inputs, rejected);
    }
    let below = rejected_below(&rel, rejected);
    let mut inputs = Vec::with_capacity(rel.inputs.len());
    for (input, rejected) in rel.inputs.into_iter().zip(below) {
        inputs.push(simplify(input, &rejected, columns)?);
    }
    rel.inputs = inputs;
    Ok(rel)
}

/// Moves the conjuncts of an inner join that read one side only into that side, where they may meet an outer join.
fn pushed_into_sides(mut rel: Rel) -> Rel {
    let RelOp::Join(spec) = &mut rel.op else { return rel };
    if spec.join_type != JoinType::Inner {
        return rel;
    }
    let mut own = [Vec::new(), Vec::new()];
    let inputs = &rel.inputs;
    spec.filter.retain(|conjunct| {
        let read = ColumnId::referenced(conjunct);
        let covers = |input: &Rel| read.iter().all(|column| input.output.contains(column));
        let side = inputs.iter().position(covers);
        match side.filter(|_| !read.is_empty() && !conjunct.is_volatile()) {
            Some(side) => {
                own[side].push(conjunct.clone());
                false
            }
            None => true,
        }
    });
    let inputs = std::mem::take(&mut rel.inputs).into_iter().zip(own);
    rel.inputs = inputs
        .map(|(input, own)| if own.is_empty() { input } else { add_conjuncts(input, own) })
        .collect();
    rel
}

/// The join without the NULL-extended rows that vanish above.
fn without_null_rows(join_type: JoinType, inputs: &[Rel], rejected: &Rejected) -> JoinType {
    let drops = |side: usize| inputs[side].output.iter().any(|column| rejected.contains(column));
    match join_type {
        JoinType::Left if drops(1) => JoinType::Inner,
        JoinType::Right if drops(0) => JoinType::Inner,
        JoinType::Full => match (drops(0), drops(1)) {
            (true, true) => JoinType::Inner,
            (true, false) => JoinType::Left,
            (false, true) => JoinType::Right,
            (false, false) => JoinType::Full,
        },
        JoinType::Inner
        | JoinType::Left
        | JoinType::Right
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => join_type,
    }
}

/// What the inputs may drop, one set per input.
fn rejected_below(rel: &Rel, rejected: &Rejected) -> Vec<Rejected> {
    match &rel.op {
        RelOp::Join(spec) => join_sides(spec, rejected),
        RelOp::Filter { conjuncts } => {
            let mut below = rejected.clone();
            conjuncts.iter().for_each(|conjunct| below.extend(rejected_by(conjunct)));
            vec![below]
        }
        RelOp::Compute { exprs } => {
            let mut below = rejected.clone();
            for (id, expr) in exprs {
                if below.remove(id) {
                    below.extend(rejected_by(&expr.clone().is_not_null()));
                }
            }
            vec![below]
        }
        RelOp::Aggregate(spec) if spec.grouping_sets.is_none() => {
            let dropped = spec.group_by.iter().filter(|(output, _)| rejected.contains(output));
            vec![dropped.map(|(_, key)| *key).collect()]
        }
        RelOp::Window { partition_by, .. } => {
            vec![partition_by.iter().copied().filter(|key| rejected.contains(key)).collect()]
        }
        RelOp::RowWindows(spec) => {
            vec![spec.keys.iter().copied().filter(|key| rejected.contains(key)).collect()]
        }
        RelOp::Sort { fetch: None, .. } => vec![rejected.clone()],
        RelOp::Union { targets, columns } => {
            let own = |columns: &Vec<ColumnId>| {
                let pairs = targets.iter().zip(columns);
                pairs.filter(|(target, _)| rejected.contains(target)).map(|(_, id)| *id).collect()
            };
            columns.iter().map(own).collect()
        }
        RelOp::Scan { .. }
        | RelOp::SharedScan { .. }
        | RelOp::WorkTableScan { .. }
        | RelOp::Values { .. }
        | RelOp::Empty { .. }
        | RelOp::Aggregate(_)
        | RelOp::Sort { .. }
        | RelOp::Limit { .. }
        | RelOp::Unnest { .. }
        | RelOp::AssertSingleRow
        | RelOp::Fold
        | RelOp::RecursiveCte { .. } => vec![Rejected::new(); rel.inputs.len()],
    }
}

/// A side that only finds partners may drop what its condition rejects; a side that is kept may drop what is rejected
/// above; where both hold, both.
fn join_sides(spec: &JoinSpec, above: &Rejected) -> Vec<Rejected> {
    let condition = if spec.null_aware { Rejected::new() } else { condition_rejects(spec) };
    let both = || condition.union(above).copied().collect::<Rejected>();
    match spec.join_type {
        JoinType::Inner => vec![both(), both()],
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => {
            vec![above.clone(), condition]
        }
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => {
            vec![condition, above.clone()]
        }
        JoinType::Full => vec![Rejected::new(), Rejected::new()],
        JoinType::LeftSemi => vec![both(), condition],
        JoinType::RightSemi => {
            let right = both();
            vec![condition, right]
        }
    }
}

/// Columns that are not NULL in any pair of rows that match.
fn condition_rejects(spec: &JoinSpec) -> Rejected {
    let mut rejected = Rejected::new();
    if !spec.null_equal {
        rejected.extend(spec.on.iter().flat_map(|&(left, right)| [left, right]));
    }
    spec.filter.iter().for_each(|conjunct| rejected.extend(rejected_by(conjunct)));
    rejected
}

/// `Filter(x IS NULL)` over an outer join, where `x` is NULL only in rows without a partner: an anti join. The other
/// columns of the side that is gone are NULL.
fn as_anti_join(rel: Rel, columns: &ColumnTable) -> Result<Rel> {
    let RelOp::Filter { conjuncts } = &rel.op else { return Ok(rel) };
    let RelOp::Join(spec) = &rel.inputs[0].op else { return Ok(rel) };
    let (anti, kept, gone) = match spec.join_type {
        JoinType::Left => (JoinType::LeftAnti, 0, 1),
        JoinType::Right => (JoinType::RightAnti, 1, 0),
        JoinType::Inner
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => return Ok(rel),
    };
    let side = &rel.inputs[0].inputs[gone];
    let matched = condition_rejects(spec);
    let unmatched = |conjunct: &Expr| {
        let Expr::IsNull(inner) = conjunct else { return false };
        ColumnId::from_expr(inner).is_some_and(|column| {
            side.output.contains(&column) && (matched.contains(&column) || never_null(side, column))
        })
    };
    if !conjuncts.iter().any(&unmatched) {
        return Ok(rel);
    }
    let rest = conjuncts.iter().filter(|conjunct| !unmatched(conjunct)).cloned().collect();
    let kept_columns: BTreeSet<ColumnId> =
        rel.inputs[0].inputs[kept].output.iter().copied().collect();
    let gone_columns: Vec<ColumnId> = side.output.clone();
    let spec = JoinSpec { join_type: anti, ..spec.clone() };
    let Rel { inputs, .. } = rel;
    let join = inputs.into_iter().next().expect("a filter has one input");
    refiltered(
        Rel::new(RelOp::Join(spec), join.inputs),
        &kept_columns,
        &gone_columns,
        rest,
        columns,
    )
}

/// Puts the NULLs and the remaining conjuncts above an anti join.
fn refiltered(
    anti: Rel,
    kept: &BTreeSet<ColumnId>,
    gone: &[ColumnId],
    rest: Vec<Expr>,
    columns: &ColumnTable,
) -> Result<Rel> {
    let reads_kept_only = |conjunct: &Expr| ColumnId::referenced(conjunct).is_subset(kept);
    let (below, above): (Vec<Expr>, Vec<Expr>) = rest.into_iter().partition(reads_kept_only);
    let mut rel = if below.is_empty() { anti } else { add_conjuncts(anti, below) };
    let mut exprs = Vec::with_capacity(gone.len());
    for &id in gone {
        let null = ScalarValue::try_from(&columns.get(id).data_type)?;
        exprs.push((id, Expr::Literal(null, None)));
    }
    if !exprs.is_empty() {
        rel = Rel::new(RelOp::Compute { exprs }, vec![rel]);
    }
    Ok(if above.is_empty() { rel } else { add_conjuncts(rel, above) })
}
