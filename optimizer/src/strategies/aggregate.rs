//! Aggregation: which phases, and where rows of a group meet.
//!
//! Requests: rows of a group meet. A spread on a subset of the keys will do; else rows are sent by their keys, or each
//! subtask aggregates first and only the states are sent. Without keys everything meets in one subtask.

use crate::cardinality::{Logical, column_of};
use crate::error::Result;
use crate::physical::{AggregateCall, AggregatePhase, ColumnId, Parallelism, ShipStrategy};
use crate::properties::{InterestingProperties, RequestedPartitioning};
use crate::relational::{AggregateSpec, Rel};
use crate::search::Search;
use crate::search::candidate::{Candidate, Planned};
use crate::strategies::column_set;
use crate::strategies::distinct_aggregate::without_distinct;
use crate::streaming::Emission;

/// An aggregation as its strategies see it.
pub(crate) struct Aggregation<'a> {
    pub spec: &'a AggregateSpec,
    pub output: &'a [ColumnId],
    pub keys: Vec<ColumnId>,
    pub input: &'a Logical,
    pub logical: &'a Logical,
}

impl Search<'_> {
    pub fn plan_aggregate(
        &mut self,
        rel: &Rel,
        spec: &AggregateSpec,
        interesting: &InterestingProperties,
    ) -> Result<Planned> {
        if let Some(rewritten) = without_distinct(rel, spec) {
            return self.plan(&rewritten, interesting);
        }
        let keys: Vec<ColumnId> = spec.group_by.iter().map(|(_, key)| *key).collect();
        let below = self.wanted_by_groups(spec, &keys, interesting);
        let input = self.plan(&rel.inputs[0], &below)?;
        let logical = self.grouped(spec, &keys, &input.logical);
        let aggregation = Aggregation {
            spec,
            output: &rel.output,
            keys,
            input: &input.logical,
            logical: &logical,
        };
        let mut candidates = Vec::new();
        for candidate in &input.candidates {
            self.aggregate_candidate(&aggregation, candidate, interesting, &mut candidates);
        }
        Ok(self.prune(candidates, interesting, &logical))
    }

    fn wanted_by_groups(
        &self,
        spec: &AggregateSpec,
        keys: &[ColumnId],
        interesting: &InterestingProperties,
    ) -> InterestingProperties {
        if spec.grouping_sets.is_some() {
            return InterestingProperties::default();
        }
        let mut below = interesting.map(|id| keys.contains(&id).then_some(id));
        below.want_partitioning(column_set(spread_keys(spec).map(|(_, key)| key)));
        below.want_grouping(column_set(keys.iter().copied()));
        below
    }

    /// What is known of the groups.
    fn grouped(&mut self, spec: &AggregateSpec, keys: &[ColumnId], input: &Logical) -> Logical {
        let rows = match &spec.grouping_sets {
            None => self.estimator.groups(keys, input.rows),
            Some(sets) => {
                let of_set = |set: &Vec<usize>| set.iter().map(|&i| keys[i]).collect::<Vec<_>>();
                sets.sets.iter().map(|set| self.estimator.groups(&of_set(set), input.rows)).sum()
            }
        };
        let rows = if keys.is_empty() { 1.0 } else { rows };
        for (output, key) in spec.group_by.iter().filter(|(output, key)| output != key) {
            let estimate = self.estimator.column(*key).clone();
            self.estimator.set(*output, estimate);
        }
        for call in &spec.aggregates {
            let info = self.columns.get(call.output).clone();
            self.estimator.set_computed(&info, rows);
            let arg = call.args.first().and_then(column_of);
            let size = input.rows / rows.max(1.0);
            self.estimator.set_aggregated(call.output, call.function.name(), arg, size);
        }
        let provenance = if keys.is_empty() {
            crate::physical::Provenance::Exact
        } else {
            input.provenance.and(self.key_provenance(keys))
        };
        let mut logical = Logical::new(rows, provenance);
        let set_id = spec.grouping_sets.iter().map(|sets| sets.id_column);
        logical
            .unique
            .push(spec.group_by.iter().map(|(output, _)| *output).chain(set_id).collect());
        if spec.grouping_sets.is_none() {
            logical.classes = input.classes.clone();
        }
        logical
    }

    fn key_provenance(&self, keys: &[ColumnId]) -> crate::physical::Provenance {
        let known = keys.iter().all(|&key| self.estimator.column(key).distinct_known);
        if known {
            crate::physical::Provenance::Stats
        } else {
            crate::physical::Provenance::Default
        }
    }

    fn aggregate_candidate(
        &self,
        aggregation: &Aggregation<'_>,
        candidate: &Candidate,
        interesting: &InterestingProperties,
        into: &mut Vec<Candidate>,
    ) {
        let single = AggregatePhase::Single;
        if candidate.node.parallelism == Parallelism::Singleton {
            self.aggregate_input(aggregation, self.forward(candidate), single, into);
            return;
        }
        let sets = aggregation.spec.grouping_sets.is_some();
        let canonical = column_set(
            spread_keys(aggregation.spec).map(|(_, key)| aggregation.input.classes.canonical(key)),
        );
        let spread = spread_keys(aggregation.spec).next().is_some();
        let colocated = RequestedPartitioning::Keys(canonical);
        if !sets && spread && candidate.node.provided.meets_partitioning(&colocated) {
            self.aggregate_input(aggregation, self.forward(candidate), single, into);
        } else if sets || !spread {
            let stays = aggregation.spec.emission == Emission::AtEnd || !candidate.node.changes;
            let splits = aggregation.splittable() && stays;
            if !splits || !self.options.strategies.two_phase_aggregate {
                self.aggregate_input(aggregation, self.gather(candidate), single, into);
            }
        } else if !aggregation.prefers_two_phases(self) {
            for keys in self.partition_choices(aggregation, interesting) {
                let shipped = self.ship(candidate, ShipStrategy::Hash(keys));
                self.aggregate_input(aggregation, shipped, single, into);
            }
        }
        let stays = aggregation.spec.emission == Emission::AtEnd || !candidate.node.changes;
        if aggregation.splittable() && self.options.strategies.two_phase_aggregate && stays {
            for keys in self.partition_choices(aggregation, interesting) {
                into.extend(self.two_phases(aggregation, candidate, keys));
            }
        }
    }

    /// Key lists by which rows of a group may be sent: all keys, or those that someone above would like.
    fn partition_choices(
        &self,
        aggregation: &Aggregation<'_>,
        interesting: &InterestingProperties,
    ) -> Vec<Vec<ColumnId>> {
        let spec = aggregation.spec;
        let set_id = spec.grouping_sets.iter().map(|sets| sets.id_column);
        let all: Vec<ColumnId> =
            spread_keys(spec).map(|(output, _)| output).chain(set_id).collect();
        let mut choices = vec![all.clone()];
        if spec.grouping_sets.is_none() {
            for wanted in &interesting.partitionings {
                let same = |key: &ColumnId| {
                    wanted.iter().any(|&id| aggregation.input.classes.same(id, *key))
                };
                let part: Vec<ColumnId> = all.iter().copied().filter(same).collect();
                if !part.is_empty() && !choices.contains(&part) {
                    choices.push(part);
                }
            }
        }
        choices
    }
}

