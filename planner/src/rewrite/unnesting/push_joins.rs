//! Pushing a domain through joins.
//!
//! A side that could lose or invent rows for want of a partner must know which row of the domain it is for, so that it is
//! pushed even where it does not read the domain.

use std::sync::Arc;

use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::logical_plan::{Join, JoinConstraint, Projection};
use datafusion_expr::utils::conjunction;
use datafusion_expr::{Expr, LogicalPlan, when};

use super::domain::{Domain, Pushed, restored, same};
use super::references::{is_lateral, reads_outer, rename, substitute};

/// The conditions of a pushed join.
#[derive(Default)]
struct Conditions {
    on: Vec<(Expr, Expr)>,
    filter: Vec<Expr>,
}

impl Domain<'_> {
    pub(super) fn join(&self, node: &Join) -> Result<Pushed> {
        let is_lateral = is_lateral(node);
        let (push_left, push_right) = self.sides(node, is_lateral)?;
        let left = if push_left { Some(self.push(&node.left)?) } else { None };
        let right = if push_right { Some(self.push(&node.right)?) } else { None };
        // The keys of the side that no missing partner fills with NULLs.
        let from_right = node.join_type == JoinType::Right || left.is_none();
        let (first, second) = if from_right {
            (right.as_ref(), left.as_ref())
        } else {
            (left.as_ref(), right.as_ref())
        };
        let Some(first) = first else { return Err(self.refused("a join")) };
        let keys = first.keys.clone();
        let mut strict = first.strict;
        let replacements = self.replacements(&keys);
        let mut conditions = Conditions::default();
        let mut other_keys = None;
        if let Some(second) = second {
            let strict_pair = strict || second.strict;
            let (l, r) = if from_right { (&second.keys, &keys) } else { (&keys, &second.keys) };
            match node.null_equality {
                NullEquality::NullEqualsNothing => {
                    conditions.filter.extend(same(l, r, strict_pair))
                }
                NullEquality::NullEqualsNull => {
                    let pairs = l.iter().cloned().zip(r.iter().cloned());
                    let pairs = pairs.map(|(l, r)| (Expr::Column(l), Expr::Column(r)));
                    conditions.on.extend(pairs);
                }
            }
            match node.join_type {
                // Rows of both sides must meet, so that what is never NULL on one side is never NULL.
                JoinType::Inner => strict = strict_pair,
                JoinType::Full => {
                    strict &= second.strict;
                    other_keys = Some(second.keys.clone());
                }
                _ => {}
            }
        }
        let plan = |side: Option<Pushed>, old: &Arc<LogicalPlan>| match side {
            Some(side) => Arc::new(side.plan),
            None => Arc::clone(old),
        };
        let left = plan(left, &node.left);
        let mut right = plan(right, &node.right);
        if is_lateral {
            right = Arc::new(rename(Arc::unwrap_or_clone(right), &replacements)?);
        }
        let mut rows = left.schema().as_ref().clone();
        rows.merge(right.schema());
        let over = |expr: &Expr| substitute(expr.clone(), &replacements, &rows);
        for (l, r) in &node.on {
            // A key with an outer column belongs to neither side alone.
            if reads_outer(l) || reads_outer(r) {
                let (l, r) = (over(l)?, over(r)?);
                conditions.filter.push(match node.null_equality {
                    NullEquality::NullEqualsNothing => l.eq(r),
                    NullEquality::NullEqualsNull => datafusion_expr::binary_expr(
                        l,
                        datafusion_expr::Operator::IsNotDistinctFrom,
                        r,
                    ),
                });
            } else {
                conditions.on.push((over(l)?, over(r)?));
            }
        }
        conditions.filter.extend(node.filter.iter().map(over).collect::<Result<Vec<_>>>()?);
        let joined = Join::try_new(
            left,
            right,
            conditions.on,
            conjunction(conditions.filter),
            node.join_type,
            JoinConstraint::On,
            node.null_equality,
            node.null_aware,
        )?;
        let joined = LogicalPlan::Join(joined);
        match other_keys {
            None => Ok(Pushed { plan: restored(joined, &node.schema, &keys)?, keys, strict }),
            Some(others) => self.either(joined, node, (&keys, &others), strict),
        }
    }

    /// Which sides the domain is pushed into.
    fn sides(&self, node: &Join, is_lateral: bool) -> Result<(bool, bool)> {
        let read_left = self.is_read_by(&node.left);
        let read_right = !is_lateral && self.is_read_by(&node.right);
        match node.join_type {
            JoinType::Inner => Ok((is_lateral || !read_right || read_left, read_right)),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                Ok((true, read_right))
            }
            JoinType::Right => Ok((read_left, true)),
            JoinType::Full => Ok((true, true)),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                Err(self.refused("a join that keeps its right side"))
            }
        }
    }

    /// The rows of a full join: the keys are those of whichever side there is.
    fn either(
        &self,
        joined: LogicalPlan,
        node: &Join,
        (left, right): (&[Column], &[Column]),
        strict: bool,
    ) -> Result<Pushed> {
        let mut exprs: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
        let width = exprs.len();
        for (l, r) in left.iter().zip(right) {
            let (l, r) = (Expr::Column(l.clone()), Expr::Column(r.clone()));
            let key = when(l.clone().is_null(), r).otherwise(l)?;
            exprs.push(key.alias(self.context.fresh()));
        }
        let projection = Projection::try_new(exprs, Arc::new(joined))?;
        let keys = projection.schema.columns().split_off(width);
        Ok(Pushed { plan: LogicalPlan::Projection(projection), keys, strict })
    }
}
