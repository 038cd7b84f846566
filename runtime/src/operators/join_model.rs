//! The naive join that the tests of all join operators compare with, and random inputs for it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use arrow::util::display::array_value_to_string;
use arrow_schema::DataType;

use super::harness::{batch, rows};
use super::join_kind::{JoinColumn, JoinKind};
use crate::batch::Batch;
use crate::expr::{BinaryOperator, Expr};
use crate::rows::canonical_key;

/// All kinds.
pub(crate) const KINDS: [JoinKind; 10] = [
    JoinKind::Inner,
    JoinKind::ProbeOuter,
    JoinKind::BuildOuter,
    JoinKind::FullOuter,
    JoinKind::ProbeSemi,
    JoinKind::ProbeAnti,
    JoinKind::BuildSemi,
    JoinKind::BuildAnti,
    JoinKind::ProbeMark,
    JoinKind::BuildMark,
];

/// A small generator with a fixed seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A form of random column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Integers close together.
    Dense,
    /// Integers far apart.
    Sparse,
    /// 32-bit integers.
    Small,
    /// Short and long strings.
    Text,
    /// Doubles with both zeros and several NaNs.
    Float,
}

impl Form {
    /// The column's type.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Form::Dense | Form::Sparse => DataType::Int64,
            Form::Small => DataType::Int32,
            Form::Text => DataType::Utf8View,
            Form::Float => DataType::Float64,
        }
    }

    /// A column of `rows` values out of `distinct`, or NULLs.
    pub(crate) fn column(self, random: &mut Random, rows: usize, distinct: u64) -> ArrayRef {
        let draws: Vec<Option<i64>> = (0..rows)
            .map(|_| (random.below(12) > 0).then(|| random.below(distinct) as i64))
            .collect();
        let values = draws.into_iter();
        match self {
            Form::Dense => Arc::new(values.collect::<Int64Array>()),
            Form::Sparse => {
                Arc::new(values.map(|v| v.map(|v| (v - 2) << 50)).collect::<Int64Array>())
            }
            Form::Small => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            Form::Text => Arc::new(
                values
                    .map(|v| v.map(|v| format!("{v:0width$}", width = (v % 17) as usize)))
                    .collect::<StringViewArray>(),
            ),
            Form::Float => Arc::new(
                values
                    .map(|v| {
                        v.map(|v| match v {
                            0 if random.below(2) == 0 => -0.0,
                            1 if random.below(2) == 0 => f64::NAN,
                            1 => -f64::NAN,
                            v => v as f64,
                        })
                    })
                    .collect::<Float64Array>(),
            ),
        }
    }
}

/// One side: its keys come first, then a number (which may be NULL), then a text.
pub(crate) fn side(random: &mut Random, keys: &[Form], rows: usize, distinct: u64) -> Batch {
    let mut columns: Vec<ArrayRef> =
        keys.iter().map(|form| form.column(random, rows, distinct)).collect();
    columns.push(Form::Dense.column(random, rows, 100));
    columns.push(Form::Text.column(random, rows, 50));
    batch(columns)
}

/// Types of a side's columns.
pub(crate) fn side_types(keys: &[Form]) -> Vec<DataType> {
    let mut types: Vec<DataType> = keys.iter().map(|form| form.data_type()).collect();
    types.extend([DataType::Int64, DataType::Utf8View]);
    types
}

/// "The probe side's number is less than the build side's" for sides of `keys` keys.
pub(crate) fn numbers_ascend(keys: usize) -> Expr {
    Expr::Binary {
        op: BinaryOperator::Lt,
        left: Box::new(Expr::Column(keys)),
        right: Box::new(Expr::Column(keys + 2 + keys)),
    }
}

/// All columns that a kind can emit.
pub(crate) fn all_columns(kind: JoinKind, probe: usize, build: usize) -> Vec<JoinColumn> {
    let (probe, build) = ((0..probe).map(JoinColumn::Probe), (0..build).map(JoinColumn::Build));
    match kind {
        JoinKind::Inner | JoinKind::ProbeOuter | JoinKind::BuildOuter | JoinKind::FullOuter => {
            probe.chain(build).collect()
        }
        JoinKind::ProbeSemi | JoinKind::ProbeAnti => probe.collect(),
        JoinKind::BuildSemi | JoinKind::BuildAnti => build.collect(),
        JoinKind::ProbeMark => probe.chain([JoinColumn::Mark]).collect(),
        JoinKind::BuildMark => build.chain([JoinColumn::Mark]).collect(),
    }
}

