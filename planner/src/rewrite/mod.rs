//! Bound plan → analysed and rewritten plan, shared plans included.

mod coercion;
mod common_subplans;
mod conversions;
mod dates;
mod decimal_constants;
mod decimals;
mod dependencies;
mod exact_constants;
mod filters;
mod frames;
mod in_lists;
mod join_keys;
mod leftovers;
mod outer_aggregates;
mod overflow;
mod rules;
mod scan_names;
mod shared;
mod shield;
mod struct_parts;
mod subquery_values;
mod time_texts;
mod typed;
mod unions;
mod unnesting;

pub(crate) use dates::{MIDNIGHT, is_date};
pub(crate) use decimals::QuotientPlanner;
pub(crate) use rules::Rewriter;
pub(crate) use shared::finish_query;
pub(crate) use unions::together;
pub(crate) use unnesting::single_value;
