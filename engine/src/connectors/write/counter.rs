//! How many rows a sink has made visible, for whoever started it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// Living counters by number; graphs can carry numbers only.
static COUNTERS: LazyLock<Mutex<HashMap<u64, Weak<AtomicU64>>>> = LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Rows written by all subtasks of a sink. Put [`RowCounter::id`] into the sink's options under `"counter"`.
#[derive(Debug, Clone)]
pub struct RowCounter {
    id: u64,
    rows: Arc<AtomicU64>,
}

impl RowCounter {
    /// A counter at 0.
    pub fn new() -> Self {
        let counter =
            RowCounter { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), rows: Arc::default() };
        let mut counters = COUNTERS.lock();
        counters.retain(|_, rows| rows.strong_count() > 0);
        counters.insert(counter.id, Arc::downgrade(&counter.rows));
        counter
    }

    /// The counter that a sink's options name; one that nobody reads if they name none.
    pub fn by_options(options: &serde_json::Value) -> Self {
        let id = options.get("counter").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let rows = COUNTERS.lock().get(&id).and_then(Weak::upgrade).unwrap_or_default();
        RowCounter { id, rows }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Rows that became visible so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Counts rows.
    pub(crate) fn add(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Default for RowCounter {
    fn default() -> Self {
        RowCounter::new()
    }
}
