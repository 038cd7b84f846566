//! Sort-merge join: reads two operands in the order of their keys.
//!
//! Requests: both operands spread by all keys (or in one subtask) and sorted by them in the same order; an order that
//! one operand has already is taken over. Provides: that order and spread. Blocks on the sorts only.

use datafusion_common::JoinType;

use crate::cost::Cost;
use crate::cost::constants::{COMPARE_NS, MERGE_ROW_NS};
use crate::joins::combine::{Choice, Operands};
use crate::joins::memo::{Entry, Group, JoinStrategy, Read};
use crate::physical::{ColumnId, ShipStrategy};
use crate::properties::{Ordering, ProvidedProperties, SortKey};
use crate::search::Search;

impl Search<'_> {
    pub fn sort_merge_joins(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        into: &mut Vec<Choice>,
    ) {
        let count = operands.pair.keys.len();
        let natural: Vec<(usize, bool, bool)> =
            (0..count).map(|index| (index, false, false)).collect();
        let mut orders = vec![natural];
        let (left_keys, right_keys): (Vec<ColumnId>, Vec<ColumnId>) =
            operands.pair.keys.iter().copied().unzip();
        for (entry, group, keys) in
            [(left, operands.left, left_keys), (right, operands.right, right_keys)]
        {
            orders.extend(existing_order(entry, group, &keys).filter(|o| !orders.contains(o)));
        }
        for order in orders {
            into.push(self.sort_merge_join(operands, left, right, &order));
        }
    }

    fn sort_merge_join(
        &self,
        operands: &Operands<'_>,
        left: &Entry,
        right: &Entry,
        order: &[(usize, bool, bool)],
    ) -> Choice {
        let pair = operands.pair;
        let indices: Vec<usize> = order.iter().map(|(index, ..)| *index).collect();
        let keys = |key: fn(&(ColumnId, ColumnId)) -> ColumnId| -> Vec<SortKey> {
            let sort_key = |&(index, descending, nulls_first): &(usize, bool, bool)| SortKey {
                column: key(&pair.keys[index]),
                descending,
                nulls_first,
            };
            order.iter().map(sort_key).collect()
        };
        // An order has each column once; what is compared has one direction for each key, repeated or not.
        let left_keys = keys(|pair| pair.0);
        let left_order = Ordering::new(left_keys.iter().copied());
        let right_order = Ordering::new(keys(|pair| pair.1));
        let all: Vec<usize> = (0..pair.keys.len()).collect();
        let both_single = left.is_singleton() && right.is_singleton();
        let (left_ship, right_ship, spread) = if both_single || self.single_threaded() {
            (ShipStrategy::Forward, ShipStrategy::Forward, ProvidedProperties::singleton())
        } else {
            self.copartitioned(operands, left, right, &all)
        };
        let parallelism = if both_single { left.parallelism } else { self.full() };
        let (left_read, left_cost) =
            self.ordered(left, operands.left, left_ship, &left_order, parallelism);
        let (right_read, right_cost) =
            self.ordered(right, operands.right, right_ship, &right_order, parallelism);
        let rows = operands.left.logical.rows + operands.right.logical.rows;
        let per_row = MERGE_ROW_NS + COMPARE_NS * (pair.keys.len() - 1) as f64;
        Choice {
            strategy: JoinStrategy::SortMerge { order: indices, keys: left_keys },
            left_read,
            right_read,
            provided: ProvidedProperties {
                ordering: if pair.op == JoinType::Full { Ordering::default() } else { left_order },
                ..spread
            },
            parallelism,
            work: Cost::cpu((rows * per_row + self.result_ns(operands)) / self.degree(parallelism)),
            reading: left_cost + right_cost,
        }
    }

    /// Reads an operand in an order, sorting it unless it comes that way.
    fn ordered(
        &self,
        entry: &Entry,
        group: &Group,
        ship: ShipStrategy,
        order: &Ordering,
        parallelism: crate::physical::Parallelism,
    ) -> (Read, Cost) {
        let canonical = order.map(|column| group.logical.classes.canonical(column));
        let kept = ship == ShipStrategy::Forward && entry.provided.ordering.satisfies(&canonical);
        let mut cost = self.reading(entry, group, &ship);
        let rows = group.logical.rows;
        if !kept {
            cost += self.sort_cost(rows, rows * group.width, order.0.len(), parallelism);
        }
        let sort = (!kept).then(|| order.clone());
        (Read { ship, sort }, cost)
    }
}

/// The order of an operand as key indices with directions, if it begins with all the keys.
fn existing_order(
    entry: &Entry,
    group: &Group,
    keys: &[ColumnId],
) -> Option<Vec<(usize, bool, bool)>> {
    let index =
        |column: ColumnId| keys.iter().position(|&key| group.logical.classes.same(key, column));
    let order: Option<Vec<_>> = entry
        .provided
        .ordering
        .0
        .iter()
        .take(keys.len())
        .map(|key| index(key.column).map(|index| (index, key.descending, key.nulls_first)))
        .collect();
    order.filter(|order| order.len() == keys.len())
}
