//! Compare: columns against rows, narrowing a list of candidates column by column.
//!
//! Invariant: values are equal as the engine's `=` says (−0.0 equals 0.0, NaNs equal each other), and NULL equals
//! NULL only where the caller asks for it. The order of the candidates is kept.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, i256};

use super::append::plain_values;
use super::bytes::{BytesSource, dispatch_bytes};
use super::canonical::{canonical_f16, canonical_f32, canonical_f64, unpack};
use super::layout::{Field, FieldKind, RowId};
use super::store::RowStore;
use crate::error::{Error, Result};
use crate::memory::Plain;

/// Stores beyond this many bytes are worth a prefetch.
pub(crate) const FAR_BYTES: usize = 256 << 10;

/// Pairs to compare: row `rows[i]` of the columns with row `ids[i]` of the store.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// Positions in the columns.
    pub rows: &'a [u32],
    /// Rows of the store.
    pub ids: &'a [RowId],
}

impl RowStore {
    /// Keeps those of `matches` (positions in `pairs`) whose values in all columns equal the store's fields of the
    /// same number. `null_equal[c]` says whether NULL equals NULL in column `c`; an empty slice means nowhere.
    ///
    /// # Errors
    /// `Internal` for columns that do not fit the fields.
    pub fn compare(
        &self,
        columns: &[ArrayRef],
        pairs: Pairs<'_>,
        null_equal: &[bool],
        matches: &mut Vec<u32>,
    ) -> Result<()> {
        for (i, column) in columns.iter().enumerate() {
            if matches.is_empty() {
                break;
            }
            let null_equal = null_equal.get(i).copied().unwrap_or(false);
            self.compare_column(i, &unpack(column)?, pairs, null_equal, matches)?;
        }
        Ok(())
    }

    fn compare_column(
        &self,
        index: usize,
        column: &ArrayRef,
        pairs: Pairs<'_>,
        null_equal: bool,
        matches: &mut Vec<u32>,
    ) -> Result<()> {
        let field = self.layout.field(index);
        let kind = FieldKind::of(column.data_type());
        if kind != field.kind {
            return Err(Error::Internal(format!(
                "a key of type {} was compared with rows of type {}",
                column.data_type(),
                field.data_type
            )));
        }
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let cx = Column {
            store: self,
            field,
            pairs,
            null_equal,
            stored: self.may_have_nulls(index),
            nulls,
        };
        match kind {
            FieldKind::Null => {
                if !null_equal {
                    matches.clear();
                }
            }
            FieldKind::Boolean => {
                let values = column.as_boolean().values();
                cx.narrow(matches, |row, page, at| {
                    u8::from(values.value(row)) == self.pages[page].rows.read::<u8>(at)
                });
            }
            FieldKind::Width1 => cx.narrow_plain::<u8>(column, matches, |a, b| a == b),
            FieldKind::Width2 => cx.narrow_plain::<u16>(column, matches, |a, b| a == b),
            FieldKind::Width4 => cx.narrow_plain::<u32>(column, matches, |a, b| a == b),
            FieldKind::Width8 => cx.narrow_plain::<u64>(column, matches, |a, b| a == b),
            FieldKind::Width16 => cx.narrow_plain::<u128>(column, matches, |a, b| a == b),
            FieldKind::Width32 => cx.narrow_plain::<i256>(column, matches, |a, b| a == b),
            FieldKind::Float16 => {
                cx.narrow_plain::<u16>(column, matches, |a, b| canonical_f16(a) == canonical_f16(b))
            }
            FieldKind::Float32 => cx.narrow_plain::<u32>(column, matches, |a, b| {
                canonical_f32(f32::from_bits(a)) == canonical_f32(f32::from_bits(b))
            }),
            FieldKind::Float64 => cx.narrow_plain::<u64>(column, matches, |a, b| {
                canonical_f64(f64::from_bits(a)) == canonical_f64(f64::from_bits(b))
            }),
            FieldKind::Bytes => {
                dispatch_bytes!(column, source => {
                    cx.narrow_bytes(&source, matches);
                    Ok(())
                })?;
            }
            FieldKind::Encoded => cx.narrow_encoded(column, matches)?,
        }
        Ok(())
    }
}

/// One column of a comparison.
struct Column<'a> {
    store: &'a RowStore,
    field: &'a Field,
    pairs: Pairs<'a>,
    null_equal: bool,
    /// Whether the store may have NULLs in the field.
    stored: bool,
    nulls: Option<NullBuffer>,
}

