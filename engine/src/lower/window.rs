//! Window functions.

use datafusion_common::ScalarValue;
use datafusion_expr::expr::NullTreatment;
use datafusion_expr::{
    Expr as LogicalExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use thalweg_optimizer::physical::{ColumnId, PhysicalNode, PhysicalOp, WindowCall};
use thalweg_optimizer::properties::SortKey;
use thalweg_optimizer::{Completion, CompletionUnit};
use thalweg_runtime::expr::Literal;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::changelog_window::{ChangelogWindowSpec, ClosingSpec, KeepSpec};
use thalweg_runtime::operators::event_time_window::{self, CompletionSpec, EventTimeWindowSpec};
use thalweg_runtime::operators::window::{
    FrameBound, FrameUnits, WindowFrameSpec, WindowFunctionSpec, WindowSpec,
};
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::expr::Scope;
use super::fragment::Fragment;

impl Lowering<'_> {
    pub(super) fn window(
        &mut self,
        node: &PhysicalNode,
        partition_by: &[LogicalExpr],
        order_by: &[SortKey],
        functions: &[WindowCall],
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let spec = self.window_spec(&fragment.columns, partition_by, order_by, functions)?;
        fragment.columns.extend(functions.iter().map(|f| f.output));
        fragment.push(node.id, OperatorSpec::Window(spec));
        Ok(fragment)
    }

    pub(super) fn changelog_window(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let PhysicalOp::ChangelogWindow { partition_by, order_by, functions, keep, closing } =
            &node.op
        else {
            return Err(Error::Internal("not a changelog window".into()));
        };
        let closing = closing.as_ref().map(|closing| -> Result<ClosingSpec> {
            Ok(ClosingSpec {
                completion: self.completion(closing, &fragment.columns)?,
                lateness_us: closing.early_us.unwrap_or(0),
            })
        });
        let spec = ChangelogWindowSpec {
            window: self.window_spec(&fragment.columns, partition_by, order_by, functions)?,
            withdrawn: node.inputs[0].node.changes,
            keep: keep.map(|rows| KeepSpec { rows }),
            closing: closing.transpose()?,
        };
        let inputs = match spec.closing {
            Some(_) => vec![self.fields(&fragment.columns)],
            None => Vec::new(),
        };
        fragment.columns.extend(functions.iter().map(|f| f.output));
        fragment.push_timed(node.id, OperatorSpec::ChangelogWindow(spec), inputs);
        Ok(fragment)
    }

    pub(super) fn event_time_window(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let PhysicalOp::EventTimeWindow { partition_by, order_by, functions, completion, keep } =
            &node.op
        else {
            return Err(Error::Internal("not a window by event time".into()));
        };
        let spec = EventTimeWindowSpec {
            window: self.window_spec(&fragment.columns, partition_by, order_by, functions)?,
            completion: self.completion(completion, &fragment.columns)?,
            withdrawn: node.inputs[0].node.changes,
            keep: *keep,
        };
        let inputs = vec![self.fields(&fragment.columns)];
        fragment.columns.extend(functions.iter().map(|f| f.output));
        fragment.push_timed(node.id, OperatorSpec::EventTimeWindow(spec), inputs);
        Ok(fragment)
    }

    fn completion(&self, completion: &Completion, columns: &[ColumnId]) -> Result<CompletionSpec> {
        let unit = match completion.unit {
            CompletionUnit::Partition => event_time_window::CompletionUnit::Partition,
            CompletionUnit::Row(reach) => {
                event_time_window::CompletionUnit::Row(event_time_window::Reach {
                    rows_before: reach.rows_before,
                    time_before: reach.time_before,
                    rows_after: reach.rows_after,
                    time_after: reach.time_after,
                })
            }
            CompletionUnit::Session { gap } => event_time_window::CompletionUnit::Session { gap },
        };
        Ok(CompletionSpec {
            unit,
            time: self.scope(columns)?.lower(&completion.time.expr())?,
            bound: self.scope(&[completion.watermark])?.lower(&completion.bound)?,
            watermark_type: self.columns.get(completion.watermark).data_type.clone(),
        })
    }

    fn window_spec(
        &self,
        columns: &[ColumnId],
        partition_by: &[LogicalExpr],
        order_by: &[SortKey],
        functions: &[WindowCall],
    ) -> Result<WindowSpec> {
        let mut scope = self.scope(columns)?;
        Ok(WindowSpec {
            input: scope.types(),
            partition_by: scope.lower_all(partition_by)?,
            order_by: self.sort_keys(order_by, columns)?,
            functions: functions
                .iter()
                .map(|call| function_spec(call, &mut scope))
                .collect::<Result<_>>()?,
        })
    }
}

fn function_spec(call: &WindowCall, scope: &mut Scope<'_>) -> Result<WindowFunctionSpec> {
    let (function, aggregate) = match &call.function {
        WindowFunctionDefinition::AggregateUDF(f) => (f.name().to_string(), true),
        WindowFunctionDefinition::WindowUDF(f) => (f.name().to_string(), false),
    };
    Ok(WindowFunctionSpec {
        function,
        aggregate,
        arg_types: call.args.iter().map(|a| scope.type_of(a)).collect::<Result<_>>()?,
        args: scope.lower_all(&call.args)?,
        frame: frame_spec(&call.frame),
        filter: call.filter.as_ref().map(|f| scope.lower(f)).transpose()?,
        distinct: call.distinct,
        ignore_nulls: call.null_treatment == Some(NullTreatment::IgnoreNulls),
        result: call.data_type.clone(),
    })
}

fn frame_spec(frame: &WindowFrame) -> WindowFrameSpec {
    WindowFrameSpec {
        units: match frame.units {
            WindowFrameUnits::Rows => FrameUnits::Rows,
            WindowFrameUnits::Range => FrameUnits::Range,
            WindowFrameUnits::Groups => FrameUnits::Groups,
        },
        start: bound(&frame.start_bound, FrameBound::UnboundedPreceding),
        end: bound(&frame.end_bound, FrameBound::UnboundedFollowing),
    }
}

/// A NULL offset stands for "unbounded".
fn bound(bound: &WindowFrameBound, unbounded: FrameBound) -> FrameBound {
    let offset = |value: &ScalarValue| (!value.is_null()).then(|| Literal(value.clone()));
    match bound {
        WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
        WindowFrameBound::Preceding(value) => {
            offset(value).map_or(unbounded, FrameBound::Preceding)
        }
        WindowFrameBound::Following(value) => {
            offset(value).map_or(unbounded, FrameBound::Following)
        }
    }
}
