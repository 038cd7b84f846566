//! How far event time is in each split that scans read, for those who ask why a window does not close.
//!
//! A scan that tells the time notes here what it knows of its splits; nobody inside the runtime obeys it. Invariant: a
//! split that has ended is not listed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::graph::VertexId;
use crate::source::{Source, SplitId};

/// What is known of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitTime {
    /// No row with an earlier time follows, in microseconds; `None` before the first row.
    pub watermark_us: Option<i64>,
    /// Whether it is caught up, so that it holds nobody's time back.
    pub idle: bool,
}

/// The splits of one subtask of a scan.
pub struct ScanTimes {
    vertex: VertexId,
    source: Arc<dyn Source>,
    splits: Mutex<BTreeMap<SplitId, SplitTime>>,
}

/// The scans of a job that tell the time.
#[derive(Default)]
pub struct SplitTimes {
    scans: Mutex<Vec<Arc<ScanTimes>>>,
}

/// A split as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitReport {
    /// The scan.
    pub vertex: VertexId,
    /// What the source calls the split, or its number.
    pub name: String,
    /// How far it is.
    pub time: SplitTime,
}

impl SplitTimes {
    /// A place for the splits of a scan's subtask.
    pub(crate) fn join(&self, vertex: VertexId, source: &Arc<dyn Source>) -> Arc<ScanTimes> {
        let source = Arc::clone(source);
        let scan = Arc::new(ScanTimes { vertex, source, splits: Mutex::default() });
        self.scans.lock().push(scan.clone());
        scan
    }

    /// The subtask has ended: it holds nobody back, and its source is let go.
    pub(crate) fn leave(&self, scan: &Arc<ScanTimes>) {
        self.scans.lock().retain(|known| !Arc::ptr_eq(known, scan));
    }

    /// The splits that scans have begun, and for each scan that has splits nobody has begun one line of them together.
    pub fn reports(&self) -> Vec<SplitReport> {
        let mut pending: BTreeMap<u32, SplitReport> = BTreeMap::new();
        let mut reports = Vec::new();
        for scan in self.scans.lock().iter() {
            let vertex = scan.vertex;
            for (split, time) in scan.splits.lock().iter() {
                let name = scan.source.split_name(*split);
                let name = name.unwrap_or_else(|| format!("split {}", split.0));
                reports.push(SplitReport { vertex, name, time: *time });
            }
            if let Some(from) = scan.source.pending_from_us() {
                let watermark_us = Some(from).filter(|&from| from != i64::MIN);
                let time = SplitTime { watermark_us, idle: false };
                let name = "a split that is not begun".to_string();
                pending.insert(vertex.0, SplitReport { vertex, name, time });
            }
        }
        reports.extend(pending.into_values());
        reports
    }
}

impl ScanTimes {
    /// A split is so far, and speaks or not.
    pub(crate) fn note(&self, split: SplitId, time: SplitTime) {
        self.splits.lock().insert(split, time);
    }

    /// Nothing more comes of a split.
    pub(crate) fn end(&self, split: SplitId) {
        self.splits.lock().remove(&split);
    }
}
