//! Windows that rows make.

use thalweg_optimizer::physical::{ColumnId, PhysicalNode, RowWindowsSpec};
use thalweg_planner::RowWindowKind;
use thalweg_runtime::Result;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::assigned_windows::{AssignedWindowsSpec, RowOrder, WindowingSpec};

use super::Lowering;
use super::fragment::Fragment;
use crate::session::executor::windowing_name;

impl Lowering<'_> {
    pub(super) fn row_windows(
        &mut self,
        node: &PhysicalNode,
        windows: &RowWindowsSpec,
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let columns = fragment.columns.clone();
        let mut scope = self.scope(&columns)?;
        let keeps = windows.kind.keeps();
        let exprs = |ids: &[ColumnId]| -> Vec<_> { ids.iter().map(|id| id.expr()).collect() };
        // Windows of groups are told apart by the key that closes them.
        let closing = windows.closing.as_ref();
        let time = match (closing, keeps) {
            (Some(closing), true) => closing.key,
            (None, _) | (Some(_), false) => windows.time,
        };
        let all_keys = match (closing, keeps) {
            // A window for all times at which nothing closes.
            (None, true) => Vec::new(),
            (Some(_), _) | (None, false) => vec![time.expr()],
        };
        let mut ties: Vec<usize> = (0..columns.len()).collect();
        ties.sort_by_key(|&at| columns[at]);
        let spec = AssignedWindowsSpec {
            input: scope.types(),
            keys: scope.lower_all(&exprs(&windows.keys))?,
            time: all_keys.first().map(|time| scope.lower(time)).transpose()?,
            time_type: self.columns.get(windows.time).data_type.clone(),
            row_time: scope.lower(&windows.time.expr())?,
            closing: closing.map(|closing| self.closing_bound(closing)).transpose()?,
            arguments: scope.lower_all(&exprs(windows.argument.as_slice()))?,
            windowing: windowing(windows.kind),
            order: match (keeps, windows.by_arrival) {
                (true, _) => RowOrder::Arrival { sorted: true },
                (false, true) => RowOrder::Arrival { sorted: false },
                (false, false) => RowOrder::Time,
            },
            ties,
            columns: !keeps,
        };
        let inputs = match spec.closing {
            Some(_) => vec![self.fields(&columns)],
            None => Vec::new(),
        };
        fragment.columns.extend(windows.outputs.iter().copied());
        fragment.push_timed(node.id, OperatorSpec::AssignedWindows(spec), inputs);
        Ok(fragment)
    }
}

fn windowing(kind: RowWindowKind) -> WindowingSpec {
    match kind {
        RowWindowKind::Count { size, slide } => WindowingSpec::Count { size, slide },
        RowWindowKind::Delta { threshold } => {
            WindowingSpec::Delta { threshold: f64::from_bits(threshold) }
        }
        RowWindowKind::Punctuation => WindowingSpec::Punctuation { begins: false },
        RowWindowKind::Landmark => WindowingSpec::Punctuation { begins: true },
        RowWindowKind::LastRows { rows } => WindowingSpec::LastRows { rows },
        RowWindowKind::LastInterval { length } => WindowingSpec::LastInterval { length },
        RowWindowKind::Own { number, .. } => WindowingSpec::Registered(windowing_name(number)),
    }
}
