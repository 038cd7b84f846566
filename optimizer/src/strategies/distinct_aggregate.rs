//! DISTINCT aggregates without group keys, rewritten: first drop repeated arguments, which runs in parallel, then
//! aggregate what is left.
//!
//! Applies when all aggregates are DISTINCT over the same single column (the entry projects
//! computed arguments of DISTINCT aggregates); anything else stays as it is, and so do streams, whose results change.

use datafusion_expr::Expr;

use crate::physical::{AggregateCall, ColumnId};
use crate::relational::{AggregateSpec, Rel, RelOp};
use crate::streaming::Emission;

/// The rewritten tree, or `None` if the rewrite does not apply.
pub(super) fn without_distinct(rel: &Rel, spec: &AggregateSpec) -> Option<Rel> {
    if !spec.group_by.is_empty() || spec.grouping_sets.is_some() || rel.inputs[0].flow.live {
        return None;
    }
    let argument = shared_argument(&spec.aggregates)?;
    let input = rel.inputs[0].clone();
    let column = ColumnId::from_expr(argument)?;
    let dedupe = AggregateSpec {
        group_by: vec![(column, column)],
        grouping_sets: None,
        aggregates: Vec::new(),
        emission: Emission::AtEnd,
    };
    let plain = AggregateSpec {
        group_by: Vec::new(),
        grouping_sets: None,
        aggregates: spec
            .aggregates
            .iter()
            .map(|call| AggregateCall { distinct: false, ..call.clone() })
            .collect(),
        emission: Emission::AtEnd,
    };
    let mut outer =
        Rel::new(RelOp::Aggregate(plain), vec![Rel::new(RelOp::Aggregate(dedupe), vec![input])]);
    outer.output.clone_from(&rel.output);
    Some(outer)
}

fn shared_argument(aggregates: &[AggregateCall]) -> Option<&Expr> {
    let [argument] = aggregates.first()?.args.as_slice() else { return None };
    let same = |call: &AggregateCall| {
        call.distinct
            && call.filter.is_none()
            && call.order_by.is_empty()
            && call.args.as_slice() == [argument.clone()]
    };
    aggregates.iter().all(same).then_some(argument)
}
