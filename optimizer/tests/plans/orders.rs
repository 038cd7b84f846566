//! Every join order computes the same rows: random join trees over small tables are planned with and without
//! reordering, and both plans are evaluated naively.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_common::{JoinType, ScalarValue};
use datafusion_expr::{Expr, Operator};
use thalweg_optimizer::PhysicalPlan;
use thalweg_optimizer::physical::{ColumnId, PhysicalNode, PhysicalOp};

use super::catalog::{Tables, plan_with, text, threads};

type Value = Option<i64>;
type Row = BTreeMap<ColumnId, Value>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The rows of a table: two columns of few values, NULL among them.
fn rows_of(table: &str, seed: u64) -> Vec<[Value; 2]> {
    let number: u64 = table[1..].parse().expect("tables are called t0, t1, …");
    let mut random = Random(seed * 31 + number);
    let mut value = || match random.below(4) {
        0 => None,
        value => Some(value as i64),
    };
    (0..4).map(|_| [value(), value()]).collect()
}

fn tables(random: &mut Random, count: usize) -> Tables {
    let mut tables = Tables::default();
    for i in 0..count {
        let rows = 10_f64.powi(random.below(7) as i32) * (1 + random.below(9)) as f64;
        let distinct = (rows / (1 + random.below(20)) as f64).max(1.0);
        let column = |name| (name, DataType::Int64, distinct, Some((0, 1_000_000)));
        tables.add(&format!("t{i}"), rows, &[column("a"), column("b")]);
    }
    tables
}

/// A random join tree as SQL, and the tables whose columns it shows.
fn join_tree(random: &mut Random, tables: &[usize]) -> (String, Vec<usize>) {
    if let [table] = tables {
        return (format!("t{table}"), vec![*table]);
    }
    let cut = 1 + random.below(tables.len() as u64 - 1) as usize;
    let (left, mut shown) = join_tree(random, &tables[..cut]);
    let (right, right_shown) = join_tree(random, &tables[cut..]);
    let kinds = [
        "JOIN",
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
    ];
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    let mut conditions = Vec::new();
    for _ in 0..1 + random.below(2) {
        let mut column = |shown: &[usize]| {
            let table = shown[random.below(shown.len() as u64) as usize];
            format!("t{table}.{}", ["a", "b"][random.below(2) as usize])
        };
        conditions.push(format!("{} = {}", column(&shown), column(&right_shown)));
    }
    if !kind.contains("SEMI") && !kind.contains("ANTI") {
        shown.extend(right_shown);
    }
    (format!("({left} {kind} {right} ON {})", conditions.join(" AND ")), shown)
}

#[test]
fn reordering_keeps_the_result() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let count = 3 + random.below(4) as usize;
        let tables = tables(&mut random, count);
        let all: Vec<usize> = (0..count).collect();
        let (from, shown) = join_tree(&mut random, &all);
        let columns: Vec<String> = shown.iter().map(|t| format!("t{t}.a, t{t}.b")).collect();
        let sql = format!("SELECT {} FROM {from}", columns.join(", "));
        let mut written = threads(1);
        written.strategies.join_reordering = false;
        let expected = plan_with(&sql, &tables, &written);
        for threads_ in [1, 4] {
            let found = plan_with(&sql, &tables, &threads(threads_));
            assert_eq!(
                result(&found, seed),
                result(&expected, seed),
                "seed {seed}\n{sql}\n{}\nas written:\n{}",
                text(&found),
                text(&expected)
            );
        }
    }
}

fn result(plan: &PhysicalPlan, seed: u64) -> Vec<Vec<Value>> {
    let rows = evaluate(&plan.root, seed);
    let mut rows: Vec<Vec<Value>> =
        rows.iter().map(|row| plan.output.iter().map(|(id, _)| row[id]).collect()).collect();
    rows.sort();
    rows
}

