//! Window functions: one operator per distinct window.
//!
//! Invariant: functions over the same window are computed together; windows with the same partition keys follow each
//! other, the longest order first, so that they can share an exchange and often a sort.

use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, Window};

use crate::error::{OptimizerError, Result};
use crate::physical::{ColumnId, WindowCall};
use crate::properties::SortKey;
use crate::relational::entry::{Binder, Bound};
use crate::relational::expressions::{Scope, Subqueries, prepare};
use crate::relational::{Rel, RelOp};

struct WindowGroup {
    partition_by: Vec<ColumnId>,
    order_by: Vec<SortKey>,
    functions: Vec<WindowCall>,
}

impl Binder<'_> {
    pub(super) fn window(&mut self, node: &Window) -> Result<Bound> {
        let input = self.plan(&node.input)?;
        let mut columns = input.columns.clone();
        let offset = columns.len();
        let (mut subqueries, mut computed) = (Subqueries::default(), Vec::new());
        let mut groups: Vec<WindowGroup> = Vec::new();
        for (i, expr) in node.window_expr.iter().enumerate() {
            let function = window_function(expr)?;
            let field = node.schema.field(offset + i);
            let output = self.columns.add(
                field.name().clone(),
                field.data_type().clone(),
                field.is_nullable(),
            );
            columns.push(output);
            let (partition_by, order_by) =
                self.window_keys(node, &input.columns, function, &mut subqueries, &mut computed)?;
            let scope = Scope::of(node.input.schema(), &input.columns);
            let call = self.window_call(output, function, &scope, &mut subqueries)?;
            let same = |group: &&mut WindowGroup| {
                group.partition_by == partition_by && group.order_by == order_by
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.functions.push(call),
                None => groups.push(WindowGroup { partition_by, order_by, functions: vec![call] }),
            }
        }
        let rel = stack(prepare(input, subqueries, computed), groups);
        Ok(Bound { rel, columns })
    }

    fn window_keys(
        &mut self,
        node: &Window,
        columns: &[ColumnId],
        function: &WindowFunction,
        subqueries: &mut Subqueries,
        computed: &mut Vec<(ColumnId, Expr)>,
    ) -> Result<(Vec<ColumnId>, Vec<SortKey>)> {
        let schema = node.input.schema();
        let mut partition_by = Vec::new();
        for expr in &function.params.partition_by {
            let column =
                self.key(expr, schema, &Scope::of(schema, columns), subqueries, computed)?;
            if !partition_by.contains(&column) {
                partition_by.push(column);
            }
        }
        let order_by =
            self.sort_keys(&function.params.order_by, (schema, columns), subqueries, computed)?;
        Ok((partition_by, order_by))
    }

    fn window_call(
        &mut self,
        output: ColumnId,
        function: &WindowFunction,
        scope: &Scope<'_>,
        subqueries: &mut Subqueries,
    ) -> Result<WindowCall> {
        let params = &function.params;
        let mut args = Vec::with_capacity(params.args.len());
        for arg in &params.args {
            args.push(self.expr(arg, scope, subqueries)?);
        }
        let filter = match &params.filter {
            Some(filter) => Some(self.expr(filter, scope, subqueries)?),
            None => None,
        };
        Ok(WindowCall {
            output,
            function: function.fun.clone(),
            args,
            frame: params.window_frame.clone(),
            filter,
            distinct: params.distinct,
            null_treatment: params.null_treatment,
            data_type: self.columns.get(output).data_type.clone(),
        })
    }
}

fn window_function(expr: &Expr) -> Result<&WindowFunction> {
    match expr {
        Expr::Alias(alias) => window_function(&alias.expr),
        Expr::WindowFunction(function) => Ok(function),
        other => Err(OptimizerError::InvalidPlan(format!("{other} is not a window function"))),
    }
}

fn stack(mut rel: Rel, groups: Vec<WindowGroup>) -> Rel {
    let mut partitions: Vec<Vec<ColumnId>> = Vec::new();
    for group in &groups {
        if !partitions.contains(&group.partition_by) {
            partitions.push(group.partition_by.clone());
        }
    }
    let rank = |group: &WindowGroup| partitions.iter().position(|keys| *keys == group.partition_by);
    let mut groups = groups;
    groups.sort_by_key(|group| (rank(group), std::cmp::Reverse(group.order_by.len())));
    for group in groups {
        let op = RelOp::Window {
            partition_by: group.partition_by,
            order_by: group.order_by,
            functions: group.functions,
            keep: None,
            completion: None,
        };
        rel = Rel::new(op, vec![rel]);
    }
    rel
}
