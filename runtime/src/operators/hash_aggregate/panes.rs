//! Groups that are complete before the input ends: those whose closing key is behind the watermark.
//!
//! One key of the grouping never falls below a bound that follows from the watermark. The groups of each of its values
//! are a table of their own, a pane, so that a pane's results leave and its memory goes without a look at any other.
//! Rows of a pane that has left are late: they are counted and dropped. A NULL key is in a pane that stays to the end.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, UInt32Array, new_null_array,
};
use arrow::compute::{cast, take};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::HashAggregateSpec;
use super::shape::Shape;
use super::slices::SlicesSpec;
use super::table::AggregateTable;
use crate::batch::Batch;
use crate::element::Watermark;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, Expr, compile, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::time_bound::{TimeBound, times};
use crate::rows::{Pages, take_array};

/// Runs of equal keys up to which a batch is cut into slices; with more its rows are gathered by pane.
const RUNS_SLICED_MAX: usize = 8;

/// Which key closes groups, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosingSpec {
    /// The key, by its position: a timestamp, date or integer.
    pub key: usize,
    /// What no later value of the key is below, over the watermark as the only column.
    pub bound: Expr,
    /// The type of the watermark there: a timestamp.
    pub watermark_type: DataType,
    /// Whether values of the key are slices of windows, and of which.
    pub slices: Option<SlicesSpec>,
}

/// The key that closes groups. It is the same in all rows of a table, and no key there where tables need not be asked.
pub(super) struct ClosingKey {
    position: usize,
    data_type: DataType,
    value: CompiledExpr,
    /// Whether it is a key of the tables, too.
    in_tables: bool,
}

impl ClosingKey {
    /// The closing key of a grouping.
    pub(super) fn new(
        spec: &HashAggregateSpec,
        closing: &ClosingSpec,
        job: &JobContext,
    ) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        Ok(ClosingKey {
            position: closing.key,
            data_type: spec.key_types[closing.key].clone(),
            value: compile(&spec.keys[closing.key], &schema, &job.functions)?,
            in_tables: of_tables(spec).is_none(),
        })
    }

    /// The values of a compact batch.
    pub(super) fn values(&self, batch: &Batch) -> Result<Int64Array> {
        times(&self.value.evaluate(batch)?)
    }

    /// Completes rows of results from the table of a value.
    pub(super) fn add_to(
        &self,
        columns: &mut Vec<ArrayRef>,
        value: Option<i64>,
        rows: usize,
    ) -> Result<()> {
        if self.in_tables {
            return Ok(());
        }
        let Some(value) = value else {
            columns.insert(self.position, new_null_array(&self.data_type, rows));
            return Ok(());
        };
        let numbers: ArrayRef = Arc::new(Int64Array::from_value(value, rows));
        let typed = match &self.data_type {
            DataType::Int64 => numbers,
            DataType::Date32 => cast(&cast(&numbers, &DataType::Int32)?, &DataType::Date32)?,
            other => cast(&numbers, other)?,
        };
        columns.insert(self.position, typed);
        Ok(())
    }
}

/// The specification of tables that are without the closing key. Groups that may lose all their rows keep it, so that
/// none stands without any row because it has no key.
pub(super) fn of_tables(spec: &HashAggregateSpec) -> Option<HashAggregateSpec> {
    let key = spec.emission.closing().filter(|_| !spec.withdrawn)?.key;
    let mut spec = spec.clone();
    spec.keys.remove(key);
    spec.key_types.remove(key);
    Some(spec)
}

/// A table with the value of the closing key in it.
pub(super) type Pane = (Option<i64>, AggregateTable);

/// See the module.
pub(super) struct Panes {
    key: ClosingKey,
    bound: TimeBound,
    open: BTreeMap<Option<i64>, AggregateTable>,
    /// Panes below it have left.
    closed_below: i64,
}

impl Panes {
    /// No pane yet.
    pub(super) fn new(key: ClosingKey, bound: TimeBound) -> Self {
        Panes { key, bound, open: BTreeMap::new(), closed_below: i64::MIN }
    }

