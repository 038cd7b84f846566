//! Variance, standard deviation, covariance, correlation and linear regression.
//!
//! Means and centred sums of squares are kept (Welford), which loses no digits to large means; partial states are
//! joined by Chan's formula. Invariant: a row counts only if all its arguments are values; statistics that the
//! number of rows does not define are NULL, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::groups::{Groups, nulls_of};
use super::state::{Output, RowState};
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// A statistic of one variable, or of a dependent (`y`, the first argument) and an independent one (`x`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Moment {
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    RegressionSlope,
    RegressionIntercept,
    RegressionCount,
    RegressionR2,
    RegressionAverageX,
    RegressionAverageY,
    RegressionSxx,
    RegressionSyy,
    RegressionSxy,
}

/// Number of rows, means and centred sums.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    mean_y: f64,
    syy: f64,
    mean_x: f64,
    sxx: f64,
    sxy: f64,
}

impl Sums {
    /// With one more row.
    #[inline]
    fn add(mut self, y: f64, x: f64) -> Self {
        self.n += 1.0;
        let (dy, dx) = (y - self.mean_y, x - self.mean_x);
        self.mean_y += dy / self.n;
        self.mean_x += dx / self.n;
        self.syy += dy * (y - self.mean_y);
        self.sxx += dx * (x - self.mean_x);
        self.sxy += dx * (y - self.mean_y);
        self
    }

    /// Without a row that was added before.
    fn remove(mut self, y: f64, x: f64) -> Self {
        if self.n <= 1.0 {
            return Sums::default();
        }
        self.n -= 1.0;
        let (old_y, old_x) = (self.mean_y, self.mean_x);
        self.mean_y -= (y - old_y) / self.n;
        self.mean_x -= (x - old_x) / self.n;
        self.syy = (self.syy - (y - old_y) * (y - self.mean_y)).max(0.0);
        self.sxx = (self.sxx - (x - old_x) * (x - self.mean_x)).max(0.0);
        self.sxy -= (x - self.mean_x) * (y - old_y);
        self
    }

    /// With the rows of another.
    fn merge(self, other: Sums) -> Self {
        if self.n == 0.0 {
            return other;
        }
        if other.n == 0.0 {
            return self;
        }
        let n = self.n + other.n;
        let (dy, dx) = (other.mean_y - self.mean_y, other.mean_x - self.mean_x);
        let weight = self.n * other.n / n;
        Sums {
            n,
            mean_y: self.mean_y + dy * other.n / n,
            mean_x: self.mean_x + dx * other.n / n,
            syy: self.syy + other.syy + dy * dy * weight,
            sxx: self.sxx + other.sxx + dx * dx * weight,
            sxy: self.sxy + other.sxy + dy * dx * weight,
        }
    }

    fn get(&self, moment: Moment) -> Option<f64> {
        let population = |sum: f64| (self.n > 0.0).then(|| sum / self.n);
        let sample = |sum: f64| (self.n > 1.0).then(|| sum / (self.n - 1.0));
        let any = |value: f64| (self.n > 0.0).then_some(value);
        // A line needs at least two different x.
        let slope = || (self.n > 0.0 && self.sxx != 0.0).then(|| self.sxy / self.sxx);
        match moment {
            Moment::VariancePopulation => population(self.syy),
            Moment::VarianceSample => sample(self.syy),
            Moment::DeviationPopulation => population(self.syy).map(f64::sqrt),
            Moment::DeviationSample => sample(self.syy).map(f64::sqrt),
            Moment::CovariancePopulation => population(self.sxy),
            Moment::CovarianceSample => sample(self.sxy),
            Moment::Correlation => (self.n > 0.0 && self.sxx != 0.0 && self.syy != 0.0)
                .then(|| self.sxy / (self.sxx.sqrt() * self.syy.sqrt())),
            Moment::RegressionSlope => slope(),
            Moment::RegressionIntercept => slope().map(|slope| self.mean_y - slope * self.mean_x),
            Moment::RegressionCount => Some(self.n),
            Moment::RegressionR2 => {
                slope().map(|slope| if self.syy == 0.0 { 1.0 } else { slope * self.sxy / self.syy })
            }
            Moment::RegressionAverageX => any(self.mean_x),
            Moment::RegressionAverageY => any(self.mean_y),
            Moment::RegressionSxx => any(self.sxx),
            Moment::RegressionSyy => any(self.syy),
            Moment::RegressionSxy => any(self.sxy),
        }
    }
}

