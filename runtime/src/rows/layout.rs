//! Where each field of a row lies.
//!
//! The fixed part holds an optional hash, the fields by falling alignment, one NULL bit a field, and then the state
//! slots in one contiguous range. Invariant: the layout depends on the types and slots alone, so that stores made
//! from equal descriptions exchange pages. Unknown types are kept encoded; a type that cannot be encoded is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};

use super::canonical::unpacked_type;
use super::encoded::EncodedCodec;
use crate::error::{Error, Result};

/// The number of a row in its store: page and position in one number.
pub type RowId = u32;

/// "No row": the row an outer join's side does not have, and the end of a chain.
pub const NO_ROW: RowId = u32::MAX;

/// Bytes that a page of rows aims at.
const PAGE_BYTES: usize = 256 << 10;
/// Rows of the largest page, as a power of two.
const MAX_PAGE_SHIFT: u32 = 15;

/// Room in a row for the state of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSlot {
    /// Bytes the state takes in the row.
    pub size: usize,
    /// Its alignment within the row: 1, 2, 4, 8 or 16.
    pub align: usize,
    /// Whether the slot is a view of a byte string in the page's heap; `size` is 16 then.
    pub bytes: bool,
}

impl StateSlot {
    /// A slot of plain bytes, which start as zeros.
    pub fn new(size: usize, align: usize) -> Self {
        Self { size, align, bytes: false }
    }

    /// A slot for a byte string of any length, which starts as the empty one.
    pub fn byte_string() -> Self {
        Self { size: 16, align: 8, bytes: true }
    }
}

/// A state slot's place in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateField {
    /// Byte offset from the start of the row.
    pub offset: usize,
    /// Bytes of the slot.
    pub size: usize,
    /// Whether the slot is a view of a byte string.
    pub bytes: bool,
}

/// How a field is kept; integers, decimals and times differ by width alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Always NULL: no bytes.
    Null,
    /// One byte, 0 or 1.
    Boolean,
    /// Fixed width; equal bits are equal values.
    Width1,
    /// As `Width1`, two bytes.
    Width2,
    /// As `Width1`, four bytes.
    Width4,
    /// As `Width1`, eight bytes.
    Width8,
    /// As `Width1`, sixteen bytes.
    Width16,
    /// As `Width1`, thirty-two bytes.
    Width32,
    /// Floats: −0.0 equals 0.0, NaNs equal each other.
    Float16,
    /// As `Float16`, four bytes.
    Float32,
    /// As `Float16`, eight bytes.
    Float64,
    /// A 16-byte view of a byte string.
    Bytes,
    /// A 16-byte view of a canonical encoding.
    Encoded,
}

impl FieldKind {
    /// The kind for an (unpacked) type.
    pub(crate) fn of(data_type: &DataType) -> Self {
        use DataType as T;
        match data_type {
            T::Null => Self::Null,
            T::Boolean => Self::Boolean,
            T::Float16 => Self::Float16,
            T::Float32 => Self::Float32,
            T::Float64 => Self::Float64,
            T::Utf8 | T::LargeUtf8 | T::Utf8View => Self::Bytes,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Self::Bytes,
            // Equal intervals may differ in all their parts.
            T::Interval(IntervalUnit::MonthDayNano) => Self::Encoded,
            other => match other.primitive_width() {
                Some(1) => Self::Width1,
                Some(2) => Self::Width2,
                Some(4) => Self::Width4,
                Some(8) => Self::Width8,
                Some(16) => Self::Width16,
                Some(32) => Self::Width32,
                Some(_) | None => Self::Encoded,
            },
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Boolean | Self::Width1 => 1,
            Self::Width2 | Self::Float16 => 2,
            Self::Width4 | Self::Float32 => 4,
            Self::Width8 | Self::Float64 => 8,
            Self::Width16 | Self::Bytes | Self::Encoded => 16,
            Self::Width32 => 32,
        }
    }

    /// Whether the field is a view into the page's heap.
    pub(crate) fn is_view(self) -> bool {
        matches!(self, Self::Bytes | Self::Encoded)
    }
}

/// A field's place in the row.
#[derive(Debug)]
pub(crate) struct Field {
    /// The type the field comes back as.
    pub(crate) data_type: DataType,
    pub(crate) kind: FieldKind,
    pub(crate) offset: usize,
    /// Byte offset of the byte with the field's NULL bit.
    pub(crate) null_offset: usize,
    /// The NULL bit in that byte; set means NULL.
    pub(crate) null_mask: u8,
    /// For encoded fields.
    pub(crate) codec: Option<EncodedCodec>,
}

