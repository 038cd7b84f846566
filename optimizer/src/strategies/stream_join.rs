//! Join of two streams: each side is kept, and rows of either look up what is known of the other.
//!
//! Requests: both operands spread by the keys; without keys, or for NOT IN, both in one subtask. Provides that spread;
//! blocks on nothing.

use datafusion_common::JoinType;

use crate::cost::Cost;
use crate::cost::constants::{HASH_BUILD_ROW_NS, HASH_PROBE_ROW_NS, PAIR_NS};
use crate::joins::combine::{Choice, Operands};
use crate::joins::memo::{Entry, JoinStrategy, Read};
use crate::physical::{Parallelism, ShipStrategy};
use crate::properties::{Partitioning, ProvidedProperties};
use crate::search::Search;

impl Search<'_> {
    pub fn stream_join(&self, operands: &Operands<'_>, left: &Entry, right: &Entry) -> Choice {
        let pair = operands.pair;
        let spread = !pair.keys.is_empty() && !pair.null_aware && !self.single_threaded();
        let ((left_ship, right_ship), provided, parallelism) = if spread {
            let keys: Vec<usize> = (0..pair.keys.len()).collect();
            let (l, r, provided) = self.copartitioned(operands, left, right, &keys);
            ((l, r), provided, Parallelism::Full)
        } else {
            let gather = |entry: &Entry| match entry.is_singleton() {
                true => ShipStrategy::Forward,
                false => ShipStrategy::Singleton,
            };
            let ships = (gather(left), gather(right));
            (ships, ProvidedProperties::singleton(), Parallelism::Singleton)
        };
        let provided = match pair.op {
            JoinType::Full | JoinType::Right if parallelism == Parallelism::Full => {
                ProvidedProperties { partitioning: Partitioning::Random, ..provided }
            }
            _ => provided,
        };
        let reading = self.reading(left, operands.left, &left_ship)
            + self.reading(right, operands.right, &right_ship);
        let rows = operands.left.logical.rows + operands.right.logical.rows;
        let pairs = match pair.keys.is_empty() {
            true => operands.left.logical.rows * operands.right.logical.rows * PAIR_NS,
            false => 0.0,
        };
        let cpu = rows * (HASH_BUILD_ROW_NS + HASH_PROBE_ROW_NS) + pairs + self.result_ns(operands);
        Choice {
            strategy: JoinStrategy::Stream,
            left_read: Read { ship: left_ship, sort: None },
            right_read: Read { ship: right_ship, sort: None },
            provided,
            parallelism,
            work: Cost::cpu(cpu / self.degree(parallelism)),
            reading,
        }
    }
}
