//! Candidates: finished subplans that compete, and how a consumer reads them.
//!
//! Invariant: all candidates of one relation compute the same rows; they differ in cost and in what they provide. A
//! candidate is dropped when another one, enforcers paid, does the same for less time.

use std::sync::Arc;

use crate::cardinality::Logical;
use crate::cost::Cost;
use crate::cost::constants::{
    COMPARE_NS, EXCHANGE_STARTUP_NS, FORWARD_ROW_NS, MERGE_ROW_NS, REPARTITION_ROW_NS,
    ROW_COPY_BYTE_NS,
};
use crate::physical::{
    Channel, ColumnId, Estimates, ExchangeMode, Parallelism, PhysicalNode, PhysicalOp, ShipStrategy,
};
use crate::properties::{
    InterestingProperties, Ordering, Partitioning, ProvidedProperties, SortKey,
};
use crate::search::Search;
use crate::streaming::withdraws;

/// How many candidates of one relation are kept at most.
const MAX_CANDIDATES: usize = 8;

/// A subplan and the time it takes.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub node: Arc<PhysicalNode>,
    /// The cumulative cost as time, nanoseconds.
    pub time: f64,
}

/// All that survives of a relation: what is known of its rows and the plans that compute it.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub logical: Logical,
    pub candidates: Vec<Candidate>,
}

/// A channel with its price and what the consumer finds at its end.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub channel: Channel,
    pub cost: Cost,
    pub provided: ProvidedProperties,
    pub parallelism: Parallelism,
}

/// What a strategy decides of a new node; the rest follows.
pub(crate) struct Draft {
    pub op: PhysicalOp,
    pub inputs: Vec<Input>,
    pub output: Vec<ColumnId>,
    pub provided: ProvidedProperties,
    /// The operator's own work, channels not included.
    pub work: Cost,
    pub parallelism: Parallelism,
}

