//! `first_of_list(list)`: the first element, for bounds of what comes out of lists of windows.

use std::sync::Arc;

use arrow::array::{AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, plan_err};
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "first_of_list";

/// The function, for registries.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(FirstOfList { signature }))
}

/// The first element of a list; NULL of an empty one.
pub fn first_of_list(list: Expr) -> Expr {
    function().call(vec![list])
}

/// How many lists an expression takes the first element of.
pub fn opened_lists(expr: &Expr) -> usize {
    let mut opened = 0;
    let counted = expr.apply(|node| {
        opened +=
            usize::from(matches!(node, Expr::ScalarFunction(call) if call.func.name() == NAME));
        Ok(TreeNodeRecursion::Continue)
    });
    counted.map_or(0, |_| opened)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstOfList {
    signature: Signature,
}

impl ScalarUDFImpl for FirstOfList {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [DataType::List(item)] => Ok(item.data_type().clone()),
            _ => plan_err!("{NAME} takes a list"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return plan_err!("{NAME} takes a list");
        };
        let starts =
            lists.offsets().windows(2).map(|ends| (ends[0] < ends[1]).then_some(ends[0] as u32));
        let starts: UInt32Array = starts.collect();
        Ok(ColumnarValue::Array(take(lists.values(), &starts, None)?))
    }
}
