//! Scatter: columns into rows.
//!
//! Columns are written one after another into the rows of one page, then the next page. Invariant: the row count of
//! a page grows only after all its columns are written, and a failed append takes back what it had written.

use std::mem::{align_of, size_of};
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, downcast_primitive_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, i256};

use super::bytes::{BytesSource, dispatch_bytes};
use super::canonical::unpack;
use super::layout::{Field, FieldKind, RowId};
use super::page::{RowPage, null_column_bit};
use super::selected::{Part, Selected};
use super::store::RowStore;
use crate::error::{Error, Result};
use crate::memory::{Plain, Reservation};

/// Rows are written in blocks of about this size, so that all columns find them in the nearest cache.
const BLOCK_BYTES: usize = 16 << 10;
const MIN_BLOCK_ROWS: usize = 64;

/// The values of a fixed-width array as plain numbers of that width.
pub(crate) fn plain_values<T: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<T> {
    let mut buffer = downcast_primitive_array!(
        array => array.values().inner().clone(),
        _ => {
            let data = array.to_data();
            let (start, len) = (data.offset() * size_of::<T>(), data.len() * size_of::<T>());
            data.buffers()[0].slice_with_length(start, len)
        }
    );
    if buffer.as_ptr().align_offset(align_of::<T>()) != 0 {
        // Foreign memory may be aligned to less than the width.
        buffer = Buffer::from(buffer.as_slice());
    }
    ScalarBuffer::from(buffer)
}

/// Where consecutive rows of a page begin: the offset of the first row, and the distance between rows.
#[derive(Clone, Copy)]
struct Target {
    start: usize,
    row_bytes: usize,
}

impl RowStore {
    /// Appends the selected rows of `columns`, one column a field; returns their ids. States start as zeros.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` for columns that do not fit the layout. Nothing is appended then.
    pub fn append(&mut self, columns: &[ArrayRef], rows: Selected<'_>) -> Result<Range<RowId>> {
        let layout = self.layout().clone();
        if columns.len() != layout.num_fields() {
            return Err(layout.mismatch(layout.num_fields(), columns.len()));
        }
        let columns: Vec<ArrayRef> = columns.iter().map(unpack).collect::<Result<_>>()?;
        let first = self.next_id();
        let appended = self.append_unpacked(&columns, rows);
        if let Err(error) = appended {
            self.truncate(first);
            return Err(error);
        }
        Ok(first..first + rows.len() as RowId)
    }

    fn append_unpacked(&mut self, columns: &[ArrayRef], rows: Selected<'_>) -> Result<()> {
        let layout = self.layout().clone();
        let with_nulls =
            |column: &ArrayRef| column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let nulls: Vec<Option<NullBuffer>> = columns.iter().map(with_nulls).collect();
        let block_rows = (BLOCK_BYTES / layout.row_bytes()).max(MIN_BLOCK_ROWS);
        let mut done = 0;
        while done < rows.len() {
            let (page_index, room) = self.page_with_room(rows.len() - done)?;
            let room = room.min(block_rows);
            let part = rows.part(done..done + room);
            let page = &mut self.pages[page_index];
            let target =
                Target { start: page.len() * layout.row_bytes(), row_bytes: layout.row_bytes() };
            clear_tail(page, target, layout.null_range(), room);
            clear_tail(page, target, layout.state_range(), room);
            for (i, (field, column)) in layout.fields().iter().zip(columns).enumerate() {
                let nulls = nulls[i].as_ref();
                if let Some(nulls) = nulls {
                    page.null_columns |= null_column_bit(i);
                    write_nulls(page, target, field, nulls, &part);
                }
                write_column(page, target, field, column, nulls, &part, &self.reservation)?;
            }
            page.len += room as u32;
            self.null_columns |= page.null_columns;
            self.rows += room;
            done += room;
        }
        Ok(())
    }
}

/// Zeroes a range of each of `rows` rows.
fn clear_tail(page: &mut RowPage, target: Target, (offset, bytes): (usize, usize), rows: usize) {
    let start = target.start + offset;
    match bytes {
        0 => {}
        1 => page.rows.write_strided(start, target.row_bytes, (0..rows).map(|_| 0_u8)),
        8 => page.rows.write_strided(start, target.row_bytes, (0..rows).map(|_| 0_u64)),
        _ => {
            let slice = page.rows.as_mut_slice();
            for row in 0..rows {
                let at = start + row * target.row_bytes;
                slice[at..at + bytes].fill(0);
            }
        }
    }
}

