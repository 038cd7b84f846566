//! Sort: all rows of a bounded input, in order.
//!
//! Rows are collected until the input ends; see `buffer` for how they are sorted. Equal keys keep their order.
//! Where only the first few rows are wanted, a [top-n](super::top_n) does the work and keeps only those. It has
//! no meaning on unbounded input: a watermark passes without effect, since order is owed only at the end.

pub(crate) mod buffer;
pub(crate) mod loser_tree;
pub(crate) mod ordinal;
mod packing;
#[cfg(test)]
mod tests;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use self::buffer::{SortBuffer, Sorted};
use super::contract::restore_batches;
use super::prelude::*;
use super::sort_key_spec::{SortKeyColumns, SortKeySpec, inserts_only};
use super::top_n::{TOP_N_ROWS_MAX, TopN, TopNSpec};
use crate::expr::positional_schema;
use crate::job::JobContext;

/// What to order by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortSpec {
    /// Types of the input's columns, which are the output's.
    pub input: Vec<DataType>,
    /// The keys, the first deciding first.
    pub keys: Vec<SortKeySpec>,
    /// Only the first rows, if set.
    pub fetch: Option<u64>,
}

impl SortSpec {
    /// The operator that does it: a top-n where few rows are wanted.
    pub fn build(&self, job: &JobContext) -> Result<Box<dyn Operator>> {
        match self.fetch {
            Some(fetch) if fetch <= TOP_N_ROWS_MAX => {
                let spec =
                    TopNSpec { input: self.input.clone(), keys: self.keys.clone(), skip: 0, fetch };
                Ok(Box::new(TopN::new(&spec, job)?))
            }
            fetch => Ok(Box::new(Sort::new(&self.input, &self.keys, 0, fetch, job)?)),
        }
    }
}

/// The running operator.
pub struct Sort {
    types: Vec<DataType>,
    skip: u64,
    fetch: Option<u64>,

    buffer: SortBuffer,
    phase: Phase,
}

enum Phase {
    Collecting { input: Option<Batch> },
    Emitting { skip: u64 },
}

impl Sort {
    /// Compiles the keys. Of the ordered rows, the first `skip` are left out and `fetch` are given.
    pub(super) fn new(
        input: &[DataType],
        keys: &[SortKeySpec],
        skip: u64,
        fetch: Option<u64>,
        job: &JobContext,
    ) -> Result<Self> {
        let keys = SortKeyColumns::new(keys, &positional_schema(input), &job.functions)?;
        let reservation = job.memory.reserve_revocable("Sort");
        Ok(Sort {
            types: input.to_vec(),
            skip,
            fetch,
            buffer: SortBuffer::new(keys, reservation, job.options.batch_rows),
            phase: Phase::Collecting { input: None },
        })
    }

    fn emit(&mut self, cx: &OperatorContext<'_>) -> Result<Output> {
        let Phase::Emitting { skip } = &mut self.phase else {
            return Ok(Output::NeedInput(PortSet::Any));
        };
        loop {
            cx.check_cancelled()?;
            match self.buffer.step()? {
                Sorted::Working => {}
                Sorted::Done => return Ok(Output::Finished),
                Sorted::Batch(batch) => {
                    let rows = batch.num_rows() as u64;
                    let skipped = rows.min(*skip);
                    *skip -= skipped;
                    if skipped < rows {
                        let rest = batch.slice(skipped as usize, (rows - skipped) as usize);
                        return Ok(Output::Element(PortId(0), StreamElement::Batch(rest)));
                    }
                }
            }
        }
    }
}

impl Operator for Sort {
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
            StreamElement::Batch(batch) => self.phase = Phase::Collecting { input: Some(batch) },
            StreamElement::End => {
                self.buffer.finish(self.fetch.map(|fetch| fetch.saturating_add(self.skip)))?;
                self.phase = Phase::Emitting { skip: self.skip };
            }
            other => return Err(Error::Internal(format!("a sort cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        match &mut self.phase {
            Phase::Collecting { input } => {
                if let Some(batch) = input.take() {
                    self.buffer.push(inserts_only(batch, "sort")?)?;
                }
                Ok(Output::NeedInput(PortSet::Any))
            }
            Phase::Emitting { .. } => self.emit(cx),
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        StateSnapshot::of_batches(self.buffer.batches(), &self.types)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        restore_batches(&snapshot)?.into_iter().try_for_each(|batch| self.buffer.push(batch))
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.buffer.clear();
        Ok(())
    }
}