    /// The key that closes groups.
    pub(super) fn key(&self) -> &ClosingKey {
        &self.key
    }

    /// Takes the rows of a compact batch in, and then those out that `deletes` tells: one column for each key of the
    /// tables, and the arguments. Gives those that are late, withdrawn or not.
    pub(super) fn update(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        batch: &Batch,
        columns: [&[ArrayRef]; 2],
        deletes: Option<&BooleanArray>,
    ) -> Result<Vec<Batch>> {
        let closing = self.key.values(batch)?;
        let rows = batch.num_rows();
        let mut late = Vec::new();
        for part in parts(&closing) {
            let Some(table) = self.table(part.pane, shape, reservation)? else {
                late.push(part.rows.of_batch(batch)?);
                continue;
            };
            let [keys, arguments] = [part.rows.of(columns[0])?, part.rows.of(columns[1])?];
            let Some(deletes) = deletes else {
                table.update(&keys, &arguments, part.rows.len(rows))?;
                continue;
            };
            let deletes = part.rows.of(&[Arc::new(deletes.clone())])?;
            table.change(&keys, &arguments, deletes[0].as_boolean())?;
        }
        Ok(late)
    }

    /// Merges the partial results of a pane. Gives the number of rows in them that are late.
    pub(super) fn merge(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        pages: Pages,
    ) -> Result<u64> {
        let pane = pages.pane().ok_or_else(|| Error::Internal("pages of no pane".into()))?;
        match self.table(pane.key, shape, reservation)? {
            Some(table) => table.merge(pages.into_pages()?).map(|()| 0),
            None => Ok(pane.rows),
        }
    }

    /// The table of a pane; none if it has left.
    fn table(
        &mut self,
        pane: Option<i64>,
        shape: &Arc<Shape>,
        reservation: &Reservation,
    ) -> Result<Option<&mut AggregateTable>> {
        if pane.is_some_and(|pane| pane < self.closed_below) {
            return Ok(None);
        }
        Ok(Some(match self.open.entry(pane) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(AggregateTable::new(shape, reservation)?)
            }
        }))
    }

    /// Groups in all panes.
    pub(super) fn groups(&self) -> usize {
        self.open.values().map(AggregateTable::len).sum()
    }

    /// The panes that are complete at a watermark, in the order of their keys.
    pub(super) fn close(&mut self, watermark: Watermark) -> Result<Vec<Pane>> {
        let bound = self.bound.at(watermark)?;
        if bound <= self.closed_below {
            return Ok(Vec::new());
        }
        self.closed_below = bound;
        let closed = (Bound::Excluded(None), Bound::Excluded(Some(bound)));
        let keys: Vec<Option<i64>> = self.open.range(closed).map(|(key, _)| *key).collect();
        Ok(keys.iter().filter_map(|key| self.open.remove_entry(key)).collect())
    }

    /// All panes, as the input has ended.
    pub(super) fn close_all(&mut self) -> Vec<Pane> {
        std::mem::take(&mut self.open).into_iter().collect()
    }

    /// Appends the panes to a snapshot.
    pub(super) fn write_to(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.closed_below.to_le_bytes());
        for (key, table) in &mut self.open {
            out.push(u8::from(key.is_some()));
            out.extend_from_slice(&key.unwrap_or_default().to_le_bytes());
            table.write_to(out)?;
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(
        &mut self,
        shape: &Arc<Shape>,
        reservation: &Reservation,
        bytes: &mut &[u8],
    ) -> Result<()> {
        self.closed_below = i64::from_le_bytes(take_array(bytes)?);
        while !bytes.is_empty() {
            let known = take_array::<1>(bytes)?[0] != 0;
            let key = i64::from_le_bytes(take_array(bytes)?);
            let mut table = AggregateTable::new(shape, reservation)?;
            table.read_from(bytes)?;
            self.open.insert(known.then_some(key), table);
        }
        Ok(())
    }
}

/// The rows of one pane in a batch.
pub(super) struct Part {
    /// The value of the closing key.
    pub(super) pane: Option<i64>,
    pub(super) rows: Rows,
}

