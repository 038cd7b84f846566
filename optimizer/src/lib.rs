//! Cost-based physical optimization: from an analysed and logically rewritten plan to a `PhysicalPlan`.
//!
//! The path of a query: `relational` gives every column a query-wide id and collapses joins into blocks, `cardinality`
//! estimates, `search` enumerates join orders and strategies together and keeps what `properties` and `cost` justify,
//! `physical` is the result. This crate sees no file, thread or clock: tables reach it through `TableSource`, numbers
//! through `StatisticsProvider`.

mod cardinality;
pub mod cost;
pub mod error;
mod finish;
pub mod input;
mod joins;
pub mod options;
pub mod physical;
pub mod properties;
mod relational;
mod search;
pub mod statistics;
mod strategies;
mod streaming;

pub use error::OptimizerError;
pub use finish::optimize;
pub use input::{
    ColumnBound, HintedStrategy, JoinHint, OptimizerInput, SharedInput, StreamInput, StreamOf,
    TimeoutHint, TimeoutScope,
};
pub use options::{ExchangePolicy, OptimizerOptions, ResultUse, StrategySwitches};
pub use physical::{PhysicalNode, PhysicalPlan};
pub use statistics::{ColumnStatistics, MeasuredShare, StatisticsProvider, TableStatistics};
pub use streaming::{Closing, Completion, CompletionUnit, Emission, Expiry, Reach, Slices};
