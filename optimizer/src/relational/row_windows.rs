//! Windows that rows make, in terms of column ids.
//!
//! Invariant: keys, the time and the argument are columns of the input.

use thalweg_planner::RowWindows;

use crate::error::Result;
use crate::physical::{ColumnId, RowWindowsSpec};
use crate::relational::entry::{Binder, Bound};
use crate::relational::expressions::{Scope, Subqueries, prepare};
use crate::relational::{Rel, RelOp};

impl Binder<'_> {
    pub(super) fn row_windows(&mut self, node: &RowWindows) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let mut columns = input.columns.clone();
        let (mut subqueries, mut computed) = (Subqueries::default(), Vec::new());
        let schema = node.input.schema();
        let mut column = |expr: &datafusion_expr::Expr| {
            let scope = Scope::of(schema, &input.columns);
            self.key(expr, schema, &scope, &mut subqueries, &mut computed)
        };
        let keys = node.keys.iter().map(&mut column).collect::<Result<Vec<ColumnId>>>()?;
        let time = column(&node.time)?;
        let argument = node.argument.as_ref().map(&mut column).transpose()?;
        let added = node.added();
        let outputs: Vec<ColumnId> = added
            .iter()
            .map(|field| self.columns.add(field.name().clone(), field.data_type().clone(), true))
            .collect();
        columns.extend(outputs.iter().copied());
        let spec = RowWindowsSpec {
            kind: node.kind,
            keys,
            time,
            argument,
            by_arrival: node.by_arrival,
            outputs,
            closing: None,
        };
        let rel = Rel::new(RelOp::RowWindows(spec), vec![prepare(input, subqueries, computed)]);
        Ok(Bound { rel, columns })
    }
}
