//! Errors of the optimizer.

use datafusion_common::DataFusionError;
use thiserror::Error;

/// Why no plan was found.
#[derive(Debug, Error)]
pub enum OptimizerError {
    /// The statement asks for something the engine cannot do.
    #[error("{message}")]
    Unsupported {
        /// What is not supported.
        message: String,
        /// What the user could do instead.
        hint: Option<String>,
    },
    /// The logical plan contradicts itself; a fault of the front end.
    #[error("the logical plan is inconsistent: {0}")]
    InvalidPlan(String),
    /// An error of the expression library.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

impl OptimizerError {
    /// An unsupported feature without advice.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into(), hint: None }
    }

    /// Advice for the user, if there is any.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Unsupported { hint, .. } => hint.as_deref(),
            Self::InvalidPlan(_) | Self::DataFusion(_) => None,
        }
    }
}

/// The result of a step of optimization.
pub type Result<T> = std::result::Result<T, OptimizerError>;
