//! What a plan that runs as a stream keeps, operator by operator, and what bounds it.

use thalweg_planner::RowWindowKind;

use crate::physical::describe::Names;
use crate::physical::{AggregatePhase, PhysicalNode, PhysicalOp, Side};
use crate::streaming::{Completion, CompletionUnit, Emission};

impl Names<'_> {
    /// What bounds the state of an operator: "state bounded by …" or "state UNBOUNDED because …"; `None` for an operator
    /// that keeps nothing beyond the batch at hand.
    pub fn state(&self, node: &PhysicalNode) -> Option<String> {
        match &node.op {
            PhysicalOp::HashAggregate { phase, group_by, emission, .. } => match emission {
                Emission::Closed(closing) | Emission::Fired(closing, _) => {
                    Some(format!("state bounded by the watermark on {}", self.column(closing.key)))
                }
                Emission::Changes | Emission::PeriodicChanges { .. } if group_by.is_empty() => {
                    Some("state bounded by one group".to_owned())
                }
                Emission::Changes | Emission::PeriodicChanges { .. } if self.state_ttl_us > 0 => {
                    Some(self.by_ttl("the last row of a group"))
                }
                Emission::Changes | Emission::PeriodicChanges { .. } => {
                    Some("state UNBOUNDED because no watermark closes any of its keys".to_owned())
                }
                Emission::AtEnd if *phase == AggregatePhase::Partial => None,
                Emission::AtEnd => Some(AT_END.to_owned()),
            },
            PhysicalOp::StreamJoin { lookup: Some(side), .. } => {
                let looks_up = match side {
                    Side::Left => 1,
                    Side::Right => 0,
                };
                Some(match node.inputs[looks_up].node.changes {
                    false => "state bounded by the table that is looked up".to_owned(),
                    true => "state UNBOUNDED because rows that looked others up may go".to_owned(),
                })
            }
            PhysicalOp::StreamJoin { expiry, null_aware, .. } => Some(match expiry.as_slice() {
                [first, second] => format!(
                    "state bounded by the watermark on {} and {}",
                    self.expr(&first.time),
                    self.expr(&second.time)
                ),
                _ if self.state_ttl_us > 0 && !null_aware => self.by_ttl("a row's last change"),
                [one] => format!(
                    "state UNBOUNDED because only rows by {} ever match nothing more",
                    self.expr(&one.time)
                ),
                _ => "state UNBOUNDED because rows of either side may match for ever".to_owned(),
            }),
            PhysicalOp::ChangelogWindow { closing: Some(closing), .. } => {
                Some(format!("state bounded by the watermark on {}", self.column(closing.time)))
            }
            PhysicalOp::ChangelogWindow { keep, partition_by, closing: None, .. } => {
                let kept = keep.filter(|_| !node.inputs.iter().any(|input| input.node.changes));
                Some(match (kept, partition_by.is_empty()) {
                    (Some(rows), true) => format!("state bounded by {rows} rows"),
                    (Some(_) | None, false) if self.state_ttl_us > 0 => {
                        self.by_ttl("the last change of a partition")
                    }
                    (Some(rows), false) => {
                        format!("state UNBOUNDED because {rows} rows of every partition are kept")
                    }
                    (None, _) => {
                        "state UNBOUNDED because every row of a partition may count".to_owned()
                    }
                })
            }
            PhysicalOp::RowWindows(spec) => Some(match (&spec.closing, spec.kind.keeps()) {
                (None, _) if !spec.by_arrival => AT_END.to_owned(),
                (Some(closing), true) => {
                    format!("state bounded by the watermark on {}", self.column(closing.key))
                }
                (None | Some(_), _) => match spec.kind {
                    RowWindowKind::Count { size, .. } if spec.keys.is_empty() => format!(
                        "state bounded by {size} rows, and those that the watermark on {} is not past",
                        self.column(spec.time)
                    ),
                    RowWindowKind::Count { size, .. } => {
                        format!("state UNBOUNDED because {size} rows of every key are kept")
                    }
                    RowWindowKind::Delta { .. }
                    | RowWindowKind::Punctuation
                    | RowWindowKind::Landmark
                    | RowWindowKind::LastRows { .. }
                    | RowWindowKind::LastInterval { .. }
                    | RowWindowKind::Own { .. } => {
                        "state UNBOUNDED because a window may never be complete".to_owned()
                    }
                },
            }),
            PhysicalOp::EventTimeWindow { partition_by, completion, .. } => {
                Some(self.completing_state(completion, !partition_by.is_empty()))
            }
            PhysicalOp::HashJoin { .. } | PhysicalOp::NestedLoopJoin { .. } => {
                Some("state bounded by the table that is built".to_owned())
            }
            PhysicalOp::Fold
            | PhysicalOp::Sort { .. }
            | PhysicalOp::TopN { .. }
            | PhysicalOp::SortAggregate { .. }
            | PhysicalOp::SortMergeJoin { .. }
            | PhysicalOp::Window { .. }
            | PhysicalOp::RecursiveCte { .. } => Some(AT_END.to_owned()),
            PhysicalOp::Scan { .. }
            | PhysicalOp::SharedScan { .. }
            | PhysicalOp::Values { .. }
            | PhysicalOp::Empty { .. }
            | PhysicalOp::Filter { .. }
            | PhysicalOp::Project { .. }
            | PhysicalOp::Union { .. }
            | PhysicalOp::Unnest { .. }
            | PhysicalOp::Limit { .. }
            | PhysicalOp::AssertSingleRow
            | PhysicalOp::WorkTableScan { .. } => None,
        }
    }
}

impl Names<'_> {
    /// What bounds the rows that wait to be complete, and those that functions still look at.
    fn completing_state(&self, completion: &Completion, partitioned: bool) -> String {
        let bounded = format!("state bounded by the watermark on {}", self.column(completion.time));
        let CompletionUnit::Row(reach) = completion.unit else { return bounded };
        let kept = reach.rows_before != Some(0) || reach.running || reach.numbers;
        if kept && partitioned && self.state_ttl_us > 0 {
            return format!("{bounded} and {}", self.by_ttl("the last row of a partition"))
                .replace("and state bounded by", "and by");
        }
        match reach.rows_before {
            None => "state UNBOUNDED because every row before may count".to_owned(),
            Some(_) if reach.running && partitioned => {
                "state UNBOUNDED because one state of every partition is kept".to_owned()
            }
            Some(_) if reach.numbers && partitioned => {
                "state UNBOUNDED because the rows of every partition are numbered".to_owned()
            }
            Some(rows) if rows > 0 && partitioned => {
                format!("state UNBOUNDED because the last {rows} rows of every partition are kept")
            }
            Some(_) => bounded,
        }
    }

    fn by_ttl(&self, since: &str) -> String {
        let millis = self.state_ttl_us as f64 / 1_000.0;
        let length = match self.state_ttl_us % 1_000_000 {
            0 => format!("{} s", self.state_ttl_us / 1_000_000),
            _ => format!("{millis} ms"),
        };
        format!("state bounded by state_ttl: {length} after {since}")
    }
}

/// Of operators that answer when a bounded input has ended.
const AT_END: &str = "state bounded by an input that ends";

/// What kinds of rows leave an operator, in the letters that changelogs are written with.
pub(crate) fn changelog_mode(node: &PhysicalNode) -> &'static str {
    if node.changes { "I,D" } else { "I" }
}
