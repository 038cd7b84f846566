//! The Table API: queries built by calls instead of text.
//!
//! A [`Relation`] builds the same logical plan that SQL text would, and goes the same way from there: one analysis, one
//! optimizer, one runtime. A mistake in a call is reported when the relation is run, so that calls can be chained.
//!
//! ```
//! use futures::executor::block_on;
//! use thalweg::Session;
//! use thalweg::api::aggregates::sum;
//! use thalweg::api::{col, lit};
//!
//! let session = Session::new();
//! block_on(session.sql("CREATE TABLE t AS VALUES ('a', 1), ('b', 2), ('a', 3)"))?;
//! let sums = session
//!     .table("t")
//!     .filter(col("column2").gt(lit(0_i64)))
//!     .group_by([col("column1")])
//!     .agg([sum(col("column2")).alias("total")])
//!     .order_by([col("column1").sort(true, false)]);
//! let batches = block_on(sums.collect())?;
//! assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 2);
//! # Ok::<(), thalweg::Error>(())
//! ```

mod grouped;
mod relation;
mod windowed;

pub use datafusion_expr::{Expr, JoinType, SortExpr, col, lit};
pub use grouped::GroupedRelation;
pub use relation::Relation;

/// Assigners, triggers and evictors, and the traits for one's own.
pub mod windows {
    pub use thalweg_runtime::windowing::{
        After, CountTrigger, DeltaTrigger, EachValue, EventTimeTrigger, Evictor, Firing,
        GlobalWindows, KeepLastInterval, KeepLastRows, NewRows, PunctuationTrigger, SlidingWindows,
        TimeWindow, Trigger, WindowAssigner, Windowing,
    };
}

/// Aggregate functions as expressions.
pub mod aggregates {
    pub use datafusion_functions_aggregate::expr_fn::{
        approx_distinct, array_agg, bool_and, bool_or, count, count_distinct, first_value,
        last_value, max, median, min, stddev, sum, var_sample,
    };
    pub use thalweg_planner::avg;
}
