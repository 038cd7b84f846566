//! SQL text → bound, rewritten logical plans.
//!
//! [`Planner::parse`] reads statements, [`Planner::plan`] binds one to the tables of a [`Catalog`] and rewrites it.
//! The planner does no I/O and keeps nothing between statements.

mod average;
mod bind;
mod bytes;
mod catalog;
mod conversions;
mod deep_stack;
mod error;
mod field_access;
mod functions;
mod inspection;
pub mod intervals;
mod jsonb;
mod map_access;
mod ordered_set;
mod parse;
mod planner;
mod rewrite;
mod sql_text;
mod statement;
pub mod suggest;
mod time_text;
mod vectors;
mod windows;

pub use average::avg;
pub use bind::{
    Parameter, SharedSource, SqlFunction, WorkTableSource, distinct_names, is_lookup_mark,
};
pub use catalog::{CHANGELOG_OF, CLOCK, CLOCK_TIME, Catalog, TableName, ViewDefinition};
pub use conversions::{Clock, limit_results, processing_time, zone_bound, zoned_text};
pub use datafusion_functions_aggregate::min_max::max_udaf;
pub use deep_stack::with_deep_stack;
pub use error::{ErrorKind, PlannerError, Result, Span};
pub use functions::{FunctionKind, Functions, own_scalar_functions};
pub use inspection::{DescribeTarget, ExplainFormat, ExplainOptions, JobName, ShowKind};
pub use jsonb::is_jsonb;
pub use parse::{Hint, HintScope, ParsedStatement};
pub use planner::{Planner, PlannerOptions};
pub use sql_text::{sql_literal, sql_type_name, with_sql_literals, with_sql_types};
pub use statement::{
    ComputedColumn, ConflictAction, Copy, CopyFrom, CreateExternalTable, CreateIndex,
    CreateMaterializedView, CreateSink, CreateTable, CreateView, DropKind, Emit, EmitWhen, Insert,
    Keep, MetadataColumn, Modification, Modify, OptionHint, QueryPlan, RelationHint, SharedId,
    SharedPlan, Statement, Watermark,
};
pub use windows::{
    RowWindowKind, RowWindows, WindowSlices, first_of_list, opened_lists, row_number, shifted,
    shifted_time, slices_of,
};