/// The state: three doubles for one variable, six for two.
pub(crate) struct Moments {
    own: Vec<usize>,
    incoming: Vec<usize>,
    two: bool,
}

impl Moments {
    /// Statistics of one variable, or of two.
    pub(crate) fn new(two: bool) -> Self {
        Moments { own: Vec::new(), incoming: Vec::new(), two }
    }

    fn read(&self, value: impl Fn(usize) -> f64) -> Sums {
        let mut sums = Sums { n: value(0), mean_y: value(1), syy: value(2), ..Sums::default() };
        if self.two {
            (sums.mean_x, sums.sxx, sums.sxy) = (value(3), value(4), value(5));
        }
        sums
    }

    fn replace(&self, states: &mut StatesMut<'_>, id: RowId, f: impl FnOnce(Sums) -> Sums) {
        let sums = f(self.read(|slot| states.read(id, self.own[slot])));
        let values = [sums.n, sums.mean_y, sums.syy, sums.mean_x, sums.sxx, sums.sxy];
        self.own.iter().zip(values).for_each(|(&offset, value)| states.write(id, offset, value));
    }

    fn apply(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
        f: impl Fn(Sums, f64, f64) -> Sums,
    ) -> Result<()> {
        let y = cast(&args[0], &DataType::Float64)?;
        let x = if self.two { cast(&args[1], &DataType::Float64)? } else { y.clone() };
        let nulls = NullBuffer::union(nulls_of(&y).as_ref(), nulls_of(&x).as_ref());
        let (y, x) = (y.as_primitive::<Float64Type>(), x.as_primitive::<Float64Type>());
        if let Groups::One { id, .. } = groups {
            self.replace(states, id, |sums| {
                let mut sums = sums;
                groups.for_each_valid(nulls.as_ref(), |row, _| {
                    sums = f(sums, y.value(row), x.value(row));
                });
                sums
            });
            return Ok(());
        }
        groups.for_each_valid(nulls.as_ref(), |row, id| {
            self.replace(states, id, |sums| f(sums, y.value(row), x.value(row)));
        });
        Ok(())
    }
}

impl RowState for Moments {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::new(8, 8); if self.two { 6 } else { 3 }]
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        (self.own, self.incoming) = (own.to_vec(), incoming.to_vec());
    }

    fn update(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, args, groups, Sums::add)
    }

    fn retract(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, args, groups, Sums::remove)
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        for (row, &id) in groups.iter().enumerate() {
            let other = self.read(|slot| source.read(row, self.incoming[slot]));
            self.replace(states, id, |sums| sums.merge(other));
        }
        Ok(())
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        let Output::Moment(moment) = output else {
            return Err(crate::Error::Internal(format!("{output:?} of a moment state")));
        };
        let values =
            ids.iter().map(|&id| self.read(|slot| states.read(id, self.own[slot])).get(moment));
        if moment == Moment::RegressionCount {
            let counts = values.map(|n| n.unwrap_or(0.0) as u64);
            return Ok(Arc::new(UInt64Array::from_iter_values(counts)));
        }
        Ok(Arc::new(values.collect::<Float64Array>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_and_retracted_sums_agree_with_plain_ones() {
        let rows: Vec<(f64, f64)> =
            (0..50).map(|i| (1e9 + f64::from(i * i % 17), f64::from(i * 7 % 13))).collect();
        let sum = |rows: &[(f64, f64)]| rows.iter().fold(Sums::default(), |s, r| s.add(r.0, r.1));
        let all = sum(&rows);
        let merged = sum(&rows[..20]).merge(sum(&rows[20..]));
        let retracted = rows[50 - 20..].iter().fold(all, |s, r| s.remove(r.0, r.1));
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()), "{a} {b}");
        for moment in [Moment::VarianceSample, Moment::Correlation, Moment::RegressionSlope] {
            near(merged.get(moment).unwrap(), all.get(moment).unwrap());
            near(retracted.get(moment).unwrap(), sum(&rows[..30]).get(moment).unwrap());
        }
        assert_eq!(sum(&rows[..1]).get(Moment::VarianceSample), None);
        assert_eq!(sum(&rows[..1]).get(Moment::VariancePopulation), Some(0.0));
    }
}
