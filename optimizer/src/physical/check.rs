//! Checks a plan's own consistency: every column an operator reads comes from its inputs, channels fit the
//! parallelism of their ends, and requests that operators rely on are met.
//!
//! It is run on every plan in debug builds, so that a fault of the search shows where it was made.

use std::collections::BTreeSet;

use datafusion_expr::Expr;

use crate::physical::{
    Channel, ColumnId, Parallelism, PhysicalNode, PhysicalOp, PhysicalPlan, ShipStrategy,
    UnnestSource,
};

/// The first inconsistency of a plan, if there is one.
pub(crate) fn check(plan: &PhysicalPlan) -> Result<(), String> {
    for shared in &plan.shared {
        check_node(&shared.root)?;
    }
    check_node(&plan.root)?;
    if plan.root.parallelism != Parallelism::Singleton {
        return Err("the root is not a singleton".to_owned());
    }
    let missing = plan.output.iter().find(|(id, _)| !plan.root.output.contains(id));
    match missing {
        Some((id, name)) => Err(format!("the root does not produce {name}{id}")),
        None => Ok(()),
    }
}

fn check_node(node: &PhysicalNode) -> Result<(), String> {
    for channel in &node.inputs {
        check_node(&channel.node)?;
        check_channel(node, channel)?;
    }
    let name = node.op.name();
    let input: BTreeSet<ColumnId> =
        node.inputs.iter().flat_map(|channel| channel.node.output.iter().copied()).collect();
    let own = own_columns(node);
    let read = read_columns(&node.op);
    if let Some(id) = read.iter().find(|id| !input.contains(id) && !own.contains(id)) {
        return Err(format!("{name} reads {id}, which no input has"));
    }
    let passes = passes_columns(&node.op);
    let produced = |id: &ColumnId| own.contains(id) || (passes && input.contains(id));
    match node.output.iter().find(|id| !produced(id)) {
        Some(id) => Err(format!("{name} cannot produce {id}")),
        None => Ok(()),
    }
}

fn check_channel(consumer: &PhysicalNode, channel: &Channel) -> Result<(), String> {
    let name = consumer.op.name();
    let (from, to) = (channel.node.parallelism, consumer.parallelism);
    let carried = |id: &ColumnId| channel.node.output.contains(id);
    let fits = match &channel.ship {
        ShipStrategy::Forward => from == to,
        ShipStrategy::Hash(keys) => keys.iter().all(carried) && to == Parallelism::Full,
        ShipStrategy::Broadcast | ShipStrategy::Rebalance => to == Parallelism::Full,
        ShipStrategy::Singleton => to == Parallelism::Singleton,
        ShipStrategy::Merge(order) => {
            to == Parallelism::Singleton && order.0.iter().all(|key| carried(&key.column))
        }
        ShipStrategy::Range(order) => order.0.iter().all(|key| carried(&key.column)),
    };
    if fits { Ok(()) } else { Err(format!("{name} cannot be fed by {:?}", channel.ship)) }
}

/// Whether columns of the inputs leave the operator under their own ids.
fn passes_columns(op: &PhysicalOp) -> bool {
    match op {
        PhysicalOp::Filter { .. }
        | PhysicalOp::HashJoin { .. }
        | PhysicalOp::SortMergeJoin { .. }
        | PhysicalOp::NestedLoopJoin { .. }
        | PhysicalOp::Sort { .. }
        | PhysicalOp::TopN { .. }
        | PhysicalOp::Limit { .. }
        | PhysicalOp::Window { .. }
        | PhysicalOp::StreamJoin { .. }
        | PhysicalOp::ChangelogWindow { .. }
        | PhysicalOp::RowWindows(_)
        | PhysicalOp::EventTimeWindow { .. }
        | PhysicalOp::Fold
        | PhysicalOp::AssertSingleRow => true,
        PhysicalOp::Scan { .. }
        | PhysicalOp::SharedScan { .. }
        | PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::Project { .. }
        | PhysicalOp::HashAggregate { .. }
        | PhysicalOp::SortAggregate { .. }
        | PhysicalOp::Union { .. }
        | PhysicalOp::Unnest { .. }
        | PhysicalOp::RecursiveCte { .. }
        | PhysicalOp::WorkTableScan { .. } => false,
    }
}

