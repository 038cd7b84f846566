//! Hash aggregation in one or two phases. Destroys order, keeps the spread; blocks on its input.

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::{
    AGGREGATE_UPDATE_NS, DISTINCT_VALUE_NS, EXTRA_KEY_NS, GROUP_LOOKUP_NS, HASH_ENTRY_BYTES,
    L2_BYTES, L2_MISS_NS, L3_BYTES, L3_MISS_NS, OUTPUT_ROW_NS,
};
use crate::physical::{AggregatePhase, ColumnId, Parallelism, PhysicalOp, ShipStrategy};
use crate::properties::ProvidedProperties;
use crate::search::Search;
use crate::search::candidate::{Candidate, Draft, Input};
use crate::strategies::aggregate::Aggregation;
use crate::strategies::expression_ns;
use crate::streaming::Emission;

impl Search<'_> {
    /// Aggregates one channel in one node by the strategies that are allowed.
    pub fn aggregate_input(
        &self,
        aggregation: &Aggregation<'_>,
        input: Input,
        phase: AggregatePhase,
        into: &mut Vec<Candidate>,
    ) {
        let sortable = self.sortable(aggregation);
        let switches = &self.options.strategies;
        if sortable && (switches.sort_aggregate || !switches.hash_aggregate) {
            into.extend(self.sort_aggregate(aggregation, input.clone(), phase));
        }
        if switches.hash_aggregate || !sortable {
            into.push(self.hash_aggregate(aggregation, input, phase));
        }
    }

    fn hash_aggregate(
        &self,
        aggregation: &Aggregation<'_>,
        input: Input,
        phase: AggregatePhase,
    ) -> Candidate {
        let spec = aggregation.spec;
        let work = self.hash_aggregate_cost(
            aggregation,
            aggregation.input.rows,
            aggregation.logical.rows,
            &input,
        );
        let draft = Draft {
            op: PhysicalOp::HashAggregate {
                phase,
                group_by: spec.group_by.iter().map(|&(output, key)| (output, key.expr())).collect(),
                grouping_sets: spec.grouping_sets.clone(),
                aggregates: spec.aggregates.clone(),
                late_keys: Vec::new(),
                emission: spec.emission.clone(),
            },
            output: aggregation.output.to_vec(),
            provided: self.after_grouping(aggregation, &input),
            work,
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        self.node(draft, aggregation.logical)
    }

    /// Groups keep the spread of their rows; with grouping sets the keys are others.
    pub fn after_grouping(
        &self,
        aggregation: &Aggregation<'_>,
        input: &Input,
    ) -> ProvidedProperties {
        if aggregation.spec.grouping_sets.is_some() {
            return ProvidedProperties::random();
        }
        input.provided.clone().without_order()
    }

    /// Partial aggregation where the rows are, final aggregation where the groups meet.
    pub fn two_phases(
        &self,
        aggregation: &Aggregation<'_>,
        candidate: &Candidate,
        keys: Vec<ColumnId>,
    ) -> Vec<Candidate> {
        if !self.options.strategies.hash_aggregate && self.sortable(aggregation) {
            return Vec::new();
        }
        let spec = aggregation.spec;
        let partial = self.partial(aggregation, candidate);
        let ship = if keys.is_empty() { ShipStrategy::Singleton } else { ShipStrategy::Hash(keys) };
        let input = self.ship(&partial, ship);
        let set_id = spec.grouping_sets.iter().map(|sets| (sets.id_column, sets.id_column.expr()));
        let group_by = spec
            .group_by
            .iter()
            .map(|&(output, _)| (output, output.expr()))
            .chain(set_id)
            .collect();
        let rows = partial.node.estimates.rows;
        let draft = Draft {
            op: PhysicalOp::HashAggregate {
                phase: AggregatePhase::Final,
                group_by,
                grouping_sets: None,
                aggregates: spec.aggregates.clone(),
                late_keys: Vec::new(),
                emission: spec.emission.clone(),
            },
            output: aggregation.output.to_vec(),
            provided: input.provided.clone(),
            work: self.hash_aggregate_cost(aggregation, rows, aggregation.logical.rows, &input),
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        vec![self.node(draft, aggregation.logical)]
    }

    fn sortable(&self, aggregation: &Aggregation<'_>) -> bool {
        if aggregation.spec.emission != Emission::AtEnd {
            return false;
        }
        let plain = aggregation.spec.grouping_sets.is_none() && aggregation.splittable();
        plain && !aggregation.keys.is_empty()
    }

    fn partial(&self, aggregation: &Aggregation<'_>, candidate: &Candidate) -> Candidate {
        let spec = aggregation.spec;
        let degree = self.degree(Parallelism::Full);
        let sets = spec.grouping_sets.as_ref().map_or(1, |sets| sets.sets.len()) as f64;
        let share = aggregation.input.rows / degree;
        // Groups that close are handed over with each watermark, which comes with a batch.
        let batches = match spec.emission.closing() {
            Some(_) => (share / self.options.batch as f64).max(1.0),
            None => 1.0,
        };
        let each = if aggregation.keys.is_empty() {
            1.0
        } else {
            let of_batch = self
                .estimator
                .groups(&aggregation.keys, (share / batches).max(1.0))
                .min(aggregation.logical.rows.max(1.0));
            of_batch * batches * sets
        };
        let rows = (each * degree).min(aggregation.input.rows * sets).max(1.0);
        let mut logical = Logical::new(rows, aggregation.logical.provenance);
        logical.classes = aggregation.logical.classes.clone();
        let input = self.forward(candidate);
        let draft = Draft {
            op: PhysicalOp::HashAggregate {
                phase: AggregatePhase::Partial,
                group_by: spec.group_by.iter().map(|&(output, key)| (output, key.expr())).collect(),
                grouping_sets: spec.grouping_sets.clone(),
                aggregates: spec.aggregates.clone(),
                late_keys: Vec::new(),
                emission: spec.emission.clone(),
            },
            output: spec.output(),
            provided: self.after_grouping(aggregation, &input),
            work: self.hash_aggregate_cost(aggregation, aggregation.input.rows, rows, &input),
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        self.node(draft, &logical)
    }

    /// Looking up a group, updating its states, and missing the cache when the groups are many.
    fn hash_aggregate_cost(
        &self,
        aggregation: &Aggregation<'_>,
        rows: f64,
        groups: f64,
        input: &Input,
    ) -> Cost {
        let spec = aggregation.spec;
        let degree = self.degree(input.parallelism).min(groups.max(1.0));
        let sets = spec.grouping_sets.as_ref().map_or(1, |sets| sets.sets.len()) as f64;
        let width = self.estimator.row_width(&spec.output());
        let table = groups * (width + HASH_ENTRY_BYTES);
        let lookup = if aggregation.keys.is_empty() {
            0.0
        } else {
            let extra = (aggregation.keys.len() - 1) as f64 * EXTRA_KEY_NS;
            GROUP_LOOKUP_NS + extra + miss_ns(table / degree, table)
        };
        let update: f64 = spec
            .aggregates
            .iter()
            .map(|call| {
                let distinct = if call.distinct { DISTINCT_VALUE_NS } else { 0.0 };
                AGGREGATE_UPDATE_NS
                    + distinct
                    + call.args.iter().chain(&call.filter).map(expression_ns).sum::<f64>()
            })
            .sum();
        Cost {
            network: 0.0,
            disk: self.spilled(table) * 2.0,
            cpu: (rows * sets * (lookup + update) + groups * OUTPUT_ROW_NS) / degree,
        }
    }
}

/// The price of one access to a table of `private` bytes of which all subtasks together hold `total`.
pub(crate) fn miss_ns(private: f64, total: f64) -> f64 {
    let beyond = |bytes: f64, cache: f64| (1.0 - cache / bytes.max(1.0)).max(0.0);
    beyond(private, L2_BYTES) * L2_MISS_NS + beyond(total, L3_BYTES) * L3_MISS_NS
}