/// The shape of the rows of a store.
#[derive(Debug)]
pub struct RowLayout {
    fields: Vec<Field>,
    states: Vec<StateField>,
    hash_offset: Option<usize>,
    null_start: usize,
    null_bytes: usize,
    state_start: usize,
    state_bytes: usize,
    row_bytes: usize,
    page_shift: u32,
}

impl RowLayout {
    /// Rows of `fields` (dictionaries are unpacked) followed by `states`.
    ///
    /// # Errors
    /// `Unsupported` when a nested type cannot be encoded.
    pub fn new(fields: &[DataType], states: &[StateSlot]) -> Result<Arc<Self>> {
        Self::build(fields, states, false, PAGE_BYTES)
    }

    /// As [`Self::new`], with room for a 64-bit hash in each row.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_hash(fields: &[DataType], states: &[StateSlot]) -> Result<Arc<Self>> {
        Self::build(fields, states, true, PAGE_BYTES)
    }

    /// As [`Self::new`] or [`Self::with_hash`], with pages of about `page_bytes`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn build(
        fields: &[DataType],
        states: &[StateSlot],
        hash: bool,
        page_bytes: usize,
    ) -> Result<Arc<Self>> {
        let mut layout = Self {
            fields: Vec::with_capacity(fields.len()),
            states: Vec::with_capacity(states.len()),
            hash_offset: hash.then_some(0),
            null_start: 0,
            null_bytes: fields.len().div_ceil(8),
            state_start: 0,
            state_bytes: 0,
            row_bytes: 0,
            page_shift: 0,
        };
        layout.null_start = layout.place_fields(fields, if hash { 8 } else { 0 })?;
        layout.place_states(states);
        let align = if states.iter().any(|slot| slot.align > 8) { 16 } else { 8 };
        let end = layout.state_start + layout.state_bytes;
        // Short rows without wide values are packed tighter.
        let align = if layout.has_wide_value(states) { align } else { 4 };
        layout.row_bytes = end.next_multiple_of(align).max(align);
        let rows = (page_bytes / layout.row_bytes).max(1);
        layout.page_shift = rows.ilog2().min(MAX_PAGE_SHIFT);
        Ok(Arc::new(layout))
    }

    fn has_wide_value(&self, states: &[StateSlot]) -> bool {
        self.hash_offset.is_some()
            || self.fields.iter().any(|field| field.kind.width() >= 8)
            || states.iter().any(|slot| slot.align >= 8)
    }

    /// Places the fields by falling width, in their order within a width; returns the end.
    fn place_fields(&mut self, types: &[DataType], start: usize) -> Result<usize> {
        let types: Vec<DataType> = types.iter().map(unpacked_type).collect();
        let kinds: Vec<FieldKind> = types.iter().map(FieldKind::of).collect();
        let mut order: Vec<usize> = (0..types.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(kinds[i].width().min(8)));
        let mut offsets = vec![0; types.len()];
        let mut end = start;
        for i in order {
            offsets[i] = end;
            end += kinds[i].width();
        }
        for (i, data_type) in types.into_iter().enumerate() {
            let codec = match kinds[i] {
                FieldKind::Encoded => Some(EncodedCodec::new(&data_type)?),
                _ => None,
            };
            self.fields.push(Field {
                data_type,
                kind: kinds[i],
                offset: offsets[i],
                null_offset: end + i / 8,
                null_mask: 1 << (i % 8),
                codec,
            });
        }
        Ok(end)
    }

    fn place_states(&mut self, states: &[StateSlot]) {
        let align = states.iter().map(|slot| slot.align).max().unwrap_or(1);
        self.state_start = (self.null_start + self.null_bytes).next_multiple_of(align);
        let mut end = self.state_start;
        for slot in states {
            let offset = end.next_multiple_of(slot.align);
            self.states.push(StateField { offset, size: slot.size, bytes: slot.bytes });
            end = offset + slot.size;
        }
        self.state_bytes = end - self.state_start;
    }

    /// Number of fields.
    pub fn num_fields(&self) -> usize {
        self.fields.len()
    }

    /// The type that field `i` comes back as: the declared one with dictionaries unpacked.
    pub fn output_type(&self, i: usize) -> &DataType {
        &self.fields[i].data_type
    }

    /// The places of the state slots, in the order they were given.
    pub fn states(&self) -> &[StateField] {
        &self.states
    }

    /// Bytes of the fixed part of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Rows that fit a page, a power of two.
    pub fn rows_per_page(&self) -> usize {
        1 << self.page_shift
    }

    /// Whether rows have room for a hash.
    pub fn has_hash(&self) -> bool {
        self.hash_offset.is_some()
    }

    /// Whether pages of `other` fit a store of this layout.
    pub fn is_compatible(&self, other: &Self) -> bool {
        let types = |layout: &Self| -> Vec<DataType> {
            layout.fields.iter().map(|field| field.data_type.clone()).collect()
        };
        std::ptr::eq(self, other)
            || (self.row_bytes == other.row_bytes
                && self.page_shift == other.page_shift
                && self.hash_offset == other.hash_offset
                && self.states == other.states
                && types(self) == types(other))
    }

    pub(crate) fn field(&self, i: usize) -> &Field {
        &self.fields[i]
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(crate) fn hash_offset(&self) -> usize {
        self.hash_offset.expect("the layout was made with room for a hash")
    }

    pub(crate) fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// Offset and number of the bytes with NULL bits.
    pub(crate) fn null_range(&self) -> (usize, usize) {
        (self.null_start, self.null_bytes)
    }

    /// Offset and number of the bytes of all states.
    pub(crate) fn state_range(&self) -> (usize, usize) {
        (self.state_start, self.state_bytes)
    }

    /// Offsets of all 16-byte views in the row: fields and states.
    pub(crate) fn view_offsets(&self) -> impl Iterator<Item = usize> + '_ {
        let fields = self.fields.iter().filter(|f| f.kind.is_view()).map(|f| f.offset);
        fields.chain(self.states.iter().filter(|s| s.bytes).map(|s| s.offset))
    }

    /// The position of a row id: page and row in the page.
    #[inline]
    pub(crate) fn locate(&self, id: RowId) -> (usize, usize) {
        ((id >> self.page_shift) as usize, (id & ((1 << self.page_shift) - 1)) as usize)
    }

    /// What a stored snapshot must agree on.
    pub(crate) fn describe(&self) -> String {
        let types: Vec<String> =
            self.fields.iter().map(|field| field.data_type.to_string()).collect();
        format!(
            "[{}] states {:?} hash {:?} row {} shift {}",
            types.join(", "),
            self.states,
            self.hash_offset,
            self.row_bytes,
            self.page_shift
        )
    }

    /// The error for columns that do not fit the fields.
    pub(crate) fn mismatch(&self, expected: usize, found: usize) -> Error {
        Error::Internal(format!("rows of {expected} columns were given {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap_and_states_are_aligned() {
        let types = [
            DataType::Boolean,
            DataType::Int64,
            DataType::Utf8View,
            DataType::Int16,
            DataType::Decimal256(50, 2),
            DataType::Float32,
            DataType::Null,
        ];
        let states = [
            StateSlot::new(1, 1),
            StateSlot::new(16, 16),
            StateSlot::byte_string(),
            StateSlot::new(8, 8),
        ];
        let layout = RowLayout::with_hash(&types, &states).unwrap();
        let mut ranges: Vec<(usize, usize)> = vec![(0, 8)];
        ranges.extend(layout.fields().iter().map(|f| (f.offset, f.kind.width())));
        ranges.extend(layout.states().iter().map(|s| (s.offset, s.size)));
        let (null_start, null_bytes) = layout.null_range();
        ranges.push((null_start, null_bytes));
        ranges.retain(|range| range.1 > 0);
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{ranges:?}");
        assert!(ranges.iter().all(|range| range.0 + range.1 <= layout.row_bytes()));
        assert_eq!(layout.row_bytes() % 16, 0);
        assert!(layout.states().iter().zip(&states).all(|(f, s)| f.offset % s.align == 0));
        assert_eq!(layout.view_offsets().count(), 2);
    }

    #[test]
    fn equal_descriptions_are_compatible() {
        let a = RowLayout::new(&[DataType::Int32], &[]).unwrap();
        let b = RowLayout::new(&[DataType::Int32], &[]).unwrap();
        let c = RowLayout::new(&[DataType::Float32], &[]).unwrap();
        assert!(a.is_compatible(&b) && !a.is_compatible(&c));
        assert_eq!(a.row_bytes(), 8);
    }
}
