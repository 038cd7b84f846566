//! Errors of the libraries below → [`PlannerError`], and back where one has to pass through them.

use datafusion_common::{DataFusionError, Diagnostic, SchemaError};

use crate::error::{ErrorKind, PlannerError, Span};
use crate::sql_text::with_sql_types;
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
        DataFusionError::Diagnostic(diagnostic, inner) => diagnosed(&diagnostic, *inner),
        DataFusionError::Context(context, inner) => {
            let error = translate(*inner);
            if error.detail.is_some() || error.kind != ErrorKind::Internal {
                error
            } else {
                error.with_detail(context)
            }
        }
        DataFusionError::Shared(inner) => plain(&inner),
        DataFusionError::Collection(errors) => errors
            .into_iter()
            .next()
            .map_or_else(|| PlannerError::internal("an error without a message"), translate),
        DataFusionError::SchemaError(error, _) => schema_error(*error),
        other => plain(&other),
    }
}

/// An error with what a diagnostic knows of it: the place, and often better words.
fn diagnosed(diagnostic: &Diagnostic, inner: DataFusionError) -> PlannerError {
    let foreign = matches!(inner, DataFusionError::Plan(_) | DataFusionError::NotImplemented(_));
    let mut error = translate(inner);
    let pair = |l: datafusion_common::Location| (l.line as u32, l.column as u32);
    let span = diagnostic.span.map(|s| Span { start: pair(s.start), end: pair(s.end) });
    if foreign && error.detail.is_none() && error.kind == ErrorKind::Invalid {
        error.message = uncapitalised(&diagnostic.message);
    }
    error.with_span(span)
}

fn schema_error(error: SchemaError) -> PlannerError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<&str> = valid_fields.iter().map(|c| c.name.as_str()).collect();
            let shown = match &field.relation {
                Some(relation) => format!("{relation}.{}", field.name),
                None => field.name.clone(),
            };
            let known = field.relation.as_ref().is_none_or(|r| {
                valid_fields.iter().any(|c| {
                    c.relation.as_ref().is_some_and(|v| v.resolved_eq(r) || v.table() == r.table())
                })
            });
            if !known && let Some(relation) = &field.relation {
                let tables =
                    valid_fields.iter().filter_map(|c| c.relation.as_ref()).map(|r| r.table());
                return PlannerError::name(format!(
                    "there is no table or alias {relation} in this part of the query"
                ))
                .with_hint(did_you_mean(relation.table(), tables));
            }
            let hint = did_you_mean(&field.name, names.iter().copied())
                .or_else(|| in_other_case(&field.name, &names));
            PlannerError::name(format!("column {shown} does not exist"))
                .about(field.name.as_str())
                .with_hint(hint)
                .with_detail(columns(&names))
        }
        SchemaError::AmbiguousReference { field } => {
            PlannerError::name(format!("column {} is ambiguous", field.name))
                .about(field.name.as_str())
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
    Some(format!("unquoted names are read in lower case: write \"{same}\" in double quotes"))
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
    match error {
        DataFusionError::NotImplemented(message) => not_implemented(message),
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
        DataFusionError::ArrowError(error, _) => value_error(&error.to_string()),
        DataFusionError::Execution(message) | DataFusionError::Configuration(message) => {
            PlannerError::invalid(uncapitalised(message))
        }
        other => classified(&other.strip_backtrace()),
    }
}

fn not_implemented(message: &str) -> PlannerError {
    if message.contains(" ast node ") {
        // The rest of the message is a syntax tree.
        return PlannerError::not_supported("this syntax");
    }
    PlannerError::new(ErrorKind::NotSupported, uncapitalised(message))
}

/// A value that cannot be read as what it should be: the message names it in quotes.
fn value_error(message: &str) -> PlannerError {
    let message = uncapitalised(message.trim_start_matches("Cast error: "));
    let value = message.split_once("string '").and_then(|(_, rest)| rest.split_once('\''));
    let subject = value.map(|(value, _)| value.to_string());
    let error = PlannerError::invalid(message);
    match subject {
        Some(value) => error.about(value),
        None => error,
    }
}

/// A planning error by what its message is about.
fn classified(message: &str) -> PlannerError {
    if let Some(error) = unknown_function(message).or_else(|| no_signature(message)) {
        return error;
    }
    if let Some(clause) = ["LIMIT", "OFFSET"].into_iter().find(|c| message.starts_with(*c)) {
        return PlannerError::invalid(message).about(clause);
    }
    let first = message.lines().next().unwrap_or(message);
    let kind = if first.contains("coerce") || first.contains("type") {
        ErrorKind::Type
    } else {
        ErrorKind::Invalid
    };
    PlannerError::new(kind, uncapitalised(message))
}

fn unknown_function(message: &str) -> Option<PlannerError> {
    let rest = message.strip_prefix("Invalid function '")?;
    let name = rest.split('\'').next().unwrap_or(rest);
    Some(PlannerError::name(format!("function {name} does not exist")).about(name))
}

/// A call whose arguments fit no signature of the function; the library lists what it tried.
fn no_signature(message: &str) -> Option<PlannerError> {
    let Some((_, rest)) =
        message.split_once("No function matches the given name and argument types '")
    else {
        let (name, rest) =
            message.strip_prefix("Function '")?.split_once("' failed to match any signature")?;
        let given = rest
            .split("(DataType: ")
            .nth(1)
            .and_then(|t| t.split(')').next())
            .unwrap_or("its arguments");
        return Some(
            PlannerError::new(
                ErrorKind::Type,
                format!("no function matches {name}({})", with_sql_types(given)),
            )
            .about(name),
        );
    };
    let (call, rest) = rest.split_once('\'')?;
    let call = with_sql_types(call);
    let candidates = rest.lines().skip(1).map(str::trim).filter(|l| l.ends_with(')'));
    // Functions that judge their arguments themselves have no list of types.
    let candidates = candidates.filter(|l| !l.contains("UserDefined"));
    let candidates: Vec<String> = candidates.map(with_sql_types).collect();
    let detail =
        (!candidates.is_empty()).then(|| format!("It can be called as {}.", candidates.join(", ")));
    let name = call.split('(').next().unwrap_or(&call).to_string();
    let error = PlannerError::new(ErrorKind::Type, format!("no function matches {call}"))
        .with_detail(detail);
    Some(error.about(name).with_hint("a CAST of an argument may help".to_string()))
}

/// The message with a lower-case start, unless its first word is all capitals, and without a full stop; types have their
/// names of SQL.
fn uncapitalised(message: &str) -> String {
    // Some messages end in a syntax tree.
    let message = message
        .split_once(" { expr: ")
        .map_or(message, |(text, _)| text.rsplit_once(' ').map_or(text, |(t, _)| t));
    let message = with_sql_types(message.trim().trim_end_matches('.'));
    let mut chars = message.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(message.chars().skip(1)).collect()
        }
        _ => message,
    }
}
