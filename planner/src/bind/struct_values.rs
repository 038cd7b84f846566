//! Rows as the values of structs: `(1, 'a')`, `ROW(1, 'a')` and `struct(1, 'a')` in INSERT … VALUES, by position.
//!
//! The library finds the fields of a struct by name, and such a row has none. Here a row for a column of a struct gets
//! the names of the column's fields. Invariant: a row of another width stays, and is an error later.

use arrow::datatypes::DataType;
use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Value,
};

use super::text_casts::call;

/// The value for a column of a type, if rows in it have to be named.
pub(super) fn named_row(value: &Expr, data_type: &DataType) -> Option<Expr> {
    match data_type {
        DataType::Struct(fields) => {
            let parts = parts_of(value).filter(|parts| parts.len() == fields.len())?;
            let named = parts.into_iter().zip(fields).flat_map(|(part, field)| {
                let name = Value::SingleQuotedString(field.name().clone());
                let part = named_row(&part, field.data_type()).unwrap_or(part);
                [Expr::value(name), part]
            });
            Some(call("named_struct", named.collect()))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            let Expr::Array(array) = value else { return None };
            let mut named = array.clone();
            let mut any = false;
            for element in &mut named.elem {
                if let Some(row) = named_row(element, item.data_type()) {
                    (*element, any) = (row, true);
                }
            }
            any.then_some(Expr::Array(named))
        }
        _ => None,
    }
}

/// The parts of a row.
fn parts_of(value: &Expr) -> Option<Vec<Expr>> {
    match value {
        Expr::Tuple(parts) => Some(parts.clone()),
        Expr::Nested(inner) => parts_of(inner),
        Expr::Function(function) => {
            let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
                return None;
            };
            let FunctionArguments::List(list) = &function.args else { return None };
            if !["row", "struct"].iter().any(|row| name.value.eq_ignore_ascii_case(row)) {
                return None;
            }
            let part = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => Some(part.clone()),
                _ => None,
            };
            list.args.iter().map(part).collect()
        }
        _ => None,
    }
}
