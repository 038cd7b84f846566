//! The Table API: queries built by calls instead of text.
//!
//! A [`Relation`] builds the same logical plan that SQL text would, and goes the same way from there: one analysis, one
//! optimizer, one runtime. A mistake in a call is reported when the relation is run, so that calls can be chained.

mod grouped;
mod relation;

pub use datafusion_expr::{Expr, JoinType, SortExpr, col, lit};
pub use grouped::GroupedRelation;
pub use relation::Relation;

/// Aggregate functions as expressions.
pub mod aggregates {
    pub use datafusion_functions_aggregate::expr_fn::{
        approx_distinct, array_agg, bool_and, bool_or, count, count_distinct, first_value,
        last_value, max, median, min, stddev, sum, var_sample,
    };
    pub use thalweg_planner::avg;
}
