//! What all tables of one aggregation have in common: keys, argument columns, the forms of rows.
//!
//! Invariant: the form in which rows are handed over depends on the specification alone, so that both ends of an edge
//! agree on it.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::cast;
use arrow_schema::DataType;
use datafusion_common::ScalarValue;

use super::{Emission, GroupingSetsSpec, HashAggregateSpec};
use crate::aggregates::{AggregateSpec, AggregateStates, Arguments, StateUse};
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::rows::{RowLayout, StateSlot};

/// Keys, arguments and layouts.
pub(in crate::operators) struct Shape {
    keys: Vec<CompiledExpr>,
    sets: Option<GroupingSetsSpec>,
    aggregates: Vec<AggregateSpec>,
    arguments: Arguments,
    /// What the states are made for.
    pub(in crate::operators) use_of: StateUse,
    /// The key columns' types, the grouping id's among them.
    pub(in crate::operators) key_types: Vec<DataType>,
    /// Keys and states.
    pub(in crate::operators) table: Arc<RowLayout>,
    /// Keys, what states keep beside the rows, and states.
    pub(in crate::operators) handover: Arc<RowLayout>,
    /// The slots of the states.
    pub(in crate::operators) states: Vec<StateSlot>,
    /// The types of what states keep beside the rows.
    pub(in crate::operators) carried: Vec<DataType>,
}

impl Shape {
    /// Compiles the expressions and lays the rows out.
    pub(in crate::operators) fn new(
        spec: &HashAggregateSpec,
        job: &JobContext,
    ) -> Result<Arc<Self>> {
        let schema = positional_schema(&spec.input);
        let keys = compile_all(&spec.keys, &schema, &job.functions)?;
        let arguments = Arguments::new(&spec.aggregates, &schema, &job.functions)?;
        let mut key_types = spec.key_types.clone();
        key_types.extend(spec.grouping_sets.as_ref().map(|sets| sets.id_type.clone()));
        let reservation = job.memory.reserve("Aggregate");
        let use_of = match (spec.withdrawn, &spec.emission) {
            (true, Emission::Changes | Emission::PeriodicChanges { .. })
                if job.options.state_ttl_us > 0 =>
            {
                StateUse::Forgotten
            }
            (true, _) => StateUse::Withdrawn,
            (false, Emission::Changes | Emission::PeriodicChanges { .. } | Emission::Fired(_)) => {
                StateUse::Running
            }
            (false, Emission::AtEnd | Emission::Closed(_)) => StateUse::Once,
        };
        let states = AggregateStates::new(&spec.aggregates, &arguments, use_of, &reservation)?;
        let mut fields = key_types.clone();
        let table = RowLayout::with_hash(&fields, states.slots())?;
        fields.extend_from_slice(states.carried());
        Ok(Arc::new(Shape {
            keys,
            sets: spec.grouping_sets.clone(),
            aggregates: spec.aggregates.clone(),
            use_of,
            key_types,
            table,
            handover: RowLayout::with_hash(&fields, states.slots())?,
            carried: states.carried().to_vec(),
            states: states.slots().to_vec(),
            arguments,
        }))
    }

    /// Number of key columns, the grouping id among them.
    pub(in crate::operators) fn keys(&self) -> usize {
        self.key_types.len()
    }

    /// States of their own for another store.
    pub(in crate::operators) fn new_states(
        &self,
        reservation: &Reservation,
    ) -> Result<AggregateStates> {
        AggregateStates::new(&self.aggregates, &self.arguments, self.use_of, reservation)
    }

    /// The aggregates' argument columns of a compact batch.
    pub(in crate::operators) fn arguments(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.arguments.evaluate(batch)
    }

    /// The key columns of a compact batch, without regard to grouping sets.
    pub(in crate::operators) fn keys_of(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| key.evaluate(batch)).collect()
    }

    /// The grouping sets, if there are several.
    pub(in crate::operators) fn sets(&self) -> Option<&GroupingSetsSpec> {
        self.sets.as_ref()
    }

    /// The key columns of one set, from key columns that have at least the set's keys.
    pub(in crate::operators) fn keys_in(
        &self,
        set: usize,
        keys: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        match &self.sets {
            Some(sets) => self.keys_in_set(sets, set, Some(keys), rows),
            None => Ok(keys.to_vec()),
        }
    }

    /// Key columns with NULL where a key is outside the set, and the set's id.
    fn keys_in_set(
        &self,
        sets: &GroupingSetsSpec,
        set: usize,
        keys: Option<&[ArrayRef]>,
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<ArrayRef> = (0..self.keys.len())
            .map(|key| match keys {
                Some(keys) if sets.sets[set].contains(&key) => keys[key].clone(),
                Some(_) | None => new_null_array(&self.key_types[key], rows),
            })
            .collect();
        let id = ScalarValue::UInt64(Some(sets.ids[set])).to_array_of_size(rows)?;
        columns.push(cast(&id, &sets.id_type)?);
        Ok(columns)
    }

    /// Gathered key columns in the types they are to be emitted in.
    pub(in crate::operators) fn output_keys(&self, keys: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        keys.into_iter()
            .zip(&self.key_types)
            .map(|(key, wanted)| match key.data_type() == wanted {
                true => Ok(key),
                false => Ok(cast(&key, wanted)?),
            })
            .collect()
    }

    /// The keys of the groups that exist without any row: those of empty grouping sets, one row each, with the
    /// set's position.
    pub(in crate::operators) fn groups_of_no_rows(&self) -> Result<Vec<(usize, Vec<ArrayRef>)>> {
        let Some(sets) = &self.sets else { return Ok(Vec::new()) };
        (0..sets.sets.len())
            .filter(|&set| sets.sets[set].is_empty())
            .map(|set| Ok((set, self.keys_in_set(sets, set, None, 1)?)))
            .collect()
    }
}
