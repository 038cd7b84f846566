//! `a.b` where `a` is a column that has no fields: then `a` is meant as a table, and has no column `b`.
//!
//! The library takes such a name for a field of the column, whatever its type, and complains about the type. An alias
//! may well have the name of a column of another table.

use arrow::datatypes::{DataType, Field};
use datafusion_common::{Column, Result, TableReference};
use datafusion_expr::Expr;
use datafusion_expr::planner::{ExprPlanner, PlannerResult};

/// Plans names whose first part is such a column; others are left to the library.
#[derive(Debug)]
pub(crate) struct NoFieldPlanner;

impl ExprPlanner for NoFieldPlanner {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let has_fields = matches!(field.data_type(), DataType::Struct(_) | DataType::Map(..));
        match nested_names {
            // No such column is there: the check of the expression says so, and which ones are.
            [name] if !has_fields => {
                let relation = TableReference::bare(field.name().as_str());
                Ok(PlannerResult::Planned(Expr::Column(Column::new(Some(relation), name))))
            }
            _ => Ok(PlannerResult::Original(Vec::new())),
        }
    }
}
