//! Arrow view arrays built from bytes that were validated before.
//!
//! Row pages keep views and strings that came from valid Arrow arrays of the same type; validating them again at
//! every gather would cost more than the gather. Invariant: callers pass views that point into the given buffers and,
//! for strings, bytes that were taken whole from valid strings.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BinaryViewArray, StringViewArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

/// The parts of a view array whose content was validated when it entered a row page.
pub(crate) struct TrustedViews {
    /// Arrow views: inline up to 12 bytes, else into `buffers`.
    pub(crate) views: Vec<u128>,
    /// Data buffers.
    pub(crate) buffers: Vec<Buffer>,
    /// NULLs, if there are any.
    pub(crate) nulls: Option<NullBuffer>,
}

impl TrustedViews {
    /// In debug builds (and so in tests), what is trusted elsewhere is checked.
    fn debug_check(&self, string: bool) {
        if cfg!(debug_assertions) {
            let views = ScalarBuffer::from(self.views.clone());
            let checked = if string {
                StringViewArray::try_new(views, self.buffers.clone(), self.nulls.clone()).err()
            } else {
                BinaryViewArray::try_new(views, self.buffers.clone(), self.nulls.clone()).err()
            };
            assert!(checked.is_none(), "row pages held broken views: {checked:?}");
        }
    }
}

/// A string view array.
#[expect(unsafe_code, reason = "skips the validation of what was validated before")]
pub(crate) fn trusted_string_views(parts: TrustedViews) -> ArrayRef {
    parts.debug_check(true);
    let views = ScalarBuffer::from(parts.views);
    // SAFETY: the views and buffers were built from row pages, whose strings come whole from valid string arrays.
    Arc::new(unsafe { StringViewArray::new_unchecked(views, parts.buffers, parts.nulls) })
}

/// A binary view array.
#[expect(unsafe_code, reason = "skips the validation of what was validated before")]
pub(crate) fn trusted_binary_views(parts: TrustedViews) -> ArrayRef {
    parts.debug_check(false);
    let views = ScalarBuffer::from(parts.views);
    // SAFETY: the views were built to point into the buffers.
    Arc::new(unsafe { BinaryViewArray::new_unchecked(views, parts.buffers, parts.nulls) })
}

/// The parts of a string or binary array with offsets whose content was validated when it entered a row page.
pub(crate) struct TrustedOffsets {
    /// Utf8, LargeUtf8, Binary or LargeBinary.
    pub(crate) data_type: DataType,
    /// Number of strings.
    pub(crate) len: usize,
    /// Rising offsets, one more than strings, of the type's width.
    pub(crate) offsets: Buffer,
    /// The bytes of all strings.
    pub(crate) values: Buffer,
    /// NULLs, if there are any.
    pub(crate) nulls: Option<NullBuffer>,
}

/// A string or binary array with offsets.
#[expect(unsafe_code, reason = "skips the validation of what was validated before")]
pub(crate) fn trusted_offset_bytes(parts: TrustedOffsets) -> ArrayRef {
    let builder = ArrayData::builder(parts.data_type)
        .len(parts.len)
        .add_buffer(parts.offsets)
        .add_buffer(parts.values)
        .nulls(parts.nulls);
    // SAFETY: the offsets rise and end at the length of the values, and each string between two of them was taken
    // whole from a valid array of the same type.
    let data = unsafe { builder.build_unchecked() };
    if cfg!(debug_assertions) {
        let checked = data.validate_full();
        assert!(checked.is_ok(), "row pages held broken strings: {checked:?}");
    }
    make_array(data)
}
