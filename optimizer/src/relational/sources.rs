//! Table scans: of tables, of shared plans and of work tables of recursive queries.
//!
//! Invariant: a filter that the logical optimizer put into a scan is evaluated exactly: inside the scan, or above it
//! if the source is not a real table or if a subquery is involved.

use datafusion_common::{Column, DFSchema, TableReference};
use datafusion_expr::{Expr, TableScan};

use crate::error::{OptimizerError, Result};
use crate::physical::ColumnId;
use crate::relational::entry::{Binder, Bound, filtered};
use crate::relational::expressions::{Scope, Subqueries};
use crate::relational::{Rel, RelOp};

impl Binder<'_> {
    pub(super) fn scan(&mut self, node: &TableScan) -> Result<Bound> {
        let schema = node.source.schema();
        let projection: Vec<usize> = match &node.projection {
            Some(projection) => projection.clone(),
            None => (0..schema.fields().len()).collect(),
        };
        let mut all = projection.clone();
        for filter in &node.filters {
            for column in filter.column_refs() {
                let index = schema.index_of(column.name()).map_err(|_| unknown(column))?;
                if !all.contains(&index) {
                    all.push(index);
                }
            }
        }
        let mut ids = vec![None; schema.fields().len()];
        for &index in &all {
            let field =
                schema.fields().get(index).ok_or_else(|| bad_projection(&node.table_name))?;
            ids[index] = Some(self.columns.add(
                field.name().clone(),
                field.data_type().clone(),
                field.is_nullable(),
            ));
        }
        let id_of = |index: usize| ids[index].expect("every index in `all` was given an id");
        let columns: Vec<(ColumnId, usize)> =
            all.iter().map(|&index| (id_of(index), index)).collect();
        let op = self.scan_op(node, &columns)?;
        let rel = self.scan_filters(node, Rel::new(op, Vec::new()), &columns)?;
        let rel = limited(rel, node.fetch);
        Ok(Bound { rel, columns: projection.into_iter().map(id_of).collect() })
    }

    /// Which kind of source this is; `columns` are positions in its schema.
    fn scan_op(&self, node: &TableScan, columns: &[(ColumnId, usize)]) -> Result<RelOp> {
        if let Some(shared) = (self.input.shared_id)(node.source.as_ref()) {
            let known = self.shared.iter().find(|(id, _)| *id == shared);
            let (_, outputs) = known.ok_or_else(|| {
                OptimizerError::InvalidPlan(format!(
                    "the shared plan {shared} is read before it is defined"
                ))
            })?;
            let columns = columns
                .iter()
                .map(|&(id, index)| outputs.get(index).map(|&output| (id, output)))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| bad_projection(&node.table_name))?;
            return Ok(RelOp::SharedScan { shared, columns });
        }
        if let TableReference::Bare { table } = &node.table_name {
            let recursion =
                self.work_tables.iter().rev().find(|(name, _)| name.as_str() == table.as_ref());
            if let Some((_, work_table)) = recursion {
                return Ok(RelOp::WorkTableScan {
                    work_table: *work_table,
                    columns: columns.to_vec(),
                });
            }
        }
        Ok(RelOp::Scan {
            source: node.source.clone(),
            table: node.table_name.to_string(),
            columns: columns.to_vec(),
            filters: Vec::new(),
            fetch: None,
        })
    }

    fn scan_filters(
        &mut self,
        node: &TableScan,
        rel: Rel,
        columns: &[(ColumnId, usize)],
    ) -> Result<Rel> {
        if node.filters.is_empty() {
            return Ok(rel);
        }
        let schema = node.source.schema();
        let fields: Vec<_> =
            columns.iter().map(|(_, index)| schema.field(*index).clone()).collect();
        let plain = DFSchema::try_from(arrow::datatypes::Schema::new(fields))?;
        let ids: Vec<ColumnId> = columns.iter().map(|(id, _)| *id).collect();
        let mut subqueries = Subqueries::default();
        let (mut inside, mut above) = (Vec::new(), Vec::new());
        for filter in node.filters.iter().flat_map(datafusion_expr::utils::split_conjunction) {
            let unqualified = without_qualifiers(filter)?;
            let bound = self.expr(&unqualified, &Scope::of(&plain, &ids), &mut subqueries)?;
            let local = ColumnId::referenced(&bound).iter().all(|id| ids.contains(id));
            if local { inside.push(bound) } else { above.push(bound) }
        }
        let rel = filtered(rel, inside);
        Ok(if above.is_empty() { rel } else { filtered(subqueries.attach(rel), above) })
    }
}

fn without_qualifiers(expr: &Expr) -> Result<Expr> {
    use datafusion_common::tree_node::{Transformed, TreeNode};
    let plain = expr.clone().transform(|node| {
        Ok(match node {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            node => Transformed::no(node),
        })
    })?;
    Ok(plain.data)
}

/// A scan may stop early; other trees get a limit on top.
fn limited(mut rel: Rel, limit: Option<usize>) -> Rel {
    let Some(limit) = limit else { return rel };
    if let RelOp::Scan { fetch, .. } = &mut rel.op {
        *fetch = Some(limit);
    }
    let op = RelOp::Limit { skip: 0, fetch: Some(limit) };
    Rel::new(op, vec![rel])
}

fn unknown(column: &Column) -> OptimizerError {
    OptimizerError::InvalidPlan(format!("a filter names the unknown column {column}"))
}

fn bad_projection(table: &TableReference) -> OptimizerError {
    OptimizerError::InvalidPlan(format!("the projection of {table} does not fit its schema"))
}
