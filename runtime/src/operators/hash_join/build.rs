//! The build side of a hash join.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow_schema::DataType;

use super::late::References;
use super::{Contribution, HashBuild, HashJoinBuildSpec, Place, SharedHashBuild, check_keys};
use crate::element::RowKind;
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::contract::restore_batches;
use crate::operators::prelude::*;
use crate::rows::{RowId, RowLayout, RowStore, Selected};
use crate::shared::WorkQueue;
use crate::shared::key_filters::ColumnFilter;
use crate::state::{JoinTable, JoinTableOptions, KeySpan};

/// Parts that a runtime filter is filled in when the table has several.
const FILTER_PARTS: usize = 2;

/// The running build operator.
pub struct HashJoinBuild {
    spec: HashJoinBuildSpec,
    keys: Vec<CompiledExpr>,
    /// For each input column its field in the rows: keys come first, and a key that is a column is kept once.
    fields: Vec<usize>,
    /// Input columns after the keys in the rows.
    payload: Vec<usize>,
    layout: Arc<RowLayout>,

    contribution: Option<Contribution>,
    shared: Option<Arc<SharedHashBuild>>,
    phase: Phase,
}

enum Phase {
    /// Rows come in.
    Gathering(Option<Batch>),
    /// All rows are there; they have to be handed over.
    Ended,
    /// Waits for the others' rows, then fills the table with them.
    Filling,
    /// Nothing is left to do.
    Done,
}

impl HashJoinBuild {
    /// Compiles the keys and lays out the rows.
    pub fn new(spec: &HashJoinBuildSpec, job: &JobContext) -> Result<Self> {
        check_keys(&spec.keys)?;
        let keys = compile_all(&spec.keys, &positional_schema(&spec.input), &job.functions)?;
        let mut types: Vec<DataType> = keys.iter().map(|key| key.data_type().clone()).collect();
        let (mut fields, mut payload) = (Vec::new(), Vec::new());
        for (column, data_type) in spec.input.iter().enumerate() {
            let key = keys.iter().position(|key| key.as_column() == Some(column));
            fields.push(key.unwrap_or(types.len()));
            if key.is_none() {
                payload.push(column);
                types.push(data_type.clone());
            }
        }
        Ok(HashJoinBuild {
            spec: spec.clone(),
            keys,
            fields,
            payload,
            layout: RowLayout::new(&types, &[])?,
            contribution: None,
            shared: None,
            phase: Phase::Gathering(None),
        })
    }

    fn reset(&mut self, reservation: Reservation) {
        self.contribution = Some(Contribution {
            store: RowStore::new(self.layout.clone(), reservation.share()),
            spans: vec![KeySpan::default(); self.keys.len()],
            reservation,
        });
    }

    fn contribution(&mut self) -> Result<&mut Contribution> {
        self.contribution
            .as_mut()
            .ok_or_else(|| Error::Internal("a join build was used before it was opened".into()))
    }

    /// Keeps the rows of a batch.
    fn keep(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        if batch.kinds().is_some_and(|kinds| kinds.iter().any(|&kind| kind != RowKind::Insert)) {
            return Err(Error::Unsupported("changes on the build side of a hash join".into()));
        }
        let keys = self.keys.iter().map(|key| key.evaluate(&batch)).collect::<Result<Vec<_>>>()?;
        // A row whose key equals nothing can only matter if rows without a match come out.
        let droppable = !self.spec.null_equal && !self.spec.tracks_matches;
        let kept = if droppable { rows_without_nulls(&keys) } else { None };
        let payload = self.payload.iter().map(|&column| batch.column(column).clone());
        let columns: Vec<ArrayRef> = keys.iter().cloned().chain(payload).collect();
        let contribution = self.contribution()?;
        contribution.spans.iter_mut().zip(&keys).for_each(|(span, key)| span.observe(key));
        let rows = Selected::new(batch.num_rows(), kept.as_deref());
        contribution.store.append(&columns, rows)?;
        Ok(())
    }

    fn place(&self, cx: &OperatorContext<'_>) -> Place {
        Place::new(self.spec.shared, self.spec.partitioned, cx)
    }

    fn shared(&self) -> Result<&Arc<SharedHashBuild>> {
        self.shared
            .as_ref()
            .ok_or_else(|| Error::Internal("a join build was used before it was opened".into()))
    }

    /// Hands the rows over; whoever does so last makes the table.
    fn contribute(&mut self, cx: &OperatorContext<'_>) -> Result<()> {
        let contribution = self
            .contribution
            .take()
            .ok_or_else(|| Error::Internal("a join build contributed twice".into()))?;
        let shared = self.shared()?.clone();
        let place = self.place(cx);
        if let Some(all) = shared.contribute(place.subtask, place.parallelism, contribution)? {
            shared.start_filling(self.assemble(all, cx)?);
        }
        Ok(())
    }

