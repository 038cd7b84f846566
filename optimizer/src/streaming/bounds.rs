//! What a watermark says of columns: for each an expression over the watermark that no later value is below.
//!
//! The event-time column has the watermark itself. A monotone function of a column with a bound has that function of
//! the bound; whether a function is monotone it says itself (`output_ordering`). The elements of a list that is opened
//! are not below the first of the list at the bound, as lists of windows are ascending.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{BinaryExpr, Expr, Operator, cast};
use thalweg_planner::{first_of_list, zone_bound};

use super::expiries::replaced;

use crate::physical::{ColumnId, ColumnTable, UnnestColumn, UnnestSource};

/// Bounds by column. A bound names one column: the event-time column, which stands for the watermark.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds(BTreeMap<ColumnId, Expr>);

impl Bounds {
    /// The event-time column of a table.
    pub fn add_event_time(&mut self, column: ColumnId) {
        self.0.insert(column, column.expr());
    }

    /// The bound of a column.
    pub fn of(&self, column: ColumnId) -> Option<&Expr> {
        self.0.get(&column)
    }

    /// The bound of any expression, with the column that stands for the watermark.
    pub fn of_expr(&self, expr: &Expr, columns: &ColumnTable) -> Option<(Expr, ColumnId)> {
        let bound = self.bound(expr, columns)?;
        let watermark = *ColumnId::referenced(&bound).iter().next()?;
        Some((bound, watermark))
    }

    /// Says what no later value of a column is below.
    pub fn set(&mut self, column: ColumnId, bound: Expr) {
        self.0.insert(column, bound);
    }

    /// The rows with these columns come later than the watermark lets expect.
    pub fn forget(&mut self, columns: impl IntoIterator<Item = ColumnId>) {
        for column in columns {
            self.0.remove(&column);
        }
    }

    /// Columns that are computed.
    pub fn compute(&mut self, exprs: &[(ColumnId, Expr)], columns: &ColumnTable) {
        for (output, expr) in exprs {
            if let Some(bound) = self.bound(expr, columns) {
                self.0.insert(*output, bound);
            }
        }
    }

    /// Columns that come out of lists.
    pub fn unnest(&mut self, opened: &[UnnestColumn]) {
        for column in opened {
            let bound = match &column.source {
                UnnestSource::Forward(input) => self.of(*input).cloned(),
                UnnestSource::List { input, depth: 1 } => {
                    self.of(*input).cloned().map(first_of_list)
                }
                UnnestSource::List { .. } | UnnestSource::StructField { .. } => None,
            };
            if let Some(bound) = bound {
                self.0.insert(column.output, bound);
            }
        }
    }

    /// A column of a union that comes from columns of its inputs: only where they all say the same of their watermarks,
    /// of which the least comes through.
    pub fn unite(&mut self, target: ColumnId, sources: &[ColumnId], columns: &ColumnTable) {
        let mut bounds = sources.iter().map(|source| self.of_expr(&source.expr(), columns));
        let Some(Some((first, watermark))) = bounds.next() else { return };
        let of_type = |id: ColumnId| columns.get(id).data_type.clone();
        let same = bounds.all(|bound| {
            bound.is_some_and(|(bound, other)| {
                of_type(other) == of_type(watermark) && replaced(&bound, other, watermark) == first
            })
        });
        if same {
            self.0.insert(target, first);
        }
    }

    /// The bound of an expression: the expression itself with columns replaced by their bounds, if it is monotone.
    fn bound(&self, expr: &Expr, columns: &ColumnTable) -> Option<Expr> {
        match expr {
            Expr::Alias(alias) => self.bound(&alias.expr, columns),
            Expr::Column(_) => self.of(ColumnId::from_expr(expr)?).cloned(),
            Expr::Cast(inner) => {
                let to = inner.field.data_type();
                let from = type_of(&inner.expr, columns)?;
                let bound = self.bound(&inner.expr, columns)?;
                (is_time(to) && is_time(&from)).then(|| cast(bound, to.clone()))
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::Plus | Operator::Minus),
                right,
            }) if is_interval(right) => {
                let left = Box::new(self.bound(left, columns)?);
                Some(Expr::BinaryExpr(BinaryExpr { left, op: *op, right: right.clone() }))
            }
            Expr::ScalarFunction(call) => {
                if let Some(bound) = zone_bound(expr, |time| self.bound(time, columns)) {
                    return Some(bound);
                }
                let mut replaced = call.clone();
                let mut properties = Vec::with_capacity(call.args.len());
                for arg in &mut replaced.args {
                    properties.push(ordered(arg, columns)?);
                    if !matches!(arg, Expr::Literal(..)) {
                        *arg = self.bound(arg, columns)?;
                    }
                }
                let order = call.func.output_ordering(&properties).ok()?;
                let ascending = matches!(order, SortProperties::Ordered(o) if !o.descending);
                (ascending || truncates_to_days(call)).then_some(Expr::ScalarFunction(replaced))
            }
            _ => None,
        }
    }
}

/// Whether a function truncates points in time to local days or more. Days do not fall where clocks are turned, although
/// shorter parts do; the function does not say so of times with a zone.
fn truncates_to_days(call: &ScalarFunction) -> bool {
    let Some(Expr::Literal(part, _)) = call.args.first() else { return false };
    let days = ["day", "week", "month", "quarter", "year"];
    let part = part.try_as_str().flatten().unwrap_or_default().to_ascii_lowercase();
    call.func.name() == "date_trunc" && days.contains(&part.as_str())
}

/// What a function is told of an argument: that it is a constant, or that it never falls.
fn ordered(arg: &Expr, columns: &ColumnTable) -> Option<ExprProperties> {
    let (sort_properties, data_type) = match arg {
        Expr::Literal(value, _) => (SortProperties::Singleton, value.data_type()),
        other => (SortProperties::Ordered(Default::default()), type_of(other, columns)?),
    };
    let range = Interval::make_unbounded(&data_type).ok()?;
    Some(ExprProperties {
        sort_properties,
        range,
        preserves_lex_ordering: false,
        strictly_order_preserving: false,
    })
}

fn type_of(expr: &Expr, columns: &ColumnTable) -> Option<DataType> {
    match expr {
        Expr::Column(_) => Some(columns.get(ColumnId::from_expr(expr)?).data_type.clone()),
        Expr::Cast(inner) => Some(inner.field.data_type().clone()),
        Expr::ScalarFunction(call) => {
            let types = call.args.iter().map(|arg| match arg {
                Expr::Literal(value, _) => Some(value.data_type()),
                other => type_of(other, columns),
            });
            call.func.return_type(&types.collect::<Option<Vec<_>>>()?).ok()
        }
        Expr::BinaryExpr(binary) => type_of(&binary.left, columns),
        _ => None,
    }
}

/// Types between which casts keep the order.
fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32)
}

fn is_interval(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    matches!(
        value,
        ScalarValue::IntervalMonthDayNano(Some(_))
            | ScalarValue::IntervalDayTime(Some(_))
            | ScalarValue::IntervalYearMonth(Some(_))
    )
}
