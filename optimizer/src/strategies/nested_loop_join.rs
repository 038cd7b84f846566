//! Nested-loop join: compares every pair; for joins without keys, or when the other strategies are forbidden.
//!
//! Requests: a build that all subtasks share, or one subtask for both. Provides the probe's spread. Blocks on the build.

use datafusion_common::JoinType;

use crate::cost::Cost;
use crate::cost::constants::{OUTPUT_ROW_NS, PAIR_NS, ROW_COPY_BYTE_NS};
use crate::joins::combine::{Choice, Operands};
use crate::joins::memo::{Entry, JoinStrategy, Read};
use crate::physical::Side;
use crate::properties::{Partitioning, ProvidedProperties};
use crate::search::Search;
use crate::strategies::conjuncts_ns;
use crate::strategies::hash_join::probe_parallelism;

impl Search<'_> {
    /// The build is the right operand unless the join is inner, so that unmatched rows of the preserved side are known
    /// at once.
    pub fn nested_loop_joins(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        into: &mut Vec<Choice>,
    ) {
        let inner = operands.pair.op == JoinType::Inner;
        let unwanted = |build| operands.rebuilds(build) || operands.is_live(build);
        if !inner || !unwanted(Side::Right) {
            into.push(self.nested_loop_join(operands, left, right, Side::Right));
        }
        if inner && !unwanted(Side::Left) {
            into.push(self.nested_loop_join(operands, left, right, Side::Left));
        }
    }

    fn nested_loop_join(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        build: Side,
    ) -> Choice {
        let (left_ship, right_ship, probe) = self.shared_build(left, right, build);
        let parallelism = probe_parallelism(probe, &left_ship, &right_ship, build);
        let built = match build {
            Side::Left => operands.left,
            Side::Right => operands.right,
        };
        let reading = self.reading(left, operands.left, &left_ship)
            + self.reading(right, operands.right, &right_ship);
        let pairs = operands.left.logical.rows * operands.right.logical.rows;
        let condition = conjuncts_ns(&operands.pair.filter) + operands.pair.keys.len() as f64;
        let kept = built.logical.rows * (OUTPUT_ROW_NS + built.width * ROW_COPY_BYTE_NS);
        let cpu = kept
            + (pairs * (PAIR_NS + condition) + self.result_ns(operands)) / self.degree(parallelism);
        Choice {
            strategy: JoinStrategy::NestedLoop { build },
            left_read: Read { ship: left_ship, sort: None },
            right_read: Read { ship: right_ship, sort: None },
            provided: ProvidedProperties {
                partitioning: match operands.pair.op {
                    JoinType::Full => Partitioning::Random,
                    _ => probe.provided.partitioning.clone(),
                },
                ..ProvidedProperties::random()
            },
            parallelism,
            work: Cost::cpu(cpu),
            reading,
        }
    }
}
