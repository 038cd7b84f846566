//! Tables in memory that statements change.
//!
//! Batches are immutable; INSERT appends, UPDATE and DELETE replace the list, and those who follow the table are told
//! which rows went and came. Dropping the table frees its rows. A table that was told its budget is a holder there by its
//! name. Declared keys hold: rows that would break one are refused.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use parking_lot::{Mutex, RwLock};
use thalweg_optimizer::TableStatistics;
use thalweg_runtime::Result;
use thalweg_runtime::memory::{MemoryManager, Reservation};

use super::changes::{Change, ChangeLog, Subscription};
use super::difference::{difference, folded};
use super::statistics::measure;
use super::times::RowTimes;
use super::upsert::{OnKey, Upserted, Upserts};
use super::{CONNECTOR, registry};
use crate::catalog::Table;
use crate::connectors::compact::held_bytes;
use crate::connectors::keys::Keys;

/// The rows of a table; readers and writers hold it while they run.
#[derive(Debug)]
pub(super) struct Rows {
    id: u64,
    schema: SchemaRef,
    now: RwLock<Now>,
    statistics: Mutex<Option<TableStatistics>>,
    charge: Mutex<Option<Reservation>>,
    keys: Mutex<Option<Keys>>,
}

/// The rows as they are, and those who follow their changes.
#[derive(Debug)]
struct Now {
    batches: Arc<Vec<RecordBatch>>,
    log: ChangeLog,
    /// Event time, where the table declares one.
    times: Option<RowTimes>,
}

impl Now {
    /// Takes note of the times of rows that come; gives how far event time has come, where it goes on.
    fn observe(&mut self, rows: &[RecordBatch]) -> Result<Option<i64>> {
        match &mut self.times {
            Some(times) => times.observe(rows.iter()),
            None => Ok(None),
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        registry::remove(self.id);
    }
}

/// A table whose rows are record batches in memory.
#[derive(Debug, Clone)]
pub struct MemoryTable {
    rows: Arc<Rows>,
    constraints: Option<Constraints>,
    append_only: bool,
}

impl MemoryTable {
    /// A table of these batches, which must have the columns of `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let rows = Arc::new(Rows {
            id: registry::new_id(),
            schema,
            now: RwLock::new(Now {
                batches: Arc::new(batches),
                log: ChangeLog::default(),
                times: None,
            }),
            statistics: Mutex::default(),
            charge: Mutex::default(),
            keys: Mutex::default(),
        });
        registry::add_table(&rows);
        MemoryTable { rows, constraints: None, append_only: false }
    }

    /// The table with declared keys, which its rows must not break, now and later. The table is called `name` in
    /// errors, and in the budget that is charged for the keys.
    pub fn with_keys(
        mut self,
        constraints: Constraints,
        memory: &Arc<MemoryManager>,
        name: &str,
    ) -> Result<Self> {
        if !constraints.is_empty() {
            let mut keys = Keys::new(name, &self.rows.schema, &constraints, memory)?;
            keys.add(&[], &self.batches())?;
            *self.rows.keys.lock() = Some(keys);
            self.constraints = Some(constraints);
        }
        Ok(self)
    }

    /// The table in event time: of one that is append only, rows that come too late are left out.
    pub(crate) fn in_time(self, mut times: RowTimes) -> Result<Self> {
        let mut now = self.rows.now.write();
        times.observe(now.batches.iter())?;
        now.times = Some(times);
        drop(now);
        Ok(self)
    }

    /// The table as a holder of memory under a name.
    pub fn charged_to(self, memory: &Arc<MemoryManager>, name: &str) -> Self {
        *self.rows.charge.lock() = Some(memory.reserve(format!("table {name}")));
        self.rows.settle();
        self
    }

    /// The table whose rows never go or change, if that is so. It is for those who change tables to obey.
    pub(crate) fn append_only(self, append_only: bool) -> Self {
        MemoryTable { append_only, ..self }
    }

    /// Whether rows never go or change.
    pub(crate) fn is_append_only(&self) -> bool {
        self.append_only
    }

    /// What the sink "memory" needs to append to this table.
    pub fn sink_options(&self) -> serde_json::Value {
        serde_json::json!({ "table": self.rows.id })
    }

    /// The rows as they are now.
    pub fn batches(&self) -> Arc<Vec<RecordBatch>> {
        self.rows.batches()
    }

    /// The number that plans name it by.
    pub(crate) fn id(&self) -> u64 {
        self.rows.id
    }

    /// The rows as they are now and every change from now on.
    pub(crate) fn subscribe(&self) -> Arc<Subscription> {
        self.rows.subscribe()
    }

    /// How many rows there are now.
    pub fn row_count(&self) -> usize {
        self.batches().iter().map(RecordBatch::num_rows).sum()
    }

    /// Adds batches, all at once or, when they would break a key, not at all. Gives how many rows came too late and were
    /// left out.
    pub fn append(&self, added: Vec<RecordBatch>) -> Result<usize> {
        self.rows.append(added)
    }

    /// Lets rows take the place of others by a key. Gives how many came or went.
    pub(crate) fn upsert(
        &self,
        batches: Vec<RecordBatch>,
        key: &[usize],
        on_key: OnKey,
        memory: &Arc<MemoryManager>,
    ) -> Result<u64> {
        let mut changes = Upserts::default();
        batches.into_iter().for_each(|batch| changes.push(batch, None));
        self.rows.upsert(changes, key, on_key, memory)
    }

    /// Puts other batches in the place of all rows, if these are still the rows `seen`; false when others have changed
    /// the table in the meantime. Batches that would break a key are an error, and the rows stay.
    pub fn replace_seen(
        &self,
        seen: &Arc<Vec<RecordBatch>>,
        batches: Vec<RecordBatch>,
    ) -> Result<bool> {
        self.rows.replace(Some(seen), batches)
    }

    /// Puts other batches in the place of all rows. Batches that would break a key are an error, and the rows stay.
    pub fn replace(&self, batches: Vec<RecordBatch>) -> Result<()> {
        self.rows.replace(None, batches).map(|_| ())
    }
}

