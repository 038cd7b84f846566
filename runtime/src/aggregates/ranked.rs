//! PERCENTILE_CONT, PERCENTILE_DISC, MODE and approximate percentiles: results that depend on the order of a group's values.
//!
//! All share one state, the values with how often each occurs; a result is read from them in their order. Rows can so
//! be taken out again, and partial states merge. For approximate percentiles a value counts as the middle of its
//! bucket, so that as many are kept as there are buckets. Invariant: NULLs count for nothing; results are those of the
//! values kept, whatever order they came in.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt32Array};
use arrow::compute::{cast, filter, take};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::ScalarValue;

use super::arguments::take_all;
use super::groups::{Groups, nulls_of};
use super::multiset::{Keep, Multiset};
use super::state::{AggregateState, Output, Restored};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::{PageStates, RowId, SortColumn, SortKeyEncoder, StateSlot, StatesMut};

/// A double that can be compared as plain data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits(u64);

impl Bits {
    fn of(value: f64) -> Self {
        Bits(value.to_bits())
    }

    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// What is wanted of the values in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Interpolated between the two values next to this share of the way through them.
    Continuous(Bits),
    /// The first value at or after this share of them, counted from the greatest if `descending`.
    Discrete {
        /// The share.
        share: Bits,
        /// The order of the values.
        descending: bool,
    },
    /// The value at this share of the way, rounded down.
    Nearest(Bits),
    /// The value that occurs most often; of several the least, or the greatest if `descending`.
    Mode {
        /// The order of the values.
        descending: bool,
    },
    /// NULL: the share is.
    Unknown,
}

/// The functions that share the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankedFunction {
    Continuous,
    Discrete,
    Approximate,
    Mode,
}

impl RankedFunction {
    /// The function of a registered name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "percentile_cont" => RankedFunction::Continuous,
            "percentile_disc" => RankedFunction::Discrete,
            "approx_percentile" => RankedFunction::Approximate,
            "mode" => RankedFunction::Mode,
            _ => return None,
        })
    }

    /// What a call with these constant arguments wants, and the relative error that it allows.
    ///
    /// # Errors
    /// A user error for a share or an error that is no constant, or out of range.
    pub(crate) fn wanted(
        self,
        constants: &[Option<ScalarValue>],
        descending: bool,
    ) -> Result<(Rank, Option<Bits>)> {
        if self == RankedFunction::Mode {
            return Ok((Rank::Mode { descending }, None));
        }
        let error = match self {
            RankedFunction::Approximate => Some(relative_error(constants.get(2))?),
            RankedFunction::Continuous | RankedFunction::Discrete | RankedFunction::Mode => None,
        };
        let Some(share) = constant(constants.get(1), "the fraction of a percentile")? else {
            return Ok((Rank::Unknown, error));
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(user(
                format!("the fraction of a percentile is {share}, not between 0 and 1"),
                "0.5 is the median, 0.99 what all but a hundredth of the values are below.",
            ));
        }
        let ascending = Bits::of(if descending { 1.0 - share } else { share });
        let rank = match self {
            RankedFunction::Discrete => Rank::Discrete { share: Bits::of(share), descending },
            RankedFunction::Approximate => Rank::Nearest(ascending),
            RankedFunction::Continuous | RankedFunction::Mode => Rank::Continuous(ascending),
        };
        Ok((rank, error))
    }
}

fn user(message: String, hint: &str) -> Error {
    Error::User { message, detail: None, hint: Some(hint.into()) }
}

/// A constant number; `None` is NULL.
fn constant(value: Option<&Option<ScalarValue>>, what: &str) -> Result<Option<f64>> {
    let Some(Some(value)) = value else {
        return Err(user(
            format!("{what} must be a constant"),
            "Write a number, or an expression of numbers.",
        ));
    };
    match value.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(number) => Ok(number),
        other => Err(Error::Internal(format!("{other} is no double"))),
    }
}

/// The error that an approximate percentile may have, relative to its value.
fn relative_error(value: Option<&Option<ScalarValue>>) -> Result<Bits> {
    const DEFAULT: f64 = 0.01;
    let error = match value {
        Some(_) => constant(value, "the relative error of a percentile")?.unwrap_or(DEFAULT),
        None => DEFAULT,
    };
    if error > 0.0 && error < 1.0 {
        return Ok(Bits::of(error));
    }
    Err(user(
        format!("the relative error of a percentile is {error}, not between 0 and 1"),
        "0.01 keeps the result within a hundredth of the exact value.",
    ))
}

