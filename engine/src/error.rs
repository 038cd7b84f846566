//! The engine's error: what a user or a caller learns when a statement fails.
//!
//! Every error of the crates below becomes one [`Error`] at the session's edge, with its message, detail, hint and
//! place kept apart. `Display` prints all of them on several lines; the shell puts `Error: ` in front.

use std::fmt;
use std::sync::Arc;

use thalweg_optimizer::OptimizerError;
use thalweg_planner::{ErrorKind, ParsedStatement, PlannerError, Span, with_sql_types};

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is known about a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One line: what is wrong, without a full stop.
    pub message: String,
    /// More facts: the file, row and column of bad data, the value, the biggest holders of memory.
    pub detail: Option<String>,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Where in the SQL text.
    pub place: Option<Place>,
}

/// A place in a SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The text that the span counts in.
    pub sql: Arc<str>,
    /// Lines and columns in it.
    pub span: Span,
    /// The line on which the text begins in the script it comes from; 1 when it is the whole of it.
    pub first_line: u32,
}

impl Report {
    /// A report with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        Report { message: message.into(), ..Report::default() }
    }

    /// The same report with a detail.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same report with a hint; `None` leaves it as it is.
    pub fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().or(self.hint);
        self
    }

    /// The line of the place, as the message shows it.
    pub fn line(&self) -> Option<u32> {
        let place = self.place.as_ref()?;
        Some(place.span.start.0 + place.first_line.saturating_sub(1))
    }
}

/// Message, the line of SQL with a caret, detail and hint, each on lines of its own.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { message, detail, hint, place } = self.clone();
        let (sql, span, first_line) = match place {
            Some(place) => (place.sql, Some(place.span), place.first_line),
            None => (Arc::from(""), None, 1),
        };
        let error = PlannerError::new(ErrorKind::Invalid, message)
            .with_detail(detail)
            .with_hint(hint)
            .with_span(span);
        f.write_str(&error.render_from(&sql, first_line))
    }
}

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The statement cannot be read, bound or planned.
    #[error("{0}")]
    Statement(Box<Report>),
    /// A setting that does not exist, or a value it does not take.
    #[error("{0}")]
    Setting(Box<Report>),
    /// A table, view or schema that is missing, in the way or of the wrong kind.
    #[error("{0}")]
    Catalog(Box<Report>),
    /// Data or an expression failed while the statement ran.
    #[error("{0}")]
    Execution(Box<Report>),
    /// The engine does not do this.
    #[error("{0}")]
    Unsupported(Box<Report>),
    /// An operation of the operating system failed.
    #[error("{0}")]
    Io(Box<Report>),
    /// A limit on memory or disk space was reached.
    #[error("{0}")]
    ResourcesExhausted(Box<Report>),
    /// The owner of the query cancelled it.
    #[error("the query was cancelled")]
    Cancelled,
    /// A broken promise inside the engine; the user did nothing wrong.
    #[error("{0}")]
    Internal(Box<Report>),
}

impl Error {
    /// A setting's name or value is wrong.
    pub fn setting(report: Report) -> Self {
        Error::Setting(Box::new(report))
    }

    /// A catalog object is missing or in the way.
    pub fn catalog(report: Report) -> Self {
        Error::Catalog(Box::new(report))
    }

    /// The statement is wrong.
    pub fn statement(message: impl Into<String>) -> Self {
        Error::Statement(Box::new(Report::new(message)))
    }

