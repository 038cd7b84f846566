//! Runtime filters: what a finished build side knows about the keys that can match.
//!
//! A filter is published once, complete: a scan that finds it may drop rows and whole row groups, a scan that
//! does not find it reads everything. Filters travel by id, never by column name or position.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion_common::ScalarValue;
use parking_lot::Mutex;

use crate::error::Result;

/// What is known about the keys of a build side. NULL keys never match.
pub trait KeyFilter: Send + Sync {
    /// Least and greatest key, of the key's type; `None` if the build side has no key at all or the type has
    /// no order worth using.
    fn bounds(&self) -> Option<(ScalarValue, ScalarValue)>;
    /// True if no key at all can match.
    fn is_empty(&self) -> bool;
    /// For each key whether it can match; never false for one that does.
    fn may_match(&self, keys: &ArrayRef) -> Result<BooleanArray>;
}

/// A filter's place, filled once.
type Slot = Arc<OnceLock<Arc<dyn KeyFilter>>>;

/// The filters of a job.
#[derive(Default)]
pub struct RuntimeFilters {
    slots: Mutex<HashMap<u32, Slot>>,
}

impl RuntimeFilters {
    fn slot(&self, id: u32) -> Slot {
        self.slots.lock().entry(id).or_default().clone()
    }

    /// Publishes a complete filter; a second one for the same id is ignored.
    pub fn publish(&self, id: u32, filter: Arc<dyn KeyFilter>) {
        let _ = self.slot(id).set(filter);
    }

    /// The filter, if it is complete by now.
    pub fn get(&self, id: u32) -> Option<Arc<dyn KeyFilter>> {
        self.slot(id).get().cloned()
    }
}

/// The mask for keys of which all but NULLs may match.
pub fn all_but_nulls(keys: &dyn Array) -> BooleanArray {
    match keys.logical_nulls() {
        Some(nulls) => BooleanArray::new(nulls.into_inner(), None),
        None => BooleanArray::from(vec![true; keys.len()]),
    }
}
