//! Windows that rows make, over rows that go on coming.
//!
//! Rows go into windows in the order of their times once the watermark has passed them. So the window that a row
//! completes ends behind the watermark that came before: ends of windows have the bound of the times. Rows of groups
//! that are kept leave just before the watermark that closes the group.

use thalweg_planner::RowWindowKind;

use super::{Flow, Walk, at_close, contains, keep_last, refused};
use crate::error::Result;
use crate::relational::{Rel, RelOp};

impl Walk<'_> {
    /// Decides when rows leave their windows.
    pub(super) fn row_windows(&mut self, rel: &mut Rel) -> Result<Flow> {
        let RelOp::RowWindows(spec) = &mut rel.op else { return Ok(Flow::default()) };
        let input = &mut rel.inputs[0];
        let early = self.emit.filter(|emit| !at_close(emit));
        if spec.kind.keeps() && early.is_some() {
            return Ok(keep_last::early(self, rel, early));
        }
        if input.flow.changes && !input.flow.endless {
            super::fold(input);
            self.bounds.forget(input.output.iter().copied());
            rel.flow = Flow::default();
            return Ok(rel.flow);
        }
        if input.flow.changes {
            return Err(refused(
                "windows that rows make over rows that go on changing",
                "make windows of the rows of a table, or of results that a watermark closes",
            ));
        }
        let closing = match spec.kind.keeps() {
            true => self.first_to_close(spec.keys.iter().map(|key| (*key, *key))),
            false if spec.by_arrival => None,
            false => self.first_to_close([(spec.time, spec.time)].into_iter()),
        };
        if closing.is_none() && input.flow.endless && !spec.by_arrival {
            return Err(match spec.kind.keeps() {
                true => refused(
                    "KEEP LAST over groups that no watermark closes",
                    "declare a WATERMARK for the table and group by windows of its column",
                ),
                false => refused(
                    "windows of rows in the order of times that no watermark passes",
                    "declare a WATERMARK for the table, or let rows into windows as they come: row_order => 'arrival'",
                ),
            });
        }
        let kept: Vec<_> = match (&closing, spec.kind.keeps()) {
            (Some(closing), true) => {
                let of = |id| Some((id, self.bounds.of(id)?.clone()));
                let columns = input.output.iter().filter_map(|id| of(*id));
                columns.filter(|(_, bound)| contains(bound, &closing.bound)).collect()
            }
            (Some(_), false) if matches!(spec.kind, RowWindowKind::Own { timely: false, .. }) => {
                Vec::new()
            }
            (Some(closing), false) => {
                let end = spec.outputs.get(1).copied();
                end.map(|end| (end, closing.bound.clone())).into_iter().collect()
            }
            (None, _) => Vec::new(),
        };
        self.bounds.forget(input.output.iter().copied());
        kept.into_iter().for_each(|(column, bound)| self.bounds.set(column, bound));
        spec.closing = closing;
        rel.flow = input.flow;
        Ok(rel.flow)
    }
}
