//! The physical plan: what the optimizer hands to the lowering.
//!
//! Invariant: columns are named by [`ColumnId`] only; positions and display names appear nowhere but in
//! `PhysicalPlan::output` and in scans. The plan is immutable once built and holds no statistics provider.
//! It refuses to know how an operator is executed: that is the runtime's matter.

pub(crate) mod check;
pub mod columns;
mod describe;
pub mod explain;
pub mod explain_json;
pub mod operators;
pub mod plan;
mod row_windows;
mod state;

pub use columns::{ColumnId, ColumnInfo, ColumnTable};
pub use explain::{Actual, explain};
pub use explain_json::explain_json;
pub use operators::{
    AggregateCall, AggregatePhase, GroupingSets, LateColumns, LateKeys, PhysicalOp,
    RuntimeFilterDef, RuntimeFilterUse, Side, UnnestColumn, UnnestSource, WindowCall,
    emits_build_rows,
};
pub use plan::{
    Channel, Estimates, ExchangeMode, Parallelism, PhysicalNode, PhysicalPlan, Provenance,
    SharedNode, ShipStrategy,
};
pub use row_windows::RowWindowsSpec;
