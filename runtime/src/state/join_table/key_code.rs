//! Keys as numbers: several integer-like columns become one dense code.
//!
//! The values that the build side has span a range in each column; a key is coded as its distance from the least
//! value, columns multiplied together. Invariant: two keys inside the ranges have equal codes exactly when they are
//! equal; a key outside, or one with a NULL where NULL equals nothing, has the code [`NO_CODE`]. Types that are not
//! integers of at most 128 bits underneath are refused, as are ranges whose product does not fit.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, IntervalUnit};

use crate::error::{Error, Result};

/// The code of a key that no build row has.
pub(crate) const NO_CODE: u64 = u64::MAX;

/// Codes are below this, so that products and increments cannot overflow.
const CODES_MAX: u128 = 1 << 62;

/// The integer underneath a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    /// Signed, one byte.
    I8,
    /// Signed, two bytes.
    I16,
    /// Signed, four bytes.
    I32,
    /// Signed, eight bytes.
    I64,
    /// Unsigned, one byte.
    U8,
    /// Unsigned, two bytes.
    U16,
    /// Unsigned, four bytes.
    U32,
    /// Unsigned, eight bytes.
    U64,
    /// Signed, sixteen bytes.
    I128,
}

impl CodeKind {
    /// The integer underneath a type whose equality is that of the integer; none for other types.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        Some(match data_type {
            T::Int8 => Self::I8,
            T::Int16 => Self::I16,
            T::Int32 | T::Date32 | T::Time32(_) | T::Decimal32(_, _) => Self::I32,
            T::Interval(IntervalUnit::YearMonth) => Self::I32,
            T::Int64 | T::Date64 | T::Time64(_) | T::Timestamp(_, _) | T::Duration(_) => Self::I64,
            T::Decimal64(_, _) => Self::I64,
            T::UInt8 => Self::U8,
            T::UInt16 => Self::U16,
            T::UInt32 => Self::U32,
            T::UInt64 => Self::U64,
            T::Decimal128(_, _) => Self::I128,
            _ => return None,
        })
    }
}

/// An integer that can be coded.
trait CodeValue: ArrowNativeType + Ord {
    /// The value as the widest integer.
    fn widen(self) -> i128;
    /// The distance from `base`, which has this type; wrong distances are greater than any span.
    fn distance(self, base: i128) -> u64;
}

macro_rules! code_value {
    ($($t:ty),*) => { $(
        impl CodeValue for $t {
            #[inline]
            fn widen(self) -> i128 {
                i128::from(self)
            }
            #[inline]
            #[allow(clippy::cast_lossless, reason = "one expression for all widths")]
            fn distance(self, base: i128) -> u64 {
                (self as u64).wrapping_sub(base as u64)
            }
        }
    )* };
}
code_value!(i8, i16, i32, i64, u8, u16, u32, u64);

impl CodeValue for i128 {
    #[inline]
    fn widen(self) -> i128 {
        self
    }
    #[inline]
    fn distance(self, base: i128) -> u64 {
        u64::try_from(self.wrapping_sub(base) as u128).unwrap_or(u64::MAX)
    }
}

macro_rules! dispatch_kind {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            CodeKind::I8 => {
                type $t = i8;
                $body
            }
            CodeKind::I16 => {
                type $t = i16;
                $body
            }
            CodeKind::I32 => {
                type $t = i32;
                $body
            }
            CodeKind::I64 => {
                type $t = i64;
                $body
            }
            CodeKind::U8 => {
                type $t = u8;
                $body
            }
            CodeKind::U16 => {
                type $t = u16;
                $body
            }
            CodeKind::U32 => {
                type $t = u32;
                $body
            }
            CodeKind::U64 => {
                type $t = u64;
                $body
            }
            CodeKind::I128 => {
                type $t = i128;
                $body
            }
        }
    };
}

/// The values of an integer-like array.
fn values<T: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// The range of values that a key column has, NULLs apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeySpan {
    /// Least and greatest value; none before the first.
    pub range: Option<(i128, i128)>,
    /// Whether there was a NULL.
    pub nulls: bool,
}

impl KeySpan {
    /// Takes the values of an array into account. Arrays of types without codes leave only their NULLs.
    pub fn observe(&mut self, array: &ArrayRef) {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        self.nulls |= nulls.is_some();
        let Some(kind) = CodeKind::of(array.data_type()) else { return };
        dispatch_kind!(kind, T => self.observe_values::<T>(&values::<T>(array.as_ref()), nulls.as_ref()));
    }

    fn observe_values<T: CodeValue>(&mut self, values: &[T], nulls: Option<&NullBuffer>) {
        let found = match nulls {
            None => values.iter().copied().min().zip(values.iter().copied().max()),
            Some(nulls) => nulls.valid_indices().map(|i| values[i]).fold(None, |range, v| {
                Some(range.map_or((v, v), |(min, max): (T, T)| (min.min(v), max.max(v))))
            }),
        };
        if let Some((min, max)) = found {
            self.merge(&KeySpan { range: Some((min.widen(), max.widen())), nulls: false });
        }
    }

    /// Takes what another part of the column has into account.
    pub fn merge(&mut self, other: &KeySpan) {
        self.nulls |= other.nulls;
        self.range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, none) => one.or(none),
        };
    }

    /// How many values the range has; none for an empty range or one beyond any table.
    pub fn width(&self) -> Option<u64> {
        let (min, max) = self.range?;
        let width = max.checked_sub(min)?.checked_add(1)?;
        u64::try_from(width).ok().filter(|&w| u128::from(w) <= CODES_MAX)
    }
}

