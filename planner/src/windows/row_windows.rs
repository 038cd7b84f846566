//! Windows that rows make, as a step of a logical plan: by their number, by a value, by rows that end windows, and the
//! last rows of groups.
//!
//! Projections and window functions could say what such windows are in a batch, but not when their rows leave a stream.
//! Invariant: the step gives the columns of its input, then, unless it keeps rows of groups, start and end of the window
//! and its number; the end is NULL of a window that is not complete when the input ends.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DFSchema, DFSchemaRef, Result, plan_err};
use datafusion_expr::logical_plan::{Extension, UserDefinedLogicalNodeCore};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};

use super::input::{END, START};

/// The column with the number of a window of a key.
pub(crate) const NUMBER: &str = "window_number";

/// Which windows rows make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum RowWindowKind {
    /// Of a number of rows, one each so many.
    Count {
        /// Rows in a window at most.
        size: u64,
        /// Rows from the end of a window to that of the next.
        slide: u64,
    },
    /// Until a value is further from that of the first row than a threshold, whose bits these are.
    Delta {
        /// The bits of a double.
        threshold: u64,
    },
    /// Up to a row for which a condition holds.
    Punctuation,
    /// From a row for which a condition holds.
    Landmark,
    /// The last rows of a group, when a watermark closes it.
    LastRows {
        /// How many.
        rows: u64,
    },
    /// The rows of the last stretch of time of a group, when a watermark closes it.
    LastInterval {
        /// How long it is, in units of the time.
        length: i64,
    },
    /// Those of an assigner, trigger and evictor of one's own, which has a number in the session.
    Own {
        /// The number.
        number: u64,
        /// Whether windows leave before times have passed their ends.
        timely: bool,
    },
}

impl RowWindowKind {
    /// Whether rows of groups are kept, of which the windows are known.
    pub fn keeps(self) -> bool {
        match self {
            RowWindowKind::LastRows { .. } | RowWindowKind::LastInterval { .. } => true,
            RowWindowKind::Count { .. }
            | RowWindowKind::Delta { .. }
            | RowWindowKind::Punctuation
            | RowWindowKind::Landmark
            | RowWindowKind::Own { .. } => false,
        }
    }

    /// What it is called where plans are shown.
    pub fn name(self) -> String {
        match self {
            RowWindowKind::Count { size, slide } if size == slide => format!("{size} rows"),
            RowWindowKind::Count { size, slide } => format!("{size} rows each {slide}"),
            RowWindowKind::Delta { threshold } => {
                format!("a change by more than {}", f64::from_bits(threshold))
            }
            RowWindowKind::Punctuation => "up to a row".to_string(),
            RowWindowKind::Landmark => "from a row".to_string(),
            RowWindowKind::LastRows { rows } => format!("the last {rows} rows"),
            RowWindowKind::LastInterval { length } => format!("the last {length} units of time"),
            RowWindowKind::Own { number, .. } => format!("own windows {number}"),
        }
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowWindows {
    /// The rows.
    pub input: LogicalPlan,
    /// Which windows they make.
    pub kind: RowWindowKind,
    /// Rows of one value of these have windows of their own. Where rows of groups are kept, the keys of the groups.
    pub keys: Vec<Expr>,
    /// The time of rows.
    pub time: Expr,
    /// The value or condition that windows are made by, if they are.
    pub argument: Option<Expr>,
    /// Whether rows go into windows as they come, not in the order of their times.
    pub by_arrival: bool,
    schema: DFSchemaRef,
}

impl RowWindows {
    /// The step over a plan.
    pub fn new(
        input: LogicalPlan,
        kind: RowWindowKind,
        keys: Vec<Expr>,
        time: Expr,
        argument: Option<Expr>,
        by_arrival: bool,
    ) -> Result<Self> {
        let mut schema = input.schema().as_ref().clone();
        if !kind.keeps() {
            let time_type = time.get_type(input.schema())?;
            let null = |data_type: &DataType| {
                let value = datafusion_common::ScalarValue::try_new_null(data_type)?;
                Ok::<_, datafusion_common::DataFusionError>(Expr::Literal(value, None))
            };
            let columns = [
                null(&time_type)?.alias(START),
                null(&time_type)?.alias(END),
                lit(0_i64).alias(NUMBER),
            ];
            let empty = LogicalPlanBuilder::empty(true).project(columns)?.build()?;
            schema = schema.join(empty.schema())?;
        }
        let schema: DFSchemaRef = Arc::new(DFSchema::new_with_metadata(
            schema.iter().map(|(q, f)| (q.cloned(), Arc::clone(f))).collect(),
            Default::default(),
        )?);
        Ok(RowWindows { input, kind, keys, time, argument, by_arrival, schema })
    }

    /// The columns that are not the input's.
    pub fn added(&self) -> &[FieldRef] {
        &self.schema.fields()[self.input.schema().fields().len()..]
    }

    /// The step as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The step that a plan is.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl PartialOrd for RowWindows {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.kind.partial_cmp(&other.kind)
    }
}

impl UserDefinedLogicalNodeCore for RowWindows {
    fn name(&self) -> &str {
        "RowWindows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let rest = [&self.time].into_iter().chain(&self.argument);
        self.keys.iter().chain(rest).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowWindows: {}", self.kind.name())
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let keys: Vec<Expr> = exprs.by_ref().take(self.keys.len()).collect();
        let (Some(time), argument, Some(input)) = (exprs.next(), exprs.next(), inputs.pop()) else {
            return plan_err!("RowWindows over other parts than it has");
        };
        RowWindows::new(input, self.kind, keys, time, argument, self.by_arrival)
    }
}