impl Search<'_> {
    /// Makes a node; `logical` describes its output.
    pub fn node(&self, draft: Draft, logical: &Logical) -> Candidate {
        let mut cost = draft.work;
        let mut cumulative = Cost::default();
        for input in &draft.inputs {
            cost += input.cost;
            cumulative += input.channel.node.cumulative;
        }
        cumulative += cost;
        let mut provided = draft.provided.map(|column| logical.classes.canonical(column));
        provided.unique.clone_from(&logical.unique);
        if draft.parallelism == Parallelism::Singleton {
            provided.partitioning = Partitioning::Singleton;
        }
        let estimates = Estimates {
            rows: logical.rows,
            provenance: logical.provenance,
            bytes: logical.rows * self.estimator.row_width(&draft.output),
        };
        let inputs: Vec<Channel> = draft.inputs.into_iter().map(|input| input.channel).collect();
        let node = PhysicalNode {
            id: 0,
            changes: withdraws(&draft.op, &inputs, self),
            op: draft.op,
            inputs,
            output: draft.output,
            provided,
            estimates,
            cost,
            cumulative,
            parallelism: draft.parallelism,
        };
        Candidate { time: self.profile.time_ns(&cumulative), node: Arc::new(node) }
    }

    /// The number of subtasks as a divisor of work.
    pub fn degree(&self, parallelism: Parallelism) -> f64 {
        match parallelism {
            Parallelism::Singleton => 1.0,
            Parallelism::Full => self.profile.parallelism,
        }
    }

    /// Whether everything runs in one subtask anyway.
    pub fn single_threaded(&self) -> bool {
        self.profile.parallelism <= 1.0
    }

    /// The parallelism of sources and of consumers of exchanges.
    pub fn full(&self) -> Parallelism {
        if self.single_threaded() { Parallelism::Singleton } else { Parallelism::Full }
    }

    /// Reads a candidate where it is.
    pub fn forward(&self, candidate: &Candidate) -> Input {
        self.ship(candidate, ShipStrategy::Forward)
    }

    /// Reads a candidate through an exchange.
    pub fn ship(&self, candidate: &Candidate, ship: ShipStrategy) -> Input {
        let node = &candidate.node;
        let cost =
            self.ship_cost(node.estimates.rows, node.estimates.bytes, node.parallelism, &ship);
        let (provided, parallelism) = self.shipped(&node.provided, node.parallelism, &ship);
        let channel =
            Channel { node: node.clone(), ship, mode: ExchangeMode::Pipelined, reason: None };
        Input { channel, cost, provided, parallelism }
    }

    /// What a consumer finds behind an exchange.
    pub fn shipped(
        &self,
        provided: &ProvidedProperties,
        from: Parallelism,
        ship: &ShipStrategy,
    ) -> (ProvidedProperties, Parallelism) {
        let moved = |partitioning: Partitioning, ordering: Ordering| ProvidedProperties {
            partitioning,
            ordering,
            unique: provided.unique.clone(),
        };
        let unordered = Ordering::default();
        match ship {
            ShipStrategy::Forward => (provided.clone(), from),
            ShipStrategy::Hash(keys) => {
                (moved(Partitioning::Hash(keys.clone()), unordered), self.full())
            }
            ShipStrategy::Broadcast => (moved(Partitioning::Replicated, unordered), self.full()),
            ShipStrategy::Rebalance => (moved(Partitioning::Random, unordered), self.full()),
            ShipStrategy::Singleton => {
                (moved(Partitioning::Singleton, unordered), Parallelism::Singleton)
            }
            ShipStrategy::Merge(ordering) => {
                (moved(Partitioning::Singleton, ordering.clone()), Parallelism::Singleton)
            }
            ShipStrategy::Range(ordering) => {
                (moved(Partitioning::Range(ordering.clone()), unordered), self.full())
            }
        }
    }

    /// What an exchange costs. A broadcast goes into one shared build, so that it moves no copies.
    pub fn ship_cost(&self, rows: f64, bytes: f64, from: Parallelism, ship: &ShipStrategy) -> Cost {
        let p = self.profile.parallelism;
        let sender = self.degree(from);
        match ship {
            ShipStrategy::Forward => Cost::cpu(rows * FORWARD_ROW_NS / sender),
            ShipStrategy::Hash(_) | ShipStrategy::Rebalance | ShipStrategy::Range(_) => Cost {
                network: bytes / p,
                disk: 0.0,
                cpu: rows * REPARTITION_ROW_NS / sender + EXCHANGE_STARTUP_NS,
            },
            ShipStrategy::Broadcast => {
                Cost::cpu(rows * FORWARD_ROW_NS / sender + EXCHANGE_STARTUP_NS)
            }
            ShipStrategy::Singleton => Cost::cpu(rows * FORWARD_ROW_NS + EXCHANGE_STARTUP_NS),
            ShipStrategy::Merge(_) => {
                Cost { network: bytes, disk: 0.0, cpu: rows * MERGE_ROW_NS + EXCHANGE_STARTUP_NS }
            }
        }
    }

    /// What sorting costs; beyond the memory of the query the rows are written and read once.
    pub fn sort_cost(&self, rows: f64, bytes: f64, keys: usize, parallelism: Parallelism) -> Cost {
        let each = rows / self.degree(parallelism);
        let comparisons = each * (each.max(2.0)).log2();
        let copied = bytes / self.degree(parallelism) * ROW_COPY_BYTE_NS * 2.0;
        Cost {
            network: 0.0,
            disk: self.spilled(bytes) * 2.0,
            cpu: comparisons * COMPARE_NS * (1.0 + 0.25 * (keys.max(1) - 1) as f64) + copied,
        }
    }

    /// How many of `bytes` do not fit into memory.
    pub fn spilled(&self, bytes: f64) -> f64 {
        (bytes - self.profile.memory_bytes).max(0.0)
    }

    /// Sorts an input in place, if it is not in that order already.
    pub fn sorted(&self, input: Input, keys: &Ordering, logical: &Logical) -> Input {
        let wanted = keys.map(|column| logical.classes.canonical(column));
        let have = input.provided.ordering.map(|column| logical.classes.canonical(column));
        if have.satisfies(&wanted) {
            return input;
        }
        let node = &input.channel.node;
        let work = self.sort_cost(
            node.estimates.rows,
            node.estimates.bytes,
            keys.0.len(),
            input.parallelism,
        );
        let provided = ProvidedProperties { ordering: wanted, ..input.provided.clone() };
        let draft = Draft {
            op: PhysicalOp::Sort { keys: keys.0.clone(), fetch: None },
            output: node.output.clone(),
            provided,
            work,
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        self.forward(&self.node(draft, logical))
    }

    /// An identity projection: the consumer of an exchange at places where no operator is.
    pub fn collected(&self, input: Input, logical: &Logical) -> Candidate {
        let output = input.channel.node.output.clone();
        let draft = Draft {
            op: PhysicalOp::Project { exprs: output.iter().map(|&id| (id, id.expr())).collect() },
            output,
            provided: input.provided.clone(),
            work: Cost::default(),
            parallelism: input.parallelism,
            inputs: vec![input],
        };
        self.node(draft, logical)
    }

    /// One subtask, order kept.
    pub fn gathered(&self, candidate: &Candidate, logical: &Logical) -> Candidate {
        if candidate.node.parallelism == Parallelism::Singleton {
            return candidate.clone();
        }
        self.collected(self.gather(candidate), logical)
    }

    /// A channel into one subtask; an order is merged, not lost.
    pub fn gather(&self, candidate: &Candidate) -> Input {
        let node = &candidate.node;
        if node.parallelism == Parallelism::Singleton {
            return self.forward(candidate);
        }
        let carried = node.provided.ordering.prefix(|column| node.output.contains(&column));
        if carried.is_empty() {
            self.ship(candidate, ShipStrategy::Singleton)
        } else {
            self.ship(candidate, ShipStrategy::Merge(carried))
        }
    }

    /// Drops candidates that another one beats even after paying for what it lacks.
    pub fn prune(
        &self,
        candidates: Vec<Candidate>,
        interesting: &InterestingProperties,
        logical: &Logical,
    ) -> Planned {
        let canonical = interesting.map(|column| Some(logical.classes.canonical(column)));
        let mut sorted = candidates;
        sorted.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut kept: Vec<(Candidate, ProvidedProperties)> = Vec::new();
        for candidate in sorted {
            let useful = canonical.filter(candidate.node.provided.clone());
            let size = candidate.node.estimates;
            let beaten = kept.iter().any(|(better, have)| {
                better.time + self.enforce_ns(have, &useful, size.rows, size.bytes)
                    <= candidate.time
            });
            if !beaten && kept.len() < MAX_CANDIDATES {
                kept.push((candidate, useful));
            }
        }
        Planned {
            logical: logical.clone(),
            candidates: kept.into_iter().map(|(candidate, _)| candidate).collect(),
        }
    }

    /// The time to turn what is provided into what is wanted.
    pub fn enforce_ns(
        &self,
        have: &ProvidedProperties,
        want: &ProvidedProperties,
        rows: f64,
        bytes: f64,
    ) -> f64 {
        let mut cost = Cost::default();
        let mut order_kept = true;
        if have.partitioning != want.partitioning {
            let ship = match &want.partitioning {
                Partitioning::Random if have.partitioning == Partitioning::Singleton => {
                    Some(ShipStrategy::Rebalance)
                }
                Partitioning::Random => None,
                Partitioning::Hash(keys) => Some(ShipStrategy::Hash(keys.clone())),
                Partitioning::Range(ordering) => Some(ShipStrategy::Range(ordering.clone())),
                Partitioning::Replicated => Some(ShipStrategy::Broadcast),
                Partitioning::Singleton => Some(ShipStrategy::Singleton),
            };
            if let Some(ship) = ship {
                cost += self.ship_cost(rows, bytes, self.full(), &ship);
                order_kept = false;
            }
        }
        let ordered =
            want.ordering.is_empty() || (order_kept && have.ordering.satisfies(&want.ordering));
        if !ordered {
            let parallelism = match want.partitioning {
                Partitioning::Singleton => Parallelism::Singleton,
                Partitioning::Random
                | Partitioning::Hash(_)
                | Partitioning::Range(_)
                | Partitioning::Replicated => self.full(),
            };
            cost += self.sort_cost(rows, bytes, want.ordering.0.len(), parallelism);
        }
        self.profile.time_ns(&cost)
    }
}

impl Planned {
    /// The candidate that takes the least time.
    pub fn cheapest(&self) -> &Candidate {
        let best = self.candidates.iter().min_by(|a, b| a.time.total_cmp(&b.time));
        best.expect("every relation has a candidate")
    }
}

/// An ascending order by these columns.
pub(crate) fn ascending(columns: impl IntoIterator<Item = ColumnId>) -> Ordering {
    Ordering::new(columns.into_iter().map(SortKey::ascending))
}
