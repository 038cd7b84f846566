//! `HOUR(t)` and its like, as Flink and MySQL have them, written as EXTRACT.
//!
//! Results are whole numbers; `dayofweek` is 1 on Sundays. A call with other arguments than one is left alone.

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DataType as SqlType, DateTimeField, Expr,
    ExtractSyntax, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Value,
};

/// Rewrites a call of one of the functions.
pub(super) fn rewrite_date_part(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(time))] = list.args.as_slice() else { return };
    if function.over.is_some() || function.filter.is_some() || name.quote_style.is_some() {
        return;
    }
    let Some(field) = field(&name.value.to_ascii_lowercase()) else { return };
    let seconds = field == DateTimeField::Second;
    let sunday_first = field == DateTimeField::Dow;
    let part = Expr::Extract { field, syntax: ExtractSyntax::From, expr: Box::new(time.clone()) };
    let whole = match seconds {
        false => part,
        // Seconds have a fraction.
        true => Expr::Floor {
            expr: Box::new(part),
            field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
        },
    };
    let number = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(whole),
        data_type: SqlType::BigInt(None),
        array: false,
        format: None,
    };
    *expr = match sunday_first {
        false => number,
        true => Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(number),
            op: BinaryOperator::Plus,
            right: Box::new(Expr::value(Value::Number("1".to_string(), false))),
        })),
    };
}

fn field(function: &str) -> Option<DateTimeField> {
    Some(match function {
        "year" => DateTimeField::Year,
        "quarter" => DateTimeField::Quarter,
        "month" => DateTimeField::Month,
        "week" => DateTimeField::Week(None),
        "dayofyear" => DateTimeField::Doy,
        "dayofmonth" => DateTimeField::Day,
        "dayofweek" => DateTimeField::Dow,
        "hour" => DateTimeField::Hour,
        "minute" => DateTimeField::Minute,
        "second" => DateTimeField::Second,
        _ => return None,
    })
}
