//! Facts of columns: distinct values, NULLs, bounds, width.
//!
//! Invariant: every column id has an entry; `distinct` is at least 1 and at most `base_rows`.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use crate::cardinality::defaults::{
    ALPHABET, DISTINCT_EXPONENT, DISTINCT_MIN, KEY_ROWS_PER_VALUE, NESTED_WIDTH, NULL_FRACTION,
    STRING_WIDTH, TABLE_ROWS,
};
use crate::cardinality::literals::{number, values_between};
use crate::cardinality::selectivity::same_value;
use crate::physical::{ColumnId, ColumnInfo, ColumnTable};
use crate::statistics::{ColumnStatistics, TableStatistics};

/// The values of a column are remembered if there are no more than that.
const MAX_CONSTANTS: usize = 32;

/// What is believed of one column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnEstimate {
    /// Distinct values among `base_rows` rows.
    pub distinct: f64,
    /// Whether `distinct` was counted or follows from bounds, rather than guessed.
    pub distinct_known: bool,
    /// Whether `distinct` was counted.
    pub counted: bool,
    /// The rows `distinct` refers to.
    pub base_rows: f64,
    /// Share of NULLs.
    pub null_fraction: f64,
    /// Least value on the number line.
    pub min: Option<f64>,
    /// Greatest value on the number line.
    pub max: Option<f64>,
    /// Bytes of a value.
    pub width: f64,
    /// All values with their shares of the rows, if the column is made of few constants; else empty.
    pub constants: Vec<(ScalarValue, f64)>,
    /// The mean of a sum or a count of positive numbers, whose bounds are not known.
    pub mean: Option<f64>,
}

impl ColumnEstimate {
    /// Whether nearly every row has a value of its own, as in a key.
    pub fn is_keylike(&self) -> bool {
        self.distinct >= self.base_rows * 0.9
    }

    /// Whether the column's bounds are about as far apart as the other's.
    pub fn spans(&self, other: &Self) -> bool {
        let width = |column: &Self| column.min.zip(column.max).map(|(min, max)| max - min);
        matches!((width(self), width(other)), (Some(own), Some(other)) if own >= other * 0.9)
    }

    /// Makes the column one of a single constant.
    pub fn set_constant(&mut self, value: &ScalarValue) {
        self.distinct = 1.0;
        self.distinct_known = true;
        self.counted = true;
        self.null_fraction = f64::from(u8::from(value.is_null()));
        (self.min, self.max) = (number(value), number(value));
        self.constants = if value.is_null() { Vec::new() } else { vec![(value.clone(), 1.0)] };
    }

    /// Restricts the column to these values, with the shares they had so far.
    pub fn pin(&mut self, values: Vec<ScalarValue>) {
        let share = |value: &ScalarValue| {
            let known = self.constants.iter().find(|(known, _)| same_value(known, value));
            known.map_or(if self.constants.is_empty() { 1.0 } else { 0.0 }, |(_, share)| *share)
        };
        let shares: Vec<f64> = values.iter().map(share).collect();
        let all: f64 = shares.iter().sum();
        self.constants = if all > 0.0 && values.len() <= MAX_CONSTANTS {
            values.into_iter().zip(shares.into_iter().map(|share| share / all)).collect()
        } else {
            Vec::new()
        };
        self.null_fraction = 0.0;
        self.distinct_known = true;
    }

