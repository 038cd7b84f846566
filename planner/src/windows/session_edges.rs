//! The window functions that give the first and the last time of a row's session.
//!
//! The window's order is the time, ascending. Only plans call them; the runtime knows them by their names.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::FieldRef;
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};

/// One of the functions: of a time and the gap in units of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SessionEdge {
    /// `session_first(time, gap)`.
    First,
    /// `session_last(time, gap)`.
    Last,
}

static EDGES: LazyLock<[Arc<WindowUDF>; 2]> = LazyLock::new(|| {
    [SessionEdge::First, SessionEdge::Last].map(|edge| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(WindowUDF::from(EdgeFunction { edge, signature }))
    })
});

impl SessionEdge {
    /// The function.
    pub(super) fn function(self) -> Arc<WindowUDF> {
        match self {
            SessionEdge::First => EDGES[0].clone(),
            SessionEdge::Last => EDGES[1].clone(),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EdgeFunction {
    edge: SessionEdge,
    signature: Signature,
}

impl WindowUDFImpl for EdgeFunction {
    fn name(&self) -> &str {
        match self.edge {
            SessionEdge::First => "session_first",
            SessionEdge::Last => "session_last",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        _args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        not_impl_err!("{} is computed by the runtime", self.name())
    }

    /// A time of the type of the first argument.
    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(time) = args.get_input_field(0) else {
            return not_impl_err!("{} without its time", self.name());
        };
        Ok(Arc::new(time.as_ref().clone().with_name(args.name())))
    }
}
