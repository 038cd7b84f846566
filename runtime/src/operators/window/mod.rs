//! Window: adds columns whose values depend on other rows of a row's partition.
//!
//! The input is sorted by the partition keys, then by the order keys. Rows are held until their partition is
//! complete; then all functions are computed for all rows of the complete partitions at once, and the batches
//! leave as they came, with more columns. What is held is charged to a reservation. A watermark passes without
//! effect: completeness comes from the order of the input, not from time.

mod accumulator;
mod carried;
mod extremes;
mod frame;
mod function;
mod means;
mod navigation;
mod over_rows;
mod pieces;
mod ranking;
mod session;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use arrow_schema::{DataType, SortOptions};
use serde::{Deserialize, Serialize};

pub(crate) use self::carried::{Carried, Progress};
pub use self::frame::{FrameBound, FrameUnits, WindowFrameSpec};
use self::function::CompiledFunctions;
pub(crate) use self::over_rows::WindowOverRows;
use self::pieces::{Chunk, LastRow, Piece};
pub(crate) use self::session::without_time;
use super::contract::restore_batches;
use super::prelude::*;
use super::sort_key_spec::{SortKeyColumns, SortKeySpec, inserts_only};
use crate::expr::{Expr, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;

/// A function over a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowFunctionSpec {
    /// The registered name.
    pub function: String,
    /// Whether the name is that of an aggregate.
    pub aggregate: bool,
    /// The arguments.
    pub args: Vec<Expr>,
    /// Their types.
    pub arg_types: Vec<DataType>,
    /// Which rows it sees.
    pub frame: WindowFrameSpec,
    /// FILTER: only the rows for which it is true count.
    pub filter: Option<Expr>,
    /// DISTINCT: each value counts once.
    pub distinct: bool,
    /// IGNORE NULLS.
    pub ignore_nulls: bool,
    /// The type of the result.
    pub result: DataType,
}

/// Functions over one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// What makes a partition.
    pub partition_by: Vec<Expr>,
    /// The order inside a partition.
    pub order_by: Vec<SortKeySpec>,
    /// The functions; each becomes a column after the input's.
    pub functions: Vec<WindowFunctionSpec>,
}

/// The running operator.
pub struct Window {
    types: Vec<DataType>,
    partition_by: SortKeyColumns,
    order_by: SortKeyColumns,
    functions: CompiledFunctions,
    batch_rows: usize,

    reservation: Reservation,
    /// Pieces of the partitions that are not complete.
    pending: Vec<Piece>,
    /// Bytes of the pending pieces, counted as they come: looking at all of them for each would be quadratic.
    pending_bytes: usize,
    last: LastRow,
    /// Batches with their share of the bytes they were cut from.
    output: VecDeque<(Batch, usize)>,
    /// Bytes of the output.
    output_bytes: usize,
    phase: Phase,
}

enum Phase {
    Running { input: Option<Batch> },
    Ended,
}

impl Window {
    /// Compiles keys and functions.
    pub fn new(spec: &WindowSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        let partition_by: Vec<SortKeySpec> =
            spec.partition_by.iter().cloned().map(SortKeySpec::ascending).collect();
        let direction = spec.order_by.first().map_or(SortOptions::default(), SortKeySpec::options);
        Ok(Window {
            types: spec.input.clone(),
            partition_by: SortKeyColumns::new(&partition_by, &schema, &job.functions)?,
            order_by: SortKeyColumns::new(&spec.order_by, &schema, &job.functions)?,
            functions: CompiledFunctions::new(&spec.functions, direction, &schema, &job.functions)?,
            batch_rows: job.options.batch_rows,
            reservation: job.memory.reserve("Window"),
            pending: Vec::new(),
            pending_bytes: 0,
            last: LastRow::default(),
            output: VecDeque::new(),
            output_bytes: 0,
            phase: Phase::Running { input: None },
        })
    }

    /// Takes a batch; computes what it makes complete.
    fn add(&mut self, batch: Batch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let partition_keys = self.partition_by.evaluate(&batch)?;
        let order_keys = self.order_by.evaluate(&batch)?;
        let columns = self.functions.evaluate_inputs(&batch, order_keys.first())?;
        let piece = Piece::new(batch, columns, partition_keys, order_keys, &mut self.last)?;
        self.reservation.try_grow(piece.memory_bytes())?;
        match piece.last_partition_start() {
            Some(0) => {
                self.complete()?;
                self.hold(piece);
            }
            Some(start) => {
                let (whole, begun) = piece.split(start);
                self.hold(whole);
                self.complete()?;
                self.hold(begun);
            }
            None => self.hold(piece),
        }
        self.reservation.try_resize(self.pending_bytes + self.output_bytes)
    }

    fn hold(&mut self, piece: Piece) {
        self.pending_bytes += piece.memory_bytes();
        self.pending.push(piece);
    }

    fn next_output(&mut self) -> Option<Batch> {
        let (batch, bytes) = self.output.pop_front()?;
        self.output_bytes -= bytes;
        Some(batch)
    }

    /// Computes the functions over the pending pieces, which hold whole partitions.
    fn complete(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pieces = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let chunk = Chunk::new(&pieces)?;
        let results = self.functions.evaluate(&chunk)?;
        let mut start = 0;
        for piece in pieces {
            let rows = piece.batch.num_rows();
            let mut columns = piece.batch.columns().to_vec();
            columns.extend(results.iter().map(|r| r.slice(start, rows)));
            let batch = piece.batch.with_columns(columns);
            let bytes = batch.data_bytes();
            for at in (0..rows).step_by(self.batch_rows.max(1)) {
                let len = self.batch_rows.min(rows - at);
                let share = bytes * len / rows;
                self.output_bytes += share;
                self.output.push_back((batch.slice(at, len), share));
            }
            start += rows;
        }
        Ok(())
    }
}

impl Operator for Window {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.phase = Phase::Running { input: Some(batch) },
            StreamElement::End => {
                self.complete()?;
                self.phase = Phase::Ended;
            }
            other => return Err(Error::Internal(format!("a window cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Phase::Running { input } = &mut self.phase
            && let Some(batch) = input.take()
        {
            self.add(inserts_only(batch, "window")?)?;
        }
        if let Some(batch) = self.next_output() {
            return Ok(Output::Element(PortId(0), StreamElement::Batch(batch)));
        }
        Ok(match self.phase {
            Phase::Running { .. } => Output::NeedInput(PortSet::Any),
            Phase::Ended => Output::Finished,
        })
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    /// The rows of the incomplete partition; there is no output when input is needed.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let batches: Vec<Batch> = self.pending.iter().map(|p| p.batch.clone()).collect();
        StateSnapshot::of_batches(&batches, &self.types)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        restore_batches(&snapshot)?.into_iter().try_for_each(|batch| self.add(batch))
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.pending.clear();
        self.output.clear();
        (self.pending_bytes, self.output_bytes) = (0, 0);
        self.reservation.shrink(usize::MAX);
        Ok(())
    }
}
