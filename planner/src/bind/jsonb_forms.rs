//! What is written of JSONB, as calls: `CAST(x AS JSONB)`, `x -> key`, `x ->> key`, `jsonb_agg(x)`, `jsonb_object_agg(k, v)`.
//!
//! The aggregates collect lists, over the rows and in the order that the call says, and make documents of them.

use std::collections::HashSet;
use std::sync::LazyLock;

use datafusion_functions_nested::all_default_higher_order_functions;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, ObjectNamePart,
    OneOrManyWithParens, TypedString,
};

use super::text_casts::call;
use crate::jsonb::JsonFunction;
use crate::parse::JSON_ARROW;

/// Rewrites the expression, if it is one of those; what is inside has been rewritten before.
pub(super) fn rewrite_jsonb(expr: &mut Expr) {
    let calls = |function: JsonFunction, args: Vec<Expr>| call(function.name(), args);
    let nested = |expr: &Expr| Expr::Nested(Box::new(expr.clone()));
    let rewritten = match expr {
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: value,
            data_type: SqlType::JSONB,
            ..
        } => Some(calls(JsonFunction::Parse, vec![value.as_ref().clone()])),
        Expr::TypedString(TypedString { data_type: SqlType::JSONB, value, .. }) => {
            Some(calls(JsonFunction::Parse, vec![Expr::Value(value.clone())]))
        }
        Expr::BinaryOp { left, op, right } if is_arrow(op) => {
            Some(calls(JsonFunction::Get, vec![nested(left), nested(right)]))
        }
        Expr::BinaryOp { left, op: BinaryOperator::LongArrow, right } => {
            Some(calls(JsonFunction::GetText, vec![nested(left), nested(right)]))
        }
        Expr::Function(function) => collected(function),
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
}

fn is_arrow(operator: &BinaryOperator) -> bool {
    match operator {
        BinaryOperator::Arrow => true,
        BinaryOperator::Custom(written) => written == JSON_ARROW,
        _ => false,
    }
}

/// The names of functions that take functions.
static HIGHER_ORDER: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_higher_order_functions();
    let names = functions.iter().map(|f| f.name().to_string());
    names.chain(functions.iter().flat_map(|f| f.aliases().to_vec())).collect()
});

/// `f(l, x -> 1)`: for functions that take functions, the arrow between a name and a constant is that of a function.
pub(super) fn restore_lambdas(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    if !HIGHER_ORDER.contains(&name.value.to_lowercase()) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    for arg in &mut list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg else { continue };
        let Expr::BinaryOp { left, op: BinaryOperator::Custom(_), right } = value else { continue };
        let Expr::Identifier(name) = left.as_ref() else { continue };
        let parameter = LambdaFunctionParameter { name: name.clone(), data_type: None };
        *value = Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::One(parameter),
            body: right.clone(),
            syntax: LambdaSyntax::Arrow,
        });
    }
}

/// `jsonb_agg(x …)` and `jsonb_object_agg(k, v …)`
fn collected(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let args: Vec<&Expr> = list
        .args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let made = match (name.value.to_ascii_lowercase().as_str(), args.len()) {
        ("jsonb_agg", 1) => JsonFunction::ToJsonb,
        ("jsonb_object_agg", 2) => JsonFunction::Object,
        _ => return None,
    };
    let lists = args.into_iter().map(|value| {
        let mut list = list.clone();
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value.clone()))];
        let mut collect = function.clone();
        collect.args = FunctionArguments::List(list);
        if let Expr::Function(array_agg) = call("array_agg", Vec::new()) {
            collect.name = array_agg.name;
        }
        Expr::Function(collect)
    });
    Some(call(made.name(), lists.collect()))
}