/// What the model joins.
pub(crate) struct Model<'a> {
    /// What to emit.
    pub(crate) kind: JoinKind,
    /// Number of key columns.
    pub(crate) keys: usize,
    /// Whether NULL equals NULL.
    pub(crate) null_equal: bool,
    /// Whether the numbers must ascend, too.
    pub(crate) ascending: bool,
    /// The sides.
    pub(crate) probe: &'a Batch,
    /// The sides.
    pub(crate) build: &'a Batch,
}

fn key_texts(side: &Batch, keys: usize) -> Vec<Vec<Option<String>>> {
    let keys: Vec<ArrayRef> =
        side.columns()[..keys].iter().map(|k| canonical_key(k).expect("a key")).collect();
    (0..side.num_rows())
        .map(|row| {
            keys.iter()
                .map(|k| k.is_valid(row).then(|| array_value_to_string(k, row).expect("text")))
                .collect()
        })
        .collect()
}

fn numbers(side: &Batch, keys: usize) -> Vec<Option<i64>> {
    let column = side.column(keys);
    column.as_any().downcast_ref::<Int64Array>().expect("numbers").iter().collect()
}

impl Model<'_> {
    /// The result's rows as text, sorted.
    pub(crate) fn rows(&self) -> Vec<String> {
        let (probe_keys, build_keys) =
            (key_texts(self.probe, self.keys), key_texts(self.build, self.keys));
        let (probe_numbers, build_numbers) =
            (numbers(self.probe, self.keys), numbers(self.build, self.keys));
        let (probe_text, build_text) =
            (rows(std::slice::from_ref(self.probe)), rows(std::slice::from_ref(self.build)));
        let matches = |p: usize, b: usize| {
            let known = self.null_equal || probe_keys[p].iter().all(Option::is_some);
            let ascend = match (probe_numbers[p], build_numbers[b]) {
                (Some(p), Some(b)) => p < b,
                _ => false,
            };
            known && probe_keys[p] == build_keys[b] && (!self.ascending || ascend)
        };
        let (probes, builds) = (probe_text.len(), build_text.len());
        let nulls = |side: &Batch| vec!["∅"; side.columns().len()].join("|");
        let probe_match: Vec<bool> =
            (0..probes).map(|p| (0..builds).any(|b| matches(p, b))).collect();
        let build_match: Vec<bool> =
            (0..builds).map(|b| (0..probes).any(|p| matches(p, b))).collect();
        let mut out = Vec::new();
        if self.kind.emits_pairs() {
            for (p, text) in probe_text.iter().enumerate() {
                out.extend(
                    (0..builds)
                        .filter(|&b| matches(p, b))
                        .map(|b| format!("{text}|{}", build_text[b])),
                );
            }
        }
        for (text, has_match) in probe_text.iter().zip(probe_match) {
            match self.kind {
                JoinKind::ProbeOuter | JoinKind::FullOuter if !has_match => {
                    out.push(format!("{text}|{}", nulls(self.build)));
                }
                JoinKind::ProbeSemi if has_match => out.push(text.clone()),
                JoinKind::ProbeAnti if !has_match => out.push(text.clone()),
                JoinKind::ProbeMark => out.push(format!("{text}|{has_match}")),
                _ => {}
            }
        }
        for (text, has_match) in build_text.iter().zip(build_match) {
            match self.kind {
                JoinKind::BuildOuter | JoinKind::FullOuter if !has_match => {
                    out.push(format!("{}|{text}", nulls(self.probe)));
                }
                JoinKind::BuildSemi if has_match => out.push(text.clone()),
                JoinKind::BuildAnti if !has_match => out.push(text.clone()),
                JoinKind::BuildMark => out.push(format!("{text}|{has_match}")),
                _ => {}
            }
        }
        out.sort();
        out
    }
}

/// A batch in pieces of at most `rows` rows.
pub(crate) fn pieces(whole: &Batch, rows: usize) -> Vec<Batch> {
    (0..whole.num_rows())
        .step_by(rows)
        .map(|start| whole.slice(start, rows.min(whole.num_rows() - start)))
        .collect()
}