fn write_nulls(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    nulls: &NullBuffer,
    part: &Part<'_>,
) {
    let slice = page.rows.as_mut_slice();
    part.for_each(|n, row| {
        let bit = if nulls.is_null(row) { field.null_mask } else { 0 };
        slice[target.start + n * target.row_bytes + field.null_offset] |= bit;
    });
}

fn write_column(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    column: &ArrayRef,
    nulls: Option<&NullBuffer>,
    part: &Part<'_>,
    reservation: &Reservation,
) -> Result<()> {
    let kind = FieldKind::of(column.data_type());
    if kind != field.kind {
        return Err(Error::Internal(format!(
            "a column of type {} was given for a field of type {}",
            column.data_type(),
            field.data_type
        )));
    }
    match kind {
        FieldKind::Null => Ok(()),
        FieldKind::Boolean => write_booleans(page, target, field, column, part),
        FieldKind::Width1 => write_plain::<u8>(page, target, field, column, part),
        FieldKind::Width2 | FieldKind::Float16 => {
            write_plain::<u16>(page, target, field, column, part)
        }
        FieldKind::Width4 | FieldKind::Float32 => {
            write_plain::<u32>(page, target, field, column, part)
        }
        FieldKind::Width8 | FieldKind::Float64 => {
            write_plain::<u64>(page, target, field, column, part)
        }
        FieldKind::Width16 => write_plain::<u128>(page, target, field, column, part),
        FieldKind::Width32 => write_plain::<i256>(page, target, field, column, part),
        FieldKind::Bytes => dispatch_bytes!(column, source => {
            write_bytes(page, target, field, source, nulls, part, reservation)
        }),
        FieldKind::Encoded => write_encoded(page, target, field, column, nulls, part, reservation),
    }
}

fn write_plain<T: ArrowNativeType + Plain>(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    column: &ArrayRef,
    part: &Part<'_>,
) -> Result<()> {
    let values: &[T] = &plain_values(column.as_ref());
    let start = target.start + field.offset;
    match part {
        Part::Range(range) => {
            let values = values[range.clone()].iter().copied();
            page.rows.write_strided(start, target.row_bytes, values);
        }
        Part::Rows(rows) => {
            let values = rows.iter().map(|&row| values[row as usize]);
            page.rows.write_strided(start, target.row_bytes, values);
        }
    }
    Ok(())
}

fn write_booleans(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    column: &ArrayRef,
    part: &Part<'_>,
) -> Result<()> {
    let values = column.as_boolean().values();
    let start = target.start + field.offset;
    let slice = page.rows.as_mut_slice();
    part.for_each(|n, row| slice[start + n * target.row_bytes] = u8::from(values.value(row)));
    Ok(())
}

fn write_bytes(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    source: impl BytesSource,
    nulls: Option<&NullBuffer>,
    part: &Part<'_>,
    reservation: &Reservation,
) -> Result<()> {
    let start = target.start + field.offset;
    part.try_for_each(|n, row| {
        let view = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            0
        } else {
            match source.inline(row) {
                Some(view) => view,
                None => page.store_bytes(source.bytes(row), reservation)?,
            }
        };
        page.rows.write(start + n * target.row_bytes, view);
        Ok(())
    })
}

fn write_encoded(
    page: &mut RowPage,
    target: Target,
    field: &Field,
    column: &ArrayRef,
    nulls: Option<&NullBuffer>,
    part: &Part<'_>,
    reservation: &Reservation,
) -> Result<()> {
    let codec = field.codec.as_ref().expect("encoded fields have a codec");
    let selected = match part {
        Part::Range(range) => column.slice(range.start, range.len()),
        Part::Rows(rows) => take(column, &arrow::array::UInt32Array::from(rows.to_vec()), None)?,
    };
    let encoded = codec.encode(&selected)?;
    let start = target.start + field.offset;
    part.try_for_each(|n, row| {
        let view = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            0
        } else {
            page.store_bytes(encoded.row(n).data(), reservation)?
        };
        page.rows.write(start + n * target.row_bytes, view);
        Ok(())
    })
}
