//! Windowing table functions: `TUMBLE`, `HOP`, `CUMULATE` and `SESSION` in FROM.
//!
//! Each gives the columns of a table and `window_start`, `window_end` and `window_time` after them (the last not where
//! data and time are names alone): a row for each window that an input row belongs to. They are lowered to projections, UNNEST and window functions here, so that
//! nothing after the planner knows them. Invariant: a row is in `[window_start, window_end)`, `window_time` is
//! `window_end` less one unit of its type, and a NULL time is an error, since its row would be in no window.

mod arguments;
mod calendar;
mod calendar_functions;
mod cumulate;
mod event_time;
mod first;
mod functions;
mod gap_fill;
mod grid;
mod hop;
mod input;
mod keep_last;
mod lengths;
mod plan_functions;
mod row_windows;
mod rows;
mod session;
mod slices;
mod tumble;
mod zones;

use std::collections::HashSet;

use datafusion_common::{Result, TableReference};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{Expr, ObjectName, ObjectNamePart, TableFunctionArgs, Value};

use self::arguments::Arguments;
use self::input::Input;

pub(crate) use event_time::EventTimes;
pub use first::{first_of_list, opened_lists};
pub(crate) use functions::functions;
pub(crate) use gap_fill::{is_gap_fill, plan as plan_gap_fill};
pub(crate) use input::{END, START, TIME};
pub(crate) use keep_last::keep_last;
pub(crate) use plan_functions::PlanFunction;
pub use row_windows::{RowWindowKind, RowWindows};
pub use slices::{WindowSlices, shifted, shifted_time, slices_of};

/// The window function that numbers the rows of a partition.
pub use datafusion_functions_window::row_number::row_number_udwf as row_number;

/// The name by which `PARTITION BY` after a table is given to the binder; no user can mean it unquoted.
pub(crate) const PARTITION_BY: &str = "partition by";

/// The name of an argument that says that the data is written as a name alone.
pub(crate) const PLAIN: &str = "\u{1}plain";

/// The parameter by which windows are moved.
const OFFSET: &str = "offset";

/// The parameter with the zone whose clock is read.
const TIME_ZONE: &str = "time_zone";

/// The name of an argument that says that a key of GROUP BY is meant: the time may be any expression, or left out for
/// the event time of the data; sessions have any keys; columns keep the qualifiers that they have in the data.
pub(crate) const GROUPED: &str = "\u{1}grouped";

/// One of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowFunction {
    /// Windows of one size, one after the other.
    Tumble,
    /// Windows of one size, one beginning each `SLIDE`.
    Hop,
    /// Windows that begin together and end one `STEP` after the other, up to the size.
    Cumulate,
    /// Windows around rows that are no further than `GAP` from each other.
    Session,
    /// Windows of `SIZE` rows, one each `SLIDE` rows.
    Count,
    /// Windows until a `VALUE` has moved by more than a `THRESHOLD`.
    Delta,
    /// Windows up to a row for which a `CONDITION` holds.
    Punctuation,
    /// Windows from a row for which `LANDMARK` holds, or from that time on.
    Landmark,
}

impl WindowFunction {
    const ALL: [WindowFunction; 8] = [
        WindowFunction::Tumble,
        WindowFunction::Hop,
        WindowFunction::Cumulate,
        WindowFunction::Session,
        WindowFunction::Count,
        WindowFunction::Delta,
        WindowFunction::Punctuation,
        WindowFunction::Landmark,
    ];

