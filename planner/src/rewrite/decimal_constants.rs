//! Constant decimals that are cast to floating-point numbers.
//!
//! The library folds such a cast by dividing digits that it has rounded already, and so gets the last place wrong where
//! the digits are too long for a double. Text is rounded once: the cast goes by way of it. Invariant: constants become the
//! numbers that the runtime makes of columns, which are the nearest ones.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Cast, TryCast};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::typed::rewrite_expressions;

/// The rule; it goes before every folding of constants.
#[derive(Debug)]
pub(super) struct DecimalConstants;

impl OptimizerRule for DecimalConstants {
    fn name(&self) -> &str {
        "decimal_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        rewrite_expressions(plan, |expr, schema| Ok(by_text(expr, schema)))
    }
}

fn by_text(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let text = |value: Box<Expr>| Box::new(cast(*value, DataType::Utf8View));
    match expr {
        Expr::Cast(Cast { expr, field })
            if field.data_type().is_floating() && is_decimal_constant(&expr, schema) =>
        {
            Transformed::yes(Expr::Cast(Cast { expr: text(expr), field }))
        }
        Expr::TryCast(TryCast { expr, field })
            if field.data_type().is_floating() && is_decimal_constant(&expr, schema) =>
        {
            Transformed::yes(Expr::TryCast(TryCast { expr: text(expr), field }))
        }
        other => Transformed::no(other),
    }
}

fn is_decimal_constant(expr: &Expr, schema: &DFSchema) -> bool {
    let reads = |e: &Expr| Ok(matches!(e, Expr::Column(_) | Expr::OuterReferenceColumn(..)));
    expr.get_type(schema).is_ok_and(|t| t.is_decimal()) && !expr.exists(reads).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion_common::ScalarValue;
    use datafusion_expr::{col, lit};

    use super::*;

    #[test]
    fn only_constants_go_by_way_of_their_text() {
        let decimal = DataType::Decimal128(20, 8);
        let schema = Schema::new(vec![Field::new("d", decimal, true)]);
        let schema = DFSchema::try_from(schema).unwrap();
        let constant = lit(ScalarValue::Decimal128(Some(12_345_678_912_345_679), 17, 8));
        let rewritten = |expr: Expr| by_text(expr, &schema).data;
        let by_way_of_text = cast(cast(constant.clone(), DataType::Utf8View), DataType::Float64);
        assert_eq!(rewritten(cast(constant, DataType::Float64)), by_way_of_text);
        assert_eq!(rewritten(by_way_of_text.clone()), by_way_of_text);
        for unchanged in [cast(col("d"), DataType::Float64), cast(lit(1_i64), DataType::Float64)] {
            assert_eq!(rewritten(unchanged.clone()), unchanged);
        }
    }
}
