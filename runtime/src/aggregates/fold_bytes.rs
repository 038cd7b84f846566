//! MIN and MAX of strings and byte strings, compared byte by byte.
//!
//! The best string so far lies in the heap of the group's page; a better one takes its place where it fits. Nothing
//! is allocated by row. Invariant: strings are taken whole, so that what comes out is as valid as what went in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BinaryViewBuilder, FixedSizeBinaryBuilder, LargeBinaryBuilder,
    LargeStringBuilder, StringBuilder, StringViewBuilder,
};
use arrow::datatypes::DataType;

use super::groups::{Groups, nulls_of};
use super::state::{Offsets, Output, RowState, cannot_retract};
use crate::error::{Error, Result};
use crate::rows::{BytesSource, PageStates, RowId, StateSlot, StatesMut, dispatch_bytes};

/// The state: a byte string, and a byte that says whether there is one.
pub(crate) struct FoldBytes {
    offsets: Offsets<2>,
    greatest: bool,
}

impl FoldBytes {
    /// The least string, or the greatest.
    pub(crate) fn new(greatest: bool) -> Self {
        FoldBytes { offsets: Offsets::unbound(), greatest }
    }

    #[inline]
    fn is_better(&self, value: &[u8], than: &[u8]) -> bool {
        if self.greatest { value > than } else { value < than }
    }

    fn take(&self, states: &mut StatesMut<'_>, id: RowId, value: &[u8]) -> Result<()> {
        let [value_at, seen_at] = self.offsets.own;
        if states.read::<u8>(id, seen_at) != 0 {
            if !self.is_better(value, states.bytes(id, value_at)) {
                return Ok(());
            }
        } else {
            states.write(id, seen_at, 1_u8);
        }
        states.set_bytes(id, value_at, value)
    }

    fn update_from(
        &self,
        states: &mut StatesMut<'_>,
        source: &impl BytesSource,
        array: &dyn Array,
        groups: Groups<'_>,
    ) -> Result<()> {
        let nulls = nulls_of(array);
        let Groups::One { id, .. } = groups else {
            return groups.try_for_each_valid(nulls.as_ref(), |row, id| {
                self.take(states, id, source.bytes(row))
            });
        };
        // Of one group only the best string of the batch is stored.
        let mut best: Option<&[u8]> = None;
        groups.for_each_valid(nulls.as_ref(), |row, _| {
            let value = source.bytes(row);
            if best.is_none_or(|best| self.is_better(value, best)) {
                best = Some(value);
            }
        });
        best.map_or(Ok(()), |value| self.take(states, id, value))
    }
}

impl RowState for FoldBytes {
    fn slots(&self) -> Vec<StateSlot> {
        vec![StateSlot::byte_string(), StateSlot::new(1, 1)]
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
        dispatch_bytes!(&args[0], source => {
            self.update_from(states, &source, args[0].as_ref(), groups)
        })
    }

    fn retract(&self, _: &mut StatesMut<'_>, _: &[ArrayRef], _: Groups<'_>) -> Result<()> {
        Err(cannot_retract(if self.greatest { "MAX" } else { "MIN" }))
    }

    fn merge(
        &self,
        states: &mut StatesMut<'_>,
        source: &PageStates<'_>,
        groups: &[RowId],
    ) -> Result<()> {
        let [value, seen] = self.offsets.incoming;
        groups.iter().enumerate().try_for_each(|(row, &id)| {
            if source.read::<u8>(row, seen) == 0 {
                return Ok(());
            }
            self.take(states, id, source.bytes(row, value))
        })
    }

    fn finalize(
        &self,
        states: &StatesMut<'_>,
        _output: Output,
        ids: &[RowId],
        result: &DataType,
    ) -> Result<ArrayRef> {
        let [value, seen] = self.offsets.own;
        byte_strings(
            ids.iter()
                .map(|&id| (states.read::<u8>(id, seen) != 0).then(|| states.bytes(id, value))),
            result,
        )
    }
}

/// Byte strings as a column of a string or binary type.
///
/// # Errors
/// `Internal` for other types, and for strings that are not UTF-8.
fn byte_strings<'a>(
    values: impl Iterator<Item = Option<&'a [u8]>>,
    result: &DataType,
) -> Result<ArrayRef> {
    macro_rules! strings {
        ($builder:ty) => {{
            let mut builder = <$builder>::new();
            for value in values {
                match value.map(std::str::from_utf8).transpose() {
                    Ok(text) => builder.append_option(text),
                    Err(_) => return Err(Error::Internal("a state held a broken string".into())),
                }
            }
            Ok(Arc::new(builder.finish()))
        }};
    }
    macro_rules! binaries {
        ($builder:ty) => {{
            let mut builder = <$builder>::new();
            values.for_each(|value| builder.append_option(value));
            Ok(Arc::new(builder.finish()))
        }};
    }
    match result {
        DataType::Utf8View => strings!(StringViewBuilder),
        DataType::Utf8 => strings!(StringBuilder),
        DataType::LargeUtf8 => strings!(LargeStringBuilder),
        DataType::BinaryView => binaries!(BinaryViewBuilder),
        DataType::Binary => binaries!(BinaryBuilder),
        DataType::LargeBinary => binaries!(LargeBinaryBuilder),
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::new(*width);
            for value in values {
                match value {
                    Some(bytes) => builder.append_value(bytes)?,
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        other => Err(Error::Internal(format!("strings as a column of type {other}"))),
    }
}
