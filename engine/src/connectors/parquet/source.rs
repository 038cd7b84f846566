//! The shared part of a Parquet scan: which row groups are left to read, and what was learnt on the way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use thalweg_runtime::Result;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::memory::Reservation;
use thalweg_runtime::source::{Source, SourceReader, SourceSpec};

use super::decode::FilePlan;
use super::meta::ParquetMeta;
use super::reader::ParquetReader;
use super::statistics::GroupBounds;
use crate::connectors::buffers::BufferPool;
use crate::connectors::scan::prune::may_match_all;
use crate::connectors::scan::{FileScan, ReadLayout, file_may_match};

/// Rows after which the share that filters keep is believed.
const TRIAL_ROWS: u64 = 16 << 10;

/// Opens the source. Files that their partition values rule out are left out here.
pub fn open(spec: &SourceSpec, scan: FileScan, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(ParquetSource(SharedScan::new(spec, scan, job))))
}

/// A Parquet table opened for one scan vertex.
pub struct ParquetSource(Arc<SharedScan>);

impl Source for ParquetSource {
    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(ParquetReader::new(self.0.clone())?))
    }

    fn progress(&self) -> Option<(u64, u64)> {
        let done = self.0.bytes_done.load(Ordering::Relaxed);
        Some((done.min(self.0.bytes_all), self.0.bytes_all))
    }

    fn pending_from_us(&self) -> Option<i64> {
        // Readers do not tell their row groups apart, so that event time has to wait for the end.
        Some(i64::MIN)
    }
}

/// What the readers of a scan share.
pub struct SharedScan {
    /// What to read.
    pub spec: SourceSpec,
    /// The files.
    pub scan: FileScan,
    /// The columns.
    pub layout: ReadLayout,
    /// What the scan holds: fetched bytes and large pages. Readers take shares of it.
    pub memory: Reservation,
    /// Buffers for what is fetched and unpacked.
    pub buffers: Arc<BufferPool>,
    /// The job, for its functions and environment.
    pub job: Arc<JobContext>,
    splits: Mutex<Splits>,
    bytes_all: u64,
    bytes_done: AtomicU64,
    rows_delivered: AtomicUsize,
    rows_seen: AtomicU64,
    rows_kept: AtomicU64,
    /// Footers with page indexes, by file.
    pub(super) indexed: Mutex<HashMap<usize, Arc<ParquetMeta>>>,
    /// Row groups in which page indexes were tried, their rows, and those that were ruled out.
    pub(super) page_groups: AtomicU64,
    pub(super) page_rows_seen: AtomicU64,
    pub(super) page_rows_dropped: AtomicU64,
}

/// One row group.
#[derive(Debug, Clone)]
pub struct Split {
    /// The file.
    pub plan: Arc<FilePlan>,
    /// The row group's number in it.
    pub group: usize,
}

/// What a reader that has nothing to do gets.
pub enum NextSplit {
    /// A row group to read.
    Split(Split),
    /// A file whose footer must be loaded and then given to [`SharedScan::add_file`].
    Load(usize),
    /// Another reader is loading a footer; the waker is registered.
    Wait,
    /// No more.
    Finished,
}

#[derive(Default)]
struct Splits {
    pending: VecDeque<Split>,
    files: VecDeque<usize>,
    loading: usize,
    waiters: Vec<Waker>,
    /// Row groups that a snapshot says were read already.
    claimed: HashSet<(usize, usize)>,
}

impl SharedScan {
    /// A scan of which nothing is read yet.
    pub fn new(spec: &SourceSpec, scan: FileScan, job: &Arc<JobContext>) -> Arc<Self> {
        let files: VecDeque<usize> = (0..scan.files.len())
            .filter(|&i| file_may_match(spec, &scan, &scan.files[i]))
            .collect();
        let bytes_all = files.iter().map(|&i| scan.files[i].size).sum();
        Arc::new(SharedScan {
            layout: ReadLayout::new(spec),
            memory: job.memory.reserve("ParquetScan"),
            buffers: BufferPool::process(),
            spec: spec.clone(),
            scan,
            job: job.clone(),
            splits: Mutex::new(Splits { files, ..Default::default() }),
            bytes_all,
            bytes_done: AtomicU64::new(0),
            rows_delivered: AtomicUsize::new(0),
            rows_seen: AtomicU64::new(0),
            rows_kept: AtomicU64::new(0),
            indexed: Mutex::default(),
            page_groups: AtomicU64::new(0),
            page_rows_seen: AtomicU64::new(0),
            page_rows_dropped: AtomicU64::new(0),
        })
    }