    /// The facts of this column's rows and another's together; `own` and `others` are their numbers.
    pub fn unite(&mut self, other: Self, own: f64, others: f64) {
        let all = (own + others).max(1.0);
        let (own, others) = (own / all, others / all);
        let constant = !self.constants.is_empty() && !other.constants.is_empty();
        self.constants.iter_mut().for_each(|(_, share)| *share *= own);
        if constant {
            for (value, share) in other.constants {
                match self.constants.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, known)) => *known += share * others,
                    None => self.constants.push((value, share * others)),
                }
            }
            self.distinct = self.constants.len() as f64;
        } else {
            self.constants.clear();
            self.distinct = self.distinct.max(other.distinct);
        }
        self.distinct_known &= other.distinct_known;
        self.counted &= other.counted;
        self.min = self.min.zip(other.min).map(|(a, b)| a.min(b));
        self.max = self.max.zip(other.max).map(|(a, b)| a.max(b));
        self.mean = self.mean.zip(other.mean).map(|(a, b)| a * own + b * others);
        self.null_fraction = self.null_fraction * own + other.null_fraction * others;
        self.width = self.width.max(other.width);
        self.base_rows = all;
    }
}

/// Facts of all columns of a query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Estimator {
    columns: Vec<ColumnEstimate>,
}

impl Estimator {
    /// Starts with guesses for every column.
    pub fn new(table: &ColumnTable) -> Self {
        Self { columns: table.iter().map(|info| guess(info, TABLE_ROWS)).collect() }
    }

    /// What is believed of a column.
    pub fn column(&self, id: ColumnId) -> &ColumnEstimate {
        &self.columns[id.0 as usize]
    }

    /// Replaces what is believed of a column.
    pub fn set(&mut self, id: ColumnId, estimate: ColumnEstimate) {
        let index = id.0 as usize;
        while self.columns.len() <= index {
            self.columns.push(estimate.clone());
        }
        self.columns[index] = estimate;
    }

    /// Notes that an outer join adds NULLs to that share of the rows.
    pub fn extend_nulls(&mut self, id: ColumnId, share: f64) {
        let mut column = self.column(id).clone();
        column.null_fraction = share + (1.0 - share) * column.null_fraction;
        self.set(id, column);
    }

    /// Takes over the facts of a table's column.
    pub fn set_from_statistics(
        &mut self,
        info: &ColumnInfo,
        index: usize,
        table: &TableStatistics,
    ) {
        let rows = self.table_rows(table);
        let estimate = match table.columns.get(index) {
            Some(column) => from_statistics(info, column, rows),
            None => guess(info, rows),
        };
        self.set(info.id, estimate);
    }

    /// The rows of a table, guessed from its size if they are unknown.
    pub fn table_rows(&self, table: &TableStatistics) -> f64 {
        table.rows.unwrap_or(TABLE_ROWS)
    }

    /// The facts of a computed column of a relation with so many rows.
    pub fn set_computed(&mut self, info: &ColumnInfo, rows: f64) {
        let estimate = guess(info, rows);
        self.set(info.id, estimate);
    }

    /// How many distinct values a column has among `rows` rows drawn from its base rows (Yao's formula).
    pub fn distinct(&self, id: ColumnId, rows: f64) -> f64 {
        let column = self.column(id);
        let (d, n) = (column.distinct.max(1.0), column.base_rows.max(1.0));
        if rows >= n {
            return d.min(rows.max(1.0));
        }
        let kept = (1.0 - (1.0 - rows / n).powf(n / d)) * d;
        kept.min(rows).max(1.0)
    }

    /// The facts of the result of an aggregate function over one column, or over whole rows; groups have `size` rows.
    /// Sums and counts of positive numbers have a mean; means and extremes stay within the bounds of the column.
    pub fn set_aggregated(
        &mut self,
        id: ColumnId,
        function: &str,
        arg: Option<ColumnId>,
        size: f64,
    ) {
        let bounds = arg.and_then(|arg| {
            let column = self.column(arg);
            column.min.zip(column.max)
        });
        let mut estimate = self.column(id).clone();
        match (function, bounds) {
            ("count", _) => estimate.mean = Some(size),
            ("sum", Some((min, max))) if min >= 0.0 => {
                estimate.mean = Some((min + max) / 2.0 * size).filter(|mean| *mean > 0.0);
            }
            ("avg" | "min" | "max", Some((min, max))) => {
                (estimate.min, estimate.max) = (Some(min), Some(max));
            }
            _ => return,
        }
        self.set(id, estimate);
    }