/// Some rows of a batch.
pub(super) enum Rows {
    All,
    Slice { start: usize, len: usize },
    Some(UInt32Array),
}

impl Rows {
    /// How many they are, of a batch of `all` rows.
    pub(super) fn len(&self, all: usize) -> usize {
        match self {
            Rows::All => all,
            Rows::Slice { len, .. } => *len,
            Rows::Some(rows) => rows.len(),
        }
    }

    /// These rows of the batch, with all its columns.
    pub(super) fn of_batch(&self, batch: &Batch) -> Result<Batch> {
        Ok(Batch::new(self.of(batch.columns())?, self.len(batch.num_rows())))
    }

    /// These rows of columns of the batch.
    pub(super) fn of(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        columns
            .iter()
            .map(|column| {
                Ok(match self {
                    Rows::All => column.clone(),
                    Rows::Slice { start, len } => column.slice(*start, *len),
                    Rows::Some(rows) => take(column, rows, None)?,
                })
            })
            .collect()
    }
}

/// The rows of a batch by pane. Times mostly come in order, so that a pane's rows are one slice.
pub(super) fn parts(closing: &Int64Array) -> Vec<Part> {
    parts_of(closing, RUNS_SLICED_MAX)
}

/// The rows of a batch by pane, all of a pane in one part.
pub(super) fn whole_parts(closing: &Int64Array) -> Vec<Part> {
    parts_of(closing, 1)
}

/// The rows of a batch by pane, as slices if there are so few runs.
fn parts_of(closing: &Int64Array, runs_sliced: usize) -> Vec<Part> {
    let pane = |row: usize| closing.is_valid(row).then(|| closing.value(row));
    let rows = closing.len();
    let mut runs: Vec<(Option<i64>, usize)> = Vec::new();
    for row in 0..rows {
        let pane = pane(row);
        if runs.last().is_none_or(|(last, _)| *last != pane) {
            runs.push((pane, row));
        }
    }
    if let [(pane, _)] = runs.as_slice() {
        return vec![Part { pane: *pane, rows: Rows::All }];
    }
    if runs.len() <= runs_sliced {
        let ends = runs.iter().skip(1).map(|(_, start)| *start).chain([rows]);
        let part = |((pane, start), end): (&(Option<i64>, usize), usize)| {
            let rows = Rows::Slice { start: *start, len: end - start };
            Part { pane: *pane, rows }
        };
        return runs.iter().zip(ends).map(part).collect();
    }
    let mut by_pane: BTreeMap<Option<i64>, Vec<u32>> = BTreeMap::new();
    for (index, (pane, start)) in runs.iter().enumerate() {
        let end = runs.get(index + 1).map_or(rows, |(_, next)| *next);
        by_pane.entry(*pane).or_default().extend(*start as u32..end as u32);
    }
    let part = |(pane, rows)| Part { pane, rows: Rows::Some(UInt32Array::from(rows)) };
    by_pane.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int64Type;

    use super::*;

    fn split(closing: Vec<Option<i64>>) -> Vec<(Option<i64>, Vec<i64>)> {
        let rows = closing.len();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        parts(&Int64Array::from(closing))
            .into_iter()
            .map(|part| {
                let own = part.rows.of(std::slice::from_ref(&numbers)).unwrap();
                assert_eq!(own[0].len(), part.rows.len(rows));
                (part.pane, own[0].as_primitive::<Int64Type>().values().to_vec())
            })
            .collect()
    }

    #[test]
    fn rows_are_split_by_pane() {
        assert_eq!(split(vec![Some(5); 3]), [(Some(5), vec![0, 1, 2])]);
        let got = split(vec![Some(5), Some(5), None, Some(6)]);
        assert_eq!(got, [(Some(5), vec![0, 1]), (None, vec![2]), (Some(6), vec![3])]);
        let mixed = (0..20).map(|i| Some(i % 2)).collect();
        let evens: Vec<i64> = (0..20).step_by(2).collect();
        let odds: Vec<i64> = (1..20).step_by(2).collect();
        assert_eq!(split(mixed), [(Some(0), evens), (Some(1), odds)]);
    }
}
