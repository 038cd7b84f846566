//! The changes of a table since somebody subscribed to it.
//!
//! A table counts its changes; each subscription gets the same ones in the same order and keeps them until its readers
//! are past them. Invariant: readers see no change beyond the subscription's limit, so that all readers of a job are at
//! the same place when a barrier cuts it, whenever each of them looks. Without subscriptions nothing is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thalweg_runtime::{Error, Result};

static SUBSCRIPTIONS: LazyLock<Mutex<HashMap<u64, Weak<Subscription>>>> =
    LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The rows that one statement, or one commit of a view, took away and brought. Those that it took away come first.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Rows that are no longer there.
    pub(super) deleted: Vec<RecordBatch>,
    /// Rows that were not there before.
    pub(super) inserted: Vec<RecordBatch>,
    /// How far event time has come behind it, in microseconds, where it goes on; no later row is before that.
    pub(super) watermark_us: Option<i64>,
}

impl Change {
    fn is_empty(&self) -> bool {
        let none = |batches: &[RecordBatch]| batches.iter().all(|batch| batch.num_rows() == 0);
        none(&self.deleted) && none(&self.inserted) && self.watermark_us.is_none()
    }
}

/// Those who follow a table, and how many changes it has had. Guarded by the lock of the table's rows.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    version: u64,
    subscriptions: Vec<Weak<Subscription>>,
}

impl ChangeLog {
    /// Whether anybody wants to know of changes.
    pub(super) fn is_followed(&mut self) -> bool {
        self.subscriptions.retain(|subscription| subscription.strong_count() > 0);
        !self.subscriptions.is_empty()
    }

    /// Tells a change to all who follow.
    pub(super) fn record(&mut self, change: Change) {
        if change.is_empty() || !self.is_followed() {
            return;
        }
        self.version += 1;
        let change = Arc::new(change);
        let living = self.subscriptions.iter().filter_map(Weak::upgrade);
        living.for_each(|subscription| subscription.push(&change));
    }

    /// Everything from now on; `rows` are those that the table has now, and how far event time has come.
    pub(super) fn subscribe(
        &mut self,
        table: u64,
        schema: &SchemaRef,
        rows: (Arc<Vec<RecordBatch>>, Option<i64>),
    ) -> Arc<Subscription> {
        let (rows, watermark_us) = rows;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let subscription = Arc::new(Subscription {
            id,
            table,
            schema: schema.clone(),
            start: self.version,
            watermark_us,
            limit: AtomicU64::new(self.version),
            kept: Mutex::new(Kept {
                rows: Some(rows),
                past: self.version,
                changes: VecDeque::new(),
            }),
        });
        SUBSCRIPTIONS.lock().insert(id, Arc::downgrade(&subscription));
        self.subscriptions.push(Arc::downgrade(&subscription));
        subscription
    }
}

/// What one job has still to see of a table.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: u64,
    table: u64,
    schema: SchemaRef,
    /// The version of the rows it began with.
    start: u64,
    /// How far event time had come then.
    watermark_us: Option<i64>,
    /// The version up to which readers may go.
    limit: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// The rows it began with, until they have been read.
    rows: Option<Arc<Vec<RecordBatch>>>,
    /// The version before the first change that is kept.
    past: u64,
    changes: VecDeque<Arc<Change>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        SUBSCRIPTIONS.lock().remove(&self.id);
    }
}

impl Subscription {
    /// The subscription that the options `{"follow": number}` name; `None` if they name none.
    pub(super) fn by_options(options: &serde_json::Value) -> Option<Result<Arc<Subscription>>> {
        let id = options.get("follow")?.as_u64()?;
        let found = SUBSCRIPTIONS.lock().get(&id).and_then(Weak::upgrade);
        Some(found.ok_or_else(|| Error::Internal("a subscription has been given up".into())))
    }

    /// Its number.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The number of the table that it follows.
    pub(crate) fn table(&self) -> u64 {
        self.table
    }

    /// The table's columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The version that it began with.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// How far event time had come when it began, in microseconds.
    pub(super) fn watermark_us(&self) -> Option<i64> {
        self.watermark_us
    }

    /// The version that the table has now.
    pub(crate) fn latest(&self) -> u64 {
        let kept = self.kept.lock();
        kept.past + kept.changes.len() as u64
    }

    /// The version up to which readers may go.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Lets readers go on to a version; they never go back.
    pub(crate) fn advance_to(&self, version: u64) {
        self.limit.fetch_max(version.min(self.latest()), Ordering::AcqRel);
    }

    /// Forgets what lies before the limit: all readers are there.
    pub(crate) fn let_go(&self) {
        let limit = self.limit();
        let mut kept = self.kept.lock();
        kept.rows = None;
        while kept.past < limit && kept.changes.pop_front().is_some() {
            kept.past += 1;
        }
    }

    /// The rows that it began with. Those who come after they were let go see none.
    pub(super) fn rows(&self) -> Arc<Vec<RecordBatch>> {
        self.kept.lock().rows.clone().unwrap_or_default()
    }

    /// The change that follows a version, if it lies within the limit.
    pub(super) fn after(&self, version: u64) -> Option<Arc<Change>> {
        if version >= self.limit() {
            return None;
        }
        let kept = self.kept.lock();
        kept.changes.get(version.checked_sub(kept.past)? as usize).cloned()
    }

    fn push(&self, change: &Arc<Change>) {
        self.kept.lock().changes.push_back(change.clone());
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows(count: usize) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let column = Arc::new(Int64Array::from(vec![1; count]));
        RecordBatch::try_new(schema, vec![column]).unwrap()
    }

    fn inserted(count: usize) -> Change {
        Change { inserted: vec![rows(count)], ..Change::default() }
    }

    #[test]
    fn readers_see_changes_up_to_the_limit() {
        let mut log = ChangeLog::default();
        log.record(inserted(1));
        let first = log.subscribe(7, &rows(0).schema(), (Arc::new(vec![rows(1)]), None));
        log.record(inserted(2));
        let second = log.subscribe(7, &rows(0).schema(), (Arc::new(vec![rows(3)]), None));
        log.record(inserted(3));
        log.record(inserted(0));
        assert_eq!(first.latest(), second.latest(), "both count the table's changes");
        assert!(first.after(first.start()).is_none());
        first.advance_to(first.latest());
        let next = |at| first.after(at).map(|change| change.inserted[0].num_rows());
        let start = first.start();
        assert_eq!([next(start), next(start + 1), next(start + 2)], [Some(2), Some(3), None]);
        first.let_go();
        assert!(first.rows().is_empty() && first.kept.lock().changes.is_empty());
        second.advance_to(second.latest());
        assert_eq!(second.after(second.start()).unwrap().inserted[0].num_rows(), 3);
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let mut log = ChangeLog::default();
        let subscription = log.subscribe(7, &rows(0).schema(), Default::default());
        let id = subscription.id();
        assert!(log.is_followed());
        drop(subscription);
        assert!(!log.is_followed());
        let options = serde_json::json!({ "follow": id });
        assert!(Subscription::by_options(&options).unwrap().is_err());
        assert!(Subscription::by_options(&serde_json::json!({ "table": 1 })).is_none());
    }
}
