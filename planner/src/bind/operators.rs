//! Operators and functions that mean something else to the library, or nothing, in words that it knows.
//!
//! `a ^ b` is a power, of doubles; `~a` and `xor(a, b)` are bitwise; a century, decade or millennium is computed from the
//! year.

use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType as SqlType, DateTimeField,
    ExactNumberInfo, Expr, ExtractSyntax, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, ObjectNamePart, UnaryOperator, Value,
};

use super::text_casts::call;

/// `-a ^ b` is `(-a) ^ b`: the parser lets the power go first.
pub(super) fn minus_before_power(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr else { return };
    if !is_power(operand) {
        return;
    }
    let nothing = || Expr::Value(Value::Null.with_empty_span());
    let mut powers = std::mem::replace(&mut **operand, nothing());
    let mut base = &mut powers;
    while is_power(base) {
        let Expr::BinaryOp { left, .. } = base else { return };
        base = left;
    }
    **operand = std::mem::replace(base, nothing());
    *base = std::mem::replace(expr, nothing());
    *expr = powers;
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::BitwiseXor | BinaryOperator::PGExp, .. })
}

/// Rewrites the expression, if it is one of those; what is inside has been rewritten before.
pub(super) fn rewrite_operator(expr: &mut Expr) {
    let rewritten = match expr {
        Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor | BinaryOperator::PGExp, right } => {
            Some(call("power", vec![double(left), double(right)]))
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGBitwiseXor, right } => Some(xor(left, right)),
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand } => {
            Some(xor(operand, &Expr::Nested(Box::new(number("-1")))))
        }
        Expr::Extract { field, expr: time, .. } => years_of(field).map(|years| {
            let year = Expr::Extract {
                field: DateTimeField::Year,
                syntax: ExtractSyntax::From,
                expr: time.clone(),
            };
            period(year, years)
        }),
        Expr::Function(function) => bitwise_call(function),
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_string(), false))
}

fn nested(expr: &Expr) -> Box<Expr> {
    Box::new(Expr::Nested(Box::new(expr.clone())))
}

fn double(expr: &Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: nested(expr),
        data_type: SqlType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

fn xor(left: &Expr, right: &Expr) -> Expr {
    let (left, right) = (nested(left), nested(right));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right }))
}

/// `xor(a, b)`.
fn bitwise_call(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let named = name.value.eq_ignore_ascii_case("xor") && function.over.is_none();
    named.then(|| xor(left, right))
}

/// The years of a period that EXTRACT may name.
fn years_of(field: &DateTimeField) -> Option<&'static str> {
    match field {
        DateTimeField::Decade => Some("10"),
        DateTimeField::Century => Some("100"),
        DateTimeField::Millennium | DateTimeField::Millenium => Some("1000"),
        _ => None,
    }
}

/// The number of the period that a year lies in. The first century began with the year 1, and there is no year 0;
/// decades are the digits before the last one.
fn period(year: Expr, years: &str) -> Expr {
    let binary = |left: &Expr, op, right: &Expr| Expr::BinaryOp {
        left: nested(left),
        op,
        right: nested(right),
    };
    let divide = |of: &Expr| Expr::Floor {
        expr: Box::new(binary(&double(of), BinaryOperator::Divide, &number(years))),
        field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
    };
    let whole = |of: Expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: nested(&of),
        data_type: SqlType::BigInt(None),
        array: false,
        format: None,
    };
    if years == "10" {
        return whole(divide(&year));
    }
    // From 1 on the periods count from 1; the one before is -1.
    let after = binary(
        &divide(&binary(&year, BinaryOperator::Minus, &number("1"))),
        BinaryOperator::Plus,
        &number("1"),
    );
    let before = divide(&binary(&year, BinaryOperator::Minus, &number("1")));
    let positive = binary(&year, BinaryOperator::Gt, &number("0"));
    whole(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: positive, result: after }],
        else_result: Some(Box::new(before)),
    })
}