    fn assemble(&self, mut all: Vec<Contribution>, cx: &OperatorContext<'_>) -> Result<HashBuild> {
        let mut first = all.remove(0);
        for mut other in all {
            first.store.append_pages(other.store.take_pages())?;
            first.spans.iter_mut().zip(&other.spans).for_each(|(span, part)| span.merge(part));
        }
        let Contribution { store, spans, reservation } = first;
        let options = JoinTableOptions {
            keys: self.keys.len(),
            null_equal: self.spec.null_equal,
            tracks_matches: self.spec.tracks_matches,
            threads: self.place(cx).parallelism,
        };
        let table = Arc::new(JoinTable::new(store, &spans, options, &reservation)?);
        let mut filters = Vec::new();
        for &(id, key) in &self.spec.runtime_filters {
            let span = spans
                .get(key)
                .ok_or_else(|| Error::Internal(format!("a runtime filter on key {key}")))?;
            if let Some(filter) = ColumnFilter::new(&table, key, span, &reservation)? {
                filters.push((id, Arc::new(filter)));
            }
        }
        let late = usize::from(!self.spec.late.is_empty());
        let pieces = late + table.num_parts() + filters.len() * FILTER_PARTS;
        Ok(HashBuild {
            late: self.spec.late.clone(),
            references: OnceLock::new(),
            fields: self.fields.clone(),
            null_keys: spans.iter().any(|span| span.nulls),
            filters,
            filling: WorkQueue::new(pieces),
            emitting: WorkQueue::new(table.store().num_pages()),
            probe_rows: AtomicBool::new(false),
            probe_null_keys: AtomicBool::new(false),
            table,
        })
    }

    /// Fills pieces of the table and the filters while there are any.
    fn fill(&self, build: &Arc<HashBuild>, cx: &OperatorContext<'_>) -> Result<()> {
        while let Some(piece) = build.filling.take() {
            self.fill_piece(piece, build, cx)?;
            if build.filling.finish() {
                self.publish(build, cx)?;
            }
        }
        Ok(())
    }

    fn fill_piece(&self, piece: usize, build: &HashBuild, cx: &OperatorContext<'_>) -> Result<()> {
        let check = || cx.check_cancelled();
        // The references are one piece, and the longest: they come first.
        let Some(piece) = piece.checked_sub(usize::from(!build.late.is_empty())) else {
            let fields: Vec<usize> = build.late.iter().map(|&c| build.fields[c]).collect();
            let references = References::new(build.table.store(), &fields, check)?;
            // Nobody else has the piece.
            let _ = build.references.set(references);
            return Ok(());
        };
        match piece.checked_sub(build.table.num_parts()) {
            None => build.table.fill(piece, check),
            Some(piece) => {
                let (_, filter) = &build.filters[piece / FILTER_PARTS];
                filter.fill(&build.table, (piece % FILTER_PARTS, FILTER_PARTS), check)
            }
        }
    }

    fn publish(&self, build: &Arc<HashBuild>, cx: &OperatorContext<'_>) -> Result<()> {
        for (id, filter) in &build.filters {
            cx.job.filters.publish(*id, filter.clone());
        }
        self.shared()?.set_ready();
        Ok(())
    }

    /// The rows kept so far as batches of the input's columns.
    fn kept_batches(&self, batch_rows: usize) -> Result<Vec<Batch>> {
        let Some(contribution) = &self.contribution else { return Ok(Vec::new()) };
        let ids: Vec<RowId> = contribution.store.ids().collect();
        ids.chunks(batch_rows)
            .map(|ids| {
                let columns = contribution.store.gather_all(self.fields.iter().copied(), ids)?;
                Ok(Batch::new(columns, ids.len()))
            })
            .collect()
    }
}

/// Which rows have no NULL in any column; none if all are such.
fn rows_without_nulls(columns: &[ArrayRef]) -> Option<Vec<u32>> {
    let nulls = columns
        .iter()
        .fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()))
        .filter(|nulls| nulls.null_count() > 0)?;
    Some(nulls.valid_indices().map(|row| row as u32).collect())
}

impl Operator for HashJoinBuild {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        self.shared =
            Some(cx.job.shared.get_or_create(self.place(cx).shared, SharedHashBuild::default)?);
        self.reset(cx.job.memory.reserve_revocable("HashJoinBuild"));
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        self.phase = match element {
            StreamElement::Batch(batch) => Phase::Gathering(Some(batch)),
            StreamElement::End => Phase::Ended,
            other => return Err(Error::Internal(format!("a join build cannot take {other:?}"))),
        };
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        match &mut self.phase {
            Phase::Gathering(input) => {
                if let Some(batch) = input.take() {
                    self.keep(batch)?;
                }
                return Ok(Output::NeedInput(PortSet::Any));
            }
            Phase::Ended => {
                self.contribute(cx)?;
                self.phase = Phase::Filling;
            }
            Phase::Filling | Phase::Done => {}
        }
        if let Phase::Filling = self.phase {
            match self.shared()?.filling_or_wake(cx.waker) {
                Poll::Ready(Some(build)) => self.fill(&build, cx)?,
                Poll::Ready(None) => {}
                Poll::Pending => {
                    return Ok(Output::Wait(WaitReason::SharedBuild(self.spec.shared)));
                }
            }
            self.phase = Phase::Done;
        }
        Ok(Output::Finished)
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    /// One byte: whether a NULL key was seen, whose row may not have been kept; then the rows.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let rows = self.kept_batches(cx.job.options.batch_rows)?;
        let nulls =
            self.contribution.as_ref().is_some_and(|c| c.spans.iter().any(|span| span.nulls));
        let types: Vec<DataType> =
            self.fields.iter().map(|&field| self.layout.output_type(field).clone()).collect();
        let mut bytes = vec![u8::from(nulls)];
        bytes.extend(StateSnapshot::of_batches(&rows, &types)?.bytes);
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let Some((&nulls, rows)) = snapshot.bytes.split_first() else {
            return Err(Error::Internal("an empty snapshot of a join build".into()));
        };
        for batch in restore_batches(&StateSnapshot { bytes: rows.to_vec() })? {
            self.keep(batch)?;
        }
        self.contribution()?.spans[0].nulls |= nulls != 0;
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.contribution = None;
        self.shared = None;
        self.phase = Phase::Done;
        Ok(())
    }
}
