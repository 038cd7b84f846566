//! The serialisable description of each operator, and how it becomes one.

use serde::{Deserialize, Serialize};

use super::{
    Operator, assert_single_row, assigned_windows, changelog_window, event_time_window, filter,
    fold, hash_aggregate, hash_join, iteration, limit, merge, nested_loop_join, project, sink,
    sort, sort_aggregate, sort_merge_join, source_scan, stream_join, top_n, union, unnest, values,
    window,
};
use crate::error::Result;
use crate::job::JobContext;

/// What lowering writes into a job graph: plain data, one variant an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a graph has few of them, and none is moved often")]
pub enum OperatorSpec {
    /// Reads splits of a connector.
    SourceScan(source_scan::SourceScanSpec),
    /// Keeps the rows that satisfy a predicate.
    Filter(filter::FilterSpec),
    /// Computes columns.
    Project(project::ProjectSpec),
    /// Sends work sets round an iteration.
    IterationHead(iteration::IterationHeadSpec),
    /// Sends results back to the head.
    IterationTail(iteration::IterationTailSpec),
    /// Skips and stops.
    Limit(limit::LimitSpec),
    /// Literal rows.
    Values(values::ValuesSpec),
    /// Passes several inputs on.
    Union(union::UnionSpec),
    /// Orders all rows.
    Sort(sort::SortSpec),
    /// The first rows in an order.
    TopN(top_n::TopNSpec),
    /// Makes one ordered stream of several.
    Merge(merge::MergeSpec),
    /// Fills the table of a hash join.
    HashJoinBuild(hash_join::HashJoinBuildSpec),
    /// Looks rows up in the table of a hash join.
    HashJoinProbe(hash_join::HashJoinProbeSpec),
    /// Groups rows in hash tables.
    HashAggregate(hash_aggregate::HashAggregateSpec),
    /// Aggregates rows that come grouped.
    SortAggregate(sort_aggregate::SortAggregateSpec),
    /// Adds columns that depend on other rows of the partition.
    Window(window::WindowSpec),
    /// Makes rows of list elements.
    Unnest(unnest::UnnestSpec),
    /// Keeps the build side of a nested loop join.
    NestedLoopBuild(nested_loop_join::NestedLoopBuildSpec),
    /// Pairs rows with the build side of a nested loop join.
    NestedLoopProbe(nested_loop_join::NestedLoopProbeSpec),
    /// Joins two ordered inputs.
    SortMergeJoin(sort_merge_join::SortMergeJoinSpec),
    /// Passes exactly one row.
    AssertSingleRow(assert_single_row::AssertSingleRowSpec),
    /// Adds columns that depend on other rows of the partition, to rows that may be withdrawn.
    ChangelogWindow(changelog_window::ChangelogWindowSpec),
    /// Gives rows the windows that an assigner, a trigger and an evictor make.
    AssignedWindows(assigned_windows::AssignedWindowsSpec),
    /// Adds columns that depend on other rows of the partition, to rows that event time completes.
    EventTimeWindow(event_time_window::EventTimeWindowSpec),
    /// Joins two inputs that both go on.
    StreamJoin(stream_join::StreamJoinSpec),
    /// Gives the rows that are left of a changelog.
    Fold(fold::FoldSpec),
    /// Hands rows to a sink of the environment.
    Sink(sink::SinkSpec),
}

