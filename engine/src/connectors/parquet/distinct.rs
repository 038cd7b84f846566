//! How many distinct values a column has, from the dictionaries of some of its row groups.
//!
//! A chunk that is dictionary-encoded throughout says in the head of its dictionary how many values it has. From a few
//! such numbers the table's is estimated: a row group is taken as a random draw of the rows whose values lie within
//! its bounds, and the values outside as further ones like them. Columns without dictionaries are not estimated.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;
use thalweg_runtime::env::ReadFile;

use super::decode::FilePlan;
use super::page_header;
use super::table_groups::{TableGroup, TableGroups, spread};
use crate::connectors::files::system_env;
use crate::connectors::scan::prune::Bounds;
use crate::connectors::scan::{ColumnSource, FileScan};

/// Row groups whose dictionaries are looked at.
const GROUPS_READ: usize = 4;
/// Row groups whose bounds are compared with theirs.
const GROUPS_COMPARED: usize = 64;
/// Bytes that the head of a dictionary page takes at most.
const HEADER_BYTES: usize = 256;
/// Steps of the search for the number of values; each halves the error.
const SEARCH_STEPS: usize = 48;

/// The least and the greatest value of a row group.
type Range = Option<(ScalarValue, ScalarValue)>;

/// An estimate of the distinct values of a table's column. Blocks: reads the heads of a few dictionaries.
pub fn distinct(schema: &Schema, scan: &FileScan, column: usize, rows: f64) -> Option<f64> {
    let table = TableGroups::new(schema, scan, vec![column])?;
    match (table.plans.as_slice(), scan.files.len()) {
        ([plan], 1) => match plan.sources[0] {
            ColumnSource::File(root) => plan
                .meta
                .learned
                .file_distinct((root, table.types[0].clone()), || estimate(scan, &table, rows)),
            ColumnSource::Constant(_) => estimate(scan, &table, rows),
        },
        _ => estimate(scan, &table, rows),
    }
}

fn estimate(scan: &FileScan, table: &TableGroups, rows: f64) -> Option<f64> {
    if let Some(constants) = distinct_constants(table) {
        return Some(constants);
    }
    let weights: Vec<f64> = table
        .groups
        .iter()
        .map(|g| if root_of(table, g).is_some() { g.rows as f64 } else { 0.0 })
        .collect();
    let chosen = spread(&weights, GROUPS_READ);
    let mut counts = Vec::with_capacity(chosen.len());
    let mut open: Option<(usize, Arc<dyn ReadFile>)> = None;
    for &group in &chosen {
        counts.push(dictionary_values(scan, table, &table.groups[group], &mut open)? as f64);
    }
    if chosen.is_empty() {
        return None;
    }
    let bounds = table.bounds(0);
    let estimate = match table.groups.len() {
        1 => counts[0],
        _ => extrapolate(table, bounds.as_ref(), &chosen, &counts),
    };
    let estimate = match bounds.as_ref().and_then(whole_numbers_between) {
        Some(possible) => estimate.min(possible),
        None => estimate,
    };
    Some(estimate.min(rows).max(1.0))
}

/// The distinct values of a column that has one value in each file, as those made from folder names do.
fn distinct_constants(table: &TableGroups) -> Option<f64> {
    let mut values = HashSet::new();
    for group in &table.groups {
        match table.source(group, 0) {
            ColumnSource::Constant(value) if !value.is_null() => drop(values.insert(value)),
            ColumnSource::Constant(_) => {}
            ColumnSource::File(_) => return None,
        }
    }
    Some(values.len().max(1) as f64)
}

fn root_of(table: &TableGroups, group: &TableGroup) -> Option<usize> {
    match table.source(group, 0) {
        ColumnSource::File(root) => Some(*root),
        ColumnSource::Constant(_) => None,
    }
}

/// The number of values in a chunk's dictionary, if all its pages use it.
fn dictionary_values(
    scan: &FileScan,
    table: &TableGroups,
    group: &TableGroup,
    open: &mut Option<(usize, Arc<dyn ReadFile>)>,
) -> Option<u64> {
    let plan: &FilePlan = &table.plans[group.plan];
    let leaf = plan.meta.leaf_of(root_of(table, group)?)?;
    let chunk = plan.meta.metadata().row_group(group.group).column(leaf);
    if !is_dictionary_encoded(chunk) {
        return None;
    }
    plan.meta.learned.distinct(group.group, leaf, || {
        if open.as_ref().is_none_or(|(opened, _)| *opened != group.plan) {
            let file = system_env().open_file(&scan.files[plan.index].path).ok()?;
            *open = Some((group.plan, file));
        }
        let (_, file) = open.as_ref()?;
        let mut head = [0; HEADER_BYTES];
        let start = u64::try_from(chunk.dictionary_page_offset()?).ok()?;
        let read = file.read_at(&mut head, start).ok()?;
        page_header::parse(&head[..read])?.dictionary_values
    })
}

