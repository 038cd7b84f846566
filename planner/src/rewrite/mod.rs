//! Bound plan → analysed and rewritten plan, shared plans included.

mod rules;
mod shared;

pub(crate) use rules::Rewriter;
pub(crate) use shared::finish_query;