    /// The engine does not do `what`, which reads as the subject of "is not supported".
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Error::Unsupported(Box::new(Report::new(format!("{what} is not supported"))))
    }

    /// An operation of the operating system failed; `context` tells what was attempted, and on which file.
    pub fn io(context: impl fmt::Display, error: &std::io::Error) -> Self {
        Error::Io(Box::new(Report::new(format!("{context}: {error}"))))
    }

    /// A broken promise inside the engine.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::Internal(Box::new(Report::new(message)))
    }

    /// An error of parsing or planning, whose place counts in `sql`.
    pub fn from_planner(error: PlannerError, sql: &Arc<str>) -> Self {
        let PlannerError { kind, message, detail, hint, span, .. } = error;
        let place = span.map(|span| Place { sql: Arc::clone(sql), span, first_line: 1 });
        let report = Box::new(Report { message, detail, hint, place });
        match kind {
            ErrorKind::Internal => Error::Internal(report),
            ErrorKind::NotSupported => Error::Unsupported(report),
            ErrorKind::Syntax | ErrorKind::Name | ErrorKind::Type | ErrorKind::Invalid => {
                Error::Statement(report)
            }
        }
    }

    /// The same error with the place of the name that its message quotes first, if it has no place and a name stands in
    /// the statement.
    pub(crate) fn placed_in(mut self, statement: &ParsedStatement) -> Self {
        if let Some(report) = self.report_mut().filter(|report| report.place.is_none()) {
            let name = report.message.split('"').nth(1);
            let span = name.and_then(|name| statement.place_of(name));
            let sql = || Arc::clone(statement.source_text());
            report.place = span.map(|span| Place { sql: sql(), span, first_line: 1 });
        }
        self
    }

    /// The same error of a text that begins on a line of a script; 0 stands for an unknown line.
    pub(crate) fn at_line(mut self, line: u32) -> Self {
        if let Some(place) = self.report_mut().and_then(|report| report.place.as_mut()) {
            place.first_line = line.max(1);
        }
        self
    }

    fn report_mut(&mut self) -> Option<&mut Report> {
        match self {
            Error::Statement(report)
            | Error::Setting(report)
            | Error::Catalog(report)
            | Error::Execution(report)
            | Error::Unsupported(report)
            | Error::Io(report)
            | Error::ResourcesExhausted(report)
            | Error::Internal(report) => Some(report),
            Error::Cancelled => None,
        }
    }

    /// Everything that is known; `None` for a cancelled query.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Error::Statement(report)
            | Error::Setting(report)
            | Error::Catalog(report)
            | Error::Execution(report)
            | Error::Unsupported(report)
            | Error::Io(report)
            | Error::ResourcesExhausted(report)
            | Error::Internal(report) => Some(report),
            Error::Cancelled => None,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.report().and_then(|report| report.hint.as_deref())
    }

    /// Whether the query was cancelled rather than failed.
    pub fn is_cancelled(&self) -> bool {
        *self == Error::Cancelled
    }
}

impl From<thalweg_runtime::Error> for Error {
    fn from(error: thalweg_runtime::Error) -> Self {
        use thalweg_runtime::Error as Runtime;
        match error {
            Runtime::Cancelled => Error::Cancelled,
            Runtime::ResourcesExhausted { message } => {
                Error::ResourcesExhausted(Box::new(Report::new(message)))
            }
            Runtime::User { message, detail, hint } => {
                let message = with_sql_types(&message);
                let detail = detail.as_deref().map(with_sql_types);
                Error::Execution(Box::new(Report { message, detail, hint, place: None }))
            }
            Runtime::Io { context, message } => {
                Error::Io(Box::new(Report::new(format!("{context}: {message}"))))
            }
            Runtime::Unsupported(what) => Error::unsupported(what),
            Runtime::Internal(message) => Error::internal(message),
            other => Error::internal(other.to_string()),
        }
    }
}

impl From<OptimizerError> for Error {
    fn from(error: OptimizerError) -> Self {
        match error {
            OptimizerError::Unsupported { message, hint } => {
                Error::Unsupported(Box::new(Report::new(message).with_hint(hint)))
            }
            OptimizerError::InvalidPlan(message) => {
                Error::internal(format!("the logical plan is inconsistent: {message}"))
            }
            OptimizerError::DataFusion(error) => thalweg_runtime::Error::from(error).into(),
        }
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        thalweg_runtime::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_with_a_caret() {
        let sql: Arc<str> = Arc::from("SELECT x");
        let error = PlannerError::name("column x does not exist")
            .with_span(Some(Span { start: (1, 8), end: (1, 9) }))
            .with_hint("did you mean y?".to_string());
        let error = Error::from_planner(error, &sql);
        assert_eq!(
            error.to_string(),
            "column x does not exist\nLINE 1: SELECT x\n               ^\nHINT: did you mean y?"
        );
        assert_eq!(error.hint(), Some("did you mean y?"));
    }

    #[test]
    fn runtime_errors_keep_their_parts() {
        let error = thalweg_runtime::Error::User {
            message: "m".into(),
            detail: Some("d".into()),
            hint: Some("h".into()),
        };
        assert_eq!(Error::from(error).to_string(), "m\nDETAIL: d\nHINT: h");
        assert!(Error::from(thalweg_runtime::Error::Cancelled).is_cancelled());
    }
}
