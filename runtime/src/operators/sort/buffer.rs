//! Rows that are collected, sorted in runs, and given back in order.
//!
//! ```text
//! Collecting --(all rows are there)--> Packing --> Sorting runs --> Merging: batch by batch
//! ```
//! Rows stay in the batches they came in. What is sorted is one 128-bit number a row: the packed keys above, the
//! row's place below, so that equal keys keep their order and most comparisons touch no row. Each step packs one
//! batch, sorts one run, or merges one output batch. Invariant: everything kept is charged to the reservation.

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;

use super::loser_tree::LoserTree;
use super::packing::{KeyRange, Packing};
use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::sort_key_spec::{SortKeyColumns, compact_strings};
use crate::rows::{SortKeyEncoder, SortKeys};

/// Entries of a run: its sort stays in the cache and takes a few milliseconds. Tests want many runs.
const RUN_ROWS: usize = if cfg!(test) { 97 } else { 128 << 10 };

/// The collected rows.
pub(crate) struct SortBuffer {
    keys: SortKeyColumns,
    batch_rows: usize,

    reservation: Reservation,
    batches: Vec<Batch>,
    /// The key columns of each batch, in canonical form.
    key_columns: Vec<Vec<ArrayRef>>,
    ranges: Vec<KeyRange>,
    rows: usize,
    bytes: usize,
    phase: Phase,
}

enum Phase {
    Collecting,
    Packing { packing: Packing, encoder: Option<SortKeyEncoder>, sorter: Sorter, next: usize },
    Sorting { sorter: Sorter, next: usize },
    Merging(Merging),
}

/// What a step of the buffer came to.
pub(crate) enum Sorted {
    /// There is more to do before rows come out.
    Working,
    /// The next rows in order.
    Batch(Batch),
    /// All rows are out.
    Done,
}

/// One row's packed keys and its place: batch in the upper half of the low 64 bits, row in the lower.
type Entry = u128;

/// Comes after every entry.
const EXHAUSTED: Entry = Entry::MAX;

fn entry(packed: u64, batch: usize, row: usize) -> Entry {
    (u128::from(packed) << 64) | ((batch as u128) << 32) | row as u128
}

fn place(entry: Entry) -> (usize, usize) {
    ((entry >> 32) as u32 as usize, entry as u32 as usize)
}

/// Runs of entries and how they compare.
struct Sorter {
    runs: Vec<Vec<Entry>>,
    /// The keys that packed values leave open, for each batch; empty if they decide all.
    full_keys: Vec<SortKeys>,
}

struct Merging {
    sorter: Sorter,
    /// Next entry of each run.
    cursors: Vec<usize>,
    heads: Vec<Entry>,
    tree: LoserTree,
    left: usize,
}

impl SortBuffer {
    /// An empty buffer charging to `reservation`.
    pub fn new(keys: SortKeyColumns, reservation: Reservation, batch_rows: usize) -> Self {
        let mut buffer = SortBuffer {
            keys,
            batch_rows,
            reservation,
            batches: Vec::new(),
            key_columns: Vec::new(),
            ranges: Vec::new(),
            rows: 0,
            bytes: 0,
            phase: Phase::Collecting,
        };
        buffer.clear();
        buffer
    }

    /// Takes the rows of a compact batch.
    pub fn push(&mut self, batch: Batch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact_strings(batch);
        let keys = self.keys.evaluate(&batch)?;
        let bytes = batch.kept_bytes() + computed_bytes(&batch, &keys);
        self.reservation.try_grow(bytes)?;
        for (range, column) in self.ranges.iter_mut().zip(&keys) {
            range.add(column)?;
        }
        self.rows += batch.num_rows();
        self.bytes += bytes;
        self.batches.push(batch);
        self.key_columns.push(keys);
        Ok(())
    }

    /// The batches that were pushed, for a snapshot.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// All rows are there: of them, only the first `fetch` in order are wanted.
    pub fn finish(&mut self, fetch: Option<u64>) -> Result<()> {
        let packing = Packing::new(&self.ranges);
        let encoder = match packing.undecided {
            Some(first) => self.keys.encoder(first)?,
            None => None,
        };
        let wanted = fetch.map_or(self.rows, |f| usize::try_from(f).unwrap_or(usize::MAX));
        self.rows = self.rows.min(wanted);
        let sorter = Sorter { runs: Vec::new(), full_keys: Vec::new() };
        self.phase = Phase::Packing { packing, encoder, sorter, next: 0 };
        Ok(())
    }

    /// Goes on after [`SortBuffer::finish`].
    pub fn step(&mut self) -> Result<Sorted> {
        match std::mem::replace(&mut self.phase, Phase::Collecting) {
            Phase::Collecting => {
                Err(Error::Internal("a sort was stepped while rows come in".into()))
            }
            Phase::Packing { packing, encoder, mut sorter, next } => {
                if next == self.batches.len() {
                    self.key_columns.clear();
                    self.phase = Phase::Sorting { sorter, next: 0 };
                    return Ok(Sorted::Working);
                }
                self.pack_batch(next, &packing, encoder.as_ref(), &mut sorter)?;
                self.phase = Phase::Packing { packing, encoder, sorter, next: next + 1 };
                Ok(Sorted::Working)
            }
            Phase::Sorting { mut sorter, next } => {
                if next == sorter.runs.len() {
                    self.phase = Phase::Merging(Merging::new(sorter, self.rows));
                } else {
                    sorter.sort_run(next);
                    self.phase = Phase::Sorting { sorter, next: next + 1 };
                }
                Ok(Sorted::Working)
            }
            Phase::Merging(mut merging) => {
                let batch = self.merge_batch(&mut merging)?;
                self.phase = Phase::Merging(merging);
                Ok(batch.map_or(Sorted::Done, Sorted::Batch))
            }
        }
    }

