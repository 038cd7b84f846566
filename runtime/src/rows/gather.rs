//! Gather: rows into columns.
//!
//! A column comes back as its field's type, strings in the form the field declares. Ids may repeat and come in any
//! order; with [`RowStore::gather_nullable`], [`NO_ROW`] yields NULL. Invariant: nothing is allocated by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, NullArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::layout::{Field, FieldKind, NO_ROW, RowId};
use super::page::INLINE_BYTES;
use super::store::RowStore;
use crate::error::{Error, Result};
use crate::memory::{
    Plain, TrustedOffsets, TrustedViews, trusted_binary_views, trusted_offset_bytes,
    trusted_string_views,
};

/// The largest data buffer of a view array: offsets are 32 bits wide.
const MAX_BUFFER_BYTES: usize = 1 << 30;

impl RowStore {
    /// Field `column` of the rows `ids`, none of which is [`NO_ROW`].
    ///
    /// # Errors
    /// When the strings do not fit the field's type in one array.
    pub fn gather(&self, column: usize, ids: &[RowId]) -> Result<ArrayRef> {
        self.gather_column::<false>(column, ids)
    }

    /// As [`Self::gather`]; [`NO_ROW`] yields NULL.
    ///
    /// # Errors
    /// As [`Self::gather`].
    pub fn gather_nullable(&self, column: usize, ids: &[RowId]) -> Result<ArrayRef> {
        self.gather_column::<true>(column, ids)
    }

    /// Fields `columns` of the rows `ids`.
    ///
    /// # Errors
    /// As [`Self::gather`].
    pub fn gather_all(
        &self,
        columns: impl IntoIterator<Item = usize>,
        ids: &[RowId],
    ) -> Result<Vec<ArrayRef>> {
        columns.into_iter().map(|column| self.gather(column, ids)).collect()
    }

