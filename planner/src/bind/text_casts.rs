//! Casts of text to bytes and to vectors, which the library would do otherwise or not at all, become calls.
//!
//! Covered are casts that are written, and the values of INSERT … VALUES for columns of these types.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_sql::sqlparser::ast::{
    self, CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, SetExpr, Value,
};

use super::names::normalized;
use super::struct_values::named_row;
use crate::bytes::BYTEA;
use crate::jsonb::{JsonFunction, is_jsonb};
use crate::vectors::{VECTOR, dimensions};

/// The written cast as a call, if it is one of those.
pub(super) fn rewrite_cast(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: value, data_type, .. } =
        expr
    else {
        return;
    };
    let call = match data_type {
        SqlType::Bytea | SqlType::Blob(_) => bytea,
        SqlType::Custom(..) => match vector_dimensions(data_type) {
            Some(dimensions) => return *expr = vector(value.as_ref().clone(), dimensions),
            None => return,
        },
        _ => return,
    };
    *expr = call(value.as_ref().clone());
}

/// The n of `VECTOR(n)`.
pub(super) fn vector_dimensions(data_type: &SqlType) -> Option<i32> {
    match data_type {
        SqlType::Custom(name, modifiers) => match (name.0.as_slice(), modifiers.as_slice()) {
            ([part], [modifier]) if part.as_ident().map(normalized)? == VECTOR => {
                dimensions(modifier)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Makes calls of the values of `INSERT … VALUES` that go to columns of bytes, vectors or structs; `columns` are the positions
/// that are written, or none for all.
pub(super) fn rewrite_values(source: &mut Query, table: &SchemaRef, columns: &[Ident]) {
    let SetExpr::Values(values) = source.body.as_mut() else { return };
    let positions: Vec<Option<usize>> = match columns {
        [] => (0..table.fields().len()).map(Some).collect(),
        named => named.iter().map(|name| table.index_of(&normalized(name)).ok()).collect(),
    };
    for (at, position) in positions.into_iter().enumerate() {
        let Some(position) = position else { continue };
        let data_type = table.field(position).data_type();
        for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if let Some(row) = named_row(value, data_type) {
                *value = row;
                continue;
            }
            if !is_text(value) {
                continue;
            }
            match data_type {
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                    *value = bytea(value.clone());
                }
                DataType::FixedSizeList(item, dimensions)
                    if item.data_type() == &DataType::Float64 =>
                {
                    *value = vector(value.clone(), *dimensions);
                }
                other if is_jsonb(other) => {
                    *value = call(JsonFunction::Parse.name(), vec![value.clone()]);
                }
                _ => {}
            }
        }
    }
}

fn is_text(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn bytea(value: Expr) -> Expr {
    call(BYTEA, vec![value])
}

fn vector(value: Expr, dimensions: i32) -> Expr {
    call(VECTOR, vec![value, Expr::value(Value::Number(dimensions.to_string(), false))])
}

/// A call of a function.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
