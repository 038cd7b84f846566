//! The share of rows that pass a condition.
//!
//! Invariant: between 0 and 1. Bounds on one column are taken together as an interval; the weaker of many conjuncts
//! are damped, because conditions are seldom independent.

use std::collections::BTreeMap;

use datafusion_common::ScalarValue;
use datafusion_expr::expr::{BinaryExpr, InList, Like};
use datafusion_expr::{Expr, Operator};

use crate::cardinality::columns::{ColumnEstimate, Estimator};
use crate::cardinality::defaults::{
    CONDITION, CONJUNCT_EXPONENTS, EQUALITY, INEQUALITY, LIKE_CONTAINS, LIKE_PREFIX, POSITIVE,
};
use crate::cardinality::literals::number;
use crate::physical::ColumnId;

/// An interval on the number line; a missing end is open.
#[derive(Default, Clone, Copy)]
struct Interval {
    low: Option<f64>,
    high: Option<f64>,
}

impl Estimator {
    /// The share of `rows` rows that pass all conjuncts.
    pub fn selectivity(&self, conjuncts: &[Expr], rows: f64) -> f64 {
        let mut intervals: BTreeMap<ColumnId, Interval> = BTreeMap::new();
        let mut shares = Vec::new();
        for conjunct in conjuncts {
            if !self.add_bound(conjunct, &mut intervals) {
                shares.push(self.conjunct(conjunct, rows));
            }
        }
        shares.extend(
            intervals.iter().map(|(&id, interval)| interval_share(self.column(id), *interval)),
        );
        combine(shares)
    }

    /// Collects `column < literal` and its like; false if the conjunct is something else.
    fn add_bound(&self, conjunct: &Expr, intervals: &mut BTreeMap<ColumnId, Interval>) -> bool {
        if let Expr::Between(between) = conjunct {
            let bounds =
                (column_of(&between.expr), literal_of(&between.low), literal_of(&between.high));
            let (Some(id), Some(low), Some(high), false) =
                (bounds.0, bounds.1, bounds.2, between.negated)
            else {
                return false;
            };
            let interval = intervals.entry(id).or_default();
            interval.low = Some(interval.low.map_or(low, |known| known.max(low)));
            interval.high = Some(interval.high.map_or(high, |known| known.min(high)));
            return true;
        }
        let Some((id, op, value)) = comparison(conjunct) else { return false };
        let Some(value) = number(value) else { return false };
        match op {
            Operator::Lt | Operator::LtEq => {
                let interval = intervals.entry(id).or_default();
                interval.high = Some(interval.high.map_or(value, |known| known.min(value)));
            }
            Operator::Gt | Operator::GtEq => {
                let interval = intervals.entry(id).or_default();
                interval.low = Some(interval.low.map_or(value, |known| known.max(value)));
            }
            _ => return false,
        }
        true
    }

    /// The share of rows that pass one condition.
    pub fn conjunct(&self, expr: &Expr, rows: f64) -> f64 {
        let share = match expr {
            Expr::Literal(ScalarValue::Boolean(value), _) => {
                f64::from(u8::from(value.unwrap_or(false)))
            }
            Expr::Column(_) => 0.5,
            Expr::Not(inner) => 1.0 - self.conjunct(inner, rows),
            Expr::IsNull(inner) => self.null_share(inner),
            Expr::IsNotNull(inner) => 1.0 - self.null_share(inner),
            Expr::IsTrue(inner) => self.conjunct(inner, rows),
            Expr::IsFalse(inner) | Expr::IsNotTrue(inner) => 1.0 - self.conjunct(inner, rows),
            Expr::Like(like) | Expr::SimilarTo(like) => like_share(like),
            Expr::InList(list) => self.in_list(list, rows),
            Expr::Between(_) => self.between(expr),
            Expr::BinaryExpr(binary) => self.binary(expr, binary, rows),
            _ => CONDITION,
        };
        share.clamp(0.0, 1.0)
    }

    fn binary(&self, expr: &Expr, binary: &BinaryExpr, rows: f64) -> f64 {
        match binary.op {
            Operator::And => {
                let parts: Vec<Expr> =
                    datafusion_expr::utils::split_conjunction(expr).into_iter().cloned().collect();
                self.selectivity(&parts, rows)
            }
            Operator::Or => {
                let (a, b) =
                    (self.conjunct(&binary.left, rows), self.conjunct(&binary.right, rows));
                a + b - a * b
            }
            Operator::Eq | Operator::IsNotDistinctFrom => self.equality(binary, rows),
            Operator::NotEq | Operator::IsDistinctFrom => 1.0 - self.equality(binary, rows),
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => self.inequality(expr),
            Operator::LikeMatch | Operator::ILikeMatch => LIKE_CONTAINS,
            Operator::NotLikeMatch | Operator::NotILikeMatch => 1.0 - LIKE_CONTAINS,
            _ => CONDITION,
        }
    }

