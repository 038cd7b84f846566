//! The changelog of a table as a table of its own, whose rows stay: what happened to each row, and the row.
//!
//! Behind the table's columns stands `changelog_op`: 1 for a row that came, 2 for one that went, 3 and 4 for the new and
//! the old form of one that was changed; and `_changelog_row_id`, if it is wanted: the number of the row, which rises
//! and begins with the time in microseconds. A row was changed when one statement took it away and brought another of
//! its key. Without a key it was when a statement, which took rows away, brought as many. Invariant: rows are told in the order in which they
//! were changed, and never taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{ArrayRef, Int16Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Constraints;
use serde_json::json;
use thalweg_optimizer::TableStatistics;
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::rows::{NO_ROW, Selected};
use thalweg_runtime::state::KeyedState;
use thalweg_runtime::{Error, Result};

use super::changes::Change;
use crate::catalog::Table;

/// The column with what happened.
const OP: &str = "changelog_op";
/// The column with the numbers.
const ROW_ID: &str = "_changelog_row_id";

const INSERTED: i16 = 1;
const DELETED: i16 = 2;
const UPDATED: i16 = 3;
const BEFORE_UPDATE: i16 = 4;

/// What happened to the rows of each batch.
type Ops = Vec<Vec<i16>>;

/// The last number of a row of any changelog.
static LAST_ID: AtomicI64 = AtomicI64::new(0);

/// How changes are told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Telling {
    /// Whether rows have numbers.
    pub(super) row_ids: bool,
    /// The columns of the key; none if nothing is known of one.
    pub(super) key: Vec<usize>,
    /// Whether rows that go and come together are taken for changed ones where there is no key.
    pub(super) pairs: bool,
}

impl Telling {
    /// As options of a source.
    fn to_json(&self) -> serde_json::Value {
        json!({ "row_ids": self.row_ids, "key": self.key, "pairs": self.pairs })
    }

    /// What the options of a source say; `None` if they say nothing of a changelog.
    pub(super) fn of_options(options: &serde_json::Value) -> Option<Telling> {
        let told = options.get("told")?;
        let key = told.get("key")?.as_array()?.iter();
        Some(Telling {
            row_ids: told.get("row_ids")?.as_bool()?,
            key: key.filter_map(|at| Some(at.as_u64()? as usize)).collect(),
            pairs: told.get("pairs")?.as_bool()?,
        })
    }

    /// The options of a source with those of the changelog.
    pub(super) fn add_to(&self, mut options: serde_json::Value) -> serde_json::Value {
        if let Some(options) = options.as_object_mut() {
            options.insert("told".to_string(), self.to_json());
        }
        options
    }

    /// The columns of a changelog over these.
    pub(super) fn schema(&self, table: &SchemaRef) -> SchemaRef {
        let mut fields: Vec<_> = table.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(OP, DataType::Int16, false)));
        if self.row_ids {
            fields.push(Arc::new(Field::new(ROW_ID, DataType::Int64, false)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Rows that were there from the beginning, as ones that came.
    pub(super) fn present(&self, rows: &[RecordBatch], now_us: i64) -> Result<Vec<RecordBatch>> {
        rows.iter()
            .map(|batch| self.told(batch, &vec![INSERTED; batch.num_rows()], now_us))
            .collect()
    }

    /// A change, told row by row.
    pub(super) fn tell(&self, change: &Change, now_us: i64) -> Result<Vec<RecordBatch>> {
        let Change { deleted, inserted, .. } = change;
        let (went, came) = match self.key.is_empty() {
            true => self.ops_without_key(deleted, inserted),
            false => self.ops_by_key(deleted, inserted)?,
        };
        let batches = deleted.iter().chain(inserted).zip(went.iter().chain(&came));
        batches.map(|(batch, ops)| self.told(batch, ops, now_us)).collect()
    }

    fn ops_without_key(&self, deleted: &[RecordBatch], inserted: &[RecordBatch]) -> (Ops, Ops) {
        let rows =
            |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        let changed = self.pairs && rows(deleted) == rows(inserted);
        let (went, came) = if changed { (BEFORE_UPDATE, UPDATED) } else { (DELETED, INSERTED) };
        let ops = |batches: &[RecordBatch], op| {
            batches.iter().map(|batch| vec![op; batch.num_rows()]).collect()
        };
        (ops(deleted, went), ops(inserted, came))
    }

    fn ops_by_key(&self, deleted: &[RecordBatch], inserted: &[RecordBatch]) -> Result<(Ops, Ops)> {
        let keys = |batch: &RecordBatch| -> Vec<ArrayRef> {
            self.key.iter().map(|&at| batch.column(at).clone()).collect()
        };
        let Some(first) = deleted.first().or(inserted.first()) else {
            return Ok(Default::default());
        };
        let types: Vec<DataType> = keys(first).iter().map(|key| key.data_type().clone()).collect();
        let reservation = MemoryManager::unlimited().reserve("keys of changed rows");
        let mut known = KeyedState::new(&types, &[], reservation)?;
        let mut numbers = Vec::with_capacity(deleted.len());
        for batch in deleted {
            let (mut ids, mut new) = (Vec::new(), Vec::new());
            let rows = Selected::All(batch.num_rows());
            known.lookup_or_insert(&keys(batch), None, rows, &mut ids, &mut new)?;
            numbers.push(ids);
        }
        let mut again = vec![false; known.len()];
        let mut came = Vec::with_capacity(inserted.len());
        for batch in inserted {
            let mut ids = Vec::new();
            let rows = Selected::All(batch.num_rows());
            known.lookup(&keys(batch), None, rows, &mut ids)?;
            let op = |id: &u32| match again.get_mut(*id as usize).filter(|_| *id != NO_ROW) {
                Some(again) => {
                    *again = true;
                    UPDATED
                }
                None => INSERTED,
            };
            came.push(ids.iter().map(op).collect());
        }
        let op = |id: &u32| if again[*id as usize] { BEFORE_UPDATE } else { DELETED };
        let went = numbers.iter().map(|ids| ids.iter().map(op).collect()).collect();
        Ok((went, came))
    }

    fn told(&self, batch: &RecordBatch, ops: &[i16], now_us: i64) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(Int16Array::from(ops.to_vec())));
        if self.row_ids {
            let rows = batch.num_rows() as i64;
            let after = |last: i64| Some(last.max(now_us) + rows);
            let last = LAST_ID.fetch_update(Ordering::AcqRel, Ordering::Acquire, after);
            let first = last.unwrap_or_else(|last| last).max(now_us) + 1;
            columns.push(Arc::new(Int64Array::from_iter_values(first..first + rows)));
        }
        RecordBatch::try_new(self.schema(&batch.schema()), columns)
            .map_err(|error| Error::Internal(format!("a changelog of other columns: {error}")))
    }
}

