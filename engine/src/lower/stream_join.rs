//! Joins of two streams, and what is left of a changelog.

use datafusion_common::JoinType;
use thalweg_optimizer::Expiry;
use thalweg_optimizer::physical::{ColumnId, PhysicalNode, PhysicalOp, Side};
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::fold::FoldSpec;
use thalweg_runtime::operators::stream_join::{
    ExpirySpec, StreamJoinColumn, StreamJoinKind, StreamJoinSide, StreamJoinSpec,
};
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::{Fragment, exchange_mode};

impl Lowering<'_> {
    pub(super) fn stream_join(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::StreamJoin {
            join_type,
            on,
            filter,
            null_equal,
            null_aware,
            mark,
            expiry,
            patient,
            lookup,
        } = &node.op
        else {
            return Err(Error::Internal("not a join of streams".into()));
        };
        let left = self.channel(&node.inputs[0], node)?;
        let right = self.channel(&node.inputs[1], node)?;
        let (left_columns, right_columns) = (left.columns.clone(), right.columns.clone());
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = on.iter().cloned().unzip();
        let withdrawn = |side: usize| node.inputs[side].node.changes;
        let lookup = lookup.map(|side| match side {
            Side::Left => 0,
            Side::Right => 1,
        });
        let mut output = node.output.clone();
        if let Some(lookup) = lookup
            && withdrawn(1 - lookup)
        {
            // What goes again is told by all columns.
            let own = if lookup == 0 { &right_columns } else { &left_columns };
            output.extend(own.iter().filter(|id| !node.output.contains(id)));
        }
        let inputs = vec![self.fields(&left_columns), self.fields(&right_columns)];
        let spec = StreamJoinSpec {
            kind: kind(*join_type),
            left: self.stream_side(&left_columns, &left_keys, withdrawn(0), expiry)?,
            right: self.stream_side(&right_columns, &right_keys, withdrawn(1), expiry)?,
            null_equal: *null_equal,
            null_aware: *null_aware,
            lookup: lookup.map(|side| side as u16),
            patient: *patient,
            filter: self.join_filter(filter.as_ref(), &left_columns, &right_columns)?,
            output: output
                .iter()
                .map(|id| place(*id, *mark, &left_columns, &right_columns))
                .collect::<Result<_>>()?,
        };
        let may_be_late = [&spec.left, &spec.right]
            .iter()
            .any(|side| side.expiry.as_ref().is_some_and(|expiry| expiry.own.is_some()));
        let inputs = if may_be_late { inputs } else { Vec::new() };
        let sides = [left, right]
            .into_iter()
            .zip(&node.inputs)
            .map(|(side, channel)| (side, exchange_mode(channel.mode)))
            .collect();
        let parallelism = self.parallelism(node);
        let mut fragment = self.meeting(sides, "stream", parallelism, output);
        fragment.push_timed(node.id, OperatorSpec::StreamJoin(spec), inputs);
        Ok(fragment)
    }

    fn stream_side(
        &self,
        columns: &[ColumnId],
        keys: &[datafusion_expr::Expr],
        withdrawn: bool,
        expiry: &[Expiry],
    ) -> Result<StreamJoinSide> {
        let mut scope = self.scope(columns)?;
        let of_side = |expiry: &&Expiry| {
            ColumnId::referenced(&expiry.time).iter().all(|id| columns.contains(id))
        };
        let expiry = match expiry.iter().find(of_side) {
            None => None,
            Some(expiry) => {
                let mut watermark = self.scope(std::slice::from_ref(&expiry.watermark))?;
                Some(ExpirySpec {
                    time: scope.lower(&expiry.time)?,
                    bound: watermark.lower(&expiry.bound)?,
                    own: expiry.own.as_ref().map(|own| watermark.lower(own)).transpose()?,
                    watermark_type: self.columns.get(expiry.watermark).data_type.clone(),
                })
            }
        };
        Ok(StreamJoinSide { types: scope.types(), keys: scope.lower_all(keys)?, withdrawn, expiry })
    }

    pub(super) fn fold(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let types = fragment.types(self.columns);
        fragment.push(node.id, OperatorSpec::Fold(FoldSpec { types }));
        Ok(fragment)
    }
}

fn place(
    id: ColumnId,
    mark: Option<ColumnId>,
    left: &[ColumnId],
    right: &[ColumnId],
) -> Result<StreamJoinColumn> {
    if mark == Some(id) {
        return Ok(StreamJoinColumn::Mark);
    }
    let of = |side: &[ColumnId]| side.iter().position(|column| *column == id);
    of(left)
        .map(StreamJoinColumn::Left)
        .or_else(|| of(right).map(StreamJoinColumn::Right))
        .ok_or_else(|| Error::Internal(format!("a join without its output column {id}")))
}

fn kind(join_type: JoinType) -> StreamJoinKind {
    match join_type {
        JoinType::Inner => StreamJoinKind::Inner,
        JoinType::Left => StreamJoinKind::Left,
        JoinType::Right => StreamJoinKind::Right,
        JoinType::Full => StreamJoinKind::Full,
        JoinType::LeftSemi => StreamJoinKind::LeftSemi,
        JoinType::RightSemi => StreamJoinKind::RightSemi,
        JoinType::LeftAnti => StreamJoinKind::LeftAnti,
        JoinType::RightAnti => StreamJoinKind::RightAnti,
        JoinType::LeftMark => StreamJoinKind::LeftMark,
        JoinType::RightMark => StreamJoinKind::RightMark,
    }
}
