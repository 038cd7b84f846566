//! Random queries over random tables: the same question must get the same answer under all settings.
//!
//! Everything follows from a seed. `tables` and `query` make the input, `equivalence` runs it under a base setting
//! and under drawn ones, `reduce` makes a failing query small. Queries are made so that their answer is unique: sums
//! of floats are exact in any order, limits stand behind a total order, ranks number unique rows.

pub mod continuous;
mod equivalence;
mod expression;
mod outcome;
mod query;
mod random;
mod reduce;
mod tables;

pub use equivalence::{Failure, Plan, Report, check};
pub use random::Random;
