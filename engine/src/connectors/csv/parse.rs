//! From fields to arrays, a column at a time.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, NullBufferBuilder, PrimitiveArray,
    StringBuilder, StringViewBuilder,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType,
    TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use thalweg_planner::intervals;
use thalweg_runtime::Result;

use crate::connectors::text::{RecordIndex, Structure, TimestampReader, value as text};

/// The fields of one column, with what is needed to read them.
pub struct ColumnFields<'a> {
    /// The buffer that fields point into.
    pub bytes: &'a [u8],
    /// All fields of all records.
    pub records: &'a RecordIndex,
    /// Which of the records become rows.
    pub rows: Rows<'a>,
    /// Which of the fields is the column.
    pub index: usize,
    /// The bytes that structure the text.
    pub structure: Structure,
    /// Unquoted text that means NULL, beside the empty field.
    pub null: Option<&'a [u8]>,
    /// Whether the column's type was guessed from such values: then none of their digits is rounded away.
    pub guessed: bool,
}

/// Records that become rows.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// All of them.
    All,
    /// Those with these numbers, which ascend.
    Chosen(&'a [u32]),
}

/// A row whose value is not of the column's type, by its place in the column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow(pub usize);

impl ColumnFields<'_> {
    fn rows(&self) -> usize {
        match self.rows {
            Rows::All => self.records.len(),
            Rows::Chosen(rows) => rows.len(),
        }
    }

    /// Calls `f` with the row and the value of every field; NULL is `None`.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, Option<&[u8]>)) {
        let mut scratch = Vec::new();
        match self.rows {
            Rows::All => {
                (0..self.records.len()).for_each(|row| f(row, self.value(row, &mut scratch)));
            }
            Rows::Chosen(rows) => {
                let rows = rows.iter().enumerate();
                rows.for_each(|(row, &record)| f(row, self.value(record as usize, &mut scratch)));
            }
        }
    }

    /// The value that a record has; NULL is `None`.
    #[inline(always)]
    fn value<'v>(&'v self, record: usize, scratch: &'v mut Vec<u8>) -> Option<&'v [u8]> {
        let (start, end) = self.records.field(record, self.index);
        let raw = &self.bytes[start..end];
        match raw.first() {
            None => None,
            Some(first) if self.structure.quote == Some(*first) => {
                Some(self.structure.value(raw, scratch))
            }
            Some(_) if self.null == Some(raw) => None,
            Some(_) => Some(raw),
        }
    }

    /// The column as an array; rows that cannot be read are NULL in it and listed.
    pub fn parse(&self, data_type: &DataType) -> Result<(ArrayRef, Vec<BadRow>)> {
        match data_type {
            DataType::Utf8View => Ok(self.text()),
            DataType::Int64 => Ok(self.primitive::<Int64Type>(text::integer)),
            DataType::Float64 => Ok(self.primitive::<Float64Type>(text::double)),
            DataType::Date32 => Ok(self.date()),
            DataType::Boolean => Ok(self.boolean()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Ok(self.timestamp(None)),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => {
                Ok(self.timestamp(Some(zone)))
            }
            DataType::Int8 => Ok(self.primitive::<Int8Type>(|b| text::integer(b)?.try_into().ok())),
            DataType::Int16 => {
                Ok(self.primitive::<Int16Type>(|b| text::integer(b)?.try_into().ok()))
            }
            DataType::Int32 => {
                Ok(self.primitive::<Int32Type>(|b| text::integer(b)?.try_into().ok()))
            }
            DataType::UInt8 => {
                Ok(self.primitive::<UInt8Type>(|b| text::integer(b)?.try_into().ok()))
            }
            DataType::UInt16 => {
                Ok(self.primitive::<UInt16Type>(|b| text::integer(b)?.try_into().ok()))
            }
            DataType::UInt32 => {
                Ok(self.primitive::<UInt32Type>(|b| text::integer(b)?.try_into().ok()))
            }
            DataType::UInt64 => Ok(self.primitive::<UInt64Type>(text::unsigned)),
            DataType::Float32 => {
                Ok(self.primitive::<Float32Type>(|b| text::double(b).map(|v| v as f32)))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                self.binary(data_type)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => Ok(self.interval()),
            DataType::Decimal128(precision, scale) if self.guessed => {
                let (array, bad) =
                    self.primitive::<Decimal128Type>(|b| text::decimal(b, *precision, *scale));
                let array = array.as_primitive::<Decimal128Type>().clone();
                Ok((Arc::new(array.with_precision_and_scale(*precision, *scale)?), bad))
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                Ok(self.primitive::<Time64NanosecondType>(text::time))
            }
            other => self.by_cast(other),
        }
    }

    fn text(&self) -> (ArrayRef, Vec<BadRow>) {
        let mut builder = StringViewBuilder::with_capacity(self.rows());
        let mut bad = Vec::new();
        self.each(|row, value| match value.map(std::str::from_utf8) {
            Some(Ok(value)) => builder.append_value(value),
            Some(Err(_)) => {
                bad.push(BadRow(row));
                builder.append_null();
            }
            None => builder.append_null(),
        });
        (Arc::new(builder.finish()), bad)
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        parse: impl FnMut(&[u8]) -> Option<T::Native>,
    ) -> (ArrayRef, Vec<BadRow>) {
        let (array, bad) = self.values::<T>(parse);
        (Arc::new(array), bad)
    }

    fn values<T: ArrowPrimitiveType>(
        &self,
        mut parse: impl FnMut(&[u8]) -> Option<T::Native>,
    ) -> (PrimitiveArray<T>, Vec<BadRow>) {
        let mut values = Vec::with_capacity(self.rows());
        let mut nulls = NullBufferBuilder::new(self.rows());
        let mut bad = Vec::new();
        self.each(|row, value| {
            let parsed = value.and_then(&mut parse);
            if parsed.is_none() && is_bad(value) {
                bad.push(BadRow(row));
            }
            nulls.append(parsed.is_some());
            values.push(parsed.unwrap_or_default());
        });
        (PrimitiveArray::new(values.into(), nulls.finish()), bad)
    }

    fn interval(&self) -> (ArrayRef, Vec<BadRow>) {
        self.primitive::<IntervalMonthDayNanoType>(|text| {
            intervals::parse(std::str::from_utf8(text).ok()?)
        })
    }

    fn date(&self) -> (ArrayRef, Vec<BadRow>) {
        self.primitive::<Date32Type>(text::date)
    }

    fn timestamp(&self, zone: Option<&Arc<str>>) -> (ArrayRef, Vec<BadRow>) {
        let mut reader = TimestampReader::default();
        let (array, bad) = self.values::<TimestampMicrosecondType>(|text| reader.read(text));
        match zone {
            Some(zone) => (Arc::new(array.with_timezone(zone.clone())), bad),
            None => (Arc::new(array), bad),
        }
    }

    fn boolean(&self) -> (ArrayRef, Vec<BadRow>) {
        let mut builder = BooleanBuilder::with_capacity(self.rows());
        let mut bad = Vec::new();
        self.each(|row, value| {
            let parsed = value.and_then(text::boolean);
            if parsed.is_none() && is_bad(value) {
                bad.push(BadRow(row));
            }
            builder.append_option(parsed);
        });
        (Arc::new(builder.finish()), bad)
    }

    fn binary(&self, data_type: &DataType) -> Result<(ArrayRef, Vec<BadRow>)> {
        let mut builder = BinaryViewBuilder::with_capacity(self.rows());
        let mut bad = Vec::new();
        self.each(|row, value| match value.map(text::binary) {
            Some(Some(value)) => builder.append_value(value),
            Some(None) => {
                bad.push(BadRow(row));
                builder.append_null();
            }
            None => builder.append_null(),
        });
        Ok((arrow::compute::cast(&builder.finish(), data_type)?, bad))
    }

    /// Types that are rare in text go through Arrow's casts.
    fn by_cast(&self, data_type: &DataType) -> Result<(ArrayRef, Vec<BadRow>)> {
        let mut builder = StringBuilder::with_capacity(self.rows(), 0);
        let mut bad = Vec::new();
        self.each(|row, value| match value.map(std::str::from_utf8) {
            Some(Ok(value)) => builder.append_value(value.trim()),
            Some(Err(_)) => {
                bad.push(BadRow(row));
                builder.append_null();
            }
            None => builder.append_null(),
        });
        let strings = builder.finish();
        let array = cast_with_options(&strings, data_type, &CastOptions::default())?;
        let failed = (0..strings.len()).filter(|&row| {
            array.is_null(row) && strings.is_valid(row) && !strings.value(row).is_empty()
        });
        bad.extend(failed.map(BadRow));
        Ok((array, bad))
    }
}

/// Only white space is no value, for all types but text.
fn is_bad(value: Option<&[u8]>) -> bool {
    value.is_some_and(|v| !v.trim_ascii().is_empty())
}
