//! AVG of decimals is a double.
//!
//! The library keeps four more digits than the argument has, which cuts off means that users compare and divide
//! further. Invariant: only the type of the result differs from the library's AVG; nothing here computes, since the
//! runtime has an average of its own, which divides the exact decimal sum once, at the end.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, ReversedUDAF, Signature,
};
use datafusion_functions_aggregate::average::Avg;

/// The mean of a group's values that are not NULL: a double, or a duration for durations.
pub fn avg(expr: Expr) -> Expr {
    let function = average();
    Expr::AggregateFunction(AggregateFunction::new_udf(
        function,
        vec![expr],
        false,
        None,
        vec![],
        None,
    ))
}

/// The function that SQL calls `avg` and `mean`.
pub(crate) fn average() -> Arc<AggregateUDF> {
    static AVERAGE: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::from(Average { library: Avg::new() })));
    Arc::clone(&AVERAGE)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    library: Avg,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn aliases(&self) -> &[String] {
        self.library.aliases()
    }

    fn signature(&self) -> &Signature {
        self.library.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [argument] if argument.is_decimal() => Ok(DataType::Float64),
            _ => self.library.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.library.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.library.state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.library.reverse_expr()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.library.documentation()
    }
}
