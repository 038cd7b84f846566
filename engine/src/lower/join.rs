//! Joins: a build side becomes a vertex that fills a shared build, the probe side goes on in the chain.

use datafusion_common::JoinType;
use datafusion_expr::Expr as LogicalExpr;
use thalweg_optimizer::physical::{
    Channel, ColumnId, ExchangeMode, PhysicalNode, PhysicalOp, ShipStrategy, Side,
};
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::assert_single_row::AssertSingleRowSpec;
use thalweg_runtime::operators::hash_join::{HashJoinBuildSpec, HashJoinProbeSpec};
use thalweg_runtime::operators::join_kind::{JoinColumn, JoinKind};
use thalweg_runtime::operators::nested_loop_join::{NestedLoopBuildSpec, NestedLoopProbeSpec};
use thalweg_runtime::operators::sort_merge_join::SortMergeJoinSpec;
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::{Fragment, exchange_mode};

impl Lowering<'_> {
    pub(super) fn hash_join(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::HashJoin {
            join_type,
            build,
            on,
            filter,
            null_equal,
            null_aware,
            mark,
            runtime_filters,
            late_columns,
            ..
        } = &node.op
        else {
            return Err(Error::Internal("not a hash join".into()));
        };
        let kind = join_kind(*join_type, *build)?;
        let sides = self.join_sides(node, *build, *null_aware)?;
        let (shared, partitioned) = (self.new_shared(), sides.partitioned);
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = on
            .iter()
            .map(|(left, right)| match build {
                Side::Left => (left.clone(), right.clone()),
                Side::Right => (right.clone(), left.clone()),
            })
            .unzip();
        let mut build_side = sides.build;
        let mut scope = self.scope(&build_side.columns)?;
        let build_spec = HashJoinBuildSpec {
            shared,
            partitioned,
            input: scope.types(),
            keys: scope.lower_all(&build_keys)?,
            null_equal: *null_equal,
            null_aware: *null_aware,
            tracks_matches: kind.tracks_matches(),
            // A filter must know the whole build side; a part of it would drop rows of the others.
            runtime_filters: match partitioned {
                true => Vec::new(),
                false => runtime_filters.iter().map(|f| (f.id, f.key_index)).collect(),
            },
            late: match late_columns {
                Some(late) => {
                    late.columns.iter().map(|&id| scope.position(id)).collect::<Result<_>>()?
                }
                None => Vec::new(),
            },
            probes: sides.probe.parallelism,
        };
        let build_types = scope.types();
        let build_columns = build_side.columns.clone();
        let reference = late_columns.as_ref().map(|late| late.reference);
        if let Some(reference) = reference {
            let columns = build_columns.clone();
            self.late.insert(reference, LateSource { shared, partitioned, columns });
        }
        build_side.push(node.id, OperatorSpec::HashJoinBuild(build_spec));
        self.close(build_side, "build");

        let mut probe = sides.probe;
        let mut scope = self.scope(&probe.columns)?;
        let spec = HashJoinProbeSpec {
            shared,
            partitioned,
            kind,
            input: scope.types(),
            build: build_types,
            keys: scope.lower_all(&probe_keys)?,
            filter: self.join_filter(filter.as_ref(), &probe.columns, &build_columns)?,
            output: join_columns(
                &node.output,
                &probe.columns,
                &build_columns,
                &[(*mark, JoinColumn::Mark), (reference, JoinColumn::BuildReference)],
            )?,
            null_equal: *null_equal,
            null_aware: *null_aware,
        };
        probe.columns = node.output.clone();
        probe.push(node.id, OperatorSpec::HashJoinProbe(spec));
        Ok(probe)
    }

    pub(super) fn nested_loop_join(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::NestedLoopJoin { join_type, build, filter, mark } = &node.op else {
            return Err(Error::Internal("not a nested-loop join".into()));
        };
        let kind = join_kind(*join_type, *build)?;
        let sides = self.join_sides(node, *build, false)?;
        let shared = self.new_shared();
        let mut build_side = sides.build;
        let build_types = build_side.types(self.columns);
        let build_columns = build_side.columns.clone();
        let build_spec = NestedLoopBuildSpec {
            shared,
            input: build_types.clone(),
            tracks_matches: kind.tracks_matches(),
            probes: sides.probe.parallelism,
        };
        build_side.push(node.id, OperatorSpec::NestedLoopBuild(build_spec));
        self.close(build_side, "build");

        let mut probe = sides.probe;
        let spec = NestedLoopProbeSpec {
            shared,
            kind,
            input: probe.types(self.columns),
            build: build_types,
            filter: self.join_filter(filter.as_ref(), &probe.columns, &build_columns)?,
            output: join_columns(
                &node.output,
                &probe.columns,
                &build_columns,
                &[(*mark, JoinColumn::Mark)],
            )?,
        };
        probe.columns = node.output.clone();
        probe.push(node.id, OperatorSpec::NestedLoopProbe(spec));
        Ok(probe)
    }

    pub(super) fn sort_merge_join(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::SortMergeJoin { join_type, on, keys, filter, null_equal, mark } = &node.op
        else {
            return Err(Error::Internal("not a sort-merge join".into()));
        };
        let left = self.channel(&node.inputs[0], node)?;
        let right = self.channel(&node.inputs[1], node)?;
        let (left_columns, right_columns) = (left.columns.clone(), right.columns.clone());
        let (left_types, right_types) = (left.types(self.columns), right.types(self.columns));
        let mut left_scope = self.scope(&left_columns)?;
        let mut right_scope = self.scope(&right_columns)?;
        let on = on
            .iter()
            .map(|(l, r)| Ok((left_scope.lower(l)?, right_scope.lower(r)?)))
            .collect::<Result<Vec<_>>>()?;
        let spec = SortMergeJoinSpec {
            left: left_types,
            right: right_types,
            keys: on,
            directions: keys.iter().map(|k| (k.descending, k.nulls_first)).collect(),
            kind: join_kind(*join_type, Side::Right)?,
            filter: self.join_filter(filter.as_ref(), &left_columns, &right_columns)?,
            output: join_columns(
                &node.output,
                &left_columns,
                &right_columns,
                &[(*mark, JoinColumn::Mark)],
            )?,
            null_equal: *null_equal,
        };
        let inputs = [left, right]
            .into_iter()
            .zip(&node.inputs)
            .map(|(side, channel)| {
                let vertex = self.close(side, "merge join input");
                let ship = thalweg_runtime::graph::ShipStrategy::Forward;
                (vertex, ship, exchange_mode(channel.mode))
            })
            .collect();
        let parallelism = self.parallelism(node);
        let mut fragment = self.reading(inputs, parallelism, node.output.clone());
        fragment.push(node.id, OperatorSpec::SortMergeJoin(spec));
        Ok(fragment)
    }

    pub(super) fn assert_single_row(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        if fragment.parallelism > 1 {
            fragment = self.gather(fragment);
        }
        let input = fragment.types(self.columns);
        fragment.push(node.id, OperatorSpec::AssertSingleRow(AssertSingleRowSpec { input }));
        Ok(fragment)
    }

    /// The two sides of a join with a build. Both shipped by hash: every subtask has a build of its own. Else
    /// the build is shared, and its rows stay where they are made; so it is for NOT IN, where one NULL key
    /// decides for all partitions.
    fn join_sides(
        &mut self,
        node: &PhysicalNode,
        build: Side,
        null_aware: bool,
    ) -> Result<JoinSides> {
        let (build_channel, probe_channel) = match build {
            Side::Left => (&node.inputs[0], &node.inputs[1]),
            Side::Right => (&node.inputs[1], &node.inputs[0]),
        };
        let parallel = self.parallelism(node) > 1;
        let partitioned = parallel && !null_aware && build_channel.ship != ShipStrategy::Broadcast;
        let build_side = if partitioned {
            self.channel(build_channel, node)?
        } else if build_channel.mode == ExchangeMode::Blocking {
            // All subtasks fill the one build, so each row goes to one of them, not to all.
            self.channel(&Channel { ship: ShipStrategy::Rebalance, ..build_channel.clone() }, node)?
        } else {
            self.node(&build_channel.node)?
        };
        let probe = self.channel(probe_channel, node)?;
        Ok(JoinSides { build: build_side, probe, partitioned })
    }

    fn new_shared(&mut self) -> u32 {
        let id = self.next_shared;
        // A partitioned build takes one id for each subtask.
        self.next_shared += self.options.threads as u32 + 1;
        id
    }

    pub(super) fn join_filter(
        &self,
        filter: Option<&LogicalExpr>,
        probe: &[ColumnId],
        build: &[ColumnId],
    ) -> Result<Option<thalweg_runtime::expr::Expr>> {
        let columns = [probe, build].concat();
        let mut scope = self.scope(&columns)?;
        filter.map(|f| scope.lower(f)).transpose()
    }
}

