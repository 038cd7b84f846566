//! How many rows a join has.
//!
//! Invariant: several keys between two relations are taken together as one composite key, whose distinct values are no more than the rows of
//! either base; a product of single-key selectivities would vanish for correlated keys.

use datafusion_common::JoinType;
use datafusion_expr::Expr;

use crate::cardinality::columns::Estimator;
use crate::cardinality::defaults::{ANTI_FLOOR, COVERING_SHARE};
use crate::physical::ColumnId;

/// Key pairs that connect the same two relations.
#[derive(Debug, Clone)]
pub(crate) struct KeyPart {
    /// Left and right columns.
    pub keys: Vec<(ColumnId, ColumnId)>,
    /// Rows of the left and of the right relation: a fan-out by other joins adds no values.
    pub rows: (f64, f64),
}

/// The sizes a join is estimated and costed with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinEstimate {
    /// Pairs that agree on the keys and pass the filter.
    pub pairs: f64,
    /// Rows that leave the join.
    pub rows: f64,
}

impl Estimator {
    /// Estimates a join of `left` and `right` rows; each key pair is one from the left and one from the right. Pairs
    /// that connect the same two relations stand in one part: they are one composite key.
    pub fn join(
        &self,
        join_type: JoinType,
        keys: &[KeyPart],
        filter: &[Expr],
        left: f64,
        right: f64,
    ) -> JoinEstimate {
        let (dl, dr, domain) = self.key_values_of(keys, left, right);
        let residual =
            if filter.is_empty() { 1.0 } else { self.selectivity(filter, left.max(right)) };
        let matched = left * right / domain.max(1.0);
        let pairs = (matched * residual).max(1.0);
        let share = |own: f64, other_distinct: f64| {
            let with_key =
                if keys.is_empty() { 1.0 } else { (other_distinct / domain.max(1.0)).min(1.0) };
            if filter.is_empty() {
                return with_key;
            }
            let partners = matched / (own * with_key).max(1.0);
            with_key * (1.0 - (-partners * residual).exp())
        };
        let left_share = share(left, dr);
        let right_share = share(right, dl);
        let rows = match join_type {
            JoinType::Inner => pairs,
            JoinType::Left => pairs.max(left),
            JoinType::Right => pairs.max(right),
            JoinType::Full => pairs.max(left).max(right),
            JoinType::LeftSemi => left * left_share,
            JoinType::RightSemi => right * right_share,
            JoinType::LeftAnti => left * (1.0 - left_share).max(ANTI_FLOOR),
            JoinType::RightAnti => right * (1.0 - right_share).max(ANTI_FLOOR),
            JoinType::LeftMark => left,
            JoinType::RightMark => right,
        };
        JoinEstimate { pairs, rows: rows.max(1.0) }
    }

    /// Distinct keys on each side and their domain, over all parts: parts are independent.
    fn key_values_of(&self, parts: &[KeyPart], left: f64, right: f64) -> (f64, f64, f64) {
        let (mut dl, mut dr, mut domain) = (1.0, 1.0, 1.0);
        for part in parts {
            let (l, r, d) =
                self.composite(&part.keys, left.min(part.rows.0), right.min(part.rows.1));
            dl *= l;
            dr *= r;
            domain *= d;
        }
        (f64::min(dl, left).max(1.0), f64::min(dr, right).max(1.0), domain)
    }

    /// Distinct composite keys on each side. Where the product of the single keys would exceed the rows of a base
    /// relation, that side is taken to be nearly unique on them: several keys are the mark of a foreign key.
    fn composite(&self, keys: &[(ColumnId, ColumnId)], left: f64, right: f64) -> (f64, f64, f64) {
        if let [(l, r)] = keys {
            let dl = self.distinct(*l, left).min(self.referenced_values(*l, *r));
            let dr = self.distinct(*r, right).min(self.referenced_values(*r, *l));
            let domain = dl.max(dr).max(self.key_domain(*l, *r)).max(self.key_domain(*r, *l));
            return (dl, dr, domain);
        }
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = keys.iter().copied().unzip();
        let (dl, base_l) = self.composite_side(&left_keys, left);
        let (dr, base_r) = self.composite_side(&right_keys, right);
        let domain = match (base_l, base_r) {
            (Some(l), Some(r)) if l < r => self.covered(keys.iter().copied(), l, r),
            (Some(l), Some(r)) => self.covered(keys.iter().map(|&(a, b)| (b, a)), r, l),
            (Some(base), None) | (None, Some(base)) => base,
            (None, None) => dl.max(dr),
        };
        (dl.min(domain), dr.min(domain), domain)
    }

    /// The domain of keys of which both sides are nearly unique, given pairs of a column of the smaller side and one of
    /// the larger, and the base rows of both. If the smaller side has all values of each column, the larger side refers
    /// to it. If it lacks some although it spans the same range, it refers to the larger one.
    fn covered(
        &self,
        keys: impl Iterator<Item = (ColumnId, ColumnId)>,
        small: f64,
        large: f64,
    ) -> f64 {
        let mut domain = small;
        for (s, l) in keys {
            let (s, l) = (self.column(s), self.column(l));
            let share = s.distinct / l.distinct.max(1.0);
            if share < COVERING_SHARE {
                let all = if s.spans(l) && share > 0.05 { large } else { small / share };
                domain = domain.max(all.min(large));
            }
        }
        domain
    }

    /// The values that a key has in the range of a column that refers to it, before any filter on other columns: a
    /// filter leaves out keys whether or not the other side refers to them, so that fewer rows find a partner. 0 if
    /// `key` is no key.
    fn key_domain(&self, key: ColumnId, other: ColumnId) -> f64 {
        let (key, other) = (self.column(key), self.column(other));
        if !key.is_keylike() || other.distinct > key.distinct {
            return 0.0;
        }
        let bounds = key.min.zip(key.max).zip(other.min.zip(other.max));
        let covered = bounds.map_or(1.0, |((low, high), (least, most))| {
            let common = high.min(most) - low.max(least);
            if high > low { (common / (high - low)).clamp(0.0, 1.0) } else { 1.0 }
        });
        key.distinct * covered
    }

    /// The most values a column can have if it refers to a key of the other side: a number that was not counted (all
    /// values between the bounds, say) is not believed to exceed the key's.
    fn referenced_values(&self, column: ColumnId, other: ColumnId) -> f64 {
        let other = self.column(other);
        let refers = !self.column(column).counted && other.is_keylike();
        if refers { other.distinct } else { f64::INFINITY }
    }

    /// Distinct composite keys among `rows`, and the base rows if the keys identify them nearly.
    fn composite_side(&self, keys: &[ColumnId], rows: f64) -> (f64, Option<f64>) {
        let base = keys.iter().map(|&key| self.column(key).base_rows).fold(1.0, f64::max);
        let product: f64 = keys.iter().map(|&key| self.column(key).distinct).product();
        let now: f64 = keys.iter().map(|&key| self.distinct(key, rows)).product();
        (now.min(rows).max(1.0), (keys.len() > 1 && product >= base * 0.5).then_some(base))
    }
}
