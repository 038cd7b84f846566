//! Library functions that know one group only: an accumulator for each group, fed with the batch's rows of the group
//! at once.
//!
//! Invariant: a batch costs time in its rows and in the groups it touches, not in all groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

/// Accumulators by group.
pub(crate) struct BoxedAccumulators {
    function: Arc<AggregateFunctionExpr>,
    groups: Vec<Box<dyn Accumulator>>,
    bytes: usize,
}

impl BoxedAccumulators {
    /// No groups yet.
    pub(crate) fn new(function: Arc<AggregateFunctionExpr>) -> Self {
        BoxedAccumulators { function, groups: Vec::new(), bytes: 0 }
    }

    fn extend(&mut self, total: usize) -> Result<()> {
        while self.groups.len() < total {
            let accumulator = self.function.create_accumulator()?;
            self.bytes += accumulator.size();
            self.groups.push(accumulator);
        }
        Ok(())
    }

    /// Calls `f` once for each group that occurs, with its rows of the columns.
    fn for_each_group(
        &mut self,
        columns: &[ArrayRef],
        group_indices: &[usize],
        f: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        let mut order: Vec<u32> = (0..group_indices.len() as u32).collect();
        order.sort_by_key(|&row| group_indices[row as usize]);
        let sorted = UInt32Array::from(order);
        let columns = arrow::compute::take_arrays(columns, &sorted, None)?;
        let mut start = 0;
        let group_of = |position: usize| group_indices[sorted.value(position) as usize];
        while start < sorted.len() {
            let group = group_of(start);
            let rows = (start..sorted.len()).take_while(|&at| group_of(at) == group).count();
            let part: Vec<ArrayRef> = columns.iter().map(|c| c.slice(start, rows)).collect();
            let accumulator = &mut self.groups[group];
            let before = accumulator.size();
            f(accumulator.as_mut(), &part)?;
            self.bytes = (self.bytes + accumulator.size()).saturating_sub(before);
            start += rows;
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Box<dyn Accumulator>> {
        let taken = emit_to.take_needed(&mut self.groups);
        let bytes: usize = taken.iter().map(|accumulator| accumulator.size()).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }
}

impl GroupsAccumulator for BoxedAccumulators {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        if opt_filter.is_some() {
            return not_impl_err!("a filter inside boxed accumulators");
        }
        self.extend(total_num_groups)?;
        self.for_each_group(values, group_indices, |accumulator, rows| {
            accumulator.update_batch(rows)
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = self
            .take(emit_to)
            .into_iter()
            .map(|mut accumulator| accumulator.evaluate())
            .collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(self.function.field().data_type()));
        }
        ScalarValue::iter_to_array(values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let fields = self.function.state_fields()?;
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::new(); fields.len()];
        for mut accumulator in self.take(emit_to) {
            let state = accumulator.state()?;
            columns.iter_mut().zip(state).for_each(|(column, value)| column.push(value));
        }
        columns
            .into_iter()
            .zip(&fields)
            .map(|(column, field)| match column.is_empty() {
                true => Ok(arrow::array::new_empty_array(field.data_type())),
                false => ScalarValue::iter_to_array(column),
            })
            .collect()
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.extend(total_num_groups)?;
        self.for_each_group(values, group_indices, |accumulator, rows| {
            accumulator.merge_batch(rows)
        })
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        not_impl_err!("states of single rows from boxed accumulators")
    }

    fn size(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Box<dyn Accumulator>>()
    }
}
