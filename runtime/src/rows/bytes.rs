//! One way to read the strings of every string and binary array.
//!
//! [`dispatch_bytes`] picks the array's own form once a batch, so that the loops over rows are compiled for it.
//! Invariant: a source yields bytes for every row, NULL or not; the caller looks at the NULLs.

use arrow::array::{BinaryViewArray, FixedSizeBinaryArray, GenericByteArray, StringViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ToByteSlice};

use super::page::{INLINE_BYTES, inline_view};

/// The strings of an array.
pub(crate) trait BytesSource {
    /// The bytes of row `i`.
    fn bytes(&self, i: usize) -> &[u8];

    /// The view of row `i` if its string is short enough to be inline.
    fn inline(&self, i: usize) -> Option<u128>;
}

/// The strings of a view array.
pub(crate) struct ViewSource<'a> {
    views: &'a [u128],
    buffers: &'a [Buffer],
}

impl<'a> From<&'a StringViewArray> for ViewSource<'a> {
    fn from(array: &'a StringViewArray) -> Self {
        Self { views: array.views(), buffers: array.data_buffers() }
    }
}

impl<'a> From<&'a BinaryViewArray> for ViewSource<'a> {
    fn from(array: &'a BinaryViewArray) -> Self {
        Self { views: array.views(), buffers: array.data_buffers() }
    }
}

impl BytesSource for ViewSource<'_> {
    #[inline]
    fn bytes(&self, i: usize) -> &[u8] {
        let view = &self.views[i];
        let len = *view as u32 as usize;
        if len <= INLINE_BYTES {
            &view_bytes(view)[4..4 + len]
        } else {
            let (buffer, offset) = ((*view >> 64) as u32 as usize, (*view >> 96) as u32 as usize);
            &self.buffers[buffer].as_slice()[offset..offset + len]
        }
    }

    #[inline]
    fn inline(&self, i: usize) -> Option<u128> {
        let view = self.views[i];
        (view as u32 as usize <= INLINE_BYTES).then_some(view)
    }
}

/// The bytes of a view as they lie in memory.
#[inline]
fn view_bytes(view: &u128) -> &[u8; 16] {
    view.to_byte_slice().try_into().expect("a view has 16 bytes")
}

impl<T: ByteArrayType> BytesSource for &GenericByteArray<T> {
    #[inline]
    fn bytes(&self, i: usize) -> &[u8] {
        let offsets = self.value_offsets();
        &self.value_data()[offsets[i].as_usize()..offsets[i + 1].as_usize()]
    }

    #[inline]
    fn inline(&self, i: usize) -> Option<u128> {
        let bytes = self.bytes(i);
        (bytes.len() <= INLINE_BYTES).then(|| inline_view(bytes))
    }
}

impl BytesSource for &FixedSizeBinaryArray {
    #[inline]
    fn bytes(&self, i: usize) -> &[u8] {
        self.value(i)
    }

    #[inline]
    fn inline(&self, i: usize) -> Option<u128> {
        let bytes = self.value(i);
        (bytes.len() <= INLINE_BYTES).then(|| inline_view(bytes))
    }
}

/// Runs an expression over the strings of an array, compiled once for each form of array; other types are an
/// internal error.
macro_rules! dispatch_bytes {
    ($array:expr, $source:ident => $body:expr) => {{
        use arrow::array::AsArray;
        let array: &arrow::array::ArrayRef = $array;
        match array.data_type() {
            arrow::datatypes::DataType::Utf8View => {
                let $source = $crate::rows::bytes::ViewSource::from(array.as_string_view());
                $body
            }
            arrow::datatypes::DataType::BinaryView => {
                let $source = $crate::rows::bytes::ViewSource::from(array.as_binary_view());
                $body
            }
            arrow::datatypes::DataType::Utf8 => {
                let $source = array.as_string::<i32>();
                $body
            }
            arrow::datatypes::DataType::LargeUtf8 => {
                let $source = array.as_string::<i64>();
                $body
            }
            arrow::datatypes::DataType::Binary => {
                let $source = array.as_binary::<i32>();
                $body
            }
            arrow::datatypes::DataType::LargeBinary => {
                let $source = array.as_binary::<i64>();
                $body
            }
            arrow::datatypes::DataType::FixedSizeBinary(_) => {
                let $source = array.as_fixed_size_binary();
                $body
            }
            other => Err($crate::error::Error::Internal(format!(
                "a column of type {other} was given where strings are kept"
            ))),
        }
    }};
}
pub(crate) use dispatch_bytes;
