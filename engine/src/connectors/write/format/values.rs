//! A column ready to be written cell by cell.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Float32Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, StringViewArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thalweg_planner::is_jsonb;
use thalweg_runtime::Result;

use super::json::write_json_string;
use super::number::{write_decimal, write_double, write_integer, write_real, write_unsigned};
use super::time::{write_date, write_interval, write_time, write_timestamp};

/// The values of a column, in the form from which they are written.
pub struct Values {
    nulls: Option<NullBuffer>,
    kind: Kind,
}

enum Kind {
    Null,
    Boolean(BooleanArray),
    Integer(Int64Array),
    Unsigned(UInt64Array),
    Real(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array, i8),
    Text(StringViewArray),
    Binary(BinaryViewArray),
    Date(Int64Array),
    Timestamp {
        ticks: Int64Array,
        per_second: i64,
        utc: bool,
    },
    Time {
        ticks: Int64Array,
        per_second: i64,
    },
    Interval(IntervalMonthDayNanoArray),
    /// Offsets into the items.
    List(Vec<usize>, Vec<usize>, Box<Values>),
    Struct(Vec<(String, Values)>),
    /// The texts of JSON documents.
    Document(StringViewArray),
    Map {
        starts: Vec<usize>,
        ends: Vec<usize>,
        keys: Box<Values>,
        values: Box<Values>,
    },
    /// Types that are rare: Arrow's own text form.
    Other(ArrayRef),
}

impl Values {
    /// Prepares a column; types that are written alike are brought together here.
    pub fn new(array: &ArrayRef) -> Result<Self> {
        let kind = kind_of(array)?;
        Ok(Values { nulls: array.logical_nulls(), kind })
    }

    /// Whether a value is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|n| n.is_null(row))
    }

    /// Whether the text form of a value may need quoting in delimited text.
    pub(super) fn is_free_text(&self) -> bool {
        match &self.kind {
            Kind::Text(_)
            | Kind::List(..)
            | Kind::Struct(_)
            | Kind::Document(_)
            | Kind::Map { .. }
            | Kind::Other(_) => true,
            Kind::Null
            | Kind::Boolean(_)
            | Kind::Integer(_)
            | Kind::Unsigned(_)
            | Kind::Real(_)
            | Kind::Double(_)
            | Kind::Decimal(..)
            | Kind::Binary(_)
            | Kind::Date(_)
            | Kind::Timestamp { .. }
            | Kind::Time { .. }
            | Kind::Interval(_) => false,
        }
    }

    /// Writes the text form of a value; nothing for NULL.
    pub fn write_text(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return;
        }
        match &self.kind {
            Kind::Null => {}
            Kind::Boolean(a) => {
                out.extend_from_slice(if a.value(row) { b"true" } else { b"false" })
            }
            Kind::Integer(a) => write_integer(a.value(row), out),
            Kind::Unsigned(a) => write_unsigned(a.value(row), out),
            Kind::Real(a) => write_real(a.value(row), out),
            Kind::Double(a) => write_double(a.value(row), out),
            Kind::Decimal(a, scale) => write_decimal(a.value(row), *scale, out),
            Kind::Text(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Kind::Binary(a) => write_hex(a.value(row), out),
            Kind::Date(a) => write_date(a.value(row), out),
            Kind::Timestamp { ticks, per_second, utc } => {
                write_timestamp(ticks.value(row), *per_second, *utc, out);
            }
            Kind::Time { ticks, per_second } => write_time(ticks.value(row), *per_second, out),
            Kind::Interval(a) => {
                write_interval(a.value(row), out);
            }
            Kind::List(..) | Kind::Struct(_) | Kind::Map { .. } => self.write_json(row, out),
            Kind::Document(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Kind::Other(a) => out.extend_from_slice(arrow_text(a, row).as_bytes()),
        }
    }

    /// Writes a value as JSON: numbers and decimals as numbers, `null` for NULL, everything without a form of its
    /// own as a string.
    pub fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.kind {
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::Boolean(_) | Kind::Integer(_) | Kind::Unsigned(_) | Kind::Decimal(..) => {
                self.write_text(row, out);
            }
            Kind::Double(a) if a.value(row).is_finite() => self.write_text(row, out),
            Kind::Real(a) if a.value(row).is_finite() => self.write_text(row, out),
            Kind::Text(a) => write_json_string(a.value(row), out),
            Kind::Document(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Kind::List(starts, ends, items) => {
                write_sequence((b'[', b']'), starts[row]..ends[row], out, |i, out| {
                    items.write_json(i, out)
                });
            }
            Kind::Struct(fields) => {
                write_sequence((b'{', b'}'), 0..fields.len(), out, |i, out| {
                    let (name, values) = &fields[i];
                    write_json_string(name, out);
                    out.push(b':');
                    values.write_json(row, out);
                });
            }
            Kind::Map { starts, ends, keys, values } => {
                write_sequence((b'{', b'}'), starts[row]..ends[row], out, |i, out| {
                    let mut key = Vec::new();
                    keys.write_text(i, &mut key);
                    write_json_string(&String::from_utf8_lossy(&key), out);
                    out.push(b':');
                    values.write_json(i, out);
                });
            }
            Kind::Double(_)
            | Kind::Real(_)
            | Kind::Binary(_)
            | Kind::Date(_)
            | Kind::Timestamp { .. }
            | Kind::Time { .. }
            | Kind::Interval(_)
            | Kind::Other(_) => {
                let mut text = Vec::new();
                self.write_text(row, &mut text);
                write_json_string(&String::from_utf8_lossy(&text), out);
            }
        }
    }
}