/// The values of groups with their numbers.
pub(crate) struct Ranked {
    rows: Multiset,
    value: DataType,
    error: Option<f64>,
    positions: Vec<u32>,
    sorted: Option<Sorted>,
}

/// The distinct values of some groups, by group and in ascending order.
struct Sorted {
    groups: Vec<RowId>,
    values: ArrayRef,
    counts: Vec<u64>,
    /// Where each group's values are.
    ranges: Vec<Range<usize>>,
}

impl Ranked {
    /// No values of a type; with an error as approximate percentiles keep them. If it is `lenient`, values may be taken out
    /// that never came.
    ///
    /// # Errors
    /// `Unsupported` for types whose values cannot be found again.
    pub(crate) fn new(
        value: &DataType,
        error: Option<Bits>,
        lenient: bool,
        reservation: &Reservation,
    ) -> Result<Self> {
        Ok(Ranked {
            rows: Multiset::new(std::slice::from_ref(value), Keep::Rows, lenient, reservation)?,
            value: value.clone(),
            error: error.map(Bits::value),
            positions: Vec::new(),
            sorted: None,
        })
    }

    /// The values that are kept of rows.
    fn relevant(
        &self,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<(Vec<ArrayRef>, Vec<RowId>)> {
        let (values, ids) = match nulls_of(&args[0]) {
            None => (args[0].clone(), groups.to_ids()),
            Some(nulls) => {
                let mask = BooleanArray::new(nulls.inner().clone(), None);
                let ids = nulls.valid_indices().map(|row| groups.id(row)).collect();
                (filter(&args[0], &mask)?, ids)
            }
        };
        let values = match self.error {
            Some(error) => middles(&values, error)?,
            None => values,
        };
        Ok((vec![values], ids))
    }

    fn sorted(&mut self, groups: &[RowId]) -> Result<&Sorted> {
        let sorted = match self.sorted.take().filter(|sorted| sorted.groups == groups) {
            Some(sorted) => sorted,
            None => self.sort(groups)?,
        };
        Ok(self.sorted.insert(sorted))
    }

    fn sort(&mut self, groups: &[RowId]) -> Result<Sorted> {
        let found = self.rows.entries_of(groups, true);
        let counts = self.rows.counts(&found.ids);
        let values = self.rows.gather(&found.ids)?;
        let column = |data_type| SortColumn { data_type, descending: false, nulls_first: false };
        let columns = [column(DataType::UInt32), column(self.value.clone())];
        let keys: [ArrayRef; 2] =
            [Arc::new(UInt32Array::from(found.groups.clone())), values[0].clone()];
        let order = SortKeyEncoder::new(&columns)?.encode(&keys)?.sorted();
        let mut ranges = vec![0..0; groups.len()];
        let mut at = 0;
        while at < found.groups.len() {
            // The entries of a group lie together before and after.
            let group = found.groups[order[at] as usize];
            let same = found.groups[at..].iter().take_while(|&&other| other == group).count();
            ranges[group as usize] = at..at + same;
            at += same;
        }
        let counts = order.iter().map(|&at| counts[at as usize]).collect();
        let values = take_all(&values, &UInt32Array::from(order))?.remove(0);
        Ok(Sorted { groups: groups.to_vec(), values, counts, ranges })
    }
}

/// For each value the middle of the bucket that it falls into: buckets grow by a factor, so that no middle is further
/// from a value than the error says.
fn middles(values: &ArrayRef, error: f64) -> Result<ArrayRef> {
    let factor = (1.0 + error) / (1.0 - error);
    let values = cast(values, &DataType::Float64)?;
    let middle = |value: f64| {
        if value == 0.0 || !value.is_finite() {
            return value;
        }
        let bucket = (value.abs().ln() / factor.ln()).ceil();
        (2.0 * factor.powf(bucket) / (factor + 1.0)).copysign(value)
    };
    let middles: Float64Array = values.as_primitive::<Float64Type>().unary(middle);
    Ok(Arc::new(middles))
}

impl Sorted {
    /// The number of a group's values.
    fn total(&self, group: usize) -> u64 {
        self.counts[self.ranges[group].clone()].iter().sum()
    }

