//! Window functions that only plans call. The runtime knows them by their names.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};

/// One of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PlanFunction {
    /// `session_first(time, gap)`: the first time of a row's session, with the gap in units of the time, by which the
    /// window is ordered.
    SessionFirst,
    /// `session_last(time, gap)`: the last one.
    SessionLast,
    /// `number_at_once()`: the row number; over a stream it is told as soon as a row comes, and changes.
    NumberAtOnce,
}

static FUNCTIONS: LazyLock<[Arc<WindowUDF>; 3]> = LazyLock::new(|| {
    let function = |function| {
        let signature = match function {
            PlanFunction::SessionFirst | PlanFunction::SessionLast => {
                Signature::any(2, Volatility::Immutable)
            }
            PlanFunction::NumberAtOnce => Signature::nullary(Volatility::Immutable),
        };
        Arc::new(WindowUDF::from(Function { function, signature }))
    };
    [PlanFunction::SessionFirst, PlanFunction::SessionLast, PlanFunction::NumberAtOnce]
        .map(function)
});

impl PlanFunction {
    /// The function.
    pub(crate) fn function(self) -> Arc<WindowUDF> {
        FUNCTIONS[self as usize].clone()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    function: PlanFunction,
    signature: Signature,
}

impl WindowUDFImpl for Function {
    fn name(&self) -> &str {
        match self.function {
            PlanFunction::SessionFirst => "session_first",
            PlanFunction::SessionLast => "session_last",
            PlanFunction::NumberAtOnce => "number_at_once",
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

    /// A time of the type of the first argument, or a number.
    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(match args.get_input_field(0) {
            Some(time) => Arc::new(time.as_ref().clone().with_name(args.name())),
            None => Arc::new(Field::new(args.name(), DataType::UInt64, false)),
        })
    }
}
