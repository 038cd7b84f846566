//! Small tables of every interesting type, with NULLs, duplicates and extremes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray,
};
use arrow::util::pretty::pretty_format_batches;

use super::random::Random;

/// The tables that every random query may read.
pub(super) const NAMES: &[&str] = &["t0", "t1", "t2", "t3"];

/// Rows of a table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub name: &'static str,
    pub batches: Vec<RecordBatch>,
}

impl Table {
    /// The rows for a person.
    pub fn to_text(&self) -> String {
        let rows =
            pretty_format_batches(&self.batches).map_or_else(|e| e.to_string(), |t| t.to_string());
        format!("{}:\n{rows}", self.name)
    }
}

/// The tables of a seed: `id` is unique, the other columns are not.
pub(super) fn tables(random: &mut Random) -> Vec<Table> {
    NAMES
        .iter()
        .map(|name| {
            // One in ten is empty.
            let rows = if random.chance(10) { 0 } else { 1 + random.below(22) };
            let all = batch(rows, random);
            Table { name, batches: cut(&all, random) }
        })
        .collect()
}

/// The rows in several batches, so that they are spread over tasks.
fn cut(all: &RecordBatch, random: &mut Random) -> Vec<RecordBatch> {
    let (mut batches, mut at) = (Vec::new(), 0);
    while at < all.num_rows() {
        let rows = (1 + random.below(9)).min(all.num_rows() - at);
        batches.push(all.slice(at, rows));
        at += rows;
    }
    if batches.is_empty() { vec![all.clone()] } else { batches }
}

fn batch(rows: usize, random: &mut Random) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
    let columns = [
        ("id", ids),
        (
            "a",
            Arc::new(column(rows, random, |r| r.below(6) as i32 - 2).collect::<Int32Array>())
                as ArrayRef,
        ),
        (
            "b",
            Arc::new(
                column(rows, random, |r| *r.pick(&[i64::MIN, i64::MAX, 0, 1, -1, 7]))
                    .collect::<Int64Array>(),
            ),
        ),
        ("c", Arc::new(column(rows, random, double).collect::<Float64Array>())),
        (
            "d",
            Arc::new(
                column(rows, random, |r| {
                    *r.pick(&["", "a", "b", "ab", "B", "a longer text that is not inline", "ä"])
                })
                .collect::<StringViewArray>(),
            ),
        ),
        (
            "e",
            Arc::new(
                column(rows, random, |r| 19_000 + r.below(5) as i32 * 30).collect::<Date32Array>(),
            ),
        ),
        ("f", decimals(rows, random)),
        ("g", Arc::new(column(rows, random, |r| r.chance(50)).collect::<BooleanArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}

fn column<'a, T>(
    rows: usize,
    random: &'a mut Random,
    value: impl Fn(&mut Random) -> T + 'a,
) -> impl Iterator<Item = Option<T>> + 'a {
    let nulls = *random.pick(&[0, 10, 40]);
    (0..rows).map(move |_| if random.chance(nulls) { None } else { Some(value(random)) })
}

/// Quarters, whose sums are exact in any order, and what is special about floats.
fn double(random: &mut Random) -> f64 {
    match random.below(12) {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => f64::INFINITY,
        n => n as f64 * 0.25 - 1.5,
    }
}

fn decimals(rows: usize, random: &mut Random) -> ArrayRef {
    let values: Decimal128Array = column(rows, random, |r| r.below(9) as i128 * 50 - 200).collect();
    Arc::new(values.with_precision_and_scale(10, 2).expect("small numbers"))
}
