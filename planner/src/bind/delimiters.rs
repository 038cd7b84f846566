//! `string_agg(text, delimiter)` with a delimiter that is no constant: the delimiter of a row stands before its text.
//!
//! The library knows constants alone. Here the texts are joined with their delimiters before them, and that of the first
//! is cut off. Invariant: both read the rows in one order, and a text that is NULL brings no delimiter.

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Value,
};

use super::text_casts::call;

/// Rewrites a call whose delimiter is computed.
pub(super) fn computed_delimiter(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    if let Some(joined) = joined(function) {
        *expr = joined;
    }
}

fn joined(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    if !name.value.eq_ignore_ascii_case("string_agg") || function.over.is_some() {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(text)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(delimiter)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    if is_constant(delimiter) || list.duplicate_treatment.is_some() {
        return None;
    }
    let nested = |expr: &Expr| Expr::Nested(Box::new(expr.clone()));
    let before = call("coalesce", vec![nested(delimiter), string("")]);
    let with_delimiter = Expr::BinaryOp {
        left: Box::new(before.clone()),
        op: BinaryOperator::StringConcat,
        right: Box::new(nested(text)),
    };
    let present = Expr::IsNotNull(Box::new(nested(text)));
    let filter = match &function.filter {
        None => present,
        Some(filter) => Expr::BinaryOp {
            left: Box::new(present),
            op: BinaryOperator::And,
            right: Box::new(nested(filter)),
        },
    };
    // Over the same rows, filtered and ordered as the call says.
    let collected = |value: Expr| {
        let mut collected = function.clone();
        let mut list = list.clone();
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
        collected.args = FunctionArguments::List(list);
        collected.name = match call("array_agg", Vec::new()) {
            Expr::Function(function) => function.name,
            _ => collected.name,
        };
        collected.filter = Some(Box::new(filter.clone()));
        Expr::Function(collected)
    };
    let whole = call("array_to_string", vec![collected(with_delimiter), string("")]);
    let first = call("array_element", vec![collected(before), number("1")]);
    let start = Expr::BinaryOp {
        left: Box::new(number("1")),
        op: BinaryOperator::Plus,
        right: Box::new(call("character_length", vec![first])),
    };
    Some(call("substr", vec![whole, start]))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

fn string(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_string()))
}

fn number(text: &str) -> Expr {
    Expr::value(Value::Number(text.to_string(), false))
}
