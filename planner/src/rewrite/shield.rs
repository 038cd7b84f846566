//! A condition that the library's simplifier sees from the outside only.
//!
//! The shield is a function that gives its argument back. Nothing looks through it, as much does through an alias, and what
//! is inside is simplified like any other argument. Invariant: a shield is taken off by whoever put it on.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// A name that no user can mean.
const NAME: &str = "\u{1}shield";

/// The condition behind a shield.
pub(super) fn shielded(condition: Expr) -> Expr {
    static SHIELD: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Shield::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&SHIELD), vec![condition]))
}

/// The condition without its shield; `Err` gives back what has none.
pub(super) fn bared(expr: Expr) -> std::result::Result<Expr, Expr> {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == NAME && call.args.len() == 1 => {
            Ok(call.args.remove(0))
        }
        other => Err(other),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shield {
    signature: Signature,
}

impl Default for Shield {
    fn default() -> Self {
        Shield { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Shield {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [condition] = take_function_args(NAME, args.args)?;
        Ok(condition)
    }
}