fn write_sequence(
    (open, close): (u8, u8),
    range: std::ops::Range<usize>,
    out: &mut Vec<u8>,
    mut item: impl FnMut(usize, &mut Vec<u8>),
) {
    out.push(open);
    for (n, i) in range.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        item(i, out);
    }
    out.push(close);
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn arrow_text(array: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    match ArrayFormatter::try_new(array.as_ref(), &options) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(error) => error.to_string(),
    }
}

fn kind_of(array: &ArrayRef) -> Result<Kind> {
    let integers = |a: &ArrayRef| -> Result<Int64Array> {
        Ok(cast(a, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    };
    Ok(match array.data_type() {
        DataType::Null => Kind::Null,
        DataType::Boolean => Kind::Boolean(array.as_boolean().clone()),
        DataType::UInt64 => Kind::Unsigned(array.as_primitive::<UInt64Type>().clone()),
        t if t.is_integer() => Kind::Integer(integers(array)?),
        DataType::Float16 | DataType::Float32 => {
            Kind::Real(cast(array, &DataType::Float32)?.as_primitive::<Float32Type>().clone())
        }
        DataType::Float64 => Kind::Double(array.as_primitive::<Float64Type>().clone()),
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => {
            let wide = cast(array, &DataType::Decimal128(38, *s))?;
            Kind::Decimal(wide.as_primitive::<Decimal128Type>().clone(), *s)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Kind::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone())
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            Kind::Binary(cast(array, &DataType::BinaryView)?.as_binary_view().clone())
        }
        DataType::Date32 => Kind::Date(integers(&cast(array, &DataType::Int32)?)?),
        DataType::Date64 => {
            Kind::Timestamp { ticks: integers(array)?, per_second: 1_000, utc: false }
        }
        DataType::Timestamp(unit, zone) => Kind::Timestamp {
            ticks: integers(array)?,
            per_second: ticks_per_second(*unit),
            utc: zone.is_some(),
        },
        DataType::Time32(unit) => {
            let ticks = integers(&cast(array, &DataType::Int32)?)?;
            Kind::Time { ticks, per_second: ticks_per_second(*unit) }
        }
        DataType::Time64(unit) => {
            Kind::Time { ticks: integers(array)?, per_second: ticks_per_second(*unit) }
        }
        DataType::Duration(_) => {
            let nanoseconds = integers(&cast(array, &DataType::Duration(TimeUnit::Nanosecond))?)?;
            let interval = |nanoseconds| IntervalMonthDayNano { months: 0, days: 0, nanoseconds };
            Kind::Interval(nanoseconds.unary(interval))
        }
        DataType::Interval(_) => {
            let whole = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            Kind::Interval(whole.as_primitive::<IntervalMonthDayNanoType>().clone())
        }
        DataType::Dictionary(_, value) => kind_of(&cast(array, value)?)?,
        DataType::RunEndEncoded(_, value) => kind_of(&cast(array, value.data_type())?)?,
        _ => return nested_kind(array),
    })
}

fn nested_kind(array: &ArrayRef) -> Result<Kind> {
    let ranges = |offsets: &mut dyn Iterator<Item = usize>| {
        let offsets: Vec<usize> = offsets.collect();
        (offsets[..offsets.len() - 1].to_vec(), offsets[1..].to_vec())
    };
    Ok(match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (starts, ends) = ranges(&mut list.offsets().iter().map(|o| *o as usize));
            Kind::List(starts, ends, Box::new(Values::new(list.values())?))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (starts, ends) = ranges(&mut list.offsets().iter().map(|o| *o as usize));
            Kind::List(starts, ends, Box::new(Values::new(list.values())?))
        }
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let size = usize::try_from(*size).unwrap_or(0);
            let (starts, ends) = ranges(&mut (0..=list.len()).map(|row| row * size));
            Kind::List(starts, ends, Box::new(Values::new(list.values())?))
        }
        jsonb if is_jsonb(jsonb) => {
            let texts = cast(array.as_struct().column(0), &DataType::Utf8View)?;
            Kind::Document(texts.as_string_view().clone())
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let named = fields.iter().zip(columns);
            Kind::Struct(
                named
                    .map(|(f, c)| Ok((f.name().clone(), Values::new(c)?)))
                    .collect::<Result<_>>()?,
            )
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (starts, ends) = ranges(&mut map.offsets().iter().map(|o| *o as usize));
            let keys = Box::new(Values::new(map.keys())?);
            Kind::Map { starts, ends, keys, values: Box::new(Values::new(map.values())?) }
        }
        _ => Kind::Other(Arc::clone(array)),
    })
}

fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
