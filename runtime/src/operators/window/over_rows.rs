//! The functions of a window over rows that are all at hand.
//!
//! Invariant: the rows of a partition stand together, in the window's order; every partition is whole.

use arrow::array::ArrayRef;
use arrow_schema::{DataType, SortOptions};

use super::WindowSpec;
use super::carried::{Carried, Progress};
use super::function::CompiledFunctions;
use super::pieces::{Chunk, LastRow, Piece};
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::sort_key_spec::{SortKeyColumns, SortKeySpec};

/// A window, compiled.
pub(crate) struct WindowOverRows {
    partition_by: SortKeyColumns,
    order_by: SortKeyColumns,
    functions: CompiledFunctions,
}

impl WindowOverRows {
    /// Compiles keys and functions.
    pub(crate) fn new(spec: &WindowSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        let partition_by: Vec<SortKeySpec> =
            spec.partition_by.iter().cloned().map(SortKeySpec::ascending).collect();
        let direction = spec.order_by.first().map_or(SortOptions::default(), SortKeySpec::options);
        Ok(WindowOverRows {
            partition_by: SortKeyColumns::new(&partition_by, &schema, &job.functions)?,
            order_by: SortKeyColumns::new(&spec.order_by, &schema, &job.functions)?,
            functions: CompiledFunctions::new(&spec.functions, direction, &schema, &job.functions)?,
        })
    }

    /// What orders the rows of a partition.
    pub(crate) fn order_by(&self) -> &SortKeyColumns {
        &self.order_by
    }

    /// One column for each function over a compact batch.
    pub(crate) fn evaluate(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.functions.evaluate(&self.chunk(batch)?)
    }

    /// The same where partitions had other rows before; `progress` tells for each partition what becomes of its rows.
    pub(crate) fn evaluate_carried(
        &self,
        batch: &Batch,
        carried: &mut Carried,
        progress: &[Progress],
    ) -> Result<Vec<ArrayRef>> {
        self.functions.evaluate_carried(&self.chunk(batch)?, carried, progress)
    }

    /// What the functions know of rows that are forgotten, by partition; none where they need no rows before.
    pub(crate) fn carried(
        &self,
        key_types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Option<Carried>> {
        Carried::of(&self.functions, key_types, reservation)
    }

    /// Appends what is carried to a snapshot.
    pub(crate) fn write_carried(&self, carried: &mut Carried, out: &mut Vec<u8>) -> Result<()> {
        carried.write_to(&self.functions, out)
    }

    /// Takes over what [`Self::write_carried`] wrote.
    pub(crate) fn read_carried(&self, carried: &mut Carried, bytes: &mut &[u8]) -> Result<()> {
        carried.read_from(&self.functions, bytes)
    }

    fn chunk(&self, batch: &Batch) -> Result<Chunk> {
        let partition_keys = self.partition_by.evaluate(batch)?;
        let order_keys = self.order_by.evaluate(batch)?;
        let columns = self.functions.evaluate_inputs(batch, order_keys.first())?;
        let mut last = LastRow::default();
        let piece = Piece::new(batch.clone(), columns, partition_keys, order_keys, &mut last)?;
        Chunk::new(std::slice::from_ref(&piece))
    }
}
