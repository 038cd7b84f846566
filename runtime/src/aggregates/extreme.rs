//! FIRST_VALUE, LAST_VALUE and ANY_VALUE, and MIN and MAX of types that only Arrow's row encoding orders.
//!
//! The value of the best row so far is kept encoded in the heap of the group's page, with its order key before it
//! where there is one. Invariant: among rows of equal keys the first keeps the earliest and the last the latest;
//! without an order, arrival decides.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState, cannot_retract};
use crate::error::{Error, Result};
use crate::rows::{PageStates, RowId, SortColumn, SortKeyEncoder, StateSlot, StatesMut};

/// Which row of a group is wanted, and what of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExtremeSpec {
    /// The last in order instead of the first.
    pub(crate) last: bool,
    /// Rows whose value is NULL do not count.
    pub(crate) ignore_nulls: bool,
    /// The value orders the rows, as for MIN and MAX; else what follows the value in the arguments does.
    pub(crate) by_value: bool,
    /// The columns of the order key.
    pub(crate) order: Vec<SortColumn>,
}

/// The state: key, value, and a byte that says whether there is one.
pub(crate) struct Extreme {
    offsets: Offsets<3>,
    spec: ExtremeSpec,
    keys: Option<SortKeyEncoder>,
    values: RowConverter,
    null: Vec<u8>,
}

impl Extreme {
    /// Keeps values of type `value`.
    ///
    /// # Errors
    /// `Unsupported` when values or keys of the type cannot be encoded.
    pub(crate) fn new(spec: ExtremeSpec, value: &DataType) -> Result<Self> {
        let field = SortField::new(value.clone());
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
            return Err(Error::Unsupported(format!("keeping a value of type {value}")));
        }
        let values = RowConverter::new(vec![field])?;
        let null = values.convert_columns(&[new_null_array(value, 1)])?.row(0).data().to_vec();
        let keys = match spec.order.is_empty() {
            true => None,
            false => Some(SortKeyEncoder::new(&spec.order)?),
        };
        Ok(Extreme { offsets: Offsets::unbound(), spec, keys, values, null })
    }

    /// Whether a row with this key takes the place of the one that the group has.
    #[inline]
    fn replaces(&self, states: &StatesMut<'_>, id: RowId, key: &[u8]) -> bool {
        let [key_at, _, seen_at] = self.offsets.own;
        if states.read::<u8>(id, seen_at) == 0 {
            return true;
        }
        match (&self.keys, self.spec.last) {
            (None, last) => last,
            (Some(_), false) => key < states.bytes(id, key_at),
            (Some(_), true) => key >= states.bytes(id, key_at),
        }
    }

    fn put(&self, states: &mut StatesMut<'_>, id: RowId, key: &[u8], value: &[u8]) -> Result<()> {
        let [key_at, value_at, seen_at] = self.offsets.own;
        states.write(id, seen_at, 1_u8);
        if self.keys.is_some() {
            states.set_bytes(id, key_at, key)?;
        }
        states.set_bytes(id, value_at, value)
    }
}

impl RowState for Extreme {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::byte_string(), StateSlot::byte_string(), StateSlot::new(1, 1)]
    }

    fn bind(&mut self, own: &[usize], incoming: &[usize]) {
        self.offsets.bind(own, incoming);
    }

    fn update(
        &self,
        states: &mut StatesMut<'_>,
        args: &[ArrayRef],
        groups: Groups<'_>,
    ) -> Result<()> {
        let nulls = if self.spec.ignore_nulls { nulls_of(&args[0]) } else { None };
        let values = self.values.convert_columns(&args[..1])?;
        let key_columns = if self.spec.by_value { &args[..1] } else { &args[1..] };
        let keys = self.keys.as_ref().map(|encoder| encoder.encode(key_columns)).transpose()?;
        groups.try_for_each_valid(nulls.as_ref(), |row, id| {
            let key = keys.as_ref().map_or(&[][..], |keys| keys.key(row));
            if self.replaces(states, id, key) {
                self.put(states, id, key, values.row(row).data())?;
            }
            Ok(())
        })
    }

    fn retract(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract("FIRST_VALUE, LAST_VALUE, MIN or MAX"))
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let [key_at, value_at, seen_at] = self.offsets.incoming;
        groups.iter().enumerate().try_for_each(|(row, &id)| {
            let key = source.bytes(row, key_at);
            if source.read::<u8>(row, seen_at) != 0 && self.replaces(states, id, key) {
                self.put(states, id, key, source.bytes(row, value_at))?;
            }
            Ok(())
        })
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        _result: &DataType,
    ) -> Result<ArrayRef> {
        let [_, value_at, seen_at] = self.offsets.own;
        let parser = self.values.parser();
        let rows = ids.iter().map(|&id| {
            let seen = states.read::<u8>(id, seen_at) != 0;
            parser.parse(if seen { states.bytes(id, value_at) } else { &self.null })
        });
        let mut columns = self.values.convert_rows(rows)?;
        columns.pop().ok_or_else(|| Error::Internal("one column was encoded".into()))
    }
}