    /// The position of the value that is the `rank`-th of a group, from 0; the last where there are fewer.
    fn nth(&self, group: usize, rank: u64) -> Option<u32> {
        let range = self.ranges[group].clone();
        let mut passed = 0;
        let found = range.clone().find(|&at| {
            passed += self.counts[at];
            passed > rank
        });
        found.or_else(|| range.last()).map(|at| at as u32)
    }

    fn position(&self, group: usize, rank: Rank) -> Option<u32> {
        let total = self.total(group);
        if total == 0 {
            return None;
        }
        match rank {
            Rank::Discrete { share, descending } => {
                let before = (share.value() * total as f64).ceil().max(1.0) as u64 - 1;
                self.nth(group, if descending { total - 1 - before.min(total - 1) } else { before })
            }
            Rank::Nearest(share) => {
                self.nth(group, (share.value() * (total - 1) as f64).floor() as u64)
            }
            Rank::Mode { descending } => {
                let most = self.counts[self.ranges[group].clone()].iter().max().copied();
                let mut range = self.ranges[group].clone();
                let is_most = |at: &usize| Some(self.counts[*at]) == most;
                let at = if descending { range.rfind(is_most) } else { range.find(is_most) };
                at.map(|at| at as u32)
            }
            Rank::Continuous(_) | Rank::Unknown => None,
        }
    }

    /// The interpolated values of all groups.
    fn interpolated(&self, share: f64) -> Result<ArrayRef> {
        let values = cast(&self.values, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let between = (0..self.ranges.len()).map(|group| {
            let total = self.total(group);
            let place = share * total.checked_sub(1)? as f64;
            let low = values.value(self.nth(group, place.floor() as u64)? as usize);
            let high = values.value(self.nth(group, place.ceil() as u64)? as usize);
            // Infinities have no difference.
            Some(if low == high { low } else { low + (place - place.floor()) * (high - low) })
        });
        Ok(Arc::new(between.collect::<Float64Array>()))
    }
}

impl AggregateState for Ranked {
    fn slots(&self) -> Vec<StateSlot> {
        Vec::new()
    }

    fn bind(&mut self, _own: &[usize], _incoming: &[usize]) {}

    fn carried(&self) -> Vec<DataType> {
        vec![self.rows.list_type().clone()]
    }

    fn reserve(&mut self, groups: usize) {
        self.rows.reserve(groups);
    }

    fn update(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.sorted = None;
        let (values, ids) = self.relevant(args, groups)?;
        self.rows.insert(&ids, &values, None, &mut self.positions)
    }

    fn retract(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.sorted = None;
        let (values, ids) = self.relevant(args, groups)?;
        self.rows.remove(&ids, &values, &mut self.positions)
    }

    fn merge(&mut self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn merge_carried(
        &mut self,
        _: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        self.sorted = None;
        self.rows.insert_lists(&columns[0], groups)
    }

    fn restore_carried(&mut self, columns: &[ArrayRef], groups: &[RowId]) -> Result<Restored> {
        self.sorted = None;
        self.rows.insert_lists(&columns[0], groups)?;
        Ok(Restored::Done)
    }

    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        self.rows.reserve(ids.end as usize);
        Ok(vec![self.rows.lists(ids)?])
    }

    fn finalize(
        &mut self,
        _states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let rank = match output {
            Output::Rank(rank) => rank,
            Output::Only | Output::Count | Output::Sum | Output::Average | Output::Moment(_) => {
                return Err(Error::Internal("values without a rank".into()));
            }
        };
        if rank == Rank::Unknown {
            return Ok(arrow::array::new_null_array(result, ids.len()));
        }
        let sorted = self.sorted(ids)?;
        if let Rank::Continuous(share) = rank {
            return sorted.interpolated(share.value());
        }
        let positions: UInt32Array =
            (0..ids.len()).map(|group| sorted.position(group, rank)).collect();
        Ok(take(&sorted.values, &positions, None)?)
    }

    fn finish(&mut self) {}

    fn clear(&mut self) -> Result<()> {
        self.sorted = None;
        self.rows.clear();
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        let sorted = self.sorted.as_ref().map_or(0, |sorted| {
            sorted.values.get_array_memory_size() + sorted.counts.len() * size_of::<u64>()
        });
        self.rows.memory_bytes() + sorted
    }

    fn reserved_bytes(&self) -> usize {
        self.rows.reserved_bytes()
    }
}
