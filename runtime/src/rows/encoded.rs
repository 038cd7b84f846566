//! Values of nested types, and intervals, as byte strings.
//!
//! A column of such a type is kept as Arrow's row encoding of it. Invariant: for types without floats and intervals,
//! equal bytes are equal values; with them inside, only encodings of canonical values compare. Encodings come back as
//! the same array, floats bit by bit.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};

use super::canonical::{canonical_key, has_forms, unpack};
use crate::error::{Error, Result};

/// Encodes and decodes one such type.
#[derive(Debug)]
pub(crate) struct EncodedCodec {
    converter: RowConverter,
    null: Vec<u8>,
    /// Whether values must be made canonical before their encodings compare.
    pub(crate) has_forms: bool,
}

impl EncodedCodec {
    /// The codec of an unpacked type.
    pub(crate) fn new(data_type: &DataType) -> Result<Self> {
        let field = SortField::new(data_type.clone());
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
            return Err(Error::Unsupported(format!("keeping values of type {data_type} in rows")));
        }
        let converter = RowConverter::new(vec![field])?;
        let null = converter.convert_columns(&[new_null_array(data_type, 1)])?;
        let null = null.row(0).data().to_vec();
        Ok(Self { converter, null, has_forms: has_forms(data_type) })
    }

    /// The encodings of an array's values as they are.
    pub(crate) fn encode(&self, array: &ArrayRef) -> Result<Rows> {
        Ok(self.converter.convert_columns(&[unpack(array)?])?)
    }

    /// The encodings of an array's canonical values.
    pub(crate) fn encode_canonical(&self, array: &ArrayRef) -> Result<Rows> {
        Ok(self.converter.convert_columns(&[canonical_key(array)?])?)
    }

    /// The array of encoded values; none is NULL.
    pub(crate) fn decode<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let null: &[u8] = &self.null;
        // Values share no lifetime with the codec, hence a vector of them instead of a chained iterator.
        let encoded: Vec<&[u8]> = values.map(|value| value.unwrap_or(null)).collect();
        let rows = encoded.iter().map(|bytes| parser.parse(bytes));
        let mut columns = self.converter.convert_rows(rows)?;
        let column = columns.pop().expect("a converter of one field yields one column");
        debug_assert!(column.len() == encoded.len(), "one value a row");
        Ok(column)
    }
}
