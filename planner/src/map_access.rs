//! `map[key]`: the value of a key, NULL where there is none.
//!
//! The library's own plan compares a literal with the map's keys as they are; here the key is brought to the keys'
//! type, and may be any expression.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, lit};
use datafusion_functions_nested::extract::array_element;
use datafusion_functions_nested::map_extract::map_extract;

/// Plans accesses to maps; those to structs and lists are left to others.
#[derive(Debug)]
pub struct MapAccessPlanner;

impl ExprPlanner for MapAccessPlanner {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if !matches!(access.expr.get_type(schema)?, DataType::Map(_, _)) {
            return Ok(PlannerResult::Original(access));
        }
        let RawFieldAccessExpr { expr, field_access } = access;
        let key: Expr = match field_access {
            GetFieldAccess::NamedStructField { name } => lit(name),
            GetFieldAccess::ListIndex { key } => *key,
            slice @ GetFieldAccess::ListRange { .. } => {
                return Ok(PlannerResult::Original(RawFieldAccessExpr {
                    expr,
                    field_access: slice,
                }));
            }
        };
        Ok(PlannerResult::Planned(array_element(map_extract(expr, key), lit(1_i64))))
    }
}