/// The keys by which rows of a group may be sent to each other, as output and input columns: all but the one that closes
/// groups. Windows need several slices, and at any time the rows of most windows that are open are of one.
fn spread_keys(spec: &AggregateSpec) -> impl Iterator<Item = (ColumnId, ColumnId)> {
    let closing = spec.emission.closing().map(|closing| closing.key);
    spec.group_by.iter().copied().filter(move |(output, _)| Some(*output) != closing)
}

impl Aggregation<'_> {
    /// Whether the number of groups is a mere guess. If it were small, sending rows by their keys would leave most
    /// subtasks idle, whereas aggregating first is never far from the best.
    fn prefers_two_phases(&self, search: &Search<'_>) -> bool {
        let switches = &search.options.strategies;
        let possible = self.splittable() && switches.two_phase_aggregate && switches.hash_aggregate;
        // Groups that close are sent with each watermark, so that aggregating first may be far from the best.
        possible && self.spec.emission == Emission::AtEnd && !self.keys_known(search)
    }

    /// Whether the distinct values of all keys are more than a guess.
    pub fn keys_known(&self, search: &Search<'_>) -> bool {
        self.keys.iter().all(|&key| search.estimator.column(key).distinct_known)
    }

    /// Whether the work can be split into states per subtask: values of DISTINCT or ordered aggregates must meet first,
    /// and what changes must be in one place.
    pub fn splittable(&self) -> bool {
        let whole = |call: &AggregateCall| !call.distinct && call.order_by.is_empty();
        !self.spec.emission.withdraws() && self.spec.aggregates.iter().all(whole)
    }
}
