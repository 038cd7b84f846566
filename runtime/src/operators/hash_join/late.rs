//! Late columns: build columns that leave the probe as references to build rows, for an operator further on in the
//! chain to fetch.
//!
//! Rows that agree in all late columns share one reference as far as that can be told cheaply; two references may
//! still stand for equal values. Invariant: a reference is the id of a build row, or [`NO_ROW`], which stands for
//! NULLs.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;

use super::{HashBuild, Place, SharedHashBuild};
use crate::error::{Error, Result};
use crate::memory::SegmentArray;
use crate::operators::OperatorContext;
use crate::rows::{NO_ROW, RowId, RowStore, Selected};
use crate::state::KeyedState;

/// Rows after which it is asked whether rows agree at all.
const TRIAL_ROWS: usize = 4096;
/// Where more than this share of the rows differ, a row is its own reference.
const DISTINCT_SHARE: f64 = 0.9;

/// For each build row the reference to it.
pub(super) struct References {
    /// By row id; none where each row is its own.
    of: Option<SegmentArray<u32>>,
}

impl References {
    /// Compares the rows of a store in some of their fields; `check` is asked once a page whether to go on.
    pub(super) fn new(
        store: &RowStore,
        fields: &[usize],
        check: impl Fn() -> Result<()>,
    ) -> Result<Self> {
        let types: Vec<DataType> =
            fields.iter().map(|&field| store.layout().output_type(field).clone()).collect();
        let mut values = KeyedState::new(&types, &[], store.reservation().share())?;
        let mut of = SegmentArray::<u32>::zeroed(store.reservation(), store.id_bound())?;
        // By value the first row that has it.
        let mut first: Vec<RowId> = Vec::new();
        let (mut slots, mut new) = (Vec::new(), Vec::new());
        for page in 0..store.num_pages() {
            check()?;
            let ids: Vec<RowId> = store.page_ids(page).collect();
            let columns = store.gather_all(fields.iter().copied(), &ids)?;
            let rows = Selected::All(ids.len());
            let made = values.lookup_or_insert(&columns, None, rows, &mut slots, &mut new)?;
            first.resize(first.len().max(made.end as usize), NO_ROW);
            for (value, &row) in made.zip(&new) {
                first[value as usize] = ids[row as usize];
            }
            for (&id, &value) in ids.iter().zip(&slots) {
                of[id as usize] = first[value as usize];
            }
            let done = (page + 1) << store.layout().page_shift();
            if done >= TRIAL_ROWS && values.len() as f64 > DISTINCT_SHARE * done as f64 {
                return Ok(References { of: None });
            }
        }
        Ok(References { of: Some(of) })
    }

    /// The references to some rows; [`NO_ROW`] may be among them.
    pub(super) fn to(&self, ids: &[RowId]) -> ArrayRef {
        let references = match &self.of {
            None => ids.to_vec(),
            Some(of) => ids.iter().map(|&id| of.get(id as usize).copied().unwrap_or(id)).collect(),
        };
        Arc::new(UInt32Array::from(references))
    }
}

/// The build side of a join before this operator in its chain, to fetch columns from.
pub(in crate::operators) struct LateBuild {
    shared: Arc<SharedHashBuild>,
    build: Option<Arc<HashBuild>>,
}

impl Drop for LateBuild {
    fn drop(&mut self) {
        if self.build.is_none() {
            self.shared.let_go();
        }
    }
}

impl LateBuild {
    /// The build with that id; see [`HashJoinProbeSpec`](super::HashJoinProbeSpec).
    pub(in crate::operators) fn new(
        shared: u32,
        partitioned: bool,
        cx: &OperatorContext<'_>,
    ) -> Result<Self> {
        let id = Place::new(shared, partitioned, cx).shared;
        let shared = cx.job.shared.get_or_create(id, SharedHashBuild::default)?;
        shared.keep();
        Ok(LateBuild { shared, build: None })
    }

    /// Has the build at hand from now on. Called while a batch of the probe is in hand, when the build is complete; its
    /// probe may have ended, since joins between hold batches back until their own builds are there.
    pub(in crate::operators) fn hold(&mut self) -> Result<()> {
        if self.build.is_none() {
            self.build = self.shared.ready_or_wake(Waker::noop());
            if self.build.is_some() {
                self.shared.let_go();
            }
        }
        self.held().map(|_| ())
    }

    fn held(&self) -> Result<&HashBuild> {
        self.build
            .as_deref()
            .ok_or_else(|| Error::Internal("late columns of a build that is not there".into()))
    }

    /// Build column `column` of the referenced rows.
    pub(in crate::operators) fn fetch(&self, column: usize, rows: &[RowId]) -> Result<ArrayRef> {
        let build = self.held()?;
        build.table.store().gather_nullable(build.fields[column], rows)
    }
}