    fn equality(&self, binary: &BinaryExpr, rows: f64) -> f64 {
        match (column_of(&binary.left), column_of(&binary.right)) {
            (Some(a), Some(b)) => 1.0 / self.distinct(a, rows).max(self.distinct(b, rows)),
            (Some(_), None) | (None, Some(_)) if self.outside(binary) => 1.0 / rows.max(1.0),
            (Some(id), None) => self.literal_share(id, &binary.right, rows),
            (None, Some(id)) => self.literal_share(id, &binary.left, rows),
            (None, None) => CONDITION * 0.4,
        }
    }

    /// The share of rows in which a column has the value of an expression.
    fn literal_share(&self, id: ColumnId, value: &Expr, rows: f64) -> f64 {
        let constants = &self.column(id).constants;
        match value {
            Expr::Literal(value, _) if !constants.is_empty() => {
                let same = constants.iter().find(|(constant, _)| same_value(constant, value));
                same.map_or(1.0 / rows.max(1.0), |(_, share)| *share)
            }
            _ => self.value_share(id, rows),
        }
    }

    /// The share of rows with one given value. Columns that are compared with constants tend to have few values: where
    /// their number is a mere guess, a share that is too small would be the more expensive mistake.
    fn value_share(&self, id: ColumnId, rows: f64) -> f64 {
        let even = 1.0 / self.distinct(id, rows);
        if self.column(id).distinct_known { even } else { even.max(EQUALITY) }
    }

    /// Whether a column is compared with a value beyond its bounds.
    fn outside(&self, binary: &BinaryExpr) -> bool {
        let (id, value) = match (column_of(&binary.left), column_of(&binary.right)) {
            (Some(id), _) => (id, literal_of(&binary.right)),
            (None, Some(id)) => (id, literal_of(&binary.left)),
            (None, None) => return false,
        };
        let column = self.column(id);
        let below = |value: f64| column.min.is_some_and(|min| value < min);
        let above = |value: f64| column.max.is_some_and(|max| value > max);
        value.is_some_and(|value| below(value) || above(value))
    }

    fn inequality(&self, expr: &Expr) -> f64 {
        let mut intervals = BTreeMap::new();
        if self.add_bound(expr, &mut intervals) {
            let shares =
                intervals.iter().map(|(&id, interval)| interval_share(self.column(id), *interval));
            return shares.product();
        }
        INEQUALITY
    }

    fn between(&self, expr: &Expr) -> f64 {
        let Expr::Between(between) = expr else { return CONDITION };
        let mut positive = between.clone();
        positive.negated = false;
        let mut intervals = BTreeMap::new();
        let share = if self.add_bound(&Expr::Between(positive), &mut intervals) {
            intervals
                .iter()
                .map(|(&id, interval)| interval_share(self.column(id), *interval))
                .product()
        } else {
            CONDITION
        };
        if between.negated { 1.0 - share } else { share }
    }

    fn in_list(&self, list: &InList, rows: f64) -> f64 {
        let each = match column_of(&list.expr) {
            Some(id) if !self.column(id).constants.is_empty() => {
                let shares = list.list.iter().map(|value| self.literal_share(id, value, rows));
                shares.sum::<f64>() / list.list.len().max(1) as f64
            }
            Some(id) => self.value_share(id, rows),
            None => CONDITION * 0.4,
        };
        let share = (each * list.list.len() as f64).min(1.0);
        if list.negated { 1.0 - share } else { share }
    }

    fn null_share(&self, expr: &Expr) -> f64 {
        column_of(expr).map_or(0.05, |id| self.column(id).null_fraction)
    }

    /// Narrows the facts of columns to the rows that pass: after `a = 5` there is one value of `a`, after `a < 5` only
    /// those below.
    pub fn narrow(&mut self, conjuncts: &[Expr]) {
        let mut intervals = BTreeMap::new();
        for conjunct in conjuncts {
            if self.add_bound(conjunct, &mut intervals) {
                continue;
            }
            for (id, values) in pinned(conjunct) {
                let mut column = self.column(id).clone();
                let share = self.conjunct(conjunct, column.base_rows);
                column.distinct = (values.len() as f64).min(column.distinct).max(1.0);
                column.base_rows = (column.base_rows * share).max(1.0);
                column.pin(values);
                self.set(id, column);
            }
        }
        for (id, interval) in intervals {
            let mut column = self.column(id).clone();
            let share = interval_share(&column, interval);
            column.distinct = (column.distinct * share).max(1.0);
            column.base_rows = (column.base_rows * share).max(1.0);
            column.min = interval.low.into_iter().chain(column.min).reduce(f64::max);
            column.max = interval.high.into_iter().chain(column.max).reduce(f64::min);
            self.set(id, column);
        }
    }
}