/// A build from which an aggregate further on in the chain fetches columns.
pub struct LateSource {
    /// The shared build.
    pub shared: u32,
    /// Whether each subtask has a build of its own.
    pub partitioned: bool,
    /// The build side's columns, by position.
    pub columns: Vec<ColumnId>,
}

struct JoinSides {
    build: Fragment,
    probe: Fragment,
    partitioned: bool,
}

/// Where each output column comes from; `own` are those that the join itself makes.
fn join_columns(
    output: &[ColumnId],
    probe: &[ColumnId],
    build: &[ColumnId],
    own: &[(Option<ColumnId>, JoinColumn)],
) -> Result<Vec<JoinColumn>> {
    let place = |id: &ColumnId| {
        if let Some((_, made)) = own.iter().find(|(made, _)| *made == Some(*id)) {
            return Ok(*made);
        }
        let of_probe = probe.iter().position(|c| c == id).map(JoinColumn::Probe);
        let of_build = || build.iter().position(|c| c == id).map(JoinColumn::Build);
        of_probe
            .or_else(of_build)
            .ok_or_else(|| Error::Internal(format!("a join without its output column {id}")))
    };
    output.iter().map(place).collect()
}

/// The join as its probe side sees it.
fn join_kind(join_type: JoinType, build: Side) -> Result<JoinKind> {
    let build_is_right = build == Side::Right;
    Ok(match join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Full => JoinKind::FullOuter,
        JoinType::Left if build_is_right => JoinKind::ProbeOuter,
        JoinType::Left => JoinKind::BuildOuter,
        JoinType::Right if build_is_right => JoinKind::BuildOuter,
        JoinType::Right => JoinKind::ProbeOuter,
        JoinType::LeftSemi if build_is_right => JoinKind::ProbeSemi,
        JoinType::LeftSemi => JoinKind::BuildSemi,
        JoinType::RightSemi if build_is_right => JoinKind::BuildSemi,
        JoinType::RightSemi => JoinKind::ProbeSemi,
        JoinType::LeftAnti if build_is_right => JoinKind::ProbeAnti,
        JoinType::LeftAnti => JoinKind::BuildAnti,
        JoinType::RightAnti if build_is_right => JoinKind::BuildAnti,
        JoinType::RightAnti => JoinKind::ProbeAnti,
        JoinType::LeftMark if build_is_right => JoinKind::ProbeMark,
        JoinType::LeftMark => JoinKind::BuildMark,
        JoinType::RightMark if build_is_right => JoinKind::BuildMark,
        JoinType::RightMark => JoinKind::ProbeMark,
    })
}
