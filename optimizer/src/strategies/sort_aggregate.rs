//! Aggregation of sorted input: equal keys stand together, so that one group is open at a time.
//!
//! Requests: grouping by the keys. Provides that order and spread; blocks on nothing beyond a sort.

use crate::cost::Cost;
use crate::cost::constants::{AGGREGATE_UPDATE_NS, COMPARE_NS, OUTPUT_ROW_NS};
use crate::physical::{AggregatePhase, PhysicalOp};
use crate::properties::RequestedLocal;
use crate::search::Search;
use crate::search::candidate::{Candidate, Draft, Input, ascending};
use crate::strategies::aggregate::Aggregation;
use crate::strategies::{column_set, expression_ns};

impl Search<'_> {
    /// Aggregates a channel by order, sorting first if the rows do not come grouped; but a mere guess of the
    /// number of groups does not justify a sort.
    pub fn sort_aggregate(
        &self,
        aggregation: &Aggregation<'_>,
        input: Input,
        phase: AggregatePhase,
    ) -> Option<Candidate> {
        let classes = &aggregation.input.classes;
        let keys = column_set(aggregation.keys.iter().map(|&key| classes.canonical(key)));
        let ordered = input.provided.map(|column| classes.canonical(column));
        let grouped = ordered.meets_local(&RequestedLocal::Grouping(keys));
        let worth_sorting = aggregation.keys_known(self) || !self.options.strategies.hash_aggregate;
        let input = if grouped {
            input
        } else if !worth_sorting {
            return None;
        } else {
            self.sorted(input, &ascending(aggregation.keys.iter().copied()), aggregation.input)
        };
        let rows = aggregation.input.rows;
        let spec = aggregation.spec;
        let update: f64 = spec
            .aggregates
            .iter()
            .map(|call| {
                AGGREGATE_UPDATE_NS
                    + call.args.iter().chain(&call.filter).map(expression_ns).sum::<f64>()
            })
            .sum();
        let compare = COMPARE_NS * aggregation.keys.len() as f64;
        let cpu = rows * (compare + update) + aggregation.logical.rows * OUTPUT_ROW_NS;
        let draft = Draft {
            op: PhysicalOp::SortAggregate {
                phase,
                group_by: spec.group_by.iter().map(|&(output, key)| (output, key.expr())).collect(),
                aggregates: spec.aggregates.clone(),
            },
            output: aggregation.output.to_vec(),
            provided: input.provided.clone(),
            work: Cost::cpu(
                cpu / self.degree(input.parallelism).min(aggregation.logical.rows.max(1.0)),
            ),
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        Some(self.node(draft, aggregation.logical))
    }
}
