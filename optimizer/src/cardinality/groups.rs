//! How many groups a grouping has.

use crate::cardinality::columns::Estimator;
use crate::cardinality::defaults::{GROUP_EXPONENT, LIST_LENGTH, RECURSION_GROWTH};
use crate::physical::ColumnId;

impl Estimator {
    /// Groups of `rows` rows by some keys: the keys' distinct values multiplied, the largest whole and the others
    /// damped, never more than the rows.
    pub fn groups(&self, keys: &[ColumnId], rows: f64) -> f64 {
        let mut distinct: Vec<f64> = keys
            .iter()
            .map(|&key| {
                let nulls = if self.column(key).null_fraction > 0.0 { 1.0 } else { 0.0 };
                self.distinct(key, rows) + nulls
            })
            .collect();
        distinct.sort_by(|a, b| b.total_cmp(a));
        let product = distinct.iter().enumerate().fold(1.0_f64, |product, (i, d)| {
            product * d.powf(if i == 0 { 1.0 } else { GROUP_EXPONENT })
        });
        product.min(rows).max(1.0)
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
