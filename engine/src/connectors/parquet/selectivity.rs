//! The share of a table's rows that pass filters, from bounds and a small sample.
//!
//! Row groups that the bounds rule out count as nothing. A range on a column by which the rows are in some order is
//! interpolated in each row group, where a sample would depend on luck. All other filters run on the same sampled rows,
//! so that what hangs together among them shows. What a sample may cost is limited in bytes, never in time; a filter
//! that is too dear is left to guessing.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{Field, Schema};
use thalweg_optimizer::MeasuredShare;
use thalweg_runtime::batch::Batch;
use thalweg_runtime::expr::{CompiledExpr, Expr, FunctionRegistry, compile};

use super::learned::Draw;
use super::ranges::{Interval, NumberBounds, interval};
use super::sample::{RUN_ROWS, head_bytes, sample};
use super::table_groups::{TableGroups, spread};
use crate::connectors::scan::{ColumnSource, FileScan};

/// Row groups that are sampled.
const GROUPS_SAMPLED: usize = 4;
/// Runs of rows in all of them together.
const RUNS: usize = 512;
/// Of a table with no more rows all are taken.
const SMALL_TABLE_ROWS: f64 = 10_000.0;
/// Row groups of such a table that are taken.
const SMALL_TABLE_GROUPS: usize = 16;
/// Unpacked bytes up to which a chunk is read for a sample.
const CHUNK_BYTES_MAX: f64 = (1 << 20) as f64;
/// Unpacked bytes that sampling may always read.
const BUDGET_BYTES: f64 = (2 << 20) as f64;
/// Of large columns sampling may read one part in so many.
const BUDGET_FRACTION: f64 = 64.0;

/// How a filter's share is found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// From the bounds of a column, by its place, in each row group.
    Range(usize, Interval),
    /// On rows from all over some row groups.
    Spread,
    /// On rows of first pages.
    Head,
    /// Not at all.
    Unknown,
}

/// The state of measuring.
struct Measuring<'a> {
    scan: &'a FileScan,
    table: TableGroups,
    filters: &'a [Expr],
    functions: &'a FunctionRegistry,
    /// Rows of each group that can pass what was looked at so far.
    weights: Vec<f64>,
    result: MeasuredShare,
}

/// Measures the share of rows that pass all filters over the table's positions. Blocks; `None` if nothing can be told.
pub fn selectivity(
    schema: &Schema,
    scan: &FileScan,
    filters: &[Expr],
    functions: &FunctionRegistry,
) -> Option<MeasuredShare> {
    let columns: Vec<usize> = filters.iter().flat_map(|f| f.columns()).collect();
    if columns.is_empty() {
        return None;
    }
    let table = TableGroups::new(schema, scan, columns)?;
    let possible = table.may_match(filters);
    let weights = table.groups.iter().zip(&possible);
    let weights = weights.map(|(g, &may)| if may { g.rows as f64 } else { 0.0 }).collect();
    let measured = vec![!possible.contains(&true); filters.len()];
    let result = MeasuredShare { share: 1.0, measured, sample_rows: 0, hits: f64::INFINITY };
    let mut measuring = Measuring { scan, table, filters, functions, weights, result };
    if possible.contains(&true) {
        measuring.run();
    }
    let Measuring { weights, table, mut result, .. } = measuring;
    if !result.measured.contains(&true) {
        return None;
    }
    result.share *= weights.iter().sum::<f64>() / table.rows();
    Some(result)
}

