//! Random continuous queries: as streams they give what they give as batches, however their rows arrive.
//!
//! [`check`] draws tables of events (`events`), orders of arrival within the bound of their watermarks, files to spread
//! them over, and settings; it runs queries (`query`, by `kind`) and compares the rows that their changes leave (`fold`)
//! with those of a batch. With late rows there is no batch to compare with: then the same rows in the same order must give
//! the same answer under all settings. [`check_views`] compares materialized views with their queries after random
//! statements (`views`). A case that fails is made smaller (`shrink`).

mod events;
mod fold;
mod joins;
mod kind;
mod query;
mod ranked;
mod shrink;
mod streams;
mod views;
mod windows;

use std::time::Duration;

pub(super) use fold::fold;
pub use kind::Kind;
pub use streams::check;
pub use views::check as check_views;

/// How much to try.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where everything follows from.
    pub seed: u64,
    /// Queries to make.
    pub queries: usize,
    /// Arrangements and settings to draw; each query runs under all of them.
    pub settings: usize,
    /// What queries are about; they take turns.
    pub kinds: Vec<Kind>,
    /// Whether rows come later than the tables say.
    pub late: bool,
    /// Run this query alone, if set.
    pub only: Option<usize>,
}

/// A query may take so long; more is a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

const BATCH_SIZES: [&str; 6] = ["1", "2", "7", "64", "1024", "8192"];
