//! What the optimizer is told about tables.

use datafusion_expr::TableSource;
use thalweg_optimizer::{StatisticsProvider, TableStatistics};

use super::table::EngineTable;

/// Statistics of the engine's tables; nothing when they are switched off.
#[derive(Debug, Clone, Copy)]
pub struct EngineStatistics {
    /// Whether anything is told.
    pub enabled: bool,
}

impl StatisticsProvider for EngineStatistics {
    fn table(&self, source: &dyn TableSource) -> TableStatistics {
        match EngineTable::of(source) {
            Some(engine) if self.enabled => engine.table.statistics(),
            _ => TableStatistics::unknown(),
        }
    }
}
