//! Makes a failing query smaller: leaves parts out as long as it keeps failing.

use super::query::{Query, Select};

/// Attempts at most; each runs the query twice.
const ATTEMPTS_MAX: usize = 400;

/// The smallest query found that still fails.
pub(super) fn reduce(query: &Query, mut fails: impl FnMut(&Query) -> bool) -> Query {
    let mut smallest = query.clone();
    let mut attempts = 0;
    'again: loop {
        for candidate in smaller(&smallest) {
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return smallest;
            }
            if fails(&candidate) {
                smallest = candidate;
                continue 'again;
            }
        }
        return smallest;
    }
}

/// Queries with one part less; not all of them make sense, which the base setting then refuses.
pub(super) fn smaller(query: &Query) -> Vec<Query> {
    let mut found = Vec::new();
    if query.limit.is_some() {
        found.push(Query { limit: None, ..query.clone() });
    }
    for i in 0..query.others.len() {
        let mut less = query.clone();
        less.others.remove(i);
        found.push(less);
        // A right side alone.
        found.push(Query {
            first: query.others[i].1.clone(),
            others: Vec::new(),
            limit: query.limit,
        });
    }
    found.extend(
        smaller_selects(&query.first).into_iter().map(|first| Query { first, ..query.clone() }),
    );
    for i in 0..query.others.len() {
        for select in smaller_selects(&query.others[i].1) {
            let mut less = query.clone();
            less.others[i].1 = select;
            found.push(less);
        }
    }
    found
}

fn smaller_selects(select: &Select) -> Vec<Select> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Select)| {
        let mut less = select.clone();
        change(&mut less);
        found.push(less);
    };
    for i in 0..select.joins.len() {
        with(&|s| drop(s.joins.remove(i)));
        for j in 0..select.joins[i].on.len().saturating_sub(1) {
            with(&|s| drop(s.joins[i].on.remove(j + 1)));
        }
    }
    for i in 0..select.conjuncts.len() {
        with(&|s| drop(s.conjuncts.remove(i)));
    }
    for i in 0..select.having.len() {
        with(&|s| drop(s.having.remove(i)));
    }
    for i in 0..select.group_by.len() {
        // The key is also the item at its place.
        with(&|s| {
            let key = s.group_by.remove(i);
            s.items.retain(|item| *item != key);
        });
    }
    if select.items.len() > 1 {
        for i in 0..select.items.len() {
            with(&|s| drop(s.items.remove(i)));
        }
    }
    if select.distinct {
        with(&|s| s.distinct = false);
    }
    found
}
