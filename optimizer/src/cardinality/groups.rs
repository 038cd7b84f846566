//! How many groups a grouping has.

use crate::cardinality::columns::Estimator;
use crate::cardinality::defaults::{
    GROUP_EXPONENT, LIST_LENGTH, RECURSION_GROWTH, UNKNOWN_KEY_FACTOR,
};
use crate::physical::ColumnId;

impl Estimator {
    /// Groups of `rows` rows by some keys, never more than the rows. Known distinct values are multiplied, the largest
    /// whole and the others damped; keys of which nothing is known count as one and a little.
    pub fn groups(&self, keys: &[ColumnId], rows: f64) -> f64 {
        let (known, unknown): (Vec<ColumnId>, Vec<ColumnId>) =
            keys.iter().partition(|&&key| self.column(key).distinct_known);
        let mut known: Vec<f64> = known.into_iter().map(|key| self.key_values(key, rows)).collect();
        known.sort_by(|a, b| b.total_cmp(a));
        let exponent = |i: usize| if i == 0 { 1.0 } else { GROUP_EXPONENT };
        let product: f64 = known.iter().enumerate().map(|(i, d)| d.powf(exponent(i))).product();
        let richest = unknown.iter().map(|&key| self.key_values(key, rows)).fold(1.0_f64, f64::max);
        let others = UNKNOWN_KEY_FACTOR.powi(unknown.len().saturating_sub(1).min(8) as i32);
        let guessed = richest * others;
        let guessed = if known.is_empty() { guessed } else { guessed.powf(GROUP_EXPONENT) };
        (product * guessed).min(rows).max(1.0)
    }

    /// Distinct values of a key, NULL included.
    fn key_values(&self, key: ColumnId, rows: f64) -> f64 {
        let nulls = if self.column(key).null_fraction > 0.0 { 1.0 } else { 0.0 };
        self.distinct(key, rows) + nulls
    }

    /// Rows of an unnest.
    pub fn unnested(&self, rows: f64, lists: usize) -> f64 {
        if lists == 0 { rows } else { rows * LIST_LENGTH }
    }

    /// Rows of a recursive query.
    pub fn recursion(&self, static_rows: f64) -> f64 {
        static_rows * RECURSION_GROWTH
    }
}
