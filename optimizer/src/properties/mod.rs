//! Physical properties: what the optimizer may request of rows and what a plan provides.
//!
//! Invariant: requested, provided and interesting properties are three types. A provided property is a promise and is
//! only ever weakened on the way up; a request is met or an enforcer is added.

mod equivalence;
mod interesting;
mod ordering;
mod partitioning;
mod provided;
mod requested;
mod widening;

pub use equivalence::EquivalenceClasses;
pub use interesting::InterestingProperties;
pub use ordering::{Ordering, SortKey};
pub use partitioning::Partitioning;
pub use provided::ProvidedProperties;
pub use requested::{RequestedLocal, RequestedPartitioning};
pub use widening::with_widened;
