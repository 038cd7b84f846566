//! Bound plan → analysed and rewritten plan, shared plans included.

mod conversions;
mod decimals;
mod exact_constants;
mod leftovers;
mod overflow;
mod rules;
mod shared;
mod single_rows;
mod subquery_values;

pub(crate) use decimals::QuotientPlanner;
pub(crate) use rules::Rewriter;
pub(crate) use shared::finish_query;