/// Whether all data pages of a chunk refer to its dictionary.
fn is_dictionary_encoded(chunk: &ColumnChunkMetaData) -> bool {
    if chunk.dictionary_page_offset().is_none() {
        return false;
    }
    match chunk.page_encoding_stats_mask() {
        Some(mask) => {
            mask.is_only(Encoding::RLE_DICTIONARY) || mask.is_only(Encoding::PLAIN_DICTIONARY)
        }
        // Without numbers of pages the encodings of levels and of the dictionary itself are among those named: what
        // else is named may be data.
        None => {
            let mut encodings = chunk.encodings();
            encodings.all(|e| {
                matches!(e, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY | Encoding::RLE)
            })
        }
    }
}

/// The table's distinct values from those of some row groups.
fn extrapolate(
    table: &TableGroups,
    bounds: Option<&Bounds>,
    chosen: &[usize],
    counts: &[f64],
) -> f64 {
    let rows = |i: usize| {
        let nulls = bounds.filter(|b| b.nulls.is_valid(i)).map_or(0, |b| b.nulls.value(i));
        table.groups[i].rows.saturating_sub(nulls) as f64
    };
    let compared = spread(&vec![1.0; table.groups.len()], GROUPS_COMPARED);
    let ranges: Vec<(Range, f64)> = compared.iter().map(|&i| (range(bounds, i), rows(i))).collect();
    let compared_rows: f64 = ranges.iter().map(|(_, rows)| rows).sum();
    let scale = table.rows() / compared.iter().map(|&i| table.groups[i].rows as f64).sum::<f64>();
    let all = compared_rows * scale;
    let estimates = chosen.iter().zip(counts).map(|(&i, &count)| {
        let own = range(bounds, i);
        let near: f64 = ranges.iter().filter(|(r, _)| overlap(r, &own)).map(|(_, rows)| rows).sum();
        let near = (near * scale).max(rows(i)).min(all);
        values_behind(count, rows(i), near) * all / near.max(1.0)
    });
    let mean = estimates.sum::<f64>() / counts.len() as f64;
    let least = counts.iter().copied().fold(1.0, f64::max);
    let most = if chosen.len() == table.groups.len() { counts.iter().sum() } else { f64::INFINITY };
    mean.min(most).max(least)
}

/// The bounds of one row group, if both are known.
fn range(bounds: Option<&Bounds>, group: usize) -> Range {
    let bounds = bounds?;
    let min = ScalarValue::try_from_array(&bounds.min, group).ok()?;
    let max = ScalarValue::try_from_array(&bounds.max, group).ok()?;
    (!min.is_null() && !max.is_null()).then_some((min, max))
}

/// Whether two ranges have more in common than an end; unknown ones do.
fn overlap(a: &Range, b: &Range) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a.0 < b.1 && b.0 < a.1),
        (None, _) | (_, None) => true,
    }
}

/// How many distinct values `all` rows have if `drawn` of them, drawn at random, have `count`: the number for which such
/// a draw is expected to show that many.
fn values_behind(count: f64, drawn: f64, all: f64) -> f64 {
    if drawn >= all || count <= 0.0 {
        return count;
    }
    let shown = |values: f64| values * (1.0 - (1.0 - drawn / all).powf(all / values));
    let (mut low, mut high) = (count, all);
    if shown(high) <= count {
        return high;
    }
    for _ in 0..SEARCH_STEPS {
        let middle = f64::midpoint(low, high);
        if shown(middle) < count { low = middle } else { high = middle }
    }
    low
}

/// How many whole numbers or days lie between the bounds of all groups.
fn whole_numbers_between(bounds: &Bounds) -> Option<f64> {
    use arrow::datatypes::DataType;
    let discrete =
        bounds.min.data_type().is_integer() || bounds.min.data_type() == &DataType::Date32;
    if !discrete {
        return None;
    }
    let (min, max) = (super::ranges::numbers(&bounds.min)?, super::ranges::numbers(&bounds.max)?);
    let least = min.iter().collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)?;
    let greatest = max.iter().collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)?;
    Some(greatest - least + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_seen_and_many_are_scaled() {
        assert_eq!(values_behind(7.0, 1_000.0, 1_000.0), 7.0);
        assert!((values_behind(7.0, 1_000.0, 100_000.0) - 7.0).abs() < 0.01);
        // 1,000 draws of 1,000 values show about 632 of them.
        assert!((values_behind(632.0, 1_000.0, 1e6) - 1_000.0).abs() < 5.0);
        assert!((values_behind(1_000.0, 1_000.0, 1e6) - 1e6).abs() < 1.0);
    }
}
