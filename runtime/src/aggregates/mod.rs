//! Aggregate functions: what is kept for a group, how rows and partial results are taken in, and what comes out.
//!
//! [`AggregateStates`] holds the states of all aggregates of an operator. States lie in the rows of a
//! [`RowStore`](crate::rows::RowStore), so that partial results travel as pages; what has no fixed size is kept
//! beside the rows and travels as columns. Own states exist for count, sum, mean, extremes, booleans, bits, moments
//! and first and last values; every other function of the library goes through one adapter. Rows can be taken
//! out again where the states are such that can forget. Everything works on
//! batches; nothing is allocated or dispatched by row. The module knows no keys.

mod arguments;
mod boolean;
mod boolean_counts;
mod boxed_accumulators;
mod build;
mod collection;
mod count;
mod counted_distinct;
mod distinct;
mod extreme;
mod float_sum;
mod fold;
mod fold_bytes;
mod foreign;
mod forgetting;
mod function;
mod groups;
mod kept_fold;
mod kept_replay;
mod kept_rows;
mod moments;
mod multiset;
mod ordered;
mod ranked;
mod same;
mod spec;
mod state;
mod sum;
mod sum_result;
mod xor;

pub use arguments::Arguments;
pub use collection::AggregateStates;
pub use groups::Groups;
pub(crate) use groups::{FEW_GROUPS, FewCounts};
pub use moments::Moment;
pub use ranked::{Bits, Rank};
pub(crate) use same::same_values;
pub use spec::AggregateSpec;
pub use state::{AggregateState, Output, Restored, RowState, StateUse};
pub(crate) use sum_result::SumResult;
