//! What can go wrong while a job runs.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use serde::{Deserialize, Serialize};

/// The runtime's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a running job. It is cloneable, since one failure is reported to every waiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job was cancelled by its owner.
    #[error("the query was cancelled")]
    Cancelled,
    /// A reservation would exceed the memory limit.
    #[error("{message}")]
    ResourcesExhausted {
        /// Who asked for how much, the limit, the biggest holders, and the setting to raise.
        message: String,
    },
    /// Wrong data or a wrong expression of the user's.
    #[error("{message}")]
    User {
        /// What is wrong, in one line.
        message: String,
        /// More about it: the place (file, line, column, value).
        detail: Option<String>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// An operation of the operating system failed.
    #[error("{context}: {message}")]
    Io {
        /// What was attempted, and on which file.
        context: String,
        /// The system's words.
        message: String,
    },
    /// Something the runtime cannot do, named.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A panic caught at the edge of a task, or a broken invariant.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// A user error that is one sentence.
    pub fn user(message: impl Into<String>) -> Self {
        Error::User { message: message.into(), detail: None, hint: None }
    }

    /// An I/O error with what was attempted.
    pub fn io(context: impl Into<String>, error: &std::io::Error) -> Self {
        Error::Io { context: context.into(), message: error.to_string() }
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::user(other.to_string()),
            },
            ArrowError::DivideByZero => Error::user("division by zero"),
            ArrowError::ArithmeticOverflow(text) => {
                Error::user(format!("arithmetic overflow: {text}"))
            }
            ArrowError::CastError(text)
            | ArrowError::ParseError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::ComputeError(text) => Error::user(text),
            ArrowError::NotYetImplemented(text) => Error::Unsupported(text),
            other => Error::user(other.to_string()),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::ArrowError(inner, _) => (*inner).into(),
            DataFusionError::Execution(text) | DataFusionError::Plan(text) => Error::user(text),
            DataFusionError::NotImplemented(text) => Error::Unsupported(text),
            DataFusionError::Internal(text) => Error::Internal(text),
            DataFusionError::Context(_, inner) => (*inner).into(),
            DataFusionError::External(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::user(other.to_string()),
            },
            other => Error::user(other.strip_backtrace()),
        }
    }
}