    fn gather_column<const NULLABLE: bool>(
        &self,
        column: usize,
        ids: &[RowId],
    ) -> Result<ArrayRef> {
        let field = self.layout.field(column);
        let nulls = self.gather_nulls::<NULLABLE>(column, ids);
        let plain =
            |buffer: Buffer| plain_array(&field.data_type, ids.len(), buffer, nulls.clone());
        match field.kind {
            FieldKind::Null => Ok(Arc::new(NullArray::new(ids.len()))),
            FieldKind::Boolean => {
                let bytes = self.read_all::<u8, NULLABLE>(field, ids);
                let bits = BooleanBuffer::collect_bool(ids.len(), |i| bytes[i] != 0);
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            FieldKind::Width1 => plain(Buffer::from_vec(self.read_all::<u8, NULLABLE>(field, ids))),
            FieldKind::Width2 | FieldKind::Float16 => {
                plain(Buffer::from_vec(self.read_all::<u16, NULLABLE>(field, ids)))
            }
            FieldKind::Width4 | FieldKind::Float32 => {
                plain(Buffer::from_vec(self.read_all::<u32, NULLABLE>(field, ids)))
            }
            FieldKind::Width8 | FieldKind::Float64 => {
                plain(Buffer::from_vec(self.read_all::<u64, NULLABLE>(field, ids)))
            }
            FieldKind::Width16 => {
                plain(Buffer::from_vec(self.read_all::<u128, NULLABLE>(field, ids)))
            }
            FieldKind::Width32 => {
                plain(Buffer::from_vec(self.read_all::<i256, NULLABLE>(field, ids)))
            }
            FieldKind::Bytes => self.gather_bytes::<NULLABLE>(field, ids, nulls),
            FieldKind::Encoded => {
                let codec = field.codec.as_ref().expect("encoded fields have a codec");
                let column = codec.decode((0..ids.len()).map(|i| {
                    let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
                    valid.then(|| self.bytes_of(field.offset, ids[i]))
                }))?;
                Ok(column)
            }
        }
    }

    /// The NULLs of the rows, or none when there are none.
    fn gather_nulls<const NULLABLE: bool>(
        &self,
        column: usize,
        ids: &[RowId],
    ) -> Option<NullBuffer> {
        let field = self.layout.field(column);
        let row_bytes = self.layout.row_bytes();
        if field.kind == FieldKind::Null {
            return None;
        }
        let stored = self.may_have_nulls(column);
        if !stored && (!NULLABLE || !ids.contains(&NO_ROW)) {
            return None;
        }
        let valid = BooleanBuffer::collect_bool(ids.len(), |i| {
            let id = ids[i];
            if NULLABLE && id == NO_ROW {
                return false;
            }
            let (page, row) = self.layout.locate(id);
            let byte: u8 = self.pages[page].rows.read(row * row_bytes + field.null_offset);
            byte & field.null_mask == 0
        });
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    #[inline]
    fn read_all<T: ArrowNativeType + Plain, const NULLABLE: bool>(
        &self,
        field: &Field,
        ids: &[RowId],
    ) -> Vec<T> {
        let (pages, shift) = (self.pages.as_slice(), self.layout.page_shift());
        let (mask, row_bytes) = ((1_u32 << shift) - 1, self.layout.row_bytes());
        let offset = field.offset;
        ids.iter()
            .map(|&id| {
                if NULLABLE && id == NO_ROW {
                    return T::default();
                }
                pages[(id >> shift) as usize].rows.read((id & mask) as usize * row_bytes + offset)
            })
            .collect()
    }

    /// The bytes of the view at `offset` of row `id`.
    #[inline]
    pub(crate) fn bytes_of(&self, offset: usize, id: RowId) -> &[u8] {
        let (page, row) = self.layout.locate(id);
        self.pages[page].bytes_at(row * self.layout.row_bytes() + offset)
    }

    fn gather_bytes<const NULLABLE: bool>(
        &self,
        field: &Field,
        ids: &[RowId],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        match &field.data_type {
            DataType::Utf8View => {
                Ok(trusted_string_views(self.gather_views::<NULLABLE>(field, ids, nulls)))
            }
            DataType::BinaryView => {
                Ok(trusted_binary_views(self.gather_views::<NULLABLE>(field, ids, nulls)))
            }
            DataType::FixedSizeBinary(width) => {
                let width = *width as usize;
                let mut values = Vec::with_capacity(width * ids.len());
                for (i, &id) in ids.iter().enumerate() {
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(i)) {
                        values.resize(values.len() + width, 0);
                    } else {
                        values.extend_from_slice(self.bytes_of(field.offset, id));
                    }
                }
                plain_array(&field.data_type, ids.len(), Buffer::from_vec(values), nulls)
            }
            _ => self.gather_offsets::<NULLABLE>(field, ids, nulls),
        }
    }

    /// Views whose long strings are copied together into as few buffers as possible.
    fn gather_views<const NULLABLE: bool>(
        &self,
        field: &Field,
        ids: &[RowId],
        nulls: Option<NullBuffer>,
    ) -> TrustedViews {
        let mut views: Vec<u128> = self.read_all::<u128, NULLABLE>(field, ids);
        let long =
            |view: u128| if view as u32 as usize > INLINE_BYTES { view as u32 as usize } else { 0 };
        let mut rest: usize = views.iter().map(|&view| long(view)).sum();
        let mut buffers: Vec<Buffer> = Vec::new();
        if rest == 0 {
            return TrustedViews { views, buffers, nulls };
        }
        let mut data: Vec<u8> = Vec::with_capacity(rest.min(MAX_BUFFER_BYTES));
        for (view, &id) in views.iter_mut().zip(ids) {
            if long(*view) == 0 {
                continue;
            }
            let page = &self.pages[(id >> self.layout.page_shift()) as usize];
            let bytes = page.long_bytes(*view);
            if data.len() + bytes.len() > MAX_BUFFER_BYTES && !data.is_empty() {
                let next = Vec::with_capacity(rest.min(MAX_BUFFER_BYTES));
                buffers.push(Buffer::from_vec(std::mem::replace(&mut data, next)));
            }
            // The length and the prefix stay, the place changes.
            let place =
                u128::from(buffers.len() as u32) << 64 | u128::from(data.len() as u32) << 96;
            *view = *view & u128::from(u64::MAX) | place;
            rest -= bytes.len();
            data.extend_from_slice(bytes);
        }
        buffers.push(Buffer::from_vec(data));
        TrustedViews { views, buffers, nulls }
    }

    fn gather_offsets<const NULLABLE: bool>(
        &self,
        field: &Field,
        ids: &[RowId],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let mut values: Vec<u8> = Vec::new();
        let mut ends: Vec<i64> = Vec::with_capacity(ids.len() + 1);
        ends.push(0);
        for &id in ids {
            if !(NULLABLE && id == NO_ROW) {
                values.extend_from_slice(self.bytes_of(field.offset, id));
            }
            ends.push(values.len() as i64);
        }
        let wide = matches!(field.data_type, DataType::LargeUtf8 | DataType::LargeBinary);
        if !wide && i32::try_from(values.len()).is_err() {
            return Err(Error::Unsupported(format!(
                "a batch with more than 2 GB of strings of type {}",
                field.data_type
            )));
        }
        let offsets = if wide {
            Buffer::from_vec(ends)
        } else {
            Buffer::from_vec(ends.into_iter().map(|end| end as i32).collect::<Vec<i32>>())
        };
        Ok(trusted_offset_bytes(TrustedOffsets {
            data_type: field.data_type.clone(),
            len: ids.len(),
            offsets,
            values: Buffer::from_vec(values),
            nulls,
        }))
    }
}

fn plain_array(
    data_type: &DataType,
    len: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(len).add_buffer(values).nulls(nulls);
    let array = make_array(data.build()?);
    debug_assert_eq!(array.len(), len);
    Ok(array)
}
