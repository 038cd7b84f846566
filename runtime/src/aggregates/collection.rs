//! The states of all aggregates of one operator.
//!
//! Aggregates that accumulate the same share a state; slots are ordered so that rows have no holes. Invariant: a
//! group is a row of zeros in the slots until rows come.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use super::arguments::Arguments;
use super::build::{StateSpec, build};
use super::forgetting::{build_forgetting, build_running};
use super::function::{OrderUse, StateKind, plan};
use super::groups::{Filtered, Groups};
use super::ranked::RankedFunction;
use super::spec::AggregateSpec;
use super::state::{AggregateState, Output, Restored, StateUse};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::sort_key_spec::SortKeySpec;
use crate::rows::{PageStates, RowId, SortColumn, StateField, StateSlot, StatesMut};

/// The states of some aggregates, for all groups of one store.
pub struct AggregateStates {
    states: Vec<Entry>,
    outputs: Vec<Wanted>,
    slots: Vec<StateSlot>,
    own: Vec<StateField>,
    carried: Vec<DataType>,
    /// The state, by its position, that counts the rows of each group, where rows may be withdrawn.
    rows: Option<usize>,
}

struct Entry {
    spec: StateSpec,
    state: Box<dyn AggregateState>,
    /// The state's slots, as positions in the row's.
    slots: Vec<usize>,
    /// The state's columns among all carried ones.
    carried: Range<usize>,
}

struct Wanted {
    state: usize,
    output: Output,
    result: DataType,
}

impl AggregateStates {
    /// The states of aggregates whose expressions are in `arguments`, fit for a use. What is kept beside the rows is
    /// charged to `reservation`. Where rows may be withdrawn, the rows of each group are counted, too.
    ///
    /// # Errors
    /// `Unsupported` for unknown functions and types a function does not take.
    pub fn new(
        specs: &[AggregateSpec],
        arguments: &Arguments,
        use_of: StateUse,
        reservation: &Reservation,
    ) -> Result<Self> {
        let planned =
            specs.iter().map(|spec| describe(spec, arguments)).collect::<Result<Vec<_>>>()?;
        let sums: Vec<StateSpec> = planned
            .iter()
            .filter(|(spec, _)| spec.kind == StateKind::Sum)
            .map(|(spec, _)| spec.clone())
            .collect();
        let mut this = AggregateStates {
            states: Vec::new(),
            outputs: Vec::new(),
            slots: Vec::new(),
            own: Vec::new(),
            carried: Vec::new(),
            rows: None,
        };
        if use_of.withdraws() {
            this.rows = Some(this.add(count_of_rows(), use_of, reservation)?);
        }
        for ((mut spec, output), aggregate) in planned.into_iter().zip(specs) {
            // A sum's state counts its values, too.
            let as_sum = StateSpec { kind: StateKind::Sum, ..spec.clone() };
            if spec.kind == StateKind::Count && sums.contains(&as_sum) {
                spec = as_sum;
            }
            let known = this.states.iter().position(|entry| entry.spec == spec);
            let state = match known {
                Some(state) => state,
                None => this.add(spec, use_of, reservation)?,
            };
            this.outputs.push(Wanted { state, output, result: aggregate.result.clone() });
        }
        this.order_slots();
        Ok(this)
    }

    fn add(
        &mut self,
        spec: StateSpec,
        use_of: StateUse,
        reservation: &Reservation,
    ) -> Result<usize> {
        let state = match use_of {
            StateUse::Once => build(&spec, reservation)?,
            StateUse::Running => build_running(&spec, reservation)?,
            StateUse::Withdrawn => build_forgetting(&spec, false, reservation)?,
            StateUse::Forgotten => build_forgetting(&spec, true, reservation)?,
        };
        let slots = state.slots();
        let start = self.slots.len();
        self.slots.extend(&slots);
        let carried = state.carried();
        let columns = self.carried.len()..self.carried.len() + carried.len();
        self.carried.extend(carried);
        let slots = (start..self.slots.len()).collect();
        self.states.push(Entry { spec, state, slots, carried: columns });
        Ok(self.states.len() - 1)
    }

