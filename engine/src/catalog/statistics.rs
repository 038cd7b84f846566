//! What the optimizer is told about tables.

use std::collections::BTreeMap;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{Expr as LogicalExpr, TableSource};
use thalweg_optimizer::physical::{ColumnId, ColumnTable};
use thalweg_optimizer::{MeasuredShare, StatisticsProvider, TableStatistics};
use thalweg_runtime::expr::{Expr, FunctionRegistry};

use super::table::EngineTable;
use crate::lower::Scope;

/// Statistics of the engine's tables; nothing when they are switched off.
#[derive(Debug, Clone, Copy)]
pub struct EngineStatistics {
    /// Whether anything is told.
    pub enabled: bool,
}

impl EngineStatistics {
    fn known<'a>(&self, source: &'a dyn TableSource) -> Option<&'a EngineTable> {
        EngineTable::of(source).filter(|_| self.enabled)
    }
}

impl StatisticsProvider for EngineStatistics {
    fn table(&self, source: &dyn TableSource) -> TableStatistics {
        match self.known(source) {
            Some(engine) => engine.table.statistics(),
            None => TableStatistics::unknown(),
        }
    }

    fn distinct(&self, source: &dyn TableSource, column: usize) -> Option<f64> {
        self.known(source)?.table.distinct(column)
    }

    /// Filters that cannot be lowered (functions of the session, say) or that give another answer each time are left
    /// to guessing.
    fn selectivity(
        &self,
        source: &dyn TableSource,
        filters: &[LogicalExpr],
    ) -> Option<MeasuredShare> {
        let engine = self.known(source)?;
        let lowered = over_positions(source, filters)?;
        let (places, exprs): (Vec<usize>, Vec<Expr>) =
            lowered.into_iter().enumerate().filter_map(|(i, e)| Some((i, e?))).unzip();
        if exprs.is_empty() {
            return None;
        }
        let functions = FunctionRegistry::built_in();
        let share = engine.table.selectivity(&exprs, &functions)?;
        let mut measured = vec![false; filters.len()];
        places.iter().zip(&share.measured).for_each(|(&place, &known)| measured[place] = known);
        Some(MeasuredShare { measured, ..share })
    }
}

/// Filters that name a source's columns, with columns by their positions there; `None` for one that cannot be lowered.
fn over_positions(source: &dyn TableSource, filters: &[LogicalExpr]) -> Option<Vec<Option<Expr>>> {
    let schema = source.schema();
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for column in filters.iter().flat_map(|f| f.column_refs()) {
        used.insert(column.name.clone(), schema.index_of(&column.name).ok()?);
    }
    let mut columns = ColumnTable::default();
    let (mut ids, mut positions) = (BTreeMap::new(), Vec::new());
    for (name, position) in used {
        let data_type = schema.field(position).data_type().clone();
        ids.insert(name.clone(), columns.add(name, data_type, true));
        positions.push(position);
    }
    let known: Vec<ColumnId> = ids.values().copied().collect();
    let mut scope = Scope::new(&known, &columns).ok()?;
    let places: Vec<usize> = known.iter().map(|id| positions[id.0 as usize]).collect();
    let lowered = filters.iter().map(|filter| {
        if filter.is_volatile() {
            return None;
        }
        let renamed = filter.clone().transform(|node| {
            Ok(match &node {
                LogicalExpr::Column(column) => match ids.get(&column.name) {
                    Some(id) => Transformed::yes(id.expr()),
                    None => Transformed::no(node),
                },
                _ => Transformed::no(node),
            })
        });
        let lowered = scope.lower(&renamed.ok()?.data).ok()?;
        Some(lowered.map_columns(&mut |i| places[i]))
    });
    Some(lowered.collect())
}