/// One column of a code.
#[derive(Debug, Clone, Copy)]
struct CodeColumn {
    kind: CodeKind,
    base: i128,
    /// Greatest distance from the base.
    span: u64,
    /// Codes that the column has, NULL's included.
    width: u64,
}

/// How the keys of a build side become codes.
#[derive(Debug)]
pub(crate) struct KeyCoder {
    columns: Vec<CodeColumn>,
    null_equal: bool,
    codes: u64,
}

impl KeyCoder {
    /// The coder of columns of these types and ranges; none when they cannot be coded.
    pub(crate) fn new(types: &[DataType], spans: &[KeySpan], null_equal: bool) -> Option<Self> {
        let mut columns = Vec::with_capacity(types.len());
        let mut codes: u128 = 1;
        for (data_type, span) in types.iter().zip(spans) {
            let kind = CodeKind::of(data_type)?;
            let values = span.width()?;
            let width = values + u64::from(null_equal);
            codes = codes.checked_mul(u128::from(width)).filter(|&c| c < CODES_MAX)?;
            let base = span.range.map_or(0, |(min, _)| min);
            columns.push(CodeColumn { kind, base, span: values - 1, width });
        }
        let codes = u64::try_from(codes).ok()?;
        (!columns.is_empty()).then_some(KeyCoder { columns, null_equal, codes })
    }

    /// Codes are below this number.
    pub(crate) fn num_codes(&self) -> u64 {
        self.codes
    }

    /// The code of each row.
    ///
    /// # Errors
    /// `Internal` for columns of other types than the coder's.
    pub(crate) fn encode(&self, keys: &[ArrayRef], codes: &mut Vec<u64>) -> Result<()> {
        codes.clear();
        for (i, (column, array)) in self.columns.iter().zip(keys).enumerate() {
            if CodeKind::of(array.data_type()) != Some(column.kind) {
                return Err(Error::Internal(format!(
                    "a key of type {} was looked up in a table of {:?} keys",
                    array.data_type(),
                    column.kind
                )));
            }
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            let null_code = if self.null_equal { column.span + 1 } else { NO_CODE };
            dispatch_kind!(column.kind, T => {
                let values = values::<T>(array.as_ref());
                match &nulls {
                    None => column.code(i == 0, values.iter().map(|&v| column.part(v)), codes),
                    Some(nulls) => {
                        let parts = values.iter().enumerate().map(|(row, &v)| {
                            if nulls.is_null(row) { null_code } else { column.part(v) }
                        });
                        column.code(i == 0, parts, codes);
                    }
                }
            });
        }
        Ok(())
    }
}

impl CodeColumn {
    /// The distance of a value from the least one, or [`NO_CODE`].
    #[inline]
    fn part<T: CodeValue>(&self, value: T) -> u64 {
        let distance = value.distance(self.base);
        if distance > self.span { NO_CODE } else { distance }
    }

    /// Starts the codes with this column's parts, or extends them.
    #[inline]
    fn code(&self, first: bool, parts: impl Iterator<Item = u64>, codes: &mut Vec<u64>) {
        if first {
            codes.extend(parts);
            return;
        }
        let width = self.width;
        for (code, part) in codes.iter_mut().zip(parts) {
            let outside = part == NO_CODE || *code == NO_CODE;
            let joined = code.wrapping_mul(width).wrapping_add(part);
            *code = if outside { NO_CODE } else { joined };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int32Array, Int64Array, UInt64Array};

    use super::*;

    fn spans(keys: &[ArrayRef]) -> Vec<KeySpan> {
        keys.iter()
            .map(|key| {
                let mut span = KeySpan::default();
                span.observe(key);
                span
            })
            .collect()
    }

    fn codes(null_equal: bool, build: &[ArrayRef], probe: &[ArrayRef]) -> Vec<u64> {
        let types: Vec<_> = build.iter().map(|k| k.data_type().clone()).collect();
        let coder = KeyCoder::new(&types, &spans(build), null_equal).unwrap();
        let mut codes = Vec::new();
        coder.encode(probe, &mut codes).unwrap();
        codes
    }

    #[test]
    fn codes_are_distances_and_outside_is_no_code() {
        let build: ArrayRef = Arc::new(Int64Array::from(vec![Some(-5), None, Some(7)]));
        let probe: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(-5), Some(8), None, Some(i64::MIN), Some(7)]));
        assert_eq!(
            codes(false, std::slice::from_ref(&build), std::slice::from_ref(&probe)),
            [0, NO_CODE, NO_CODE, NO_CODE, 12]
        );
        assert_eq!(codes(true, &[build], &[probe]), [0, NO_CODE, 13, NO_CODE, 12]);
    }

    #[test]
    fn several_columns_multiply() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(3), None]));
        let b: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1, u64::MAX]));
        let found = codes(true, &[a.clone(), b.clone()], &[a, b]);
        assert_eq!(found, [1, 6, 10], "three values and NULL, two values and NULL");
    }

    #[test]
    fn wide_ranges_are_refused_and_decimals_are_not() {
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
        assert!(KeyCoder::new(&[DataType::Int64], &spans(&[wide]), false).is_none());
        let decimal = Decimal128Array::from(vec![-(1_i128 << 100), 1 - (1_i128 << 100), 5]);
        let build: ArrayRef = Arc::new(decimal.slice(0, 2));
        let probe: ArrayRef = Arc::new(decimal);
        assert_eq!(codes(false, &[build], &[probe]), [0, 1, NO_CODE]);
    }

    #[test]
    fn a_column_of_nulls_has_no_range() {
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert!(KeyCoder::new(&[DataType::Int64], &spans(&[nulls]), true).is_none());
    }
}
