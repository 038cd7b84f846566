//! Late keys: grouping by references to build rows before the keys themselves are fetched.
//!
//! A table by references and the other keys takes the rows in. Its groups get their keys when they leave it; two of
//! them may have equal keys, which is for the next table to merge. Invariant: nothing of this table is ever written
//! to a snapshot, since references mean something to one build only.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt32Type;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::shape::Shape;
use super::table::AggregateTable;
use super::{AggregatePhase, Emission, HashAggregateSpec};
use crate::aggregates::AggregateStates;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::OperatorContext;
use crate::operators::hash_join::LateBuild;
use crate::rows::{PageStates, RowId};

/// Keys that are fetched from the build of a hash join before the aggregate in its chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateKeysSpec {
    /// The join's shared build.
    pub shared: u32,
    /// Whether each subtask has a build of its own.
    pub partitioned: bool,
    /// The input column of references.
    pub reference: usize,
    /// Positions among the keys, and the build column of each.
    pub keys: Vec<(usize, usize)>,
}

/// Where a key comes from.
#[derive(Debug, Clone, Copy)]
enum KeySource {
    /// The key with that number among the plain ones.
    Plain(usize),
    /// A column of one of the builds.
    Build { build: usize, column: usize },
}

/// What late keys need at run time.
pub(super) struct LateKeys {
    /// The aggregation by plain keys, then references.
    shape: Arc<Shape>,
    plain: usize,
    sources: Vec<KeySource>,
    late: Vec<LateKeysSpec>,
    builds: Vec<LateBuild>,
}

impl LateKeys {
    /// Compiles the plain keys; nothing if there are no late ones.
    pub(super) fn new(spec: &HashAggregateSpec, job: &JobContext) -> Result<Option<Self>> {
        if spec.late_keys.is_empty() {
            return Ok(None);
        }
        if spec.phase != AggregatePhase::Partial {
            return Err(Error::Internal("late keys outside a partial phase".into()));
        }
        let mut sources: Vec<Option<KeySource>> = vec![None; spec.keys.len()];
        for (build, late) in spec.late_keys.iter().enumerate() {
            for &(key, column) in &late.keys {
                sources[key] = Some(KeySource::Build { build, column });
            }
        }
        let (mut keys, mut key_types) = (Vec::new(), Vec::new());
        let sources = sources
            .into_iter()
            .enumerate()
            .map(|(key, source)| {
                source.unwrap_or_else(|| {
                    keys.push(spec.keys[key].clone());
                    key_types.push(spec.key_types[key].clone());
                    KeySource::Plain(keys.len() - 1)
                })
            })
            .collect();
        let (plain, late) = (keys.len(), spec.late_keys.clone());
        keys.extend(spec.late_keys.iter().map(|late| Expr::Column(late.reference)));
        key_types.extend(spec.late_keys.iter().map(|_| DataType::UInt32));
        let spec = HashAggregateSpec {
            keys,
            key_types,
            grouping_sets: None,
            late_keys: Vec::new(),
            emission: Emission::AtEnd,
            withdrawn: false,
            ..spec.clone()
        };
        Ok(Some(LateKeys {
            shape: Shape::new(&spec, job)?,
            plain,
            sources,
            late,
            builds: Vec::new(),
        }))
    }

    /// Finds the builds of the joins.
    pub(super) fn open(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        self.builds = self
            .late
            .iter()
            .map(|late| LateBuild::new(late.shared, late.partitioned, cx))
            .collect::<Result<_>>()?;
        Ok(())
    }

    /// Keeps the builds; called with a batch in hand.
    pub(super) fn hold(&mut self) -> Result<()> {
        self.builds.iter_mut().try_for_each(LateBuild::hold)
    }

    /// The aggregation by plain keys, then references.
    pub(super) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The keys proper, from plain keys and references.
    pub(super) fn fetch(&self, keys: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        self.sources
            .iter()
            .map(|source| match *source {
                KeySource::Plain(at) => Ok(Arc::clone(&keys[at])),
                KeySource::Build { build, column } => {
                    let references = keys[self.plain + build].as_primitive::<UInt32Type>();
                    self.builds[build].fetch(column, references.values())
                }
            })
            .collect()
    }
}

/// The table by references.
pub(super) struct LateTable {
    table: AggregateTable,
    /// Merges states of the table into tables and rows of the aggregation proper.
    states: AggregateStates,
    /// Groups that fill it.
    capacity: usize,
    /// Bytes that its states may keep beside the rows.
    most_beside: usize,
}

/// Groups of a page with their keys proper.
pub(super) struct LateGroups<'a> {
    /// The keys.
    pub(super) keys: Vec<ArrayRef>,
    /// Number of groups.
    pub(super) rows: usize,
    /// Their states.
    pub(super) incoming: PageStates<'a>,
    /// What merges these states elsewhere.
    pub(super) states: &'a mut AggregateStates,
}

impl LateTable {
    /// An empty table of about `bytes`; `states` merge its states elsewhere.
    pub(super) fn new(
        late: &LateKeys,
        states: AggregateStates,
        bytes: usize,
        reservation: &Reservation,
    ) -> Result<Self> {
        Ok(LateTable {
            table: AggregateTable::new(&late.shape, reservation)?,
            states,
            capacity: (bytes / (late.shape.table.row_bytes() + 16)).max(1024),
            most_beside: bytes,
        })
    }

    /// Takes rows in: plain keys and references, and the columns of the aggregates' arguments.
    pub(super) fn update(
        &mut self,
        keys: &[ArrayRef],
        arguments: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        self.table.update(keys, arguments, rows)
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it is time to hand over.
    pub(super) fn is_full(&self) -> bool {
        self.table.len() >= self.capacity || self.table.beside_bytes() > self.most_beside
    }

    /// Number of pages of groups.
    pub(super) fn num_pages(&self) -> usize {
        self.table.store().num_pages()
    }

    /// The groups of a page.
    pub(super) fn groups<'a>(&'a mut self, page: usize, late: &LateKeys) -> Result<LateGroups<'a>> {
        let store = self.table.store();
        let ids: Vec<RowId> = store.page_ids(page).collect();
        let keys = late.fetch(&store.gather_all(0..late.shape.keys(), &ids)?)?;
        let incoming = store.page_states(page);
        Ok(LateGroups { keys, rows: ids.len(), incoming, states: &mut self.states })
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.table.clear()
    }
}
