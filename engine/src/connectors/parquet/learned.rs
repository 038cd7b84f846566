//! What was learnt of a file's columns beyond its footer. It lives and dies with the cached footer.
//!
//! Numbers and samples of a thousand rows alone are kept, never whole columns.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use parking_lot::Mutex;

/// Samples that are kept of a file; beyond that all are forgotten.
const SAMPLES_MAX: usize = 256;
/// Counts that are kept of a file.
const COUNTS_MAX: usize = 64 << 10;

/// Which rows a sample takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Draw {
    /// So many short runs all over the row group.
    Spread(usize),
    /// The first rows, as many as the first page has.
    Head,
}

/// Whose values a sample holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// The row group.
    pub group: usize,
    /// The column, among the file's root columns.
    pub root: usize,
    /// The rows.
    pub draw: Draw,
    /// The type of the values.
    pub data_type: DataType,
}

/// Samples and counts of one file.
#[derive(Debug, Default)]
pub struct Learned {
    samples: Mutex<HashMap<SampleKey, ArrayRef>>,
    counts: Mutex<HashMap<(usize, usize), Option<u64>>>,
    estimates: Mutex<HashMap<(usize, DataType), Option<f64>>>,
}

impl Learned {
    /// A sample that was drawn before.
    pub fn sample(&self, key: &SampleKey) -> Option<ArrayRef> {
        self.samples.lock().get(key).cloned()
    }

    /// Keeps a sample.
    pub fn keep_sample(&self, key: SampleKey, values: ArrayRef) {
        let mut samples = self.samples.lock();
        if samples.len() >= SAMPLES_MAX {
            samples.clear();
        }
        samples.insert(key, values);
    }

    /// The distinct values of a leaf column in a row group, found out by `count` if they are not known yet.
    pub fn distinct(
        &self,
        group: usize,
        leaf: usize,
        count: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        if let Some(known) = self.counts.lock().get(&(group, leaf)) {
            return *known;
        }
        let counted = count();
        let mut counts = self.counts.lock();
        if counts.len() >= COUNTS_MAX {
            counts.clear();
        }
        counts.insert((group, leaf), counted);
        counted
    }

    /// The distinct values of a root column, read as some type, in the whole file: estimated by `estimate` if they are
    /// not known yet.
    pub fn file_distinct(
        &self,
        column: (usize, DataType),
        estimate: impl FnOnce() -> Option<f64>,
    ) -> Option<f64> {
        if let Some(known) = self.estimates.lock().get(&column) {
            return *known;
        }
        let estimated = estimate();
        self.estimates.lock().insert(column, estimated);
        estimated
    }
}