/// The changelog of a table or view in memory: read by itself it tells of the rows that there are.
#[derive(Debug)]
pub(crate) struct ChangelogTable {
    followed: Arc<dyn Table>,
    telling: Telling,
}

impl ChangelogTable {
    /// The changelog of a table whose key is in these columns; `pairs` as in [`Telling`].
    pub(crate) fn new(
        followed: Arc<dyn Table>,
        row_ids: bool,
        key: Vec<usize>,
        pairs: bool,
    ) -> Self {
        ChangelogTable { followed, telling: Telling { row_ids, key, pairs } }
    }

    /// The table whose changes are told.
    pub(crate) fn followed(&self) -> &Arc<dyn Table> {
        &self.followed
    }

    /// How they are told.
    pub(crate) fn telling(&self) -> &Telling {
        &self.telling
    }
}

impl Table for ChangelogTable {
    fn schema(&self) -> SchemaRef {
        self.telling.schema(&self.followed.schema())
    }

    fn connector(&self) -> &str {
        super::CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        self.telling.add_to(self.followed.options())
    }

    fn can_be_followed(&self) -> bool {
        true
    }

    fn statistics(&self) -> TableStatistics {
        TableStatistics { columns: Vec::new(), ..self.followed.statistics() }
    }

    fn constraints(&self) -> Option<&Constraints> {
        None
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Int16Type, Int64Type};

    use super::*;

    fn rows(values: &[(i64, i64)]) -> RecordBatch {
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("k"), field("v")]));
        let column = |part: fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(values.iter().map(part)))
        };
        RecordBatch::try_new(schema, vec![column(|r| r.0), column(|r| r.1)]).unwrap()
    }

    fn ops(telling: &Telling, deleted: &[(i64, i64)], inserted: &[(i64, i64)]) -> Vec<i16> {
        let (deleted, inserted) = (vec![rows(deleted)], vec![rows(inserted)]);
        let change = Change { deleted, inserted, watermark_us: None };
        let told = telling.tell(&change, 5).unwrap();
        let ops =
            |batch: &RecordBatch| batch.column(2).as_primitive::<Int16Type>().values().to_vec();
        told.iter().flat_map(ops).collect()
    }

    #[test]
    fn rows_of_one_key_that_go_and_come_are_changed() {
        let by_key = Telling { row_ids: false, key: vec![0], pairs: true };
        assert_eq!(ops(&by_key, &[(1, 1), (2, 2)], &[(1, 9), (3, 3)]), [4, 2, 3, 1]);
        let pairs = Telling { key: Vec::new(), ..by_key.clone() };
        assert_eq!(ops(&pairs, &[(1, 1)], &[(7, 9)]), [4, 3]);
        assert_eq!(ops(&pairs, &[(1, 1), (2, 2)], &[(7, 9)]), [2, 2, 1]);
        let apart = Telling { pairs: false, ..pairs };
        assert_eq!(ops(&apart, &[(1, 1)], &[(7, 9)]), [2, 1]);
    }

    #[test]
    fn numbers_rise_from_the_time_on() {
        let telling = Telling { row_ids: true, key: Vec::new(), pairs: false };
        let first = telling.present(&[rows(&[(1, 1), (2, 2)])], 1_000_000).unwrap();
        let then = telling.present(&[rows(&[(3, 3)])], 5).unwrap();
        let ids =
            |batch: &RecordBatch| batch.column(3).as_primitive::<Int64Type>().values().to_vec();
        let (first, then) = (ids(&first[0]), ids(&then[0]));
        assert!(first[0] > 1_000_000 && first[0] < first[1] && first[1] < then[0]);
    }

    #[test]
    fn options_say_how_it_is_told() {
        let telling = Telling { row_ids: true, key: vec![1], pairs: false };
        let options = telling.add_to(json!({ "table": 3 }));
        assert_eq!(Telling::of_options(&options), Some(telling));
        assert_eq!(Telling::of_options(&json!({ "table": 3 })), None);
    }
}
