//! Which columns of a plan tell when its rows happened, for windows that name no time.
//!
//! A source says which of its columns does; a plan's column does so where it is that column under whatever name.
//! Invariant: values that were computed from such a column count no longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_common::Column;
use datafusion_expr::{Expr, LogicalPlan, TableSource};

/// The event times of the sources of one statement.
#[derive(Debug, Default)]
pub(crate) struct EventTimes {
    /// The places of columns by the address of their source, which the statement keeps.
    columns: Mutex<HashMap<usize, Vec<usize>>>,
}

impl EventTimes {
    /// Takes note of the columns of a source that tell when rows happened.
    pub(crate) fn add(&self, source: &Arc<dyn TableSource>, columns: Vec<usize>) {
        if !columns.is_empty() {
            self.known().insert(address(source), columns);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<usize, Vec<usize>>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only column of a plan that tells when rows happened; fails with what is wrong.
    pub(super) fn the_one_of(&self, plan: &LogicalPlan) -> Result<Column, String> {
        let columns = plan.schema().columns();
        let found: Vec<&Column> = self.of(plan).into_iter().map(|at| &columns[at]).collect();
        match found.as_slice() {
            [] => Err("the rows have no event time".to_string()),
            [column] => Ok((*column).clone()),
            several => {
                let names: Vec<String> = several.iter().map(|c| c.flat_name()).collect();
                Err(format!("the rows have several event times: {}", names.join(", ")))
            }
        }
    }

    /// The places of the columns of a plan that tell when rows happened, in ascending order.
    pub(crate) fn of(&self, plan: &LogicalPlan) -> Vec<usize> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let columns = self.known();
                let Some(times) = columns.get(&address(&scan.source)) else { return Vec::new() };
                match &scan.projection {
                    None => times.clone(),
                    Some(read) => (0..read.len()).filter(|&at| times.contains(&read[at])).collect(),
                }
            }
            LogicalPlan::Projection(projection) => {
                self.among(projection.expr.iter(), &projection.input)
            }
            LogicalPlan::Aggregate(aggregate) => {
                self.among(aggregate.group_expr.iter(), &aggregate.input)
            }
            LogicalPlan::Union(union) => {
                let mut inputs = union.inputs.iter().map(|input| self.of(input));
                let first = inputs.next().unwrap_or_default();
                inputs
                    .fold(first, |all, one| all.into_iter().filter(|at| one.contains(at)).collect())
            }
            LogicalPlan::SubqueryAlias(alias) => self.of(&alias.input),
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::Join(_) => self.passed_on(plan),
            _ => Vec::new(),
        }
    }

    /// Of expressions over an input those that are its event times.
    fn among<'a>(&self, exprs: impl Iterator<Item = &'a Expr>, input: &LogicalPlan) -> Vec<usize> {
        let times = self.of(input);
        let is_time = |expr: &Expr| match expr.clone().unalias_nested().data {
            Expr::Column(column) => {
                let at = input.schema().maybe_index_of_column(&column);
                at.is_some_and(|at| times.contains(&at))
            }
            _ => false,
        };
        exprs.enumerate().filter(|(_, expr)| is_time(expr)).map(|(at, _)| at).collect()
    }

    /// The columns of a plan that its inputs have by the same names.
    fn passed_on(&self, plan: &LogicalPlan) -> Vec<usize> {
        let inputs = plan.inputs();
        let times: Vec<Vec<usize>> = inputs.iter().map(|input| self.of(input)).collect();
        let is_time = |column: &Column| {
            inputs.iter().zip(&times).any(|(input, times)| {
                let at = input.schema().maybe_index_of_column(column);
                at.is_some_and(|at| times.contains(&at))
            })
        };
        let columns = plan.schema().columns().into_iter().enumerate();
        columns.filter(|(_, column)| is_time(column)).map(|(at, _)| at).collect()
    }
}

fn address(source: &Arc<dyn TableSource>) -> usize {
    Arc::as_ptr(source).cast::<()>() as usize
}
