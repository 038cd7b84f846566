//! Window functions, orders and first rows over streams: what leaves once when event time completes it, and what is kept up
//! to date.

use thalweg_planner::EmitWhen;

use super::completion::{self, Completion, CompletionUnit};
use super::{Flow, Walk, at_close, ranks, refused, take};
use crate::error::Result;
use crate::options::ResultUse;
use crate::properties::SortKey;
use crate::relational::{Rel, RelOp};

impl Walk<'_> {
    /// Window functions over a stream: over rows that event time completes where it does and nothing is wanted before.
    pub(super) fn window(&mut self, rel: &mut Rel) -> Flow {
        let input = rel.inputs[0].flow;
        let RelOp::Window { partition_by, order_by, functions, completion, .. } = &mut rel.op
        else {
            return input;
        };
        // What is taken back before it is complete never leaves; a query that does not ask for that wants the changes.
        if (!input.changes || self.emit.is_some()) && self.emits_at_close() {
            *completion = completion::of_window(
                (partition_by, order_by),
                functions,
                self.emit.is_some(),
                &self.bounds,
                self.columns,
            )
            .filter(|completion| !input.changes || completion.takes_changes());
        }
        let early = self.emit.filter(|emit| emit.when == EmitWhen::Update && !input.changes);
        if let Some(emit) = early {
            let bounds = (&self.bounds, &*self.columns);
            *completion =
                completion::of_window((partition_by, &[]), functions, false, bounds.0, bounds.1)
                    .filter(|completion| completion.unit == CompletionUnit::Partition)
                    .map(|c| Completion { early_us: Some(emit.allow_lateness_us), ..c });
            self.obeyed |= completion.is_some();
        } else if let Some(completion) = completion {
            self.obeyed = true;
            let columns = &rel.inputs[0].output;
            completion::keep_bounds(completion, columns, functions, &mut self.bounds);
            return Flow { changes: false, ..input };
        }
        self.forget(&rel.inputs);
        Flow { changes: true, ..input }
    }

    /// Whether results are wanted once, when they are final.
    pub(super) fn emits_at_close(&self) -> bool {
        self.emit.as_ref().is_none_or(at_close)
    }

    /// EMIT ON WINDOW CLOSE over a query without groups: its rows wait until the watermark has passed them.
    pub(super) fn complete_rows(&mut self, rel: &mut Rel) {
        let wanted = self.emit.as_ref().is_some_and(at_close) && !self.obeyed;
        if !wanted || !rel.flow.live {
            return;
        }
        let completion = completion::of_rows(&rel.output, &self.bounds, self.columns);
        let Some(completion) = completion else { return };
        self.obeyed = true;
        completion::keep_bounds(&completion, &rel.output, &[], &mut self.bounds);
        let flow = Flow { changes: false, ..rel.flow };
        let output = rel.output.clone();
        let op = RelOp::Window {
            partition_by: Vec::new(),
            order_by: vec![SortKey::ascending(completion.time)],
            functions: Vec::new(),
            keep: None,
            completion: Some(completion),
        };
        *rel = Rel::new(op, vec![take(rel)]);
        (rel.flow, rel.output) = (flow, output);
    }

    /// ORDER BY and LIMIT: the first rows are kept up to date; a whole order is that of the rows at the end.
    pub(super) fn ordered(&mut self, rel: &mut Rel) -> Result<Flow> {
        let input = rel.inputs[0].flow;
        let incremental = input.endless;
        match &rel.op {
            RelOp::Sort { fetch: None, .. } if input.endless => {
                if self.options.result == ResultUse::Rows {
                    return Err(refused(
                        "ORDER BY over an endless table",
                        "leave it out, add a LIMIT, or order the rows of a bounded query",
                    ));
                }
                // An order means nothing to a changelog.
                self.forget(&rel.inputs);
                *rel = take(&mut rel.inputs[0]);
            }
            RelOp::Sort { keys, fetch: Some(fetch) } if incremental => {
                let (keys, fetch) = (keys.clone(), *fetch);
                self.forget(&rel.inputs);
                let input = take(&mut rel.inputs[0]);
                *rel = ranks::first_rows(input, keys, 0, fetch, self.columns);
                rel.flow.changes = true;
            }
            RelOp::Limit { skip, fetch: Some(fetch) } if incremental => {
                let (skip, fetch) = (*skip, *fetch);
                // The first rows of a stream that takes nothing back are all that is wanted: the query ends with them.
                if !input.changes && self.options.result == ResultUse::Rows {
                    rel.flow = Flow { endless: false, ..input };
                    return Ok(rel.flow);
                }
                self.forget(&rel.inputs);
                let mut input = take(&mut rel.inputs[0]);
                let keys = match &input.op {
                    RelOp::Window { order_by, functions, .. } if functions.is_empty() => {
                        let keys = order_by.clone();
                        input = take(&mut input.inputs[0]);
                        keys
                    }
                    _ => Vec::new(),
                };
                *rel = ranks::first_rows(input, keys, skip, fetch, self.columns);
                rel.flow.changes = true;
            }
            RelOp::Limit { fetch: None, .. } if input.endless => {
                return Err(refused(
                    "OFFSET without LIMIT over an endless table",
                    "add a LIMIT, or leave the OFFSET out",
                ));
            }
            _ => {
                self.at_end(&mut rel.inputs);
                rel.flow = Flow::default();
            }
        }
        Ok(rel.flow)
    }
}