    /// Orders the slots by falling alignment.
    fn order_slots(&mut self) {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|&slot| std::cmp::Reverse(self.slots[slot].align));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        self.slots = order.iter().map(|&from| self.slots[from]).collect();
        for entry in &mut self.states {
            entry.slots.iter_mut().for_each(|slot| *slot = place[*slot]);
        }
    }

    /// The slots that a row of the store needs, in this order.
    pub fn slots(&self) -> &[StateSlot] {
        &self.slots
    }

    /// The columns that hold what is kept beside the rows.
    pub fn carried(&self) -> &[DataType] {
        &self.carried
    }

    /// Tells where the slots lie in the store's rows, and in the pages that are merged.
    pub fn bind(&mut self, own: &[StateField], incoming: &[StateField]) {
        for entry in &mut self.states {
            let offsets = |fields: &[StateField]| -> Vec<usize> {
                entry.slots.iter().map(|&slot| fields[slot].offset).collect()
            };
            entry.state.bind(&offsets(own), &offsets(incoming));
        }
        self.own = own.to_vec();
    }

    /// Whether the rows of groups are counted, since they may be withdrawn.
    pub fn counts_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// The number of rows that a group has now; below zero if more were taken out than came.
    pub fn count_rows(&self, states: &StatesMut<'_>, group: RowId) -> i64 {
        let slot = self.rows.map(|state| self.states[state].slots[0]);
        slot.map_or(0, |slot| states.read(group, self.own[slot].offset))
    }

    /// Makes groups below `groups` known to states that count them.
    pub fn reserve(&mut self, groups: usize) {
        self.states.iter_mut().for_each(|entry| entry.state.reserve(groups));
    }

    /// Takes rows in; `columns` are those of [`Arguments::evaluate`].
    ///
    /// # Errors
    /// As [`AggregateState::update`].
    pub fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, columns, groups, |state, states, args, groups| {
            state.update(states, args, groups)
        })
    }

    /// Takes rows out that were taken in before.
    ///
    /// # Errors
    /// As [`AggregateState::retract`].
    pub fn retract(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        self.apply(states, columns, groups, |state, states, args, groups| {
            state.retract(states, args, groups)
        })
    }

    fn apply(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: Groups<'_>,
        f: impl Fn(&mut dyn AggregateState, &mut StatesMut<'_>, &[ArrayRef], Groups<'_>) -> Result<()>,
    ) -> Result<()> {
        if groups.rows() == 0 {
            return Ok(());
        }
        let mut filtered: Vec<(usize, Filtered)> = Vec::new();
        let mut args: Vec<ArrayRef> = Vec::new();
        for entry in &mut self.states {
            args.clear();
            args.extend(entry.spec.columns.iter().map(|&column| columns[column].clone()));
            let Some(filter) = entry.spec.filter else {
                f(entry.state.as_mut(), states, &args, groups)?;
                continue;
            };
            if !filtered.iter().any(|(known, _)| *known == filter) {
                filtered.push((filter, Filtered::new(&mask(&columns[filter])?, groups)));
            }
            let rows = filtered.iter().find(|(known, _)| *known == filter);
            let (_, rows) = rows.expect("the filter was evaluated just before");
            if rows.is_empty() {
                continue;
            }
            for column in &mut args {
                *column = rows.apply(column)?;
            }
            f(entry.state.as_mut(), states, &args, rows.groups(groups))?;
        }
        Ok(())
    }

    /// Takes in the slots of a page: row `i` of the page goes to `groups[i]`.
    ///
    /// # Errors
    /// As [`AggregateState::merge`].
    pub fn merge(
        &mut self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        self.states.iter_mut().try_for_each(|entry| entry.state.merge(states, source, groups))
    }

    /// Takes in carried columns: row `i` goes to `groups[i]`.
    ///
    /// # Errors
    /// As [`AggregateState::merge_carried`].
    pub fn merge_carried(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        self.states.iter_mut().filter(|entry| !entry.carried.is_empty()).try_for_each(|entry| {
            entry.state.merge_carried(states, &columns[entry.carried.clone()], groups)
        })
    }

    /// Takes in the carried columns of a snapshot, for groups whose rows came back with their slots.
    ///
    /// # Errors
    /// As [`AggregateState::merge_carried`].
    pub fn restore_carried(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()> {
        for entry in self.states.iter_mut().filter(|entry| !entry.carried.is_empty()) {
            let columns = &columns[entry.carried.clone()];
            if entry.state.restore_carried(columns, groups)? == Restored::Done {
                continue;
            }
            // What the slots held is computed anew from what is carried.
            for slot in entry.slots.iter().map(|&slot| self.own[slot]) {
                for &id in groups {
                    states.slice_mut(id, slot.offset, slot.size).fill(0);
                }
            }
            entry.state.merge_carried(states, columns, groups)?;
        }
        Ok(())
    }

    /// The carried columns of consecutive groups.
    ///
    /// # Errors
    /// As [`AggregateState::carry`].
    pub fn carry(&mut self, groups: Range<RowId>) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.carried.len());
        for entry in self.states.iter_mut().filter(|entry| !entry.carried.is_empty()) {
            columns.extend(entry.state.carry(groups.clone())?);
        }
        Ok(columns)
    }

    /// One result column for each aggregate.
    ///
    /// # Errors
    /// As [`AggregateState::finalize`].
    pub fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        groups: &[RowId],
    ) -> Result<Vec<ArrayRef>> {
        self.outputs
            .iter()
            .map(|wanted| {
                let state = &mut self.states[wanted.state].state;
                let column = state.finalize(states, wanted.output, groups, &wanted.result)?;
                if column.data_type() == &wanted.result {
                    return Ok(column);
                }
                Ok(cast(&column, &wanted.result)?)
            })
            .collect()
    }

    /// No rows follow: results may use up what is kept beside the rows.
    pub fn finish(&mut self) {
        self.states.iter_mut().for_each(|entry| entry.state.finish());
    }

    /// Forgets what is kept beside the rows.
    ///
    /// # Errors
    /// As [`AggregateState::clear`].
    pub fn clear(&mut self) -> Result<()> {
        self.states.iter_mut().try_for_each(|entry| entry.state.clear())
    }

    /// Bytes kept on the heap beside the rows, which the owner charges to its reservation.
    pub fn memory_bytes(&self) -> usize {
        self.states.iter().map(|entry| entry.state.memory_bytes()).sum()
    }

    /// Bytes kept beside the rows that are charged already.
    pub fn reserved_bytes(&self) -> usize {
        self.states.iter().map(|entry| entry.state.reserved_bytes()).sum()
    }
}

