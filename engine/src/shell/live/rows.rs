//! The rows of a result that goes on changing, as a person looks at them: from changes to the rows that are shown.
//!
//! A row keeps its place as long as it is there: what comes for its key takes its place. Invariant: at most
//! [`ROWS_MAX`] rows are kept, the newest; of those that had to go the number is known, and a change of one of them is
//! as one of a row that was never there.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{AsArray, RecordBatch, UInt64Array};
use arrow::compute::{
    SortColumn, SortOptions, interleave_record_batch, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::Result;
use crate::session::Changing;

/// Rows that are kept at most.
const ROWS_MAX: usize = 1_000;

/// See the module.
pub(super) struct LiveRows {
    /// Positions of the columns, without the first one, that tell rows apart; without them all do.
    key: Option<Vec<usize>>,
    /// The columns by which rows are ordered that are shown.
    order: Vec<(usize, SortOptions)>,
    /// The rows in the order in which they came: the text of the key, a batch and the place in it.
    rows: BTreeMap<u64, (String, RecordBatch, usize)>,
    /// The rows of a key; of equal rows the last one goes first.
    places: HashMap<String, Vec<u64>>,
    next: u64,
    /// Changes so far.
    changes: u64,
    /// Rows that are there and not kept.
    beyond: u64,
}

impl LiveRows {
    /// No rows yet, of such a result.
    pub(super) fn new(Changing { key, order }: Changing) -> Self {
        LiveRows {
            key,
            order,
            rows: BTreeMap::new(),
            places: HashMap::new(),
            next: 0,
            changes: 0,
            beyond: 0,
        }
    }

    /// Takes changes in: what becomes of a row, and its columns.
    pub(super) fn apply(&mut self, changes: &RecordBatch) -> Result<()> {
        self.changes += changes.num_rows() as u64;
        let columns: Vec<usize> = (1..changes.num_columns()).collect();
        let mut rows = changes.project(&columns)?;
        let ops = changes.column(0).as_string::<i32>();
        let comes = |op: &str| op.starts_with('+');
        let mut from = 0;
        if self.key.is_none() && rows.num_rows() > ROWS_MAX && ops.iter().flatten().all(comes) {
            // Those that would go at once need no look.
            from = rows.num_rows() - ROWS_MAX;
            self.beyond += from as u64;
        }
        let kept = UInt64Array::from_iter_values(from as u64..rows.num_rows() as u64);
        rows = take_record_batch(&rows, &kept)?;
        let keys = self.keys(&rows)?;
        for (at, key) in keys.into_iter().enumerate() {
            match ops.value(from + at) {
                "-U" if self.key.is_some() => {}
                op if comes(op) => self.put(key, &rows, at),
                _ => self.remove(&key),
            }
        }
        Ok(())
    }

    /// The texts by which rows are told apart.
    fn keys(&self, rows: &RecordBatch) -> Result<Vec<String>> {
        let columns: Vec<usize> = match &self.key {
            Some(key) => key.clone(),
            None => (0..rows.num_columns()).collect(),
        };
        let options = FormatOptions::default().with_null("\u{0}");
        let formatters = columns
            .iter()
            .map(|&at| ArrayFormatter::try_new(rows.column(at).as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let text = |row: usize| {
            let cells = formatters.iter().map(|column| column.value(row).to_string());
            cells.collect::<Vec<_>>().join("\u{1f}")
        };
        Ok((0..rows.num_rows()).map(text).collect())
    }

    fn put(&mut self, key: String, rows: &RecordBatch, at: usize) {
        let places = self.places.entry(key.clone()).or_default();
        if self.key.is_some()
            && let Some(place) = places.last()
        {
            self.rows.insert(*place, (key, rows.clone(), at));
            return;
        }
        places.push(self.next);
        self.rows.insert(self.next, (key, rows.clone(), at));
        self.next += 1;
        if self.rows.len() > ROWS_MAX {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((first, (key, ..))) = self.rows.pop_first() else { return };
        self.beyond += 1;
        let Some(places) = self.places.get_mut(&key) else { return };
        places.retain(|place| *place != first);
        if places.is_empty() {
            self.places.remove(&key);
        }
    }

    fn remove(&mut self, key: &str) {
        let Some(places) = self.places.get_mut(key) else {
            self.beyond = self.beyond.saturating_sub(1);
            return;
        };
        if let Some(place) = places.pop() {
            self.rows.remove(&place);
        }
        if places.is_empty() {
            self.places.remove(key);
        }
    }

    /// The first rows in the query's order, or the last ones in the order in which they came; at most so many.
    pub(super) fn shown(&self, schema: &SchemaRef, most: usize) -> Result<RecordBatch> {
        if self.order.is_empty() {
            return self.last(schema, most);
        }
        let all = self.last(schema, ROWS_MAX)?;
        let keys = self.order.iter().map(|&(at, options)| SortColumn {
            values: all.column(at).clone(),
            options: Some(options),
        });
        let first = lexsort_to_indices(&keys.collect::<Vec<_>>(), Some(most))?;
        Ok(take_record_batch(&all, &first)?)
    }

    fn last(&self, schema: &SchemaRef, most: usize) -> Result<RecordBatch> {
        let mut rows: Vec<_> = self.rows.values().rev().take(most).collect();
        rows.reverse();
        if rows.is_empty() {
            return Ok(RecordBatch::new_empty(schema.clone()));
        }
        let batches: Vec<&RecordBatch> = rows.iter().map(|(_, batch, _)| batch).collect();
        let places: Vec<(usize, usize)> =
            rows.iter().enumerate().map(|(nth, (.., at))| (nth, *at)).collect();
        Ok(interleave_record_batch(&batches, &places)?)
    }

    /// Rows that are there now.
    pub(super) fn count(&self) -> u64 {
        self.rows.len() as u64 + self.beyond
    }

    /// Changes that came so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    fn changes(rows: &[(&str, i64, i64)]) -> RecordBatch {
        let op: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
        let k: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)));
        RecordBatch::try_from_iter([("op", op), ("k", k), ("n", n)]).unwrap()
    }

    fn live(key: Option<Vec<usize>>) -> LiveRows {
        LiveRows::new(Changing { key, order: Vec::new() })
    }

    fn shown(rows: &LiveRows, most: usize) -> Vec<(i64, i64)> {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("k"), field("n")]));
        let batch = rows.shown(&schema, most).unwrap();
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
        column(0).into_iter().zip(column(1)).collect()
    }

    #[test]
    fn what_comes_for_a_key_takes_its_place() {
        let mut rows = live(Some(vec![0]));
        rows.apply(&changes(&[("+I", 1, 10), ("+I", 2, 20)])).unwrap();
        rows.apply(&changes(&[("-U", 1, 10), ("+U", 1, 11), ("+I", 3, 30)])).unwrap();
        assert_eq!(shown(&rows, 10), [(1, 11), (2, 20), (3, 30)]);
        assert_eq!(shown(&rows, 2), [(2, 20), (3, 30)]);
        rows.apply(&changes(&[("-D", 2, 20)])).unwrap();
        assert_eq!((shown(&rows, 10), rows.count()), (vec![(1, 11), (3, 30)], 2));
        assert_eq!(rows.changes(), 6);
    }

    #[test]
    fn rows_stand_in_the_order_that_the_query_asks_for() {
        let descending = SortOptions { descending: true, nulls_first: false };
        let mut rows = LiveRows::new(Changing { key: Some(vec![0]), order: vec![(1, descending)] });
        rows.apply(&changes(&[("+I", 1, 10), ("+I", 2, 30), ("+I", 3, 20)])).unwrap();
        assert_eq!(shown(&rows, 2), [(2, 30), (3, 20)]);
        rows.apply(&changes(&[("-U", 1, 10), ("+U", 1, 40)])).unwrap();
        assert_eq!(shown(&rows, 2), [(1, 40), (2, 30)]);
    }

    #[test]
    fn equal_rows_without_a_key_go_one_by_one() {
        let mut rows = live(None);
        rows.apply(&changes(&[("+I", 1, 1), ("+I", 1, 1), ("+I", 2, 2), ("-D", 1, 1)])).unwrap();
        assert_eq!(shown(&rows, 10), [(1, 1), (2, 2)]);
        rows.apply(&changes(&[("-U", 2, 2), ("+U", 2, 3)])).unwrap();
        assert_eq!(shown(&rows, 10), [(1, 1), (2, 3)]);
    }

    #[test]
    fn the_newest_rows_are_kept_and_all_are_counted() {
        let mut rows = live(None);
        let many: Vec<(&str, i64, i64)> = (0..2_500).map(|n| ("+I", n, n)).collect();
        rows.apply(&changes(&many)).unwrap();
        rows.apply(&changes(&[("+I", 9_000, 0)])).unwrap();
        assert_eq!((shown(&rows, 2), rows.count()), (vec![(2_499, 2_499), (9_000, 0)], 2_501));
        let mut keyed = live(Some(vec![0]));
        keyed.apply(&changes(&many)).unwrap();
        assert_eq!((shown(&keyed, 1), keyed.count()), (vec![(2_499, 2_499)], 2_500));
        keyed.apply(&changes(&[("-D", 3, 3)])).unwrap();
        assert_eq!(keyed.count(), 2_499);
    }
}