impl Rows {
    /// The number that plans name it by.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows as they are now.
    pub(super) fn batches(&self) -> Arc<Vec<RecordBatch>> {
        self.now.read().batches.clone()
    }

    /// The rows as they are now and every change from now on.
    pub(super) fn subscribe(&self) -> Arc<Subscription> {
        let mut now = self.now.write();
        let rows = (now.batches.clone(), now.times.as_ref().and_then(RowTimes::reached_us));
        now.log.subscribe(self.id, &self.schema, rows)
    }

    /// Adds batches, all at once or, when they would break a key, not at all. Gives how many rows came too late and were
    /// left out.
    pub(super) fn append(&self, added: Vec<RecordBatch>) -> Result<usize> {
        let mut now = self.now.write();
        let (added, late) = match &now.times {
            Some(times) => times.in_time(added)?,
            None => (added, 0),
        };
        if let Some(keys) = self.keys.lock().as_mut() {
            keys.add(&now.batches, &added)?;
        }
        let added: Vec<_> = added.into_iter().filter(|b| b.num_rows() > 0).collect();
        let mut all = now.batches.as_ref().clone();
        all.extend(added.iter().cloned());
        let watermark_us = now.observe(&added)?;
        if let Some(times) = &now.times
            && times.forget(&mut all)?
            && let Some(keys) = self.keys.lock().as_mut()
        {
            keys.replace(all.iter())?;
        }
        now.batches = Arc::new(all);
        now.log.record(Change { deleted: Vec::new(), inserted: added, watermark_us });
        drop(now);
        self.changed();
        Ok(late)
    }

    /// Folds changes into the rows, all at once or, when they would break a key, not at all: rows that come take the place of
    /// those of their key, and rows that go are gone, by the key if there is one.
    pub(super) fn fold(
        &self,
        deleted: &[RecordBatch],
        inserted: Vec<RecordBatch>,
        key: &[usize],
    ) -> Result<()> {
        loop {
            let seen = self.batches();
            let batches = folded(&self.schema, &seen, deleted, &inserted, key)?;
            if self.replace(Some(&seen), batches)? {
                return Ok(());
            }
        }
    }

    /// Lets rows take the place of others by a key, all at once or, when that fails, not at all. Gives how many came or went.
    pub(super) fn upsert(
        &self,
        changes: Upserts,
        key: &[usize],
        on_key: OnKey,
        memory: &Arc<MemoryManager>,
    ) -> Result<u64> {
        let mut now = self.now.write();
        let Some(done) = changes.over(&now.batches, key, on_key, memory)? else { return Ok(0) };
        let Upserted { kept, deleted, inserted } = done;
        let went: usize = deleted.iter().map(RecordBatch::num_rows).sum();
        let count = went.max(inserted.num_rows()) as u64;
        let mut all: Vec<_> = kept.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        if inserted.num_rows() > 0 {
            all.push(inserted.clone());
        }
        if let Some(keys) = self.keys.lock().as_mut() {
            keys.replace(all.iter())?;
        }
        let watermark_us = now.observe(std::slice::from_ref(&inserted))?;
        now.batches = Arc::new(all);
        now.log.record(Change { deleted, inserted: vec![inserted], watermark_us });
        drop(now);
        self.changed();
        Ok(count)
    }

    /// False, and nothing is done, when the rows are no longer those that were `seen`.
    fn replace(
        &self,
        seen: Option<&Arc<Vec<RecordBatch>>>,
        batches: Vec<RecordBatch>,
    ) -> Result<bool> {
        let mut now = self.now.write();
        if seen.is_some_and(|seen| !Arc::ptr_eq(&now.batches, seen)) {
            return Ok(false);
        }
        let change = match now.log.is_followed() {
            true => difference(&self.schema, &now.batches, &batches)?,
            false => Change::default(),
        };
        if let Some(keys) = self.keys.lock().as_mut() {
            keys.replace(batches.iter())?;
        }
        let watermark_us = now.observe(&batches)?;
        now.batches = Arc::new(batches);
        now.log.record(Change { watermark_us, ..change });
        drop(now);
        self.changed();
        Ok(true)
    }

    fn changed(&self) {
        *self.statistics.lock() = None;
        self.settle();
    }

    /// Charges for the rows that there are. They were charged to the statement that brought them; should others have
    /// taken that memory just now, the meter of the heap still counts them.
    fn settle(&self) {
        if let Some(charge) = self.charge.lock().as_mut() {
            let _ = charge.try_resize(held_bytes(&self.batches()));
        }
    }
}

impl Table for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> serde_json::Value {
        self.sink_options()
    }

    fn can_be_followed(&self) -> bool {
        true
    }

    fn statistics(&self) -> TableStatistics {
        let mut statistics = self.rows.statistics.lock();
        statistics.get_or_insert_with(|| measure(&self.rows.schema, &self.batches())).clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }
}