/// The number of all rows of a group.
fn count_of_rows() -> StateSpec {
    StateSpec {
        kind: StateKind::Count,
        columns: Vec::new(),
        args: 0,
        types: Vec::new(),
        constants: Vec::new(),
        filter: None,
        distinct: false,
        order: Vec::new(),
    }
}

fn mask(column: &ArrayRef) -> Result<BooleanArray> {
    match column.as_boolean_opt() {
        Some(mask) => Ok(mask.clone()),
        None if column.data_type() == &DataType::Null => Ok(BooleanArray::new_null(column.len())),
        None => Err(Error::Internal(format!("a filter of type {}", column.data_type()))),
    }
}

/// The state that an aggregate needs, and what it wants of it.
fn describe(spec: &AggregateSpec, arguments: &Arguments) -> Result<(StateSpec, Output)> {
    let mut columns: Vec<usize> = spec.args.iter().map(|arg| arguments.position(arg)).collect();
    let mut constants = (0..spec.args.len())
        .map(|i| arguments.constant(&spec.args[i]))
        .collect::<Result<Vec<Option<ScalarValue>>>>()?;
    let types: Vec<DataType> = columns.iter().map(|&column| arguments.data_type(column)).collect();
    let mut planned = plan(&spec.function, &types, spec.ignore_nulls)?;
    let distinct = spec.distinct && planned.distinct_matters;
    if planned.kind == StateKind::Count && !distinct {
        // A constant is NULL in all rows or in none: what is left are columns that may be NULL.
        let present =
            |constant: &Option<ScalarValue>| constant.as_ref().is_some_and(|v| !v.is_null());
        let kept: Vec<usize> = (0..columns.len()).filter(|&i| !present(&constants[i])).collect();
        columns = kept.iter().map(|&i| columns[i]).collect();
        constants = kept.iter().map(|&i| constants[i].clone()).collect();
    }
    if let (StateKind::Ranked(error), Some(function)) =
        (&mut planned.kind, RankedFunction::named(&spec.function))
    {
        let descending = spec.order_by.first().is_some_and(|key| key.descending);
        let (rank, wanted) = function.wanted(&constants, descending)?;
        (planned.output, *error) = (Output::Rank(rank), wanted);
        // The others are constants, and several shares are read from one state.
        columns.truncate(1);
        constants.truncate(1);
    }
    let args = columns.len();
    let order = order_columns(&spec.order_by, planned.order, arguments, &mut columns);
    match &mut planned.kind {
        StateKind::Extreme(extreme) if extreme.by_value => {
            let data_type = types[0].clone();
            extreme.order = vec![SortColumn { data_type, descending: false, nulls_first: false }];
        }
        StateKind::Extreme(extreme) => {
            extreme.order = order.iter().map(|(_, column)| column.clone()).collect();
            // The state reads its keys behind the value, also where the value is a key.
            columns.truncate(1);
            columns.extend(spec.order_by.iter().map(|key| arguments.position(&key.expr)));
        }
        StateKind::Foreign(foreign) if planned.order == OrderUse::Within => {
            foreign.within_descending = spec.order_by.first().map(|key| key.descending);
        }
        _ => {}
    }
    let types = columns.iter().map(|&column| arguments.data_type(column)).collect();
    let order = if planned.order == OrderUse::Replay { order } else { Vec::new() };
    let filter = spec.filter.as_ref().map(|filter| arguments.position(filter));
    let state =
        StateSpec { kind: planned.kind, columns, args, types, constants, filter, distinct, order };
    Ok((state, planned.output))
}

/// The order keys as positions in `columns`, which gets those that are no arguments.
fn order_columns(
    keys: &[SortKeySpec],
    used: OrderUse,
    arguments: &Arguments,
    columns: &mut Vec<usize>,
) -> Vec<(usize, SortColumn)> {
    if !matches!(used, OrderUse::Key | OrderUse::Replay) {
        return Vec::new();
    }
    keys.iter()
        .map(|key| {
            let column = arguments.position(&key.expr);
            let position = columns.iter().position(|&known| known == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
            let data_type = arguments.data_type(column);
            let SortKeySpec { descending, nulls_first, .. } = *key;
            (position, SortColumn { data_type, descending, nulls_first })
        })
        .collect()
}
