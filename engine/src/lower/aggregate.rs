//! Aggregations.

use datafusion_expr::expr::NullTreatment;
use thalweg_optimizer::physical::{
    AggregateCall, AggregatePhase, ColumnId, GroupingSets, LateKeys, PhysicalNode, PhysicalOp,
    ShipStrategy,
};
use thalweg_optimizer::{Closing, Emission};
use thalweg_planner::EmitWhen;
use thalweg_runtime::expr::Expr;
use thalweg_runtime::graph;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::hash_aggregate::{
    self, AggregateSpec, ClosingSpec, Early, FiringSpec, GroupingSetsSpec, HashAggregateSpec,
    LateKeysSpec, SlicesSpec,
};
use thalweg_runtime::operators::project::ProjectSpec;
use thalweg_runtime::operators::sort_aggregate::SortAggregateSpec;
use thalweg_runtime::operators::sort_key_spec::SortKeySpec;
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::expr::Scope;
use super::fragment::{Fragment, exchange_mode};

impl Lowering<'_> {
    pub(super) fn hash_aggregate(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::HashAggregate {
            phase, group_by, grouping_sets, aggregates, emission, ..
        } = &node.op
        else {
            return Err(Error::Internal("not a hash aggregate".into()));
        };
        match phase {
            AggregatePhase::Single | AggregatePhase::Partial => {
                let mut fragment = self.input(node)?;
                let mut spec = self.spec(
                    runtime_phase(*phase),
                    &fragment.columns,
                    group_by,
                    grouping_sets.as_ref(),
                    aggregates,
                )?;
                spec.withdrawn = node.inputs[0].node.changes;
                spec.emission = self.emission(emission, group_by)?;
                let inputs = match spec.emission.closes_groups() {
                    true => vec![self.fields(&fragment.columns)],
                    false => Vec::new(),
                };
                fragment.columns = output_of(group_by, grouping_sets.as_ref(), aggregates);
                fragment.push_timed(node.id, OperatorSpec::HashAggregate(spec), inputs);
                Ok(fragment)
            }
            AggregatePhase::Final => self.final_aggregate(node),
        }
    }

    /// A final phase is described by the partial one before it: both agree on the layout of the rows between
    /// them, which travel as pages.
    fn final_aggregate(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let channel = &node.inputs[0];
        let partial_node = &channel.node;
        let PhysicalOp::HashAggregate {
            group_by,
            grouping_sets,
            aggregates,
            late_keys,
            emission,
            ..
        } = &partial_node.op
        else {
            return Err(Error::Internal("a final aggregate without its partial one".into()));
        };
        let mut partial = self.input(partial_node)?;
        let mut spec = self.spec(
            hash_aggregate::AggregatePhase::Partial,
            &partial.columns,
            group_by,
            grouping_sets.as_ref(),
            aggregates,
        )?;
        spec.emission = self.emission(emission, group_by)?;
        let final_spec =
            HashAggregateSpec { phase: hash_aggregate::AggregatePhase::Final, ..spec.clone() };
        spec.late_keys = self.late_keys(late_keys, &partial.columns)?;
        // Late rows are those of the partial phase, which the final one tells.
        let inputs = match final_spec.emission.closes_groups() {
            true => vec![self.fields(&partial.columns)],
            false => Vec::new(),
        };
        partial.push(partial_node.id, OperatorSpec::HashAggregate(spec));
        let parallelism = self.parallelism(node);
        let ship = match &channel.ship {
            ShipStrategy::Hash(_) if parallelism > 1 => {
                // Pages know their partition; the keys are for batches, which do not come here.
                graph::ShipStrategy::Hash { keys: Vec::new(), types: Vec::new() }
            }
            ShipStrategy::Forward if partial.parallelism == parallelism => {
                graph::ShipStrategy::Forward
            }
            _ if parallelism == 1 => graph::ShipStrategy::Singleton,
            other => return Err(Error::Internal(format!("partial states shipped by {other:?}"))),
        };
        let PhysicalOp::HashAggregate { group_by: final_keys, aggregates: final_calls, .. } =
            &node.op
        else {
            return Err(Error::Internal("not a hash aggregate".into()));
        };
        let mut output: Vec<ColumnId> = final_keys.iter().map(|(id, _)| *id).collect();
        output.extend(final_calls.iter().map(|a| a.output));
        let vertex = self.close(partial, "partial aggregate");
        let edge = (vertex, ship, exchange_mode(channel.mode));
        let mut fragment = self.reading(vec![edge], parallelism, output);
        // Of groups that close, pages are split by the other keys.
        let all_keys = match &final_spec.emission {
            hash_aggregate::Emission::Closed(_) => final_spec.keys.len() - 1,
            hash_aggregate::Emission::AtEnd
            | hash_aggregate::Emission::Changes
            | hash_aggregate::Emission::PeriodicChanges { .. }
            | hash_aggregate::Emission::Fired(_) => final_spec.keys.len(),
        };
        let stays = final_spec.grouping_sets.is_none() && !self.meeting.contains(&node.id);
        fragment.push_timed(node.id, OperatorSpec::HashAggregate(final_spec), inputs);
        match &channel.ship {
            ShipStrategy::Hash(keys) if parallelism > 1 && !(stays && keys.len() == all_keys) => {
                self.spread_groups(fragment, keys, node)
            }
            _ => Ok(fragment),
        }
    }

    /// Sends groups to where the plan wants them. Pages are split by all keys, the grouping set included, with a hash
    /// of their own. A plan that names fewer keys relies on it that groups which agree in these meet, and a join that
    /// groups meet the other side's rows.
    fn spread_groups(
        &mut self,
        groups: Fragment,
        keys: &[ColumnId],
        node: &PhysicalNode,
    ) -> Result<Fragment> {
        let (columns, parallelism) = (groups.columns.clone(), groups.parallelism);
        let mut scope = self.scope(&columns)?;
        let keys: Vec<_> = keys.iter().map(|key| key.expr()).collect();
        let ship =
            graph::ShipStrategy::Hash { keys: scope.lower_all(&keys)?, types: scope.types() };
        let vertex = self.close(groups, "final aggregate");
        let edge = (vertex, ship, graph::ExchangeMode::Pipelined);
        let mut fragment = self.reading(vec![edge], parallelism, columns);
        // A vertex needs an operator, and what follows may be an exchange again.
        let exprs = (0..fragment.columns.len()).map(Expr::Column).collect();
        let spec = ProjectSpec { input: fragment.types(self.columns), exprs };
        fragment.push(node.id, OperatorSpec::Project(spec));
        Ok(fragment)
    }

    pub(super) fn sort_aggregate(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::SortAggregate { phase, group_by, aggregates } = &node.op else {
            return Err(Error::Internal("not a sort aggregate".into()));
        };
        if *phase != AggregatePhase::Single {
            return Err(Error::Internal("a sort aggregate has one phase".into()));
        }
        let mut fragment = self.input(node)?;
        let phase = hash_aggregate::AggregatePhase::Single;
        let spec = self.spec(phase, &fragment.columns, group_by, None, aggregates)?;
        fragment.columns = output_of(group_by, None, aggregates);
        let spec = SortAggregateSpec {
            phase,
            grouping_sets: None,
            input: spec.input,
            keys: spec.keys,
            key_types: spec.key_types,
            aggregates: spec.aggregates,
        };
        fragment.push(node.id, OperatorSpec::SortAggregate(spec));
        Ok(fragment)
    }

    /// The keys that are fetched from builds of joins in the same chain.
    fn late_keys(&self, late: &[LateKeys], input: &[ColumnId]) -> Result<Vec<LateKeysSpec>> {
        let lost = |id: ColumnId| Error::Internal(format!("late keys without their build {id}"));
        late.iter()
            .map(|late| {
                let build = self.late.get(&late.reference).ok_or_else(|| lost(late.reference))?;
                let place = |columns: &[ColumnId], id: ColumnId| {
                    columns.iter().position(|c| *c == id).ok_or_else(|| lost(id))
                };
                Ok(LateKeysSpec {
                    shared: build.shared,
                    partitioned: build.partitioned,
                    reference: place(input, late.reference)?,
                    keys: late
                        .keys
                        .iter()
                        .map(|&(key, id)| Ok((key, place(&build.columns, id)?)))
                        .collect::<Result<_>>()?,
                })
            })
            .collect()
    }

    fn spec(
        &self,
        phase: hash_aggregate::AggregatePhase,
        input: &[ColumnId],
        group_by: &[(ColumnId, datafusion_expr::Expr)],
        grouping_sets: Option<&GroupingSets>,
        aggregates: &[AggregateCall],
    ) -> Result<HashAggregateSpec> {
        let mut scope = self.scope(input)?;
        let key_types =
            group_by.iter().map(|(id, _)| self.columns.get(*id).data_type.clone()).collect();
        Ok(HashAggregateSpec {
            phase,
            input: scope.types(),
            keys: scope.lower_all(group_by.iter().map(|(_, e)| e))?,
            key_types,
            grouping_sets: grouping_sets.map(|sets| GroupingSetsSpec {
                sets: sets.sets.clone(),
                ids: sets.ids.clone(),
                id_type: self.columns.get(sets.id_column).data_type.clone(),
            }),
            aggregates: aggregates
                .iter()
                .map(|call| aggregate_spec(call, &mut scope))
                .collect::<Result<_>>()?,
            late_keys: Vec::new(),
            emission: hash_aggregate::Emission::AtEnd,
            withdrawn: false,
        })
    }

    /// When results leave.
    fn emission(
        &self,
        emission: &Emission,
        group_by: &[(ColumnId, datafusion_expr::Expr)],
    ) -> Result<hash_aggregate::Emission> {
        Ok(match emission {
            Emission::AtEnd => hash_aggregate::Emission::AtEnd,
            Emission::Changes => hash_aggregate::Emission::Changes,
            Emission::PeriodicChanges { every_us } => {
                hash_aggregate::Emission::PeriodicChanges { every_us: every_us.unsigned_abs() }
            }
            Emission::Fired(closing, emit) => hash_aggregate::Emission::Fired(FiringSpec {
                closing: self.closing(closing, group_by)?,
                early: match emit.when {
                    EmitWhen::WindowClose => Early::Never,
                    EmitWhen::Update => Early::Update,
                    EmitWhen::Periodic { every_us } => {
                        Early::Periodic { every_us: every_us.unsigned_abs() }
                    }
                },
                lateness_us: emit.allow_lateness_us,
            }),
            Emission::Closed(closing) => {
                hash_aggregate::Emission::Closed(self.closing(closing, group_by)?)
            }
        })
    }

    /// The key by which groups leave early, over the watermark alone.
    fn closing(
        &self,
        closing: &Closing,
        group_by: &[(ColumnId, datafusion_expr::Expr)],
    ) -> Result<ClosingSpec> {
        let key = group_by.iter().position(|(id, _)| *id == closing.key);
        let key = key.ok_or_else(|| Error::Internal("a closing key that is no key".into()))?;
        Ok(ClosingSpec { key, ..self.closing_bound(closing)? })
    }

    /// What no later value of a key is below, over the watermark alone.
    pub(super) fn closing_bound(&self, closing: &Closing) -> Result<ClosingSpec> {
        let watermark = [closing.watermark];
        let mut scope = self.scope(&watermark)?;
        Ok(ClosingSpec {
            key: 0,
            bound: scope.lower(&closing.bound)?,
            watermark_type: self.columns.get(closing.watermark).data_type.clone(),
            slices: closing.slices.map(|slices| SlicesSpec {
                count: slices.count,
                step: slices.step,
                length: slices.length,
                origin: slices.origin,
                cumulative: slices.cumulative,
            }),
        })
    }
}

