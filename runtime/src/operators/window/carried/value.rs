//! Values of any type in the rows of partitions, as Arrow's row encoding.
//!
//! Invariant: a slot of no bytes is NULL.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use crate::error::{Error, Result};
use crate::rows::{RowId, StatesMut};

/// How values of a type are kept.
#[derive(Debug)]
pub(super) struct ValueCodec {
    values: RowConverter,
    null: Vec<u8>,
}

impl ValueCodec {
    /// Of values of a type.
    ///
    /// # Errors
    /// `Unsupported` for types that have no encoding.
    pub(super) fn new(data_type: &DataType) -> Result<Self> {
        let field = SortField::new(data_type.clone());
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
            return Err(Error::Unsupported(format!("keeping a value of type {data_type}")));
        }
        let values = RowConverter::new(vec![field])?;
        let null = values.convert_columns(&[new_null_array(data_type, 1)])?.row(0).data().to_vec();
        Ok(ValueCodec { values, null })
    }

    /// The values in a slot of some rows.
    pub(super) fn read(
        &self,
        states: &StatesMut<'_>,
        offset: usize,
        ids: &[RowId],
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let parser = self.values.parser();
        let rows = ids.iter().map(|&id| {
            let bytes = states.bytes(id, offset);
            parser.parse(if bytes.is_empty() { &self.null } else { bytes })
        });
        let column = self.values.convert_rows(rows)?.pop();
        let column = column.ok_or_else(|| Error::Internal("one column was encoded".into()))?;
        Ok(match column.data_type() == data_type {
            true => column,
            false => arrow::compute::cast(&column, data_type)?,
        })
    }

    /// Puts values into a slot of some rows.
    pub(super) fn write(
        &self,
        states: &mut StatesMut<'_>,
        offset: usize,
        ids: &[RowId],
        values: &ArrayRef,
    ) -> Result<()> {
        let rows = self.values.convert_columns(std::slice::from_ref(values))?;
        for (row, &id) in rows.iter().zip(ids) {
            if states.bytes(id, offset) != row.data() {
                states.set_bytes(id, offset, row.data())?;
            }
        }
        Ok(())
    }
}
