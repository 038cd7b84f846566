//! The traits of aggregate states.
//!
//! A state lies in the slots of a group's row. What does not fit into slots (sets of values, lists, states of
//! foreign functions) is kept beside the rows and travels as *carried* columns. Invariant: a state of zero bytes,
//! with nothing beside it, is the state of no rows.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::groups::Groups;
use crate::error::{Error, Result};
use crate::rows::{PageStates, RowId, StateSlot, StatesMut};

/// What states are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateUse {
    /// Rows come, and the results of all groups are wanted when no more do.
    Once,
    /// Rows come, and the results of some groups are wanted again and again: the same ones bit by bit until more rows
    /// of the group come.
    Running,
    /// The same where rows may be withdrawn.
    Withdrawn,
    /// The same where what is withdrawn may have been forgotten: it is left out where that can be told.
    Forgotten,
}

impl StateUse {
    /// Whether rows may be withdrawn.
    pub fn withdraws(self) -> bool {
        match self {
            StateUse::Withdrawn | StateUse::Forgotten => true,
            StateUse::Once | StateUse::Running => false,
        }
    }
}

/// What is wanted of a state that several functions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The state's only result.
    Only,
    /// Values that were not NULL.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
    /// One of the statistics of one or two variables.
    Moment(super::moments::Moment),
    /// A value by its place in their order.
    Rank(super::ranked::Rank),
}

/// What became of carried columns that were to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// They were, and the slots are right.
    Done,
    /// Nothing was done: merged into empty slots they give the state again.
    ByMerging,
}

/// The accumulation that one or several aggregate functions need, for all groups.
///
/// Groups are rows of a store; `states` always gives access to the rows whose ids are in `groups`. Array arguments
/// have one value for each row of the batch.
pub trait AggregateState: Send {
    /// The room that the state takes in a row.
    fn slots(&self) -> Vec<StateSlot>;
    /// Tells where the slots lie: byte offsets in the rows that are updated, and in the pages that are merged.
    fn bind(&mut self, own: &[usize], incoming: &[usize]);
    /// The types of the columns that hold what is kept beside the rows.
    fn carried(&self) -> Vec<DataType>;
    /// Groups below `groups` exist, whether or not rows come.
    fn reserve(&mut self, groups: usize);
    /// Takes rows in.
    ///
    /// # Errors
    /// A user error where a value or a sum cannot be represented; `ResourcesExhausted`.
    fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()>;
    /// Takes rows out that were taken in before.
    ///
    /// # Errors
    /// `Unsupported` where a state cannot forget.
    fn retract(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()>;
    /// Takes in what the slots of a page hold: row `i` of the page goes to `groups[i]`.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn merge(
        &mut self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()>;
    /// Takes in carried columns: row `i` of the columns goes to `groups[i]`.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn merge_carried(
        &mut self,
        states: &mut StatesMut<'_>,
        columns: &[ArrayRef],
        groups: &[RowId],
    ) -> Result<()>;
    /// Takes the carried columns of a snapshot back, row `i` for `groups[i]`, whose slots came back as they were.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn restore_carried(&mut self, columns: &[ArrayRef], groups: &[RowId]) -> Result<Restored>;
    /// The carried columns of consecutive groups. What is kept stays as it is.
    ///
    /// # Errors
    /// `ResourcesExhausted`, and what foreign functions report.
    fn carry(&mut self, ids: Range<RowId>) -> Result<Vec<ArrayRef>>;
    /// The results of groups, of type `result` or one that casts to it. What is kept stays as it is, unless
    /// [`Self::finish`] was called.
    ///
    /// # Errors
    /// A user error where a result cannot be represented.
    fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef>;
    /// No rows follow: results may use up what is kept. [`Self::clear`] takes it back.
    fn finish(&mut self);
    /// Forgets what is kept beside the rows.
    ///
    /// # Errors
    /// What foreign functions report.
    fn clear(&mut self) -> Result<()>;
    /// Bytes kept on the heap beside the rows, which the owner charges to its reservation.
    fn memory_bytes(&self) -> usize;
    /// Bytes kept beside the rows that are charged already.
    fn reserved_bytes(&self) -> usize;
}

/// A state that lies in the row alone. Every one is an [`AggregateState`].
pub trait RowState: Send {
    /// As [`AggregateState::slots`].
    fn slots(&self) -> Vec<StateSlot>;
    /// As [`AggregateState::bind`].
    fn bind(&mut self, own: &[usize], incoming: &[usize]);
    /// As [`AggregateState::update`].
    ///
    /// # Errors
    /// As [`AggregateState::update`].
    fn update(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()>;
    /// As [`AggregateState::retract`].
    ///
    /// # Errors
    /// As [`AggregateState::retract`].
    fn retract(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()>;
    /// As [`AggregateState::merge`].
    ///
    /// # Errors
    /// As [`AggregateState::merge`].
    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()>;
    /// As [`AggregateState::finalize`].
    ///
    /// # Errors
    /// As [`AggregateState::finalize`].
    fn finalize(
        &self,
        states: &StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef>;
}

impl<S: RowState> AggregateState for S {
    fn slots(&self) -> Vec<StateSlot> {
        RowState::slots(self)
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        RowState::bind(self, own, incoming);
    }

    fn carried(&self) -> Vec<DataType> {
        Vec::new()
    }

    fn reserve(&mut self, _groups: usize) {}

    fn update(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        RowState::update(self, states, args, groups)
    }

    fn retract(
        &mut self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        RowState::retract(self, states, args, groups)
    }

    fn merge(
        &mut self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        RowState::merge(self, states, source, groups)
    }

    fn merge_carried(&mut self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: &[RowId]) -> Result<()> {
        Ok(())
    }

    fn restore_carried(&mut self, _: &[ArrayRef], _: &[RowId]) -> Result<Restored> {
        Ok(Restored::Done)
    }

    fn carry(&mut self, _ids: Range<RowId>) -> Result<Vec<ArrayRef>> {
        Ok(Vec::new())
    }

    fn finalize(
        &mut self,
        states: &mut StatesMut<'_>,
        output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        RowState::finalize(self, states, output, ids, result)
    }

    fn finish(&mut self) {}

    fn clear(&mut self) -> Result<()> {
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn reserved_bytes(&self) -> usize {
        0
    }
}

/// The byte offsets of a state's slots in the rows it updates and in those it merges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets<const N: usize> {
    pub(crate) own: [usize; N],
    pub(crate) incoming: [usize; N],
}

impl<const N: usize> Offsets<N> {
    /// Offsets that are not known yet.
    pub(crate) fn unbound() -> Self {
        Offsets { own: [0; N], incoming: [0; N] }
    }

    /// Takes the offsets over.
    pub(crate) fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        self.own.copy_from_slice(own);
        self.incoming.copy_from_slice(incoming);
    }
}

/// The error of a state that cannot take rows out.
pub(crate) fn cannot_retract(function: &str) -> Error {
    Error::Unsupported(format!("taking rows out of {function}"))
}

/// The error of a state that keeps rows and is given partial results.
pub(crate) fn cannot_merge() -> Error {
    Error::Internal("rows that may be withdrawn are aggregated in one phase".into())
}
