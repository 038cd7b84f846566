//! Syntax tree → statement bound to the catalog.
//!
//! First the tree is checked and rewritten (`refuse`, `desugar`, `cte`), so that nothing the library below would drop in
//! silence reaches it; then `SqlToRel` binds it through `provider`.

mod asof;
mod call_names;
mod columns;
mod computed;
mod conflicts;
mod cte;
mod current_time;
mod date_parts;
mod definitions;
mod delimiters;
mod desugar;
mod event_time_field;
mod group_windows;
mod insert_any;
mod interval_literals;
mod jsonb_forms;
mod load;
mod locate;
mod looked_up;
mod merged_names;
mod modify;
mod named_windows;
mod names;
mod operators;
mod option_hints;
mod outputs;
mod patterns;
mod provider;
mod quotients;
mod refuse;
mod relation;
mod relation_hints;
mod row_in;
mod series_rows;
mod set_operations;
mod sharing;
mod sinks;
mod sort_names;
mod sources;
mod sql_function;
mod statements;
mod struct_values;
mod temporal;
mod text_casts;
mod ties;
mod timestamp_patterns;
mod translate;
mod types;
mod using;
mod view_errors;
mod written_case;

pub use desugar::Parameter;
pub use looked_up::is_lookup_mark;
pub use outputs::distinct_names;
pub(crate) use sharing::{is_self_contained, is_volatile};
pub use sources::{SharedSource, WorkTableSource};
pub use sql_function::SqlFunction;

pub(crate) use statements::{plan_statement, rewrite_plan};
pub(crate) use translate::{carry, translate};
