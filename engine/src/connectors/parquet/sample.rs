//! Samples: some rows of some columns of one row group, read at once and on the caller's thread.
//!
//! The rows are short runs at jittered places: neither an order of the rows nor a period in them makes the sample
//! biased. Where a chunk is large, a sample of its first page alone can be had instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::chunks::{FetchedChunks, ranges, read_ranges};
use super::decode::{FilePlan, GroupDecoder};
use super::learned::{Draw, SampleKey};
use super::page_header::{self, PageHeader};
use super::statistics::rows_of;
use crate::connectors::buffers::BufferPool;
use crate::connectors::files::system_env;
use crate::connectors::scan::{ColumnSource, FileScan, constant};

/// Rows of one run.
pub const RUN_ROWS: usize = 8;
/// Runs in a first page.
const HEAD_RUNS: usize = 128;
/// Of row groups with no more rows all are taken.
const SMALL_ROWS: usize = 8 << 10;
/// Bytes that the head of a page takes at most, its bounds included.
const HEADER_BYTES: usize = 4 << 10;

/// The sampled values of some columns, by their places in the plan, all of the same rows. Blocks. `None` if the file
/// cannot be read so.
pub fn sample(
    scan: &FileScan,
    plan: &Arc<FilePlan>,
    group: usize,
    places: &[usize],
    draw: Draw,
) -> Option<Vec<ArrayRef>> {
    let key = |place: usize| match &plan.sources[place] {
        ColumnSource::File(root) => {
            let data_type = plan.schema.field(place).data_type().clone();
            Some(SampleKey { group, root: *root, draw, data_type })
        }
        ColumnSource::Constant(_) => None,
    };
    let known: Vec<Option<ArrayRef>> =
        places.iter().map(|&p| plan.meta.learned.sample(&key(p)?)).collect();
    let missing: Vec<usize> = places
        .iter()
        .zip(&known)
        .filter(|(p, found)| found.is_none() && key(**p).is_some())
        .map(|(p, _)| *p)
        .collect();
    let fresh = if missing.is_empty() {
        Vec::new()
    } else {
        let fresh = read(scan, plan, group, &missing, draw)?;
        for (&place, values) in missing.iter().zip(&fresh) {
            plan.meta.learned.keep_sample(key(place)?, values.clone());
        }
        fresh
    };
    let mut fresh = fresh.into_iter();
    let mut columns: Vec<Option<ArrayRef>> = places
        .iter()
        .zip(known)
        .map(|(&p, k)| k.or_else(|| key(p).and_then(|_| fresh.next())))
        .collect();
    let rows = columns.iter().flatten().map(|c| c.len()).min()?;
    for (column, &place) in columns.iter_mut().zip(places) {
        if let ColumnSource::Constant(value) = &plan.sources[place] {
            *column = Some(constant(value, rows).ok()?);
        }
    }
    columns.into_iter().map(|c| Some(c?.slice(0, rows))).collect()
}

/// The cost of a sample of the first page: bytes unpacked, the dictionary included. `None` if it cannot be read.
pub fn head_bytes(scan: &FileScan, plan: &FilePlan, group: usize, place: usize) -> Option<u64> {
    let ColumnSource::File(root) = plan.sources[place] else { return Some(0) };
    let leaf = plan.meta.leaf_of(root)?;
    Some(first_page(scan, plan, group, leaf)?.unpacked)
}

/// The first data page of a chunk, and the dictionary in front of it.
struct FirstPage {
    end: u64,
    unpacked: u64,
    rows: u64,
}

fn first_page(scan: &FileScan, plan: &FilePlan, group: usize, leaf: usize) -> Option<FirstPage> {
    let file = system_env().open_file(&scan.files[plan.index].path).ok()?;
    let head = |at: u64| -> Option<PageHeader> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, at).ok()?;
        page_header::parse(&bytes[..read])
    };
    let (start, length) = plan.meta.metadata().row_group(group).column(leaf).byte_range();
    let behind = |at: u64, page: PageHeader| {
        at.checked_add(page.header_bytes)?.checked_add(page.compressed_bytes)
    };
    let first = head(start)?;
    let (at, unpacked, page) = match first.data_values {
        Some(_) => (start, 0, first),
        None => {
            let at = behind(start, first)?;
            (at, first.uncompressed_bytes, head(at)?)
        }
    };
    let end = behind(at, page)?;
    (end <= start.checked_add(length)?).then_some(FirstPage {
        end,
        unpacked: unpacked.saturating_add(page.uncompressed_bytes),
        rows: page.data_values?,
    })
}

