//! Rows by partition, with a time beside each.

use arrow::array::ArrayRef;
use arrow_schema::DataType;

use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::window::WindowSpec;
use crate::rows::{NO_ROW, RowId, unpack, unpacked_type};
use crate::state::{Compacted, PairCursor, RowChanges, RowMultiset, RowMultisetOptions};

/// The number beside a row that is its time.
const TIME: usize = 0;
/// The number beside a row that its owner has.
const MARK: usize = 1;

/// See the module.
pub(super) struct KeyedRows {
    keys: Vec<CompiledExpr>,
    /// The number of the input's columns, which are the first fields.
    columns: usize,
    key_fields: Vec<usize>,
    key_types: Vec<DataType>,
    rows: RowMultiset,
    changes: RowChanges,
}

impl KeyedRows {
    /// Compiles the partition keys.
    pub(super) fn new(
        window: &WindowSpec,
        reservation: &Reservation,
        job: &JobContext,
    ) -> Result<Self> {
        let schema = positional_schema(&window.input);
        let keys = compile_all(&window.partition_by, &schema, &job.functions)?;
        let mut fields: Vec<DataType> = window.input.iter().map(unpacked_type).collect();
        let mut key_fields = Vec::new();
        for key in &keys {
            key_fields.push(key.as_column().unwrap_or(fields.len()));
            if key.as_column().is_none() {
                fields.push(unpacked_type(key.data_type()));
            }
        }
        let options = RowMultisetOptions {
            types: &fields,
            keys: &key_fields,
            withdrawn: false,
            forgetful: false,
            slots: 2,
            operator: "EventTimeWindow",
        };
        Ok(KeyedRows {
            keys,
            columns: window.input.len(),
            key_types: key_fields.iter().map(|&field| fields[field].clone()).collect(),
            rows: RowMultiset::new(&options, reservation)?,
            changes: RowChanges::default(),
            key_fields,
        })
    }

    /// Adds the rows of a compact batch with their times; gives the id and the partition of each.
    pub(super) fn add(
        &mut self,
        batch: &Batch,
        times: impl Iterator<Item = i64>,
    ) -> Result<(&[RowId], &[RowId])> {
        let mut fields = batch.columns().iter().map(unpack).collect::<Result<Vec<ArrayRef>>>()?;
        for key in self.keys.iter().filter(|key| key.as_column().is_none()) {
            fields.push(unpack(&key.evaluate(batch)?)?);
        }
        self.rows.apply(&fields, batch.num_rows(), None, &mut self.changes)?;
        for (&id, time) in self.changes.ids.iter().zip(times) {
            self.rows.set_number(id, TIME, time);
        }
        Ok((&self.changes.ids, &self.changes.keys))
    }

    /// Appends the rows of a partition in the order of their coming.
    pub(super) fn list(&self, partition: RowId, ids: &mut Vec<RowId>) {
        let mut cursor = PairCursor::default();
        self.rows.pairs(&[partition], &mut cursor, usize::MAX, &mut Vec::new(), ids);
    }

    /// The partition of each row of keys; [`NO_ROW`] where there is none.
    pub(super) fn find(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<RowId>> {
        let mut found = Vec::new();
        self.rows.find_keys(keys, rows, &mut found)?;
        Ok(found)
    }

    /// Appends all rows.
    pub(super) fn list_all(&self, ids: &mut Vec<RowId>) {
        self.rows.scan(0, usize::MAX, ids);
    }

    /// The input's columns of rows.
    pub(super) fn gather(&self, ids: &[RowId]) -> Result<Batch> {
        Ok(Batch::new(self.rows.store().gather_all(0..self.columns, ids)?, ids.len()))
    }

    /// The types of the partition keys.
    pub(super) fn key_types(&self) -> &[DataType] {
        &self.key_types
    }

    /// The partition keys of rows.
    pub(super) fn gather_keys(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.key_fields.iter().map(|&field| self.rows.store().gather(field, ids)).collect()
    }

    /// The time of a row.
    pub(super) fn time(&self, id: RowId) -> i64 {
        self.rows.number(id, TIME)
    }

    /// Whether a row is marked.
    pub(super) fn is_marked(&self, id: RowId) -> bool {
        self.rows.number(id, MARK) != 0
    }

    /// Marks a row.
    pub(super) fn mark(&mut self, id: RowId) {
        self.rows.set_number(id, MARK, 1);
    }

    /// The partition of a row; none of a forgotten one.
    pub(super) fn partition(&self, id: RowId) -> RowId {
        self.rows.key_of(id)
    }

    /// How many rows there are, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.rows.memory_bytes())
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets rows; all ids may be others afterwards.
    pub(super) fn remove(&mut self, ids: &[RowId]) -> Result<Compacted> {
        self.rows.remove(ids);
        self.rows.compact()
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.rows.snapshot(out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.rows.restore(bytes)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

/// Each partition once, in order, without those of rows that are forgotten.
pub(super) fn distinct(mut partitions: Vec<RowId>) -> Vec<RowId> {
    partitions.sort_unstable();
    partitions.dedup();
    partitions.retain(|&partition| partition != NO_ROW);
    partitions
}