    fn pack_batch(
        &mut self,
        index: usize,
        packing: &Packing,
        encoder: Option<&SortKeyEncoder>,
        sorter: &mut Sorter,
    ) -> Result<()> {
        let (columns, rows) = (&self.key_columns[index], self.batches[index].num_rows());
        self.reservation.try_grow(rows * size_of::<Entry>())?;
        let packed = packing.pack(columns, rows)?;
        if let (Some(encoder), Some(first)) = (encoder, packing.undecided) {
            let keys = encoder.encode(&columns[first..])?;
            self.reservation.try_grow(keys.memory_bytes())?;
            sorter.full_keys.push(keys);
        }
        sorter.append(index, &packed);
        Ok(())
    }

    /// The next rows in order, as many as a batch may have.
    fn merge_batch(&self, merging: &mut Merging) -> Result<Option<Batch>> {
        let row_bytes =
            (self.bytes / self.batches.iter().map(Batch::num_rows).sum::<usize>().max(1)).max(1);
        let rows_max = self.batch_rows.min(BATCH_BYTES_MAX / row_bytes).max(1);
        let places = merging.next_places(rows_max);
        if places.is_empty() { Ok(None) } else { gather(&self.batches, &places).map(Some) }
    }

    /// Lets go of all rows.
    pub fn clear(&mut self) {
        self.phase = Phase::Collecting;
        self.batches = Vec::new();
        self.key_columns = Vec::new();
        self.ranges = self
            .keys
            .types()
            .iter()
            .zip(self.keys.options())
            .map(|(data_type, options)| {
                KeyRange::new(&crate::rows::unpacked_type(data_type), *options)
            })
            .collect();
        (self.rows, self.bytes) = (0, 0);
        self.reservation.shrink(usize::MAX);
    }
}

/// Bytes of key columns that are not columns of the batch.
fn computed_bytes(batch: &Batch, keys: &[ArrayRef]) -> usize {
    keys.iter()
        .filter(|key| !batch.columns().iter().any(|c| std::sync::Arc::ptr_eq(c, key)))
        .map(|key| key.get_array_memory_size())
        .sum()
}

/// The rows at these places (batch, row), in this order. At least one batch.
pub(crate) fn gather(batches: &[Batch], places: &[(usize, usize)]) -> Result<Batch> {
    let columns = (0..batches[0].columns().len())
        .map(|i| {
            let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(i).as_ref()).collect();
            interleave(&parts, places)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut batch = Batch::new(columns, places.len());
    batch.ingest_time_us = batches.iter().map(|b| b.ingest_time_us).min().unwrap_or(0);
    Ok(batch)
}

impl Sorter {
    fn append(&mut self, batch: usize, packed: &[u64]) {
        let mut entries = packed.iter().enumerate().map(|(row, &p)| entry(p, batch, row));
        let mut left = packed.len();
        while left > 0 {
            if self.runs.last().is_none_or(|run| run.len() == RUN_ROWS) {
                self.runs.push(Vec::with_capacity(RUN_ROWS.min(left.next_power_of_two())));
            }
            let run = self.runs.last_mut().expect("a run was pushed");
            let taken = left.min(RUN_ROWS - run.len());
            run.extend(entries.by_ref().take(taken));
            left -= taken;
        }
    }

    fn sort_run(&mut self, run: usize) {
        let Sorter { runs, full_keys } = self;
        if full_keys.is_empty() {
            runs[run].sort_unstable();
        } else {
            runs[run].sort_unstable_by(|&a, &b| compare(full_keys, a, b));
        }
    }
}

/// The order of two entries whose packed values may leave it open.
#[inline]
fn compare(full_keys: &[SortKeys], a: Entry, b: Entry) -> std::cmp::Ordering {
    ((a >> 64) as u64).cmp(&((b >> 64) as u64)).then_with(|| {
        let key = |entry: Entry| {
            let (batch, row) = place(entry);
            full_keys[batch].key(row)
        };
        key(a).cmp(key(b)).then(a.cmp(&b))
    })
}

impl Merging {
    fn new(sorter: Sorter, left: usize) -> Self {
        let heads: Vec<Entry> =
            sorter.runs.iter().map(|r| r.first().copied().unwrap_or(EXHAUSTED)).collect();
        let tree =
            LoserTree::new(heads.len(), |a, b| before(&sorter.full_keys, heads[a], heads[b]));
        Merging { cursors: vec![0; heads.len()], heads, tree, left, sorter }
    }

    /// The places of the next rows, at most `rows_max`.
    fn next_places(&mut self, rows_max: usize) -> Vec<(usize, usize)> {
        let rows = rows_max.min(self.left);
        self.left -= rows;
        let Merging { sorter: Sorter { runs, full_keys }, cursors, heads, tree, .. } = self;
        if let [run] = runs.as_slice() {
            let start = cursors[0];
            cursors[0] += rows;
            return run[start..start + rows].iter().map(|&e| place(e)).collect();
        }
        let mut places = Vec::with_capacity(rows);
        for _ in 0..rows {
            let winner = tree.winner();
            places.push(place(heads[winner]));
            cursors[winner] += 1;
            heads[winner] = runs[winner].get(cursors[winner]).copied().unwrap_or(EXHAUSTED);
            tree.replay(|a, b| before(full_keys, heads[a], heads[b]));
        }
        places
    }
}

#[inline]
fn before(full_keys: &[SortKeys], a: Entry, b: Entry) -> bool {
    if full_keys.is_empty() || a == EXHAUSTED || b == EXHAUSTED {
        return a < b;
    }
    compare(full_keys, a, b).is_lt()
}