impl Measuring<'_> {
    fn run(&mut self) {
        let ways: Vec<Way> = self.filters.iter().map(|f| self.way(f)).collect();
        self.interpolate(&ways);
        for way in [Way::Spread, Way::Head] {
            let chosen: Vec<usize> = (0..ways.len()).filter(|&i| ways[i] == way).collect();
            if !chosen.is_empty() {
                self.sample(&chosen, way == Way::Head);
            }
        }
    }

    fn place(&self, column: usize) -> usize {
        self.table.columns.binary_search(&column).expect("the filters' columns are looked at")
    }

    fn way(&self, filter: &Expr) -> Way {
        let places: Vec<usize> = filter.columns().into_iter().map(|c| self.place(c)).collect();
        let Some(costs) = places.iter().map(|&p| self.chunk_bytes(p)).collect::<Option<Vec<_>>>()
        else {
            return Way::Unknown;
        };
        let small = self.table.rows() <= SMALL_TABLE_ROWS;
        let cheap = small || costs.iter().all(|&bytes| bytes <= CHUNK_BYTES_MAX);
        if let Some((column, interval)) = interval(filter) {
            let place = self.place(column);
            let bounds = self.table.bounds(place).as_ref().and_then(NumberBounds::new);
            if bounds.is_some_and(|b| b.is_clustered() || (!cheap && b.is_complete())) {
                return Way::Range(place, interval);
            }
        }
        match places.as_slice() {
            [] => Way::Unknown,
            _ if cheap => Way::Spread,
            _ => Way::Head,
        }
    }

    /// The mean unpacked size of a column's chunks among the groups that count; `None` for nested columns.
    fn chunk_bytes(&self, place: usize) -> Option<f64> {
        let (mut bytes, mut chunks) = (0.0, 0.0_f64);
        for (group, weight) in self.table.groups.iter().zip(&self.weights) {
            if let (ColumnSource::File(root), true) =
                (self.table.source(group, place), *weight > 0.0)
            {
                let meta = &self.table.plans[group.plan].meta;
                let chunk = meta.metadata().row_group(group.group).column(meta.leaf_of(*root)?);
                bytes += chunk.uncompressed_size().max(0) as f64;
                chunks += 1.0;
            }
        }
        Some(bytes / chunks.max(1.0))
    }

    /// Weighs each group by the share of it that lies in all intervals.
    fn interpolate(&mut self, ways: &[Way]) {
        let mut intervals: BTreeMap<usize, Interval> = BTreeMap::new();
        for (i, way) in ways.iter().enumerate() {
            if let Way::Range(place, interval) = way {
                let known = intervals.entry(*place).or_default();
                *known = known.and(*interval);
                self.result.measured[i] = true;
            }
        }
        for (place, interval) in intervals {
            let Some(bounds) = self.table.bounds(place) else { continue };
            let Some(numbers) = NumberBounds::new(&bounds) else { continue };
            for (i, weight) in self.weights.iter_mut().enumerate() {
                let rows = self.table.groups[i].rows as f64;
                let nulls =
                    if bounds.nulls.is_valid(i) { bounds.nulls.value(i) as f64 } else { 0.0 };
                *weight *= numbers.share(i, interval) * (1.0 - nulls / rows).max(0.0);
            }
        }
    }

    /// Runs some filters on a sample and takes those in that did not fail.
    fn sample(&mut self, chosen: &[usize], head: bool) {
        let mut places: Vec<usize> = chosen
            .iter()
            .flat_map(|&i| self.filters[i].columns())
            .map(|column| self.place(column))
            .collect();
        places.sort_unstable();
        places.dedup();
        let Some(count) = self.affordable(&places, head) else { return };
        let groups = spread(&self.weights, count);
        if groups.is_empty() {
            return;
        }
        let draw = if head { Draw::Head } else { Draw::Spread(RUNS / groups.len()) };
        let mut filters: Vec<(usize, CompiledExpr)> =
            chosen.iter().filter_map(|&i| Some((i, self.compile(i, &places)?))).collect();
        let mut masks: Vec<(usize, Vec<Option<BooleanBuffer>>)> = Vec::new();
        for &group in &groups {
            let group = &self.table.groups[group];
            let plan = &self.table.plans[group.plan];
            let Some(columns) = sample(self.scan, plan, group.group, &places, draw) else { return };
            let rows = columns.first().map_or(0, |c| c.len());
            let batch = Batch::new(columns, rows);
            let truth = |(_, f): &(usize, CompiledExpr)| {
                Some(true_bits(&f.evaluate_predicate(&batch).ok()?))
            };
            masks.push((rows, filters.iter().map(truth).collect()));
        }
        let works = |f: usize| masks.iter().all(|(_, truth)| truth[f].is_some());
        let (mut rows, mut passed, mut hits) = (0, 0, 0);
        for (sampled, truth) in &masks {
            let all = BooleanBuffer::new_set(*sampled);
            let kept = truth.iter().enumerate().filter(|(f, _)| works(*f));
            let kept = kept.filter_map(|(_, t)| t.as_ref()).fold(all, |all, t| &all & t);
            (rows, passed) = (rows + sampled, passed + kept.count_set_bits());
            hits += runs_hit(&kept);
        }
        let working: Vec<bool> = (0..filters.len()).map(works).collect();
        for ((i, _), works) in filters.drain(..).zip(working) {
            self.result.measured[i] |= works;
        }
        if rows > 0 && chosen.iter().any(|&i| self.result.measured[i]) {
            self.result.share *= (passed as f64).max(0.5) / rows as f64;
            self.result.sample_rows += rows;
            let whole = rows as f64 >= self.table.rows();
            self.result.hits =
                self.result.hits.min(if whole { f64::INFINITY } else { hits as f64 });
        }
    }

    /// How many row groups' samples of these columns are within the budget.
    fn affordable(&self, places: &[usize], head: bool) -> Option<usize> {
        if self.table.rows() <= SMALL_TABLE_ROWS {
            return Some(SMALL_TABLE_GROUPS);
        }
        let first = spread(&self.weights, 1);
        let first = &self.table.groups[*first.first()?];
        let plan = &self.table.plans[first.plan];
        let (mut each, mut all) = (0.0, 0.0);
        for &place in places {
            let chunk = self.chunk_bytes(place)?;
            all += chunk * self.table.groups.len() as f64;
            each += match head {
                true => head_bytes(self.scan, plan, first.group, place)? as f64,
                false => chunk,
            };
        }
        let budget = (all / BUDGET_FRACTION).max(BUDGET_BYTES);
        if each > 2.0 * budget {
            return None;
        }
        Some(((budget / each.max(1.0)) as usize).clamp(1, GROUPS_SAMPLED))
    }

    /// A filter over the sampled columns.
    fn compile(&self, filter: usize, places: &[usize]) -> Option<CompiledExpr> {
        let field = |&p: &usize| Field::new(format!("c{p}"), self.table.types[p].clone(), true);
        let schema = Arc::new(Schema::new(places.iter().map(field).collect::<Vec<_>>()));
        let own = |column| places.binary_search(&self.place(column)).unwrap_or(usize::MAX);
        let expr = self.filters[filter].clone().map_columns(&mut { own });
        compile(&expr, &schema, self.functions).ok()
    }
}

/// The runs of neighbouring rows with a row that passed.
fn runs_hit(kept: &BooleanBuffer) -> usize {
    let runs = (0..kept.len()).step_by(RUN_ROWS);
    runs.filter(|&at| kept.slice(at, RUN_ROWS.min(kept.len() - at)).count_set_bits() > 0).count()
}

/// NULL counts as false.
fn true_bits(mask: &BooleanArray) -> BooleanBuffer {
    if mask.null_count() == 0 {
        return mask.values().clone();
    }
    prep_null_mask_filter(mask).values().clone()
}