    /// The next row group, or what must happen before there is one.
    pub fn next_split(&self, waker: &Waker) -> NextSplit {
        let mut splits = self.splits.lock();
        if let Some(split) = splits.pending.pop_front() {
            return NextSplit::Split(split);
        }
        if let Some(file) = splits.files.pop_front() {
            splits.loading += 1;
            return NextSplit::Load(file);
        }
        if splits.loading > 0 {
            splits.waiters.push(waker.clone());
            return NextSplit::Wait;
        }
        NextSplit::Finished
    }

    /// A row group to fetch ahead, if there are enough for every reader to have one.
    pub fn split_ahead(&self, readers: usize) -> Option<Split> {
        let mut splits = self.splits.lock();
        if splits.pending.len() < readers { None } else { splits.pending.pop_front() }
    }

    /// Takes in a file's footer: its row groups can be read from now on, but for those that are ruled out.
    pub fn add_file(&self, index: usize, meta: Arc<ParquetMeta>) -> Result<()> {
        let plan = self.plan(index, meta);
        let mut splits = self.splits.lock();
        splits.loading -= 1;
        splits.waiters.drain(..).for_each(Waker::wake);
        let plan = plan?;
        let groups = self.matching_groups(&plan);
        let all = plan.meta.metadata().num_row_groups();
        for group in 0..all {
            if splits.claimed.contains(&(index, group)) || !groups.contains(&group) {
                self.done(&plan, group);
            } else {
                splits.pending.push_back(Split { plan: plan.clone(), group });
            }
        }
        Ok(())
    }

    /// A file's footer could not be loaded: nobody waits for it any more.
    pub fn file_failed(&self) {
        let mut splits = self.splits.lock();
        splits.loading -= 1;
        splits.waiters.drain(..).for_each(Waker::wake);
    }

    /// How a file is read, given its footer.
    pub fn plan(&self, index: usize, meta: Arc<ParquetMeta>) -> Result<Arc<FilePlan>> {
        let file = &self.scan.files[index];
        let sources =
            self.layout.sources(&self.spec.schema, &self.scan, file, &meta.table_schema)?;
        Ok(Arc::new(FilePlan {
            index,
            name: file.name.clone(),
            meta,
            schema: self.layout.schema.clone(),
            sources,
        }))
    }

    /// What footers say of some row groups of a file.
    pub fn bounds<'a>(&self, plan: &'a FilePlan, groups: Vec<usize>) -> GroupBounds<'a> {
        let columns = self
            .layout
            .columns
            .iter()
            .zip(&plan.sources)
            .map(|(&c, source)| (c, source, self.spec.schema.field(c).data_type().clone()))
            .collect();
        GroupBounds { meta: &plan.meta, columns, groups }
    }

    fn matching_groups(&self, plan: &FilePlan) -> HashSet<usize> {
        let groups: Vec<usize> = (0..plan.meta.metadata().num_row_groups()).collect();
        if self.spec.filters.is_empty() {
            return groups.into_iter().collect();
        }
        let bounds = self.bounds(plan, groups.clone());
        let matching = may_match_all(&self.spec.filters, &bounds);
        groups.into_iter().filter(|&g| matching.value(g)).collect()
    }

    /// Marks a row group as read, and gives back nothing of what a snapshot claimed.
    pub fn claim(&self, claimed: impl IntoIterator<Item = (usize, usize)>) {
        let mut splits = self.splits.lock();
        splits.claimed.extend(claimed);
        let Splits { pending, claimed, .. } = &mut *splits;
        pending.retain(|s| !claimed.contains(&(s.plan.index, s.group)));
    }

    /// Counts a row group as done, for progress.
    pub fn done(&self, plan: &FilePlan, group: usize) {
        let bytes = plan.meta.metadata().row_group(group).compressed_size();
        self.bytes_done.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts delivered rows.
    pub fn delivered(&self, rows: usize) {
        self.rows_delivered.fetch_add(rows, Ordering::Relaxed);
    }

    /// Whether as many rows were delivered as are wanted.
    pub fn has_enough(&self) -> bool {
        self.spec.fetch.is_some_and(|n| self.rows_delivered.load(Ordering::Relaxed) >= n)
    }

    /// Counts rows that filters looked at, and those that they kept.
    pub fn filtered(&self, seen: usize, kept: usize) {
        self.rows_seen.fetch_add(seen as u64, Ordering::Relaxed);
        self.rows_kept.fetch_add(kept as u64, Ordering::Relaxed);
    }

    /// The share of rows that filters keep, once enough were seen.
    pub fn kept_share(&self) -> Option<f64> {
        let seen = self.rows_seen.load(Ordering::Relaxed);
        let kept = self.rows_kept.load(Ordering::Relaxed);
        (seen >= TRIAL_ROWS).then(|| kept as f64 / seen as f64)
    }
}
