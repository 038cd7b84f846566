//! Buffer timeouts of parts of a query, as hints give them, for the nodes of its plan.
//!
//! A plan has no query blocks any more. What is left of them are its columns: each remembers the derived tables and the
//! table inside which it came to be. A scan belongs to the block that reads its table. Any other node belongs to the
//! innermost block around all that it reads and makes: an aggregate of an outer block over a derived table makes columns
//! of the outer block. Blocks without a name, such as subqueries of expressions, count as part of the block around them,
//! and so do views. Hints that no node is subject to are a warning.

use std::collections::BTreeMap;

use crate::input::{OptimizerInput, TimeoutHint, TimeoutScope};
use crate::physical::{ColumnId, ColumnTable, PhysicalNode, PhysicalOp, PhysicalPlan};

/// The timeouts of nodes by their numbers, in microseconds as the setting gives them.
pub(super) fn assign(plan: &mut PhysicalPlan, input: &OptimizerInput) {
    if input.buffer_timeouts.is_empty() {
        return;
    }
    let mut walk = Walk {
        input,
        columns: &plan.columns,
        timeouts: BTreeMap::new(),
        used: vec![false; input.buffer_timeouts.len()],
    };
    plan.shared.iter().for_each(|shared| {
        walk.node(&shared.root);
    });
    walk.node(&plan.root);
    let unused = input.buffer_timeouts.iter().zip(&walk.used).filter(|(_, used)| !**used);
    let warnings: Vec<String> = unused.map(|(hint, _)| warning(hint)).collect();
    plan.buffer_timeouts = walk.timeouts;
    plan.warnings.extend(warnings);
}

fn warning(hint: &TimeoutHint) -> String {
    let what = match &hint.scope {
        TimeoutScope::Query => "the query".to_owned(),
        TimeoutScope::Block(name) | TimeoutScope::Table(name) => name.clone(),
    };
    format!("the hint OPTIONS about {what} has no effect: nothing of it is left in the plan")
}

struct Walk<'a> {
    input: &'a OptimizerInput,
    columns: &'a ColumnTable,
    timeouts: BTreeMap<u32, i64>,
    used: Vec<bool>,
}

impl<'a> Walk<'a> {
    /// Notes the timeouts of a node and of those below. Gives the blocks around it, outermost first.
    fn node(&mut self, node: &'a PhysicalNode) -> Vec<&'a str> {
        let mut around: Option<Vec<&'a str>> = None;
        for channel in &node.inputs {
            let below = self.node(&channel.node);
            around = Some(common(around, below));
        }
        let made =
            |id: &&ColumnId| !node.inputs.iter().any(|channel| channel.node.output.contains(id));
        for id in node.output.iter().filter(made) {
            if let Some(path) = self.columns.place(*id) {
                around = Some(common(around, self.blocks_of(path)));
            }
        }
        let mut around = around.unwrap_or_default();
        if let PhysicalOp::SharedScan { .. } = &node.op {
            // The columns came to be in the reader's name for the shared plan, which is no block of its own.
            around.pop();
        }
        let of_table = match &node.op {
            PhysicalOp::Scan { table, columns, .. } => {
                let path = columns.first().and_then(|(id, _)| self.columns.place(*id));
                self.of_table(table, path.unwrap_or_default())
            }
            _ => None,
        };
        let of_block = || match around.last() {
            Some(name) => {
                self.find(|scope| matches!(scope, TimeoutScope::Block(block) if block == name))
            }
            None => self.find(|scope| *scope == TimeoutScope::Query),
        };
        if let Some(hint) = of_table.or_else(of_block) {
            self.used[hint] = true;
            self.timeouts.insert(node.id, self.input.buffer_timeouts[hint].micros);
        }
        around
    }

    fn blocks_of(&self, path: &'a [String]) -> Vec<&'a str> {
        let names = path.iter().map(String::as_str);
        names.filter(|name| self.input.blocks.iter().any(|block| block == name)).collect()
    }

    /// The hint about the table of a scan: by its name, or by an alias right around it.
    fn of_table(&self, table: &str, path: &[String]) -> Option<usize> {
        let table = table.rsplit('.').next().unwrap_or(table);
        let alias = path.len().checked_sub(2).map(|at| path[at].as_str());
        let alias = alias.filter(|name| !self.input.blocks.iter().any(|block| block == name));
        self.find(|scope| {
            matches!(scope, TimeoutScope::Table(name) if name == table || Some(name.as_str()) == alias)
        })
    }

    /// The last hint with such a scope: a later one replaces an earlier one.
    fn find(&self, wanted: impl Fn(&TimeoutScope) -> bool) -> Option<usize> {
        self.input.buffer_timeouts.iter().rposition(|hint| wanted(&hint.scope))
    }
}

/// What two ways from the outside have in common; the second alone if there is no first.
fn common<'a>(first: Option<Vec<&'a str>>, second: Vec<&'a str>) -> Vec<&'a str> {
    let Some(first) = first else { return second };
    let same = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
    first[..same].to_vec()
}
