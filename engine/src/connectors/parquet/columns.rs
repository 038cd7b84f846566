//! Some columns of a row group on their way from file to arrays, and the memory that this takes.
//!
//! The compressed bytes are fetched whole and charged. When the budget does not allow that, or they are most of a small
//! budget, they are read page by page instead. Large pages are charged before they are unpacked.

use parquet::arrow::arrow_reader::RowSelection;
use thalweg_runtime::Result;
use thalweg_runtime::env::IoTask;
use thalweg_runtime::memory::Reservation;
use thalweg_runtime::operators::OperatorContext;

use super::chunks::{FetchedChunks, open, read_ranges, selected_ranges};
use super::decode::{DecodedColumns, GroupDecoder};
use super::meta::ParquetMeta;
use super::page_sizes::{large_chunks, unpacked_bytes};
use super::source::{SharedScan, Split};

/// The fraction of the memory limit up to which the bytes of a row group are fetched whole.
const FETCH_DIVISOR: usize = 16;

/// Columns that are read together.
pub struct Columns {
    /// Their places among the columns of the scan.
    pub places: Vec<usize>,
    selection: Option<RowSelection>,
    state: ColumnState,
    /// The charge for large pages.
    unpacked: Reservation,
}

enum ColumnState {
    Unfetched,
    /// The chunks, and the bytes that their large pages take.
    Fetching(IoTask<(FetchedChunks, usize)>),
    Decoding(Box<GroupDecoder>),
}

impl Columns {
    /// Columns of which nothing is fetched yet.
    pub fn new(shared: &SharedScan, places: Vec<usize>, selection: Option<RowSelection>) -> Self {
        let unpacked = shared.memory.share();
        Columns { places, selection, state: ColumnState::Unfetched, unpacked }
    }

    /// Starts fetching if the bytes fit the budget.
    pub fn fetch_if_cheap(&mut self, shared: &SharedScan, split: &Split, meta: &ParquetMeta) {
        self.fetch(shared, split, meta, false);
    }

    fn fetch(&mut self, shared: &SharedScan, split: &Split, meta: &ParquetMeta, now: bool) {
        if !matches!(self.state, ColumnState::Unfetched) {
            return;
        }
        let leaves = split.plan.leaves(&self.places);
        let ranges = selected_ranges(meta, split.group, &leaves, self.selection.as_ref());
        if ranges.is_empty() {
            return;
        }
        let bytes: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let file = &shared.scan.files[split.plan.index];
        let env = &shared.job.env;
        let mut charge = shared.memory.share();
        let fits = bytes <= shared.job.memory.limit() / FETCH_DIVISOR;
        let fetched = (fits && charge.try_grow(bytes).is_ok()).then_some((ranges, charge));
        if fetched.is_none() && !now {
            return;
        }
        let large = large_chunks(meta, split.group, &leaves);
        let (there, path, name) = (env.clone(), file.path.clone(), file.name.clone());
        let (size, pool) = (file.size, shared.buffers.clone());
        self.state = ColumnState::Fetching(IoTask::spawn(env, move || {
            let chunks = match fetched {
                Some((ranges, charge)) => {
                    read_ranges(&*there, &path, &name, size, ranges, pool)?.charged(charge)
                }
                None => open(&*there, &path, &name, pool)?,
            };
            let unpacked = unpacked_bytes(&large, &chunks);
            Ok((chunks, unpacked))
        }));
    }

    /// Whether decoding can go on; otherwise the waker is registered.
    pub fn ready(
        &mut self,
        shared: &SharedScan,
        split: &Split,
        meta: &ParquetMeta,
        batch_rows: usize,
        cx: &OperatorContext<'_>,
    ) -> Result<bool> {
        self.fetch(shared, split, meta, true);
        let chunks = match &mut self.state {
            ColumnState::Decoding(_) => return Ok(true),
            ColumnState::Unfetched => {
                let size = shared.scan.files[split.plan.index].size;
                FetchedChunks::none(size, shared.buffers.clone())
            }
            ColumnState::Fetching(task) => match task.poll(cx.waker) {
                Some(fetched) => {
                    let (chunks, unpacked) = fetched?;
                    self.unpacked.try_grow(unpacked)?;
                    chunks
                }
                None => return Ok(false),
            },
        };
        let (plan, selection) = (&split.plan, self.selection.take());
        let decoder = GroupDecoder::with_footer(
            plan,
            meta,
            split.group,
            &self.places,
            chunks,
            selection,
            batch_rows,
        )?;
        self.state = ColumnState::Decoding(Box::new(decoder));
        Ok(true)
    }

    /// The next rows and their number; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(usize, DecodedColumns)>> {
        match &mut self.state {
            ColumnState::Decoding(decoder) => decoder.next(),
            ColumnState::Unfetched | ColumnState::Fetching(_) => Ok(None),
        }
    }
}