/// Columns the operator makes itself.
fn own_columns(node: &PhysicalNode) -> BTreeSet<ColumnId> {
    let ids: Vec<ColumnId> = match &node.op {
        PhysicalOp::Scan { columns, filter_columns, .. } => {
            columns.iter().chain(filter_columns).map(|(id, _)| *id).collect()
        }
        PhysicalOp::SharedScan { columns, .. } => columns.iter().map(|(id, _)| *id).collect(),
        PhysicalOp::WorkTableScan { columns, .. } => columns.iter().map(|(id, _)| *id).collect(),
        PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::Union { .. }
        | PhysicalOp::RecursiveCte { .. } => node.output.clone(),
        PhysicalOp::Project { exprs } => exprs.iter().map(|(id, _)| *id).collect(),
        PhysicalOp::HashJoin { mark, late_columns, .. } => {
            mark.iter().copied().chain(late_columns.iter().map(|late| late.reference)).collect()
        }
        PhysicalOp::SortMergeJoin { mark, .. }
        | PhysicalOp::NestedLoopJoin { mark, .. }
        | PhysicalOp::StreamJoin { mark, .. } => mark.iter().copied().collect(),
        PhysicalOp::HashAggregate { group_by, grouping_sets, aggregates, .. } => {
            let keys = group_by.iter().map(|(id, _)| *id);
            let set_id = grouping_sets.iter().map(|sets| sets.id_column);
            keys.chain(set_id).chain(aggregates.iter().map(|call| call.output)).collect()
        }
        PhysicalOp::SortAggregate { group_by, aggregates, .. } => {
            let keys = group_by.iter().map(|(id, _)| *id);
            keys.chain(aggregates.iter().map(|call| call.output)).collect()
        }
        PhysicalOp::Window { functions, .. }
        | PhysicalOp::ChangelogWindow { functions, .. }
        | PhysicalOp::EventTimeWindow { functions, .. } => {
            functions.iter().map(|call| call.output).collect()
        }
        PhysicalOp::Unnest { columns, .. } => columns.iter().map(|column| column.output).collect(),
        PhysicalOp::RowWindows(spec) => spec.outputs.clone(),
        PhysicalOp::Filter { .. }
        | PhysicalOp::Sort { .. }
        | PhysicalOp::TopN { .. }
        | PhysicalOp::Limit { .. }
        | PhysicalOp::Fold
        | PhysicalOp::AssertSingleRow => Vec::new(),
    };
    ids.into_iter().collect()
}

/// Columns the operator's expressions name.
fn read_columns(op: &PhysicalOp) -> BTreeSet<ColumnId> {
    let mut read = BTreeSet::new();
    let mut expr = |expr: &Expr| ColumnId::collect(expr, &mut read);
    match op {
        PhysicalOp::Scan { filters, runtime_filters, .. } => {
            filters.iter().for_each(&mut expr);
            runtime_filters.iter().for_each(|filter| expr(&filter.key));
        }
        PhysicalOp::Filter { predicate } => expr(predicate),
        PhysicalOp::Project { exprs } => {
            // A computed column may not be read by another expression of the same node.
            exprs.iter().for_each(|(_, e)| expr(e));
        }
        PhysicalOp::HashJoin { on, filter, .. }
        | PhysicalOp::SortMergeJoin { on, filter, .. }
        | PhysicalOp::StreamJoin { on, filter, .. } => {
            on.iter().flat_map(|(l, r)| [l, r]).chain(filter).for_each(&mut expr);
        }
        PhysicalOp::NestedLoopJoin { filter, .. } => filter.iter().for_each(&mut expr),
        PhysicalOp::HashAggregate { phase, group_by, aggregates, .. }
        | PhysicalOp::SortAggregate { phase, group_by, aggregates } => {
            group_by.iter().for_each(|(_, key)| expr(key));
            let states = *phase == crate::physical::AggregatePhase::Final;
            for call in aggregates.iter().filter(|_| !states) {
                call.args.iter().chain(&call.filter).for_each(&mut expr);
                call.order_by.iter().for_each(|sort| expr(&sort.expr));
            }
            if states {
                aggregates.iter().for_each(|call| expr(&call.output.expr()));
            }
        }
        PhysicalOp::Sort { keys, .. } | PhysicalOp::TopN { keys, .. } => {
            keys.iter().for_each(|key| expr(&key.expr()));
        }
        PhysicalOp::Window { partition_by, order_by, functions }
        | PhysicalOp::ChangelogWindow { partition_by, order_by, functions, .. }
        | PhysicalOp::EventTimeWindow { partition_by, order_by, functions, .. } => {
            partition_by.iter().for_each(&mut expr);
            order_by.iter().for_each(|key| expr(&key.expr()));
            functions.iter().flat_map(|c| c.args.iter().chain(&c.filter)).for_each(&mut expr);
        }
        PhysicalOp::RowWindows(spec) => spec.read().for_each(|id| expr(&id.expr())),
        PhysicalOp::Union { columns } => {
            columns.iter().flatten().for_each(|id| expr(&id.expr()));
        }
        PhysicalOp::Unnest { columns, .. } => columns.iter().for_each(|column| {
            expr(&match column.source {
                UnnestSource::Forward(input)
                | UnnestSource::List { input, .. }
                | UnnestSource::StructField { input, .. } => input.expr(),
            });
        }),
        PhysicalOp::RecursiveCte { static_columns, recursive_columns, .. } => {
            static_columns.iter().chain(recursive_columns).for_each(|id| expr(&id.expr()));
        }
        PhysicalOp::SharedScan { .. }
        | PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::Limit { .. }
        | PhysicalOp::Fold
        | PhysicalOp::AssertSingleRow
        | PhysicalOp::WorkTableScan { .. } => {}
    }
    read
}
