//! The operators that work row by row, through the harness.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;
use datafusion_common::ScalarValue;

use super::OperatorSpec;
use super::filter::FilterSpec;
use super::harness::{batch, check};
use super::iteration::IterationTailSpec;
use super::limit::LimitSpec;
use super::project::ProjectSpec;
use super::union::UnionSpec;
use super::values::ValuesSpec;
use crate::batch::Batch;
use crate::expr::{BinaryOperator, Expr};

fn integer(value: i64) -> Expr {
    Expr::literal(ScalarValue::Int64(Some(value)))
}

fn binary(op: BinaryOperator, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> Batch {
    let numbers: Int64Array = values.into_iter().collect();
    let names: StringArray = numbers.iter().map(|v| v.map(|v| format!("n{v}"))).collect();
    batch(vec![Arc::new(numbers) as ArrayRef, Arc::new(names)])
}

fn input() -> Vec<Batch> {
    vec![numbers([Some(1), None, Some(3)]), numbers([]), numbers([Some(4), Some(0)])]
}

const TYPES: [DataType; 2] = [DataType::Int64, DataType::Utf8];

#[test]
fn a_filter_keeps_what_is_true() {
    let predicate = binary(BinaryOperator::Gt, Expr::Column(0), integer(0));
    let spec = FilterSpec { input: TYPES.to_vec(), predicate, output: vec![1] };
    assert_eq!(check(&OperatorSpec::Filter(spec), vec![input()]), ["n1", "n3", "n4"]);
}

#[test]
fn a_projection_computes_columns() {
    let doubled = binary(BinaryOperator::Multiply, Expr::Column(0), integer(2));
    let spec = ProjectSpec { input: TYPES.to_vec(), exprs: vec![doubled, Expr::Column(1)] };
    let rows = check(&OperatorSpec::Project(spec), vec![input()]);
    assert_eq!(rows, ["2|n1", "∅|∅", "6|n3", "8|n4", "0|n0"]);
}

#[test]
fn a_limit_skips_and_stops() {
    let spec = OperatorSpec::Limit(LimitSpec { skip: 2, fetch: Some(2) });
    assert_eq!(check(&spec, vec![input()]), ["3|n3", "4|n4"]);
    let rest = OperatorSpec::Limit(LimitSpec { skip: 4, fetch: None });
    assert_eq!(check(&rest, vec![input()]), ["0|n0"]);
}

#[test]
fn values_are_rows_without_an_input() {
    let spec =
        ValuesSpec { types: vec![DataType::Int64], rows: vec![vec![integer(7)], vec![integer(8)]] };
    assert_eq!(check(&OperatorSpec::Values(spec), vec![]), ["7", "8"]);
}

#[test]
fn a_union_passes_all_inputs_on() {
    let spec = OperatorSpec::Union(UnionSpec { inputs: 2 });
    let mut rows = check(&spec, vec![input(), input()]);
    rows.sort();
    assert_eq!(rows.len(), 10);
    assert_eq!(&rows[..2], ["0|n0", "0|n0"]);
}

#[test]
fn the_tail_of_an_iteration_passes_rows_on() {
    let spec = OperatorSpec::IterationTail(IterationTailSpec {});
    let rows = check(&spec, vec![input()]);
    assert_eq!(rows, ["1|n1", "∅|∅", "3|n3", "4|n4", "0|n0"]);
}

/// Operators whose state is that of a connector outside of this crate; its own tests interrupt it.
const CONNECTORS: [&str; 2] = ["SourceScan", "Sink"];

#[test]
fn every_operator_is_interrupted_by_the_harness() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operators");
    let (mut texts, mut open) = (Vec::new(), vec![folder.clone()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => texts.push(std::fs::read_to_string(entry.path()).unwrap()),
            }
        }
    }
    let drives = |text: &&String| text.contains("harness::");
    let driven: Vec<&String> = texts.iter().filter(drives).collect();
    let spec = std::fs::read_to_string(folder.join("spec.rs")).unwrap();
    let body = spec.split("pub enum OperatorSpec {").nth(1).unwrap().split("\n}").next().unwrap();
    let variants = body.lines().filter_map(|line| line.trim().split_once('(')?.0.into());
    let missing: Vec<&str> = variants
        .filter(|name: &&str| name.chars().all(char::is_alphanumeric))
        .filter(|name| !CONNECTORS.contains(name))
        .filter(|name| !driven.iter().any(|text| text.contains(&format!("OperatorSpec::{name}("))))
        .collect();
    assert!(body.contains("HashJoinProbe(") && missing.is_empty(), "{missing:?}");
}
