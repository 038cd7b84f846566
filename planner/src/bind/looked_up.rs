//! The mark of a join whose right side is looked up as it is when a left row comes.
//!
//! A plan's join has no place for it, so it is one of its conditions: a call over a column of either side, which keeps it
//! where it is. It is true, and whoever decides how the join runs takes it out.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Two underscores: it is called volatile only to keep its place.
const NAME: &str = "__looked_up";

static MARK: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Volatile);
    Arc::new(ScalarUDF::from(LookedUp { signature }))
});

/// The mark, over a column of either side.
pub(super) fn mark(left: Expr, right: Expr) -> Expr {
    MARK.call(vec![left, right])
}

/// Whether a condition is the mark.
pub fn is_lookup_mark(condition: &Expr) -> bool {
    matches!(condition, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LookedUp {
    signature: Signature,
}

impl ScalarUDFImpl for LookedUp {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("a lookup that is no join")
    }
}
