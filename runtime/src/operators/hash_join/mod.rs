//! Hash join: the build side goes into a table by key, the probe side looks its keys up.
//!
//! The build operator is the last of its vertex; all its subtasks fill one [`SharedBuild`], which is complete, and has
//! published its runtime filters, before any probe asks for input. Build rows are kept in row pages, charged to a
//! revocable holder, until the last probe has gone. Neither side does anything at a watermark but hand on what it has
//! gathered. The build side must be bounded, and insert-only; probe rows keep their kinds, which is why the kinds of
//! join that emit build rows at the end refuse probe rows that are not inserts.

mod build;
mod late;
#[cfg(test)]
mod late_tests;
mod pairs;
mod probe;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

pub use build::HashJoinBuild;
pub(super) use late::LateBuild;
pub use probe::HashJoinProbe;

use self::late::References;
use super::join_kind::{JoinColumn, JoinKind};
use super::join_output::BuildColumns;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::memory::Reservation;
use crate::operators::OperatorContext;
use crate::rows::{RowId, RowStore};
use crate::shared::key_filters::ColumnFilter;
use crate::shared::{SharedBuild, WorkQueue};
use crate::state::{JoinTable, KeySpan};

/// What the build operator keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashJoinBuildSpec {
    /// The shared build's id in the job; with `partitioned`, the first of one for each subtask.
    pub shared: u32,
    /// Whether every subtask has a build of its own: both inputs are shipped by the hash of the keys.
    pub partitioned: bool,
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// The keys, at least one, over the input.
    pub keys: Vec<Expr>,
    /// Whether NULL equals NULL.
    pub null_equal: bool,
    /// Whether the join is a NOT IN.
    pub null_aware: bool,
    /// Whether build rows come out at the end (see [`JoinKind::tracks_matches`]).
    pub tracks_matches: bool,
    /// Runtime filters to publish: their ids, and the positions of their keys.
    pub runtime_filters: Vec<(u32, usize)>,
    /// Columns that some operator after the probe fetches late: there are references to their rows.
    pub late: Vec<usize>,
    /// Subtasks of the probe vertex.
    pub probes: usize,
}

/// What the probe operator does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashJoinProbeSpec {
    /// The shared build's id in the job; with `partitioned`, the first of one for each subtask.
    pub shared: u32,
    /// Whether every subtask has a build of its own: both inputs are shipped by the hash of the keys.
    pub partitioned: bool,
    /// What to emit.
    pub kind: JoinKind,
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// Types of the build side's columns.
    pub build: Vec<DataType>,
    /// The keys over the input, as many as the build side's and of the same types.
    pub keys: Vec<Expr>,
    /// A further condition over the probe side's columns, then the build side's.
    pub filter: Option<Expr>,
    /// The output's columns.
    pub output: Vec<JoinColumn>,
    /// Whether NULL equals NULL.
    pub null_equal: bool,
    /// Whether the join is a NOT IN: for [`JoinKind::ProbeAnti`] and [`JoinKind::BuildAnti`] with one key and no
    /// filter; other kinds do not know it.
    pub null_aware: bool,
}

/// What one build subtask contributes.
struct Contribution {
    store: RowStore,
    spans: Vec<KeySpan>,
    reservation: Reservation,
}

/// The complete build side.
struct HashBuild {
    table: Arc<JoinTable>,
    /// For each column of the build side its field in the table's rows.
    fields: Vec<usize>,
    /// Whether a row with a NULL among its keys came in.
    null_keys: bool,
    filters: Vec<(u32, Arc<ColumnFilter>)>,
    /// Columns that are fetched late, and the references to rows by them.
    late: Vec<usize>,
    references: OnceLock<References>,
    /// The references, parts of the table and parts of the filters, to be filled.
    filling: WorkQueue,
    /// Pages of rows to emit at the end.
    emitting: WorkQueue,
    /// Whether any probe row came in, and whether one had a NULL key: what a NOT IN of build rows asks for.
    probe_rows: AtomicBool,
    probe_null_keys: AtomicBool,
}

type SharedHashBuild = SharedBuild<Contribution, HashBuild>;

impl HashBuild {
    /// Mean bytes of a row with its strings.
    fn row_bytes(&self) -> usize {
        let store = self.table.store();
        if store.is_empty() { 0 } else { store.memory_bytes() / store.len() }
    }
}

impl BuildColumns for HashBuild {
    fn gather(&self, column: usize, ids: &[RowId], nullable: bool) -> Result<ArrayRef> {
        let (store, field) = (self.table.store(), self.fields[column]);
        if nullable { store.gather_nullable(field, ids) } else { store.gather(field, ids) }
    }

    fn references(&self, ids: &[RowId]) -> Result<ArrayRef> {
        let references = self.references.get();
        let missing = || Error::Internal("a join emits references its build did not make".into());
        Ok(references.ok_or_else(missing)?.to(ids))
    }
}

fn check_keys(keys: &[Expr]) -> Result<()> {
    if keys.is_empty() {
        return Err(Error::Internal("a hash join without keys".into()));
    }
    Ok(())
}

/// Whose build an operator takes part in: its id, and the operator's place among those that do.
#[derive(Debug, Clone, Copy)]
struct Place {
    shared: u32,
    subtask: usize,
    parallelism: usize,
}

impl Place {
    fn new(shared: u32, partitioned: bool, cx: &OperatorContext<'_>) -> Self {
        if partitioned {
            return Place { shared: shared + cx.subtask as u32, subtask: 0, parallelism: 1 };
        }
        Place { shared, subtask: cx.subtask, parallelism: cx.parallelism }
    }
}