/// Multiplies shares, the strongest first, the others damped.
fn combine(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    let exponent = |i: usize| CONJUNCT_EXPONENTS.get(i).copied().unwrap_or(0.4);
    shares.iter().enumerate().map(|(i, share)| share.powf(exponent(i))).product()
}

fn interval_share(column: &ColumnEstimate, interval: Interval) -> f64 {
    let (Some(min), Some(max)) = (column.min, column.max) else {
        // Sums and counts of groups are skewed: most are small, few are large.
        let beyond = |value: f64, mean: f64| (-value.max(0.0) / mean).exp();
        if let Some(mean) = column.mean {
            let low = interval.low.map_or(1.0, |low| beyond(low, mean));
            let high = interval.high.map_or(0.0, |high| beyond(high, mean));
            return (low - high).clamp(0.001, 1.0);
        }
        return match (interval.low, interval.high) {
            (Some(_), Some(_)) => CONDITION * 0.6,
            (Some(low), None) if low <= 0.0 => POSITIVE,
            (None, Some(high)) if high <= 0.0 => 1.0 - POSITIVE,
            (Some(_) | None, None) | (None, Some(_)) => INEQUALITY,
        };
    };
    let low = interval.low.unwrap_or(min).max(min);
    let high = interval.high.unwrap_or(max).min(max);
    let least = 0.5 / column.distinct.max(1.0);
    if max <= min {
        return if low <= high { 1.0 } else { least };
    }
    ((high - low) / (max - min)).clamp(0.0, 1.0).max(least) * (1.0 - column.null_fraction)
}

fn like_share(like: &Like) -> f64 {
    let share = match like.pattern.as_ref() {
        Expr::Literal(value, _) => match value.try_as_str().flatten() {
            Some(pattern) if !pattern.contains(['%', '_']) => LIKE_PREFIX * 0.1,
            Some(pattern) if pattern.starts_with('%') => LIKE_CONTAINS,
            _ => LIKE_PREFIX,
        },
        _ => LIKE_CONTAINS,
    };
    if like.negated { 1.0 - share } else { share }
}

/// The columns that have one of few values wherever a condition holds, with these values.
fn pinned(condition: &Expr) -> BTreeMap<ColumnId, Vec<ScalarValue>> {
    let mut columns = BTreeMap::new();
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            columns = pinned(left);
            columns.extend(pinned(right));
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut others = pinned(right);
            for (id, mut values) in pinned(left) {
                if let Some(more) = others.remove(&id) {
                    for value in more {
                        if !values.iter().any(|known| same_value(known, &value)) {
                            values.push(value);
                        }
                    }
                    columns.insert(id, values);
                }
            }
        }
        Expr::InList(list) if !list.negated => {
            let literals = list.list.iter().map(|value| match value {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            });
            if let (Some(id), Some(values)) = (column_of(&list.expr), literals.collect()) {
                columns.insert(id, values);
            }
        }
        other => {
            if let Some((id, Operator::Eq, value)) = comparison(other) {
                columns.insert(id, vec![value.clone()]);
            }
        }
    }
    columns
}

/// Whether two literals are the same value, though their types may differ (strings of several layouts, numbers).
pub(super) fn same_value(a: &ScalarValue, b: &ScalarValue) -> bool {
    let text = |value: &ScalarValue| value.try_as_str().flatten().map(str::to_owned);
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b || text(a).is_some_and(|a| text(b).is_some_and(|b| a == b)),
    }
}

/// A column, possibly cast.
pub(crate) fn column_of(expr: &Expr) -> Option<ColumnId> {
    match expr {
        Expr::Column(column) => ColumnId::from_column(column),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::TryCast(cast) => column_of(&cast.expr),
        _ => None,
    }
}

fn literal_of(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(value, _) => number(value),
        Expr::Cast(cast) => literal_of(&cast.expr),
        _ => None,
    }
}

/// A comparison of a column with a literal, the column on the left.
fn comparison(expr: &Expr) -> Option<(ColumnId, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    match (left.as_ref(), right.as_ref()) {
        (column, Expr::Literal(value, _)) => Some((column_of(column)?, *op, value)),
        (Expr::Literal(value, _), column) => Some((column_of(column)?, op.swap()?, value)),
        _ => None,
    }
}