    /// The function that is called by a word.
    pub(crate) fn called(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| word.eq_ignore_ascii_case(function.name()))
    }

    /// The function of a name in FROM.
    pub(crate) fn named(name: &ObjectName) -> Option<Self> {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] if ident.quote_style.is_none() => {
                Self::called(&ident.value)
            }
            _ => None,
        }
    }

    /// Its name, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WindowFunction::Tumble => "TUMBLE",
            WindowFunction::Hop => "HOP",
            WindowFunction::Cumulate => "CUMULATE",
            WindowFunction::Session => "SESSION",
            WindowFunction::Count => "COUNT_WINDOW",
            WindowFunction::Delta => "DELTA_WINDOW",
            WindowFunction::Punctuation => "PUNCTUATION_WINDOW",
            WindowFunction::Landmark => "LANDMARK_WINDOW",
        }
    }

    /// The names of the arguments in their order; those after the last length may be left out.
    pub(crate) fn parameters(self) -> &'static [&'static str] {
        match self {
            WindowFunction::Tumble => &["data", "timecol", "size", OFFSET, TIME_ZONE],
            WindowFunction::Hop => &["data", "timecol", "slide", "size", OFFSET, TIME_ZONE],
            WindowFunction::Cumulate => &["data", "timecol", "step", "size", OFFSET, TIME_ZONE],
            WindowFunction::Session => &["data", "timecol", "gap"],
            WindowFunction::Count => &["data", "timecol", "size", "slide", "row_order"],
            WindowFunction::Delta => &["data", "timecol", "value", "threshold", "row_order"],
            WindowFunction::Punctuation => &["data", "timecol", "condition", "row_order"],
            WindowFunction::Landmark => &["data", "timecol", "landmark", "row_order"],
        }
    }

    /// The parameter that an argument at a place gives: a text in the place of an offset is a time zone.
    pub(crate) fn parameter_at(self, position: usize, value: &Expr) -> Option<&'static str> {
        let parameter = *self.parameters().get(position)?;
        let is_text = matches!(value, Expr::Value(value)
            if matches!(value.value, Value::SingleQuotedString(_)));
        Some(if parameter == OFFSET && is_text { TIME_ZONE } else { parameter })
    }

    /// Whether rows make the windows: then they have a number, and are not the same for all keys.
    pub(crate) fn is_of_rows(self) -> bool {
        match self {
            WindowFunction::Count
            | WindowFunction::Delta
            | WindowFunction::Punctuation
            | WindowFunction::Landmark => true,
            WindowFunction::Tumble
            | WindowFunction::Hop
            | WindowFunction::Cumulate
            | WindowFunction::Session => false,
        }
    }

    /// How many lengths must be there.
    pub(crate) fn lengths(self) -> usize {
        match self {
            WindowFunction::Tumble
            | WindowFunction::Session
            | WindowFunction::Count
            | WindowFunction::Punctuation
            | WindowFunction::Landmark => 1,
            WindowFunction::Hop | WindowFunction::Cumulate | WindowFunction::Delta => 2,
        }
    }

    /// A key of GROUP BY as it may be written.
    pub(crate) fn grouped_usage(self) -> &'static str {
        match self {
            WindowFunction::Tumble => "TUMBLE([time,] size [, offset] [, zone])",
            WindowFunction::Hop => "HOP([time,] slide, size [, offset] [, zone])",
            WindowFunction::Cumulate => "CUMULATE([time,] step, size [, offset] [, zone])",
            WindowFunction::Session => "SESSION([time,] gap)",
            WindowFunction::Count
            | WindowFunction::Delta
            | WindowFunction::Punctuation
            | WindowFunction::Landmark => self.usage(),
        }
    }

    /// A call as it may be written.
    fn usage(self) -> &'static str {
        match self {
            WindowFunction::Tumble => "TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset] [, zone])",
            WindowFunction::Hop => {
                "HOP(TABLE t, DESCRIPTOR(time), slide, size [, offset] [, zone])"
            }
            WindowFunction::Cumulate => {
                "CUMULATE(TABLE t, DESCRIPTOR(time), step, size [, offset] [, zone])"
            }
            WindowFunction::Session => "SESSION(TABLE t [PARTITION BY key], DESCRIPTOR(time), gap)",
            WindowFunction::Count => {
                "COUNT_WINDOW(TABLE t [PARTITION BY key], DESCRIPTOR(time), size [, slide])"
            }
            WindowFunction::Delta => {
                "DELTA_WINDOW(TABLE t [PARTITION BY key], DESCRIPTOR(time), value, threshold)"
            }
            WindowFunction::Punctuation => {
                "PUNCTUATION_WINDOW(TABLE t [PARTITION BY key], DESCRIPTOR(time), condition)"
            }
            WindowFunction::Landmark => {
                "LANDMARK_WINDOW(TABLE t [PARTITION BY key], DESCRIPTOR(time), landmark)"
            }
        }
    }

    /// The plan of a call in FROM, whose columns are qualified by the name of the table that it reads, or its own.
    pub(crate) fn plan(
        self,
        name: &ObjectName,
        args: &TableFunctionArgs,
        event_times: &EventTimes,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let arguments = Arguments::read(self, name, args)?;
        let input = Input::plan(&arguments, event_times, context)?;
        let plan = match self {
            WindowFunction::Tumble => tumble::plan(&arguments, &input, context),
            WindowFunction::Hop => hop::plan(&arguments, &input, context),
            WindowFunction::Cumulate => cumulate::plan(&arguments, &input, context),
            WindowFunction::Session => session::plan(&arguments, &input, context),
            WindowFunction::Count
            | WindowFunction::Delta
            | WindowFunction::Punctuation
            | WindowFunction::Landmark => rows::plan(&arguments, &input, context),
        }?;
        if arguments.grouped {
            return Ok(plan);
        }
        let relation = match table_of_first(&plan, input.columns.len()) {
            Some(table) => table,
            None => TableReference::bare(self.name().to_lowercase()),
        };
        let names: HashSet<&str> =
            plan.schema().fields().iter().map(|f| f.name().as_str()).collect();
        if names.len() < plan.schema().fields().len() {
            // A name that is there twice can only be told by the qualifiers it has.
            return Ok(plan);
        }
        LogicalPlanBuilder::from(plan).alias(relation)?.build()
    }
}

/// The table that the first columns of a plan are qualified by.
fn table_of_first(plan: &LogicalPlan, columns: usize) -> Option<TableReference> {
    let mut input = plan.schema().iter().take(columns).map(|(qualifier, _)| qualifier);
    let first = input.next()??;
    input.all(|qualifier| qualifier == Some(first)).then(|| first.clone())
}
