//! Errors of the libraries below → [`PlannerError`], and back where one has to pass through them.

use datafusion_common::{DataFusionError, Diagnostic, SchemaError};

use crate::error::{ErrorKind, PlannerError, Span};
use crate::suggest::did_you_mean;

/// Wraps an error of ours, so that it passes through library code unharmed.
pub(crate) fn carry(error: PlannerError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error of ours that an error of the libraries means.
pub(crate) fn translate(error: DataFusionError) -> PlannerError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<PlannerError>() {
            Ok(error) => *error,
            Err(other) => PlannerError::invalid(other.to_string()),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => diagnosed(&diagnostic, translate(*inner)),
        DataFusionError::Context(context, inner) => {
            let error = translate(*inner);
            if error.detail.is_some() || error.kind != ErrorKind::Internal {
                error
            } else {
                error.with_detail(context)
            }
        }
        DataFusionError::Shared(inner) => plain(&inner),
        DataFusionError::Collection(errors) => errors.into_iter().next().map_or_else(
            || PlannerError::internal("an error without a message"),
            translate,
        ),
        DataFusionError::SchemaError(error, _) => schema_error(*error),
        other => plain(&other),
    }
}

/// Adds what a diagnostic knows: the place, and help.
fn diagnosed(diagnostic: &Diagnostic, mut error: PlannerError) -> PlannerError {
    let pair = |l: datafusion_common::Location| (l.line as usize, l.column as usize);
    let span = diagnostic.span.map(|s| Span {
        start: pair(s.start),
        end: pair(s.end),
    });
    if error.detail.is_none() && error.kind == ErrorKind::Invalid {
        error.message = uncapitalised(&diagnostic.message);
    }
    error.with_span(span)
}

fn schema_error(error: SchemaError) -> PlannerError {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let names: Vec<&str> = valid_fields.iter().map(|c| c.name.as_str()).collect();
            let shown = match &field.relation {
                Some(relation) => format!("{relation}.{}", field.name),
                None => field.name.clone(),
            };
            let known = field.relation.as_ref().is_none_or(|r| {
                valid_fields.iter().any(|c| {
                    c.relation
                        .as_ref()
                        .is_some_and(|v| v.resolved_eq(r) || v.table() == r.table())
                })
            });
            if !known && let Some(relation) = &field.relation {
                let tables = valid_fields
                    .iter()
                    .filter_map(|c| c.relation.as_ref())
                    .map(|r| r.table());
                return PlannerError::name(format!(
                    "there is no table or alias {relation} in this part of the query"
                ))
                .with_hint(did_you_mean(relation.table(), tables));
            }
            let hint = did_you_mean(&field.name, names.iter().copied())
                .or_else(|| in_other_case(&field.name, &names));
            PlannerError::name(format!("column {shown} does not exist"))
                .with_hint(hint)
                .with_detail(columns(&names))
        }
        SchemaError::AmbiguousReference { field } => {
            PlannerError::name(format!("column {} is ambiguous", field.name))
                .with_hint("write the table or alias before it".to_string())
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            PlannerError::name(format!("column {qualifier}.{name} appears twice"))
                .with_hint("give the tables or columns different names with AS".to_string())
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            PlannerError::name(format!("column {name} appears twice"))
                .with_hint("give the columns different names with AS".to_string())
        }
    }
}

fn in_other_case(name: &str, names: &[&str]) -> Option<String> {
    let same = names.iter().find(|n| n.eq_ignore_ascii_case(name))?;
    Some(format!(
        "unquoted names are read in lower case: write \"{same}\" in double quotes"
    ))
}

/// The most columns a detail lists.
const MAX_COLUMNS: usize = 12;

fn columns(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        some if some.len() <= MAX_COLUMNS => {
            Some(format!("The columns here are {}.", some.join(", ")))
        }
        _ => None,
    }
}

fn plain(error: &DataFusionError) -> PlannerError {
    let message = error.strip_backtrace();
    match error {
        DataFusionError::NotImplemented(message) => {
            PlannerError::new(ErrorKind::NotSupported, uncapitalised(message))
        }
        DataFusionError::Plan(message) => classified(message),
        DataFusionError::SQL(error, _) => PlannerError::syntax(uncapitalised(&error.to_string())),
        DataFusionError::Internal(message) => {
            PlannerError::internal("the planner failed on this statement")
                .with_detail(message.clone())
        }
        DataFusionError::External(inner) => match inner.downcast_ref::<PlannerError>() {
            Some(error) => error.clone(),
            None => PlannerError::invalid(inner.to_string()),
        },
        DataFusionError::ArrowError(error, _) => {
            PlannerError::invalid(uncapitalised(&error.to_string()))
        }
        DataFusionError::Execution(message) | DataFusionError::Configuration(message) => {
            PlannerError::invalid(uncapitalised(message))
        }
        _ => PlannerError::invalid(uncapitalised(&message)),
    }
}

/// A planning error by what its message is about.
fn classified(message: &str) -> PlannerError {
    let first = message.lines().next().unwrap_or(message);
    if let Some(rest) = first.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or(rest);
        let guess = rest
            .split("Did you mean '")
            .nth(1)
            .and_then(|g| g.split('\'').next());
        let hint = guess.and_then(|guess| did_you_mean(name, [guess]));
        return PlannerError::name(format!("function {name} does not exist")).with_hint(hint);
    }
    let kind = if first.contains("coerce") || first.contains("type") {
        ErrorKind::Type
    } else {
        ErrorKind::Invalid
    };
    PlannerError::new(kind, uncapitalised(message))
}

/// The message with a lower-case start, unless its first word is all capitals, and without a full stop.
fn uncapitalised(message: &str) -> String {
    let message = message.trim().trim_end_matches('.');
    let mut chars = message.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => first
            .to_lowercase()
            .chain(message.chars().skip(1))
            .collect(),
        _ => message.to_string(),
    }
}
