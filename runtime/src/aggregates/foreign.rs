//! The one adapter over aggregate functions of the function library.
//!
//! Groups are numbered as the rows of the store are. The library hands its states out only by giving them up, so
//! that what was handed out is kept here and taken in again when it is needed. Invariant: after an error nothing is
//! read from the state any more.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::boxed_accumulators::BoxedAccumulators;
use super::groups::Groups;
use super::state::{AggregateState, Output, Restored, cannot_retract};
use crate::error::Result;
use crate::rows::{PageStates, RowId, StateSlot, StatesMut, canonical_key};

/// The state of a library function for all groups.
pub(crate) struct Foreign {
    function: Arc<AggregateFunctionExpr>,
    live: Box<dyn GroupsAccumulator>,
    arg_types: Vec<DataType>,
    carried: Vec<DataType>,
    /// Values must be made canonical for the function to see equal ones as equal.
    canonical: bool,
    /// Groups that exist.
    total: usize,
    /// States that were handed out; `live` has nothing then.
    kept: Option<Vec<ArrayRef>>,
    result: Option<ArrayRef>,
    finished: bool,
    indices: Vec<usize>,
}

impl Foreign {
    /// The state of a function over arguments of the given types.
    ///
    /// # Errors
    /// What the library reports for arguments it does not take.
    pub(crate) fn new(
        function: AggregateFunctionExpr,
        arg_types: Vec<DataType>,
        canonical: bool,
    ) -> Result<Self> {
        let function = Arc::new(function);
        let carried =
            function.state_fields()?.iter().map(|field| field.data_type().clone()).collect();
        Ok(Foreign {
            live: accumulator(&function)?,
            function,
            arg_types,
            carried,
            canonical,
            total: 0,
            kept: None,
            result: None,
            finished: false,
            indices: Vec::new(),
        })
    }

    /// Takes what was handed out in again.
    fn revive(&mut self) -> Result<()> {
        self.result = None;
        if let Some(kept) = self.kept.take() {
            self.live = accumulator(&self.function)?;
            let groups = kept.first().map_or(0, |column| column.len());
            let indices: Vec<usize> = (0..groups).collect();
            self.live.merge_batch(&kept, &indices, groups)?;
        }
        Ok(())
    }

    /// Lets the accumulator know all groups.
    fn extend(&mut self) -> Result<()> {
        if self.function.fun().name() == "sum" && self.total > 0 {
            // Without a row its groups would have a sum of nothing, which is NULL.
            let nulls: Vec<ArrayRef> =
                self.arg_types.iter().map(|arg| new_null_array(arg, self.total)).collect();
            let indices: Vec<usize> = (0..self.total).collect();
            return Ok(self.live.update_batch(&nulls, &indices, None, self.total)?);
        }
        let nothing: Vec<ArrayRef> = self.arg_types.iter().map(new_empty_array).collect();
        Ok(self.live.update_batch(&nothing, &[], None, self.total)?)
    }

    fn set_indices(&mut self, groups: Groups<'_>) {
        self.indices.clear();
        match groups {
            Groups::One { id, rows } => self.indices.resize(rows, id as usize),
            Groups::Few { ids, .. } | Groups::Many(ids) => {
                self.indices.extend(ids.iter().map(|&id| id as usize));
            }
        }
        let bound = self.indices.iter().max().map_or(0, |&id| id + 1);
        self.total = self.total.max(bound);
    }

    fn hand_out(&mut self) -> Result<&[ArrayRef]> {
        if self.kept.is_none() {
            self.extend()?;
            let states = self.live.state(EmitTo::All)?;
            let typed =
                states.iter().zip(&self.carried).map(|(column, wanted)| retype(column, wanted));
            self.kept = Some(typed.collect::<Result<_>>()?);
        }
        Ok(self.kept.as_deref().unwrap_or(&[]))
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        if !self.finished {
            // The results must not cost the state: they come from a copy.
            let mut copy = accumulator(&self.function)?;
            let total = self.total;
            let states = self.hand_out()?;
            let indices: Vec<usize> = (0..total).collect();
            copy.merge_batch(states, &indices, total)?;
            return Ok(copy.evaluate(EmitTo::All)?);
        }
        self.revive()?;
        self.extend()?;
        Ok(self.live.evaluate(EmitTo::All)?)
    }
}

fn accumulator(function: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(if function.groups_accumulator_supported() {
        function.create_groups_accumulator()?
    } else {
        Box::new(BoxedAccumulators::new(function.clone()))
    })
}

fn retype(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(column.clone());
    }
    Ok(cast(column, wanted)?)
}

impl AggregateState for Foreign {
    fn slots(&self) -> Vec<StateSlot> {
        Vec::new()
    }

    fn bind(&mut self, _own: &[usize], _incoming: &[usize]) {}

    fn carried(&self) -> Vec<DataType> {
        self.carried.clone()
    }

    fn reserve(&mut self, groups: usize) {
        self.total = self.total.max(groups);
    }

    fn update(
        &mut self,
        _: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.revive()?;
        self.set_indices(groups);
        if self.canonical {
            let args = args.iter().map(canonical_key).collect::<Result<Vec<_>>>()?;
            return Ok(self.live.update_batch(&args, &self.indices, None, self.total)?);
        }
        Ok(self.live.update_batch(args, &self.indices, None, self.total)?)
    }

    fn retract(&mut self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract(self.function.fun().name()))
    }

    fn merge(&mut self, _: &mut StatesMut<'_>, _: &PageStates<'_>, _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn merge_carried(
        &mut self,
        _: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        self.revive()?;
        self.set_indices(Groups::Many(groups));
        let columns = columns
            .iter()
            .zip(&self.carried)
            .map(|(column, wanted)| retype(column, wanted))
            .collect::<Result<Vec<_>>>()?;
        Ok(self.live.merge_batch(&columns, &self.indices, self.total)?)
    }

    fn restore_carried(&mut self, _: &[ArrayRef], _: &[RowId]) -> Result<Restored> {
        Ok(Restored::ByMerging)
    }

    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        self.total = self.total.max(ids.end as usize);
        let columns = self.hand_out()?;
        Ok(columns.iter().map(|c| c.slice(ids.start as usize, ids.len())).collect())
    }

    fn finalize(
        &mut self,
        _states: &mut StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        let bound = ids.iter().max().map_or(0, |&id| id as usize + 1);
        if bound > self.total {
            self.total = bound;
            self.result = None;
        }
        let result = match self.result.take() {
            Some(result) => result,
            None => self.evaluate()?,
        };
        let first = ids.first().copied().unwrap_or(0);
        let consecutive = ids.iter().zip(first..).all(|(&id, expected)| id == expected);
        let out = if consecutive {
            result.slice(first as usize, ids.len())
        } else {
            take(&result, &UInt32Array::from(ids.to_vec()), None)?
        };
        self.result = Some(result);
        Ok(out)
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn clear(&mut self) -> Result<()> {
        self.live = accumulator(&self.function)?;
        self.total = 0;
        self.kept = None;
        self.result = None;
        self.finished = false;
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        let arrays = |arrays: &[ArrayRef]| -> usize {
            arrays.iter().map(|array| array.get_array_memory_size()).sum()
        };
        self.live.size()
            + arrays(self.kept.as_deref().unwrap_or(&[]))
            + arrays(self.result.as_slice())
            + self.indices.capacity() * size_of::<usize>()
    }

    fn reserved_bytes(&self) -> usize {
        0
    }
}