impl OperatorSpec {
    /// The operator's name as EXPLAIN and errors show it.
    pub fn name(&self) -> &'static str {
        match self {
            OperatorSpec::SourceScan(_) => "Scan",
            OperatorSpec::Filter(_) => "Filter",
            OperatorSpec::Project(_) => "Project",
            OperatorSpec::IterationHead(_) => "IterationHead",
            OperatorSpec::IterationTail(_) => "IterationTail",
            OperatorSpec::Limit(_) => "Limit",
            OperatorSpec::Values(_) => "Values",
            OperatorSpec::Union(_) => "Union",
            OperatorSpec::Sort(_) => "Sort",
            OperatorSpec::TopN(_) => "TopN",
            OperatorSpec::Merge(_) => "Merge",
            OperatorSpec::HashAggregate(_) => "HashAggregate",
            OperatorSpec::SortAggregate(_) => "SortAggregate",
            OperatorSpec::HashJoinBuild(_) => "HashJoinBuild",
            OperatorSpec::HashJoinProbe(_) => "HashJoinProbe",
            OperatorSpec::Window(_) => "Window",
            OperatorSpec::Unnest(_) => "Unnest",
            OperatorSpec::NestedLoopBuild(_) => "NestedLoopBuild",
            OperatorSpec::NestedLoopProbe(_) => "NestedLoopProbe",
            OperatorSpec::AssertSingleRow(_) => "AssertSingleRow",
            OperatorSpec::SortMergeJoin(_) => "SortMergeJoin",
            OperatorSpec::Fold(_) => "Fold",
            OperatorSpec::StreamJoin(_) => "StreamJoin",
            OperatorSpec::ChangelogWindow(_) => "ChangelogWindow",
            OperatorSpec::AssignedWindows(_) => "AssignedWindows",
            OperatorSpec::EventTimeWindow(_) => "EventTimeWindow",
            OperatorSpec::Sink(_) => "Sink",
        }
    }

    /// Builds the operator; expressions are compiled here, at task start.
    pub fn build(&self, job: &JobContext) -> Result<Box<dyn Operator>> {
        Ok(match self {
            OperatorSpec::SourceScan(spec) => Box::new(source_scan::SourceScan::new(spec)),
            OperatorSpec::Filter(spec) => Box::new(filter::Filter::new(spec, job)?),
            OperatorSpec::Project(spec) => Box::new(project::Project::new(spec, job)?),
            OperatorSpec::IterationHead(spec) => {
                Box::new(iteration::IterationHead::new(spec, job)?)
            }
            OperatorSpec::IterationTail(_) => Box::<iteration::IterationTail>::default(),
            OperatorSpec::Limit(spec) => Box::new(limit::Limit::new(spec)),
            OperatorSpec::Values(spec) => Box::new(values::Values::new(spec, job)?),
            OperatorSpec::Union(spec) => Box::new(union::Union::new(spec)),
            OperatorSpec::Sort(spec) => spec.build(job)?,
            OperatorSpec::TopN(spec) => spec.build(job)?,
            OperatorSpec::Merge(spec) => Box::new(merge::Merge::new(spec, job)?),
            OperatorSpec::HashJoinBuild(spec) => {
                Box::new(hash_join::HashJoinBuild::new(spec, job)?)
            }
            OperatorSpec::HashJoinProbe(spec) => {
                Box::new(hash_join::HashJoinProbe::new(spec, job)?)
            }
            OperatorSpec::Window(spec) => Box::new(window::Window::new(spec, job)?),
            OperatorSpec::Unnest(spec) => Box::new(unnest::Unnest::new(spec, job)?),
            OperatorSpec::HashAggregate(spec) => {
                Box::new(hash_aggregate::HashAggregate::new(spec, job)?)
            }
            OperatorSpec::NestedLoopBuild(spec) => {
                Box::new(nested_loop_join::NestedLoopBuild::new(spec))
            }
            OperatorSpec::NestedLoopProbe(spec) => {
                Box::new(nested_loop_join::NestedLoopProbe::new(spec, job)?)
            }
            OperatorSpec::AssertSingleRow(spec) => {
                Box::new(assert_single_row::AssertSingleRow::new(spec))
            }
            OperatorSpec::SortAggregate(spec) => {
                Box::new(sort_aggregate::SortAggregate::new(spec, job)?)
            }
            OperatorSpec::SortMergeJoin(spec) => {
                Box::new(sort_merge_join::SortMergeJoin::new(spec, job)?)
            }
            OperatorSpec::Fold(spec) => Box::new(fold::Fold::new(spec, job)?),
            OperatorSpec::StreamJoin(spec) => Box::new(stream_join::StreamJoin::new(spec, job)?),
            OperatorSpec::ChangelogWindow(spec) => {
                Box::new(changelog_window::ChangelogWindow::new(spec, job)?)
            }
            OperatorSpec::AssignedWindows(spec) => {
                Box::new(assigned_windows::AssignedWindows::new(spec, job)?)
            }
            OperatorSpec::EventTimeWindow(spec) => {
                Box::new(event_time_window::EventTimeWindow::new(spec, job)?)
            }
            OperatorSpec::Sink(spec) => Box::new(sink::Sink::new(spec)),
        })
    }
}