fn read(
    scan: &FileScan,
    plan: &Arc<FilePlan>,
    group: usize,
    places: &[usize],
    draw: Draw,
) -> Option<Vec<ArrayRef>> {
    let file = &scan.files[plan.index];
    let metadata = plan.meta.metadata().row_group(group);
    let leaves = plan.leaves(places);
    let all = usize::try_from(rows_of(metadata)).ok()?;
    let (wanted, rows, runs) = match draw {
        Draw::Spread(runs) => (ranges(&plan.meta, group, &leaves), all, runs),
        Draw::Head => {
            let mut rows = all as u64;
            let mut wanted = Vec::with_capacity(leaves.len());
            for &leaf in &leaves {
                let page = first_page(scan, plan, group, leaf)?;
                // The page's last row is left alone: behind it the decoder looks for the next page.
                rows = rows.min(page.rows.saturating_sub(1));
                wanted.push(metadata.column(leaf).byte_range().0..page.end);
            }
            wanted.sort_by_key(|range| range.start);
            (wanted, usize::try_from(rows).ok()?, HEAD_RUNS)
        }
    };
    let env = system_env();
    let chunks: FetchedChunks =
        read_ranges(&*env, &file.path, &file.name, file.size, wanted, BufferPool::process())
            .ok()?;
    let selection = selection(rows, runs);
    let batch_rows = selection.row_count().max(1);
    let mut decoder =
        GroupDecoder::new(plan, group, places, chunks, Some(selection), batch_rows).ok()?;
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); places.len()];
    while let Some((_, mut columns)) = decoder.next().ok()? {
        for (part, place) in parts.iter_mut().zip(places) {
            part.push(columns.remove(place)?);
        }
    }
    parts.iter().map(|part| compact(part)).collect()
}

/// Some rows out of so many: a run in each of equal stretches, at a place in it that is as good as random and the same
/// each time.
fn selection(rows: usize, runs: usize) -> RowSelection {
    if rows <= SMALL_ROWS.max(runs * RUN_ROWS) {
        return RowSelection::from(vec![RowSelector::select(rows)]);
    }
    let stretch = rows / runs;
    let mut selectors = Vec::with_capacity(2 * runs);
    let mut at = 0;
    for run in 0..runs {
        let free = (stretch - RUN_ROWS.min(stretch)) as u64;
        let start = run * stretch + (scramble(run as u64) % (free + 1)) as usize;
        if start > at {
            selectors.push(RowSelector::skip(start - at));
        }
        let length = RUN_ROWS.min(stretch);
        selectors.push(RowSelector::select(length));
        at = start + length;
    }
    RowSelection::from(selectors)
}

/// A number without visible pattern for each number.
fn scramble(n: u64) -> u64 {
    let mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// One array without the pages that its texts were views of.
fn compact(parts: &[ArrayRef]) -> Option<ArrayRef> {
    let arrays: Vec<&dyn Array> = parts.iter().map(|a| a.as_ref()).collect();
    let joined = concat(&arrays).ok()?;
    Some(match joined.data_type() {
        DataType::Utf8View => Arc::new(joined.as_string_view().gc()),
        DataType::BinaryView => Arc::new(joined.as_binary_view().gc()),
        _ => joined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_all_stretches_without_a_period() {
        let picked = selection(100_000, 128);
        assert_eq!(picked.row_count(), 1_024);
        let (mut at, mut starts) = (0, Vec::new());
        for selector in picked.iter() {
            if !selector.skip {
                starts.push(at);
            }
            at += selector.row_count;
        }
        assert!(at <= 100_000 && starts.len() > 120);
        let even = starts.iter().filter(|start| *start % 2 == 0).count();
        assert!((40..90).contains(&even), "{even}");
        assert_eq!(selection(5_000, 128).row_count(), 5_000);
    }
}
