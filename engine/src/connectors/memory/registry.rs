//! The living tables and views by number: job graphs can carry numbers only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use thalweg_runtime::{Error, Result};

use super::table::Rows;
use super::view_rows::ViewRows;

static LIVING: LazyLock<Mutex<HashMap<u64, Registered>>> = LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
enum Registered {
    Table(Weak<Rows>),
    View(Weak<ViewRows>),
}

/// The rows behind a number.
#[derive(Debug)]
pub(super) enum Living {
    /// A table that statements change.
    Table(Arc<Rows>),
    /// A view that a job changes.
    View(Arc<ViewRows>),
}

/// A number that no other table or view has.
pub(super) fn new_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Makes a table known by its number.
pub(super) fn add_table(rows: &Arc<Rows>) {
    LIVING.lock().insert(rows.id(), Registered::Table(Arc::downgrade(rows)));
}

/// Makes a view known by its number.
pub(super) fn add_view(rows: &Arc<ViewRows>) {
    LIVING.lock().insert(rows.id(), Registered::View(Arc::downgrade(rows)));
}

/// Forgets a table or view that is dropped.
pub(super) fn remove(id: u64) {
    LIVING.lock().remove(&id);
}

impl Living {
    /// What the options `{"table": number}` name.
    pub(super) fn by_options(options: &serde_json::Value) -> Result<Living> {
        let id = options.get("table").and_then(serde_json::Value::as_u64);
        let living = id.and_then(|id| match LIVING.lock().get(&id)? {
            Registered::Table(rows) => rows.upgrade().map(Living::Table),
            Registered::View(rows) => rows.upgrade().map(Living::View),
        });
        living.ok_or_else(|| Error::user("the table has been dropped"))
    }

    /// Its number.
    pub(super) fn id(&self) -> u64 {
        match self {
            Living::Table(rows) => rows.id(),
            Living::View(rows) => rows.id(),
        }
    }

    /// The rows as they are now.
    pub(super) fn batches(&self) -> Arc<Vec<RecordBatch>> {
        match self {
            Living::Table(rows) => rows.batches(),
            Living::View(rows) => rows.batches(),
        }
    }
}