/// Keys, the grouping id, aggregates: the order in which an aggregate's columns leave it.
fn output_of(
    group_by: &[(ColumnId, datafusion_expr::Expr)],
    grouping_sets: Option<&GroupingSets>,
    aggregates: &[AggregateCall],
) -> Vec<ColumnId> {
    let keys = group_by.iter().map(|(id, _)| *id);
    keys.chain(grouping_sets.map(|s| s.id_column))
        .chain(aggregates.iter().map(|a| a.output))
        .collect()
}

fn runtime_phase(phase: AggregatePhase) -> hash_aggregate::AggregatePhase {
    match phase {
        AggregatePhase::Single => hash_aggregate::AggregatePhase::Single,
        AggregatePhase::Partial => hash_aggregate::AggregatePhase::Partial,
        AggregatePhase::Final => hash_aggregate::AggregatePhase::Final,
    }
}

fn aggregate_spec(call: &AggregateCall, scope: &mut Scope<'_>) -> Result<AggregateSpec> {
    let order_by = call
        .order_by
        .iter()
        .map(|sort| {
            Ok(SortKeySpec {
                expr: scope.lower(&sort.expr)?,
                descending: !sort.asc,
                nulls_first: sort.nulls_first,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(AggregateSpec {
        function: call.function.name().to_string(),
        arg_types: call.args.iter().map(|a| scope.type_of(a)).collect::<Result<_>>()?,
        args: scope.lower_all(&call.args)?,
        distinct: call.distinct,
        filter: call.filter.as_ref().map(|f| scope.lower(f)).transpose()?,
        order_by,
        ignore_nulls: call.null_treatment == Some(NullTreatment::IgnoreNulls),
        result: call.data_type.clone(),
    })
}
