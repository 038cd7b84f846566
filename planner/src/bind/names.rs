//! Identifiers as written → names as stored: unquoted ones become lower-case.

use datafusion_sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use crate::catalog::TableName;
use crate::error::{PlannerError, Result, Span};
use crate::parse::span_of;

/// The name an identifier stands for.
pub(super) fn normalized(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// The place of a name's first part.
pub(super) fn span_of_name(name: &ObjectName) -> Option<Span> {
    let ident = name.0.first().and_then(ObjectNamePart::as_ident)?;
    let last = name.0.last().and_then(ObjectNamePart::as_ident)?;
    let (start, end) = (span_of(ident.span)?, span_of(last.span)?);
    Some(Span { start: start.start, end: end.end })
}

/// The path in `FROM 'path'`: a name of one part in single quotes.
pub(super) fn as_path(name: &ObjectName) -> Option<&str> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] if ident.quote_style == Some('\'') => {
            Some(&ident.value)
        }
        _ => None,
    }
}

/// A name of one to three parts.
pub(super) fn table_name(name: &ObjectName) -> Result<TableName> {
    let parts: Option<Vec<String>> =
        name.0.iter().map(|part| part.as_ident().map(normalized)).collect();
    match parts.as_deref() {
        Some([table]) => Ok(TableName::bare(table)),
        Some([schema, table]) => Ok(TableName::partial(schema, table)),
        Some([catalog, schema, table]) => Ok(TableName {
            catalog: Some(catalog.clone()),
            schema: Some(schema.clone()),
            table: table.clone(),
        }),
        _ => Err(PlannerError::name(format!("{name} is not the name of a table"))
            .with_hint("a table's name has one to three parts: catalog.schema.table".to_string())
            .with_span(span_of_name(name))),
    }
}

/// Whether a name that is no table may be meant as a path.
pub(super) fn looks_like_path(name: &str) -> bool {
    name.contains(['/', '.', '*'])
}