impl Column<'_> {
    /// Keeps the matches for which both values are NULL and may be, or neither is and `equal(row, page, byte in
    /// page)` holds.
    #[inline]
    fn narrow(&self, matches: &mut Vec<u32>, equal: impl Fn(usize, usize, usize) -> bool) {
        if self.stored || self.nulls.is_some() {
            self.retain(matches, |row, page, start| {
                let byte: u8 = self.store.pages[page].rows.read(start + self.field.null_offset);
                let stored = byte & self.field.null_mask != 0;
                let given = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                if stored || given {
                    stored && given && self.null_equal
                } else {
                    equal(row, page, start + self.field.offset)
                }
            });
        } else {
            self.retain(matches, |row, page, start| equal(row, page, start + self.field.offset));
        }
    }

    /// Keeps the matches that `keep(row, page, start of the row in the page)` tells to, without a branch by match.
    #[inline]
    fn retain(&self, matches: &mut Vec<u32>, keep: impl Fn(usize, usize, usize) -> bool) {
        let (shift, row_bytes) = (self.store.layout.page_shift(), self.store.layout.row_bytes());
        let mask = (1_u32 << shift) - 1;
        let mut kept = 0;
        for i in 0..matches.len() {
            let pair = matches[i];
            let (row, id) = (self.pairs.rows[pair as usize], self.pairs.ids[pair as usize]);
            matches[kept] = pair;
            let start = (id & mask) as usize * row_bytes;
            kept += usize::from(keep(row as usize, (id >> shift) as usize, start));
        }
        matches.truncate(kept);
    }

    #[inline]
    fn narrow_plain<T: ArrowNativeType + Plain>(
        &self,
        column: &ArrayRef,
        matches: &mut Vec<u32>,
        equal: impl Fn(T, T) -> bool,
    ) {
        let values: &[T] = &plain_values(column.as_ref());
        self.narrow(matches, |row, page, at| {
            equal(values[row], self.store.pages[page].rows.read(at))
        });
    }

    fn narrow_bytes(&self, source: &impl BytesSource, matches: &mut Vec<u32>) {
        if self.store.memory_bytes_at_least(FAR_BYTES) {
            self.prefetch_heap(matches);
        }
        self.narrow(matches, |row, page, at| {
            let page = &self.store.pages[page];
            match source.inline(row) {
                Some(view) => view == page.rows.read::<u128>(at),
                None => {
                    let (given, view) = (source.bytes(row), page.rows.read::<u128>(at));
                    // Strings of equal length are both longer than a view holds.
                    given.len() == view as u32 as usize && given == page.long_bytes(view)
                }
            }
        });
    }

    /// Brings the long strings of all matches near, so that their comparisons do not wait one by one.
    fn prefetch_heap(&self, matches: &[u32]) {
        for &pair in matches {
            let (page, row) = self.store.layout.locate(self.pairs.ids[pair as usize]);
            let page = &self.store.pages[page];
            page.prefetch_bytes(row * self.store.layout.row_bytes() + self.field.offset);
        }
    }

    fn narrow_encoded(&self, column: &ArrayRef, matches: &mut Vec<u32>) -> Result<()> {
        let codec = self.field.codec.as_ref().expect("encoded fields have a codec");
        let bytes_of = |id: RowId| self.store.bytes_of(self.field.offset, id);
        if !codec.has_forms {
            let encoded = codec.encode(column)?;
            self.narrow(matches, |row, page, at| {
                encoded.row(row).data() == self.store.pages[page].bytes_at(at)
            });
            return Ok(());
        }
        // Stored encodings keep −0.0 and NaNs apart: both sides are made canonical first.
        let rows = matches.iter().map(|&pair| self.pairs.rows[pair as usize]);
        let rows = arrow::array::UInt32Array::from_iter_values(rows);
        let given = codec.encode_canonical(&take(column, &rows, None)?)?;
        let ids = matches.iter().map(|&pair| self.pairs.ids[pair as usize]);
        let decoded = codec.decode(ids.map(|id| {
            let bytes = bytes_of(id);
            (!bytes.is_empty()).then_some(bytes)
        }))?;
        let stored = codec.encode_canonical(&decoded)?;
        let is_null = |i: usize| {
            decoded.is_null(i)
                || self.nulls.as_ref().is_some_and(|n| n.is_null(rows.value(i) as usize))
        };
        let mut number = 0;
        matches.retain(|_| {
            let i = number;
            number += 1;
            (self.null_equal || !is_null(i)) && given.row(i).data() == stored.row(i).data()
        });
        Ok(())
    }
}
