//! First rows of an order over streams: as windows whose partitions keep no more rows than anyone wants.

use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator, WindowFrame, WindowFunctionDefinition};
use thalweg_planner::row_number;

use crate::physical::{ColumnId, ColumnTable, WindowCall};
use crate::properties::SortKey;
use crate::relational::{Rel, RelOp};

/// The first rows of an input in an order, some of them left out; without keys any rows will do.
pub(super) fn first_rows(
    input: Rel,
    keys: Vec<SortKey>,
    skip: usize,
    fetch: usize,
    columns: &mut ColumnTable,
) -> Rel {
    let output = input.output.clone();
    let keep = Some(skip.saturating_add(fetch));
    let window = |functions| RelOp::Window {
        partition_by: Vec::new(),
        order_by: keys,
        functions,
        keep,
        completion: None,
    };
    if skip == 0 {
        return Rel::new(window(Vec::new()), vec![input]);
    }
    let call = row_number_call(columns);
    let position = call.output;
    let ranked = Rel::new(window(vec![call]), vec![input]);
    let skip = ScalarValue::UInt64(Some(skip as u64));
    let behind = Expr::BinaryExpr(BinaryExpr::new(
        Box::new(position.expr()),
        Operator::Gt,
        Box::new(Expr::Literal(skip, None)),
    ));
    let mut rest = Rel::new(RelOp::Filter { conjuncts: vec![behind] }, vec![ranked]);
    rest.output = output;
    rest
}

fn row_number_call(columns: &mut ColumnTable) -> WindowCall {
    let function = row_number();
    let data_type = arrow::datatypes::DataType::UInt64;
    WindowCall {
        output: columns.add("row_number", data_type.clone(), false),
        function: WindowFunctionDefinition::WindowUDF(function),
        args: Vec::new(),
        frame: WindowFrame::new(Some(false)),
        filter: None,
        distinct: false,
        null_treatment: None,
        data_type,
    }
}

/// How many rows of a partition a condition on its row number lets through: `row_number <= 3` three.
pub(super) fn rows_wanted(conjuncts: &[Expr], functions: &[WindowCall]) -> Option<usize> {
    let [call] = functions else { return None };
    if !["row_number", "number_at_once"].contains(&call.function.name()) {
        return None;
    }
    conjuncts.iter().filter_map(|conjunct| most(conjunct, call.output)).min()
}

/// The greatest number a conjunct allows a column.
fn most(conjunct: &Expr, column: ColumnId) -> Option<usize> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let (op, limit) = match (ColumnId::from_expr(left), ColumnId::from_expr(right)) {
        (Some(id), _) if id == column => (*op, number(right)?),
        (_, Some(id)) if id == column => (op.swap()?, number(left)?),
        _ => return None,
    };
    let most = match op {
        Operator::LtEq | Operator::Eq => limit,
        Operator::Lt => limit - 1,
        _ => return None,
    };
    usize::try_from(most.max(0)).ok()
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => match value {
            ScalarValue::UInt64(Some(n)) => i64::try_from(*n).ok(),
            ScalarValue::Int64(Some(n)) => Some(*n),
            ScalarValue::Int32(Some(n)) => Some(i64::from(*n)),
            _ => None,
        },
        _ => None,
    }
}
