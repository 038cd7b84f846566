//! Projection: computes columns and forwards others. Keeps the spread and the order of forwarded columns; requests
//! nothing, blocks on nothing.

use datafusion_common::ScalarValue;
use datafusion_expr::Expr;

use crate::cost::Cost;
use crate::error::Result;
use crate::physical::{ColumnId, PhysicalOp};
use crate::properties::{InterestingProperties, with_widened};
use crate::relational::{Rel, RelOp};
use crate::search::Search;
use crate::search::candidate::{Draft, Planned};
use crate::strategies::expression_ns;

impl Search<'_> {
    pub fn plan_project(
        &mut self,
        rel: &Rel,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        let RelOp::Compute { exprs } = &rel.op else {
            unreachable!("the dispatch passes projections only")
        };
        let computed =
            |id: ColumnId| exprs.iter().find(|(known, _)| *known == id).map(|(_, expr)| expr);
        let below = interesting.map(|id| if computed(id).is_some() { None } else { Some(id) });
        let input = self.plan(&rel.inputs[0], &below)?;
        for (id, expr) in exprs {
            self.estimate_computed(*id, expr, input.logical.rows);
        }
        let outputs: Vec<(ColumnId, Expr)> = rel
            .output
            .iter()
            .map(|&id| (id, computed(id).cloned().unwrap_or_else(|| id.expr())))
            .collect();
        let per_row: f64 = exprs.iter().map(|(_, expr)| expression_ns(expr)).sum();
        let mut logical = input.logical.clone();
        logical.unique = with_widened(logical.unique, exprs, &self.columns);
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            let node = &candidate.node;
            let draft = Draft {
                op: PhysicalOp::Project { exprs: outputs.clone() },
                inputs: vec![self.forward(candidate)],
                output: rel.output.clone(),
                provided: node.provided.clone(),
                work: Cost::cpu(logical.rows * per_row / self.degree(node.parallelism)),
                parallelism: node.parallelism,
            };
            candidates.push(self.node(draft, &logical));
        }
        Ok(self.prune(candidates, interesting, &logical))
    }

    /// A computed column has no more distinct values than the columns it is computed from.
    pub fn estimate_computed(&mut self, id: ColumnId, expr: &Expr, rows: f64) {
        let info = self.columns.get(id).clone();
        self.estimator.set_computed(&info, rows);
        let sources: Vec<ColumnId> = ColumnId::referenced(expr).into_iter().collect();
        let mut estimate = self.estimator.column(id).clone();
        match sources[..] {
            [] => match literal(expr) {
                Some(value) => estimate.set_constant(value),
                None => estimate.distinct = 1.0,
            },
            [source] => {
                let from = self.estimator.column(source);
                estimate.distinct = from.distinct;
                estimate.base_rows = from.base_rows;
                estimate.null_fraction = from.null_fraction;
                if matches!(expr, Expr::Cast(_) | Expr::TryCast(_)) {
                    (estimate.min, estimate.max) = (from.min, from.max);
                }
            }
            _ => {
                let product: f64 =
                    sources.iter().map(|&source| self.estimator.distinct(source, rows)).product();
                estimate.distinct = estimate.distinct.min(product).max(1.0);
            }
        }
        self.estimator.set(id, estimate);
    }
}

/// A literal, possibly cast.
fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::TryCast(cast) => literal(&cast.expr),
        _ => None,
    }
}