fn evaluate(node: &PhysicalNode, seed: u64) -> Vec<Row> {
    let inputs: Vec<Vec<Row>> = node.inputs.iter().map(|c| evaluate(&c.node, seed)).collect();
    let rows = match &node.op {
        PhysicalOp::Scan { table, columns, filter_columns, filters, .. } => {
            let all = || columns.iter().chain(filter_columns);
            let row =
                |values: &[Value; 2]| all().map(|(id, index)| (*id, values[*index])).collect();
            let rows: Vec<Row> = rows_of(table, seed).iter().map(row).collect();
            rows.into_iter().filter(|row| filters.iter().all(|f| holds(f, row))).collect()
        }
        PhysicalOp::Empty { one_row: false } => Vec::new(),
        PhysicalOp::Filter { predicate } => {
            inputs[0].iter().filter(|row| holds(predicate, row)).cloned().collect()
        }
        PhysicalOp::Project { exprs } => {
            let project = |row: &Row| exprs.iter().map(|(id, e)| (*id, value(e, row))).collect();
            inputs[0].iter().map(project).collect()
        }
        PhysicalOp::Sort { .. } => inputs[0].clone(),
        PhysicalOp::HashJoin { join_type, on, filter, .. }
        | PhysicalOp::SortMergeJoin { join_type, on, filter, .. } => {
            let keys: Vec<Expr> = on.iter().map(|(l, r)| l.clone().eq(r.clone())).collect();
            let matches = |row: &Row| keys.iter().chain(filter).all(|f| holds(f, row));
            join(*join_type, &inputs[0], &inputs[1], &matches)
        }
        PhysicalOp::NestedLoopJoin { join_type, filter, .. } => {
            join(*join_type, &inputs[0], &inputs[1], &|row| filter.iter().all(|f| holds(f, row)))
        }
        other => panic!("{other:?} is not expected here"),
    };
    let null =
        |row: &Row| node.output.iter().map(|id| (*id, row.get(id).copied().flatten())).collect();
    rows.iter().map(null).collect()
}

fn join(kind: JoinType, left: &[Row], right: &[Row], matches: &dyn Fn(&Row) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut right_matched = vec![false; right.len()];
    for l in left {
        let mut matched = false;
        for (i, r) in right.iter().enumerate() {
            let both: Row = l.iter().chain(r).map(|(id, value)| (*id, *value)).collect();
            if matches(&both) {
                matched = true;
                right_matched[i] = true;
                if matches!(kind, JoinType::Inner | JoinType::Left | JoinType::Full) {
                    rows.push(both);
                }
            }
        }
        let alone = match kind {
            JoinType::LeftSemi => matched,
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => !matched,
            JoinType::Inner => false,
            other => panic!("{other} is turned around by the optimizer"),
        };
        if alone {
            rows.push(l.clone());
        }
    }
    if kind == JoinType::Full {
        rows.extend(right.iter().zip(&right_matched).filter(|(_, m)| !**m).map(|(r, _)| r.clone()));
    }
    rows
}

fn holds(expr: &Expr, row: &Row) -> bool {
    value(expr, row) == Some(1)
}

/// Evaluates the few expressions that occur; booleans are 0 and 1.
fn value(expr: &Expr, row: &Row) -> Value {
    let truth = |b: bool| Some(i64::from(b));
    match expr {
        Expr::Column(column) => row
            .get(&ColumnId::from_column(column).expect("plans name columns by id"))
            .copied()
            .flatten(),
        Expr::Literal(ScalarValue::Boolean(b), _) => b.map(i64::from),
        Expr::IsNull(inner) => truth(value(inner, row).is_none()),
        Expr::IsNotNull(inner) => truth(value(inner, row).is_some()),
        Expr::BinaryExpr(binary) => {
            let (l, r) = (value(&binary.left, row), value(&binary.right, row));
            match binary.op {
                Operator::Eq => truth(l? == r?),
                Operator::And => truth(l == Some(1) && r == Some(1)),
                Operator::Or => truth(l == Some(1) || r == Some(1)),
                op => panic!("{op} is not expected here"),
            }
        }
        other => panic!("{other} is not expected here"),
    }
}