    /// Bytes of one row of these columns.
    pub fn row_width(&self, columns: &[ColumnId]) -> f64 {
        // The sum of no floats is -0.0.
        columns.iter().fold(0.0, |bytes, &id| bytes + self.column(id).width)
    }
}

fn guess(info: &ColumnInfo, rows: f64) -> ColumnEstimate {
    from_statistics(info, &ColumnStatistics::default(), rows)
}

fn from_statistics(info: &ColumnInfo, statistics: &ColumnStatistics, rows: f64) -> ColumnEstimate {
    let min = statistics.min.as_ref().and_then(number);
    let max = statistics.max.as_ref().and_then(number);
    let width = statistics.avg_width.unwrap_or_else(|| default_width(&info.data_type));
    let nulls = match statistics.null_count {
        Some(count) if rows > 0.0 => (count / rows).clamp(0.0, 1.0),
        Some(_) => 0.0,
        None if info.nullable && statistics.min.is_none() => NULL_FRACTION,
        None => 0.0,
    };
    let bound = match (min, max) {
        (Some(min), Some(max)) if max >= min => values_between(&info.data_type, min, max),
        _ if info.data_type == DataType::Boolean => Some(2.0),
        _ => None,
    };
    let guessed = guess_distinct(&info.data_type, statistics, bound, rows);
    let distinct = statistics.distinct.unwrap_or(guessed);
    ColumnEstimate {
        distinct: distinct.min(rows).max(1.0),
        counted: statistics.distinct.is_some(),
        distinct_known: statistics.distinct.is_some()
            || bound.is_some_and(|_| is_dense(&info.data_type)),
        base_rows: rows.max(1.0),
        null_fraction: nulls,
        min,
        max,
        width,
        constants: Vec::new(),
        mean: None,
    }
}

/// Integers and dates are believed to be dense between their bounds; other types take a share of the rows, short
/// strings no more than their alphabet allows.
fn guess_distinct(
    data_type: &DataType,
    statistics: &ColumnStatistics,
    bound: Option<f64>,
    rows: f64,
) -> f64 {
    let share = rows.powf(DISTINCT_EXPONENT).max(DISTINCT_MIN);
    if let Some(bound) = bound {
        return if is_dense(data_type) { occupied(bound, rows) } else { bound.min(share) };
    }
    match short_width(data_type, statistics) {
        Some(width) => share.min(ALPHABET.powf(width.max(0.5))),
        None => share,
    }
}

/// How many of `values` occur among `rows`. About as many rows as values are a key; somewhat more rows are a reference
/// that leaves some values out, as if drawn at random.
fn occupied(values: f64, rows: f64) -> f64 {
    let each = rows / values.max(1.0);
    if each > KEY_ROWS_PER_VALUE { values * (1.0 - (-each).exp()) } else { values }
}

fn is_dense(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Boolean)
}

/// The width of the strings of a column as far as it limits their number: the average, or the longer bound.
fn short_width(data_type: &DataType, statistics: &ColumnStatistics) -> Option<f64> {
    if !is_string(data_type) {
        return None;
    }
    let length = |value: &Option<ScalarValue>| {
        value.as_ref().and_then(|value| value.try_as_str().flatten()).map(|text| text.len() as f64)
    };
    let bounds = length(&statistics.min).zip(length(&statistics.max)).map(|(a, b)| a.max(b));
    [statistics.avg_width, bounds].into_iter().flatten().reduce(f64::min)
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn default_width(data_type: &DataType) -> f64 {
    if let Some(bytes) = data_type.primitive_width() {
        return bytes as f64;
    }
    match data_type {
        DataType::Boolean | DataType::Null => 1.0,
        DataType::FixedSizeBinary(bytes) => f64::from(*bytes),
        DataType::Dictionary(_, values) => default_width(values),
        t if t.is_nested() => NESTED_WIDTH,
        _ => STRING_WIDTH,
    }
}
