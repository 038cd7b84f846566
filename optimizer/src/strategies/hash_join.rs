//! Hash join: builds a table of one operand and probes it with the other.
//!
//! Requests: a build shared by all subtasks (broadcast) with the probe where it is, or both operands spread by the
//! keys, of which a subset suffices if both use the same. Provides: the probe's spread, or the keys'. Blocks on the
//! build side. Destroys order, because a build that spills reorders the probe.

use datafusion_common::JoinType;

use crate::cost::Cost;
use crate::cost::constants::{
    EXTRA_KEY_NS, HASH_BUILD_ROW_NS, HASH_ENTRY_BYTES, HASH_PROBE_ROW_NS, OUTPUT_BYTE_NS,
    OUTPUT_ROW_NS, ROW_COPY_BYTE_NS,
};
use crate::joins::combine::{Choice, Operands};
use crate::joins::memo::{Entry, Group, JoinStrategy, Read};
use crate::physical::{ColumnId, Parallelism, ShipStrategy, Side};
use crate::properties::{Partitioning, ProvidedProperties};
use crate::search::Search;
use crate::strategies::conjuncts_ns;
use crate::strategies::hash_aggregate::miss_ns;
use crate::streaming::keeps_both;

impl Search<'_> {
    /// All ways to join two entries.
    pub fn join_choices(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        into: &mut Vec<Choice>,
    ) {
        let switches = &self.options.strategies;
        let pair = operands.pair;
        let keyed = !pair.keys.is_empty();
        let dynamic = operands.left.dynamic || operands.right.dynamic;
        let live = [operands.left.live, operands.right.live];
        if keeps_both(live, pair.op) {
            into.push(self.stream_join(operands, left, right));
            return;
        }
        let stream = live.contains(&true);
        let merge = keyed && switches.sort_merge_join && !pair.null_aware && !dynamic && !stream;
        let nested = !keyed
            || (switches.nested_loop_join && !switches.hash_join && !merge && !pair.null_aware);
        if keyed && (switches.hash_join || !(merge || nested)) {
            self.hash_joins(operands, left, right, into);
        }
        if merge {
            self.sort_merge_joins(operands, left, right, into);
        }
        if nested {
            self.nested_loop_joins(operands, left, right, into);
        }
    }

    /// Hash joins of two entries by keys.
    pub fn hash_joins(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        into: &mut Vec<Choice>,
    ) {
        let partitionable = !self.single_threaded() && !operands.pair.null_aware;
        let spreads = if partitionable { self.spreads(operands, left, right) } else { Vec::new() };
        for build in [Side::Right, Side::Left] {
            let unwanted = operands.rebuilds(build) || operands.is_live(build);
            if operands.pair.null_aware && build == Side::Left || unwanted {
                continue;
            }
            for keys in &spreads {
                into.push(self.partitioned_hash_join(operands, left, right, build, keys));
            }
            let both_single = left.is_singleton() && right.is_singleton();
            let allowed = self.options.strategies.broadcast || both_single || spreads.is_empty();
            if allowed {
                into.push(self.shared_hash_join(operands, left, right, build));
            }
        }
    }

    /// The probe stays where it is; the build is shared by all its subtasks.
    fn shared_hash_join(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        build: Side,
    ) -> Choice {
        let (left_ship, right_ship, probe) = self.shared_build(left, right, build);
        let parallelism = probe_parallelism(probe, &left_ship, &right_ship, build);
        let provided = ProvidedProperties {
            partitioning: kept_spread(operands.pair.op, build, probe),
            ..ProvidedProperties::random()
        };
        let builders = match build {
            Side::Left => left.parallelism,
            Side::Right => right.parallelism,
        };
        let work = self.hash_join_cost(operands, build, (builders, parallelism), 1.0);
        self.choice(
            operands,
            (left, right),
            (left_ship, right_ship),
            provided,
            parallelism,
            work,
            build,
        )
    }

    /// How to read two operands so that all subtasks of the probe see the whole build.
    pub fn shared_build<'e>(
        &self,
        left: &'e Entry,
        right: &'e Entry,
        build: Side,
    ) -> (ShipStrategy, ShipStrategy, &'e Entry) {
        let (built, probe) = match build {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        let broadcast = self.options.strategies.broadcast;
        let gather = |entry: &Entry| {
            if entry.is_singleton() { ShipStrategy::Forward } else { ShipStrategy::Singleton }
        };
        let (build_ship, probe_ship) = match (probe.is_singleton(), broadcast) {
            (false, true) => (ShipStrategy::Broadcast, ShipStrategy::Forward),
            (true, _) => (gather(built), ShipStrategy::Forward),
            (false, false) => (gather(built), ShipStrategy::Singleton),
        };
        match build {
            Side::Left => (build_ship, probe_ship, probe),
            Side::Right => (probe_ship, build_ship, probe),
        }
    }

    fn partitioned_hash_join(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        build: Side,
        keys: &[usize],
    ) -> Choice {
        let (left_ship, right_ship, provided) = self.copartitioned(operands, left, right, keys);
        let full = Parallelism::Full;
        let work = self.hash_join_cost(operands, build, (full, full), self.profile.parallelism);
        self.choice(operands, (left, right), (left_ship, right_ship), provided, full, work, build)
    }

    /// Reads both operands by the same keys, leaving one where it is if it is spread so already.
    pub fn copartitioned(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        keys: &[usize],
    ) -> (ShipStrategy, ShipStrategy, ProvidedProperties) {
        let columns = |side: fn(&(ColumnId, ColumnId)) -> ColumnId| -> Vec<ColumnId> {
            keys.iter().map(|&index| side(&operands.pair.keys[index])).collect()
        };
        let (left_keys, right_keys) = (columns(|pair| pair.0), columns(|pair| pair.1));
        let provided = ProvidedProperties {
            partitioning: match operands.pair.op {
                JoinType::Full => Partitioning::Random,
                _ => Partitioning::Hash(left_keys.clone()),
            },
            ..ProvidedProperties::random()
        };
        (
            by_keys(left, operands.left, left_keys),
            by_keys(right, operands.right, right_keys),
            provided,
        )
    }

    /// Key subsets by which to spread both operands: all keys, the spread one operand has already, and those that
    /// operators above could use.
    pub fn spreads(&self, operands: &Operands<'_>, left: &Entry, right: &Entry) -> Vec<Vec<usize>> {
        let keys = &operands.pair.keys;
        let mut spreads: Vec<Vec<usize>> = vec![(0..keys.len()).collect()];
        let mut add = |spread: Option<Vec<usize>>| {
            if let Some(spread) =
                spread.filter(|spread| !spread.is_empty() && !spreads.contains(spread))
            {
                spreads.push(spread);
            }
        };
        let left_keys: Vec<ColumnId> = keys.iter().map(|pair| pair.0).collect();
        let right_keys: Vec<ColumnId> = keys.iter().map(|pair| pair.1).collect();
        add(existing_spread(left, operands.left, &left_keys));
        add(existing_spread(right, operands.right, &right_keys));
        if keys.len() > 1 {
            let classes = &operands.logical.classes;
            for wanted in &operands.wanted.partitionings {
                let useful = |index: &usize| wanted.contains(&classes.canonical(keys[*index].0));
                add(Some((0..keys.len()).filter(useful).collect()));
            }
        }
        spreads
    }

    /// Building, probing and writing the result. `divided` is by how much the table of one subtask is smaller than all.
    fn hash_join_cost(
        &self,
        operands: &Operands<'_>,
        build: Side,
        (builders, probers): (Parallelism, Parallelism),
        divided: f64,
    ) -> Cost {
        let (built, probe) = match build {
            Side::Left => (operands.left, operands.right),
            Side::Right => (operands.right, operands.left),
        };
        let pair = operands.pair;
        let table = built.logical.rows * (built.width + HASH_ENTRY_BYTES);
        let miss = miss_ns(table / divided, table);
        let extra = (pair.keys.len() - 1) as f64 * EXTRA_KEY_NS;
        let insert = HASH_BUILD_ROW_NS + extra + miss + built.width * ROW_COPY_BYTE_NS;
        let probing = probe.logical.rows * (HASH_PROBE_ROW_NS + extra + miss);
        let spilled = self.spilled(table);
        let spill_share = if table > 0.0 { spilled / table } else { 0.0 };
        Cost {
            network: 0.0,
            disk: 2.0 * (spilled + spill_share * probe.logical.rows * probe.width),
            cpu: built.logical.rows * insert / self.degree(builders)
                + (probing + self.result_ns(operands)) / self.degree(probers),
        }
    }

    /// Testing the pairs and writing the rows that result, nanoseconds of one subtask doing all.
    pub fn result_ns(&self, operands: &Operands<'_>) -> f64 {
        let estimate = &operands.pair.estimate;
        let row = OUTPUT_ROW_NS + operands.width * OUTPUT_BYTE_NS;
        estimate.pairs * conjuncts_ns(&operands.pair.filter) + estimate.rows * row
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one decision")]
    fn choice(
        &self,
        operands: &Operands<'_>,
        (left, right): (&Entry, &Entry),
        (left_ship, right_ship): (ShipStrategy, ShipStrategy),
        provided: ProvidedProperties,
        parallelism: Parallelism,
        work: Cost,
        build: Side,
    ) -> Choice {
        let reading = self.reading(left, operands.left, &left_ship)
            + self.reading(right, operands.right, &right_ship);
        Choice {
            strategy: JoinStrategy::Hash { build },
            left_read: Read { ship: left_ship, sort: None },
            right_read: Read { ship: right_ship, sort: None },
            provided,
            parallelism,
            work,
            reading,
        }
    }

    /// What the exchange of an operand costs.
    pub fn reading(&self, entry: &Entry, group: &Group, ship: &ShipStrategy) -> Cost {
        let rows = group.logical.rows;
        self.ship_cost(rows, rows * group.width, entry.parallelism, ship)
    }
}

/// The spread that survives a shared build. Rows that a build emits at the end come from any subtask.
fn kept_spread(op: JoinType, build: Side, probe: &Entry) -> Partitioning {
    match (op, build) {
        (JoinType::Inner, _) => probe.provided.partitioning.clone(),
        (JoinType::Full, _) | (_, Side::Left) => Partitioning::Random,
        (_, Side::Right) => probe.provided.partitioning.clone(),
    }
}

/// The join runs where its probe arrives.
pub(crate) fn probe_parallelism(
    probe: &Entry,
    left: &ShipStrategy,
    right: &ShipStrategy,
    build: Side,
) -> Parallelism {
    let ship = match build {
        Side::Left => right,
        Side::Right => left,
    };
    if *ship == ShipStrategy::Singleton { Parallelism::Singleton } else { probe.parallelism }
}

fn by_keys(entry: &Entry, group: &Group, keys: Vec<ColumnId>) -> ShipStrategy {
    let canonical: Vec<ColumnId> =
        keys.iter().map(|&key| group.logical.classes.canonical(key)).collect();
    let matches = entry.provided.partitioning == Partitioning::Hash(canonical);
    if matches && !entry.is_singleton() { ShipStrategy::Forward } else { ShipStrategy::Hash(keys) }
}

/// The indices of the keys by which an operand is spread already.
fn existing_spread(entry: &Entry, group: &Group, keys: &[ColumnId]) -> Option<Vec<usize>> {
    let Partitioning::Hash(columns) = &entry.provided.partitioning else { return None };
    let index =
        |column: &ColumnId| keys.iter().position(|&key| group.logical.classes.same(key, *column));
    columns.iter().map(index).collect()
}
