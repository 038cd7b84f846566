//! Values as SQL literals, nested ones as constructors: what our own parser reads back as the same values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};

use thalweg_planner::is_jsonb;

use crate::connectors::write::format::Values;
use crate::error::Result;

/// A column ready to be written as literals.
pub(super) struct Literals {
    nulls: Option<NullBuffer>,
    kind: Kind,
}

enum Kind {
    /// The text is the literal.
    Bare(Values),
    /// The text in quotes, between what begins and what ends the literal.
    Quoted { before: &'static str, values: Values, after: &'static str },
    /// Numbers; those that are none have no literal, and are cast from text to the named type.
    Number { values: Values, type_name: &'static str },
    /// Binary values, whose text begins with `\x`.
    Binary(Values),
    /// The items of each row.
    List(Offsets, Box<Literals>),
    /// Names as literals, and the values of each.
    Struct(Vec<(Vec<u8>, Literals)>),
    /// Keys and values of each row.
    Map(Offsets, Box<Literals>, Box<Literals>),
}

/// Where the items of each row begin, and after the last of them where they all end.
type Offsets = Vec<usize>;

impl Literals {
    /// Prepares a column.
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        if let DataType::Dictionary(_, value) = array.data_type() {
            return Literals::new(&cast(array, value)?);
        }
        Ok(Literals { nulls: array.logical_nulls(), kind: kind_of(array)? })
    }

    /// Writes a value's literal.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return out.extend_from_slice(b"NULL");
        }
        match &self.kind {
            Kind::Bare(values) => values.write_text(row, out),
            Kind::Quoted { before, values, after } => {
                out.extend_from_slice(before.as_bytes());
                quoted(&text_of(values, row), out);
                out.extend_from_slice(after.as_bytes());
            }
            Kind::Number { values, type_name } => match text_of(values, row) {
                digits if digits.iter().any(u8::is_ascii_digit) => out.extend_from_slice(&digits),
                other => {
                    out.extend_from_slice(b"CAST(");
                    quoted(&other, out);
                    out.extend_from_slice(format!(" AS {type_name})").as_bytes());
                }
            },
            Kind::Binary(values) => {
                let text = text_of(values, row);
                out.push(b'X');
                quoted(text.strip_prefix(b"\\x").unwrap_or(&text), out);
            }
            Kind::List(offsets, items) => array(items, offsets[row]..offsets[row + 1], out),
            Kind::Struct(fields) => {
                out.extend_from_slice(b"named_struct(");
                for (at, (name, values)) in fields.iter().enumerate() {
                    separate(at, out);
                    out.extend_from_slice(name);
                    out.extend_from_slice(b", ");
                    values.write(row, out);
                }
                out.push(b')');
            }
            Kind::Map(offsets, keys, values) => {
                out.extend_from_slice(b"map(");
                array(keys, offsets[row]..offsets[row + 1], out);
                out.extend_from_slice(b", ");
                array(values, offsets[row]..offsets[row + 1], out);
                out.push(b')');
            }
        }
    }
}

fn text_of(values: &Values, row: usize) -> Vec<u8> {
    let mut text = Vec::new();
    values.write_text(row, &mut text);
    text
}

fn array(items: &Literals, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ARRAY[");
    for (at, item) in range.enumerate() {
        separate(at, out);
        items.write(item, out);
    }
    out.push(b']');
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.extend_from_slice(b", ");
    }
}

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        if byte == b'\'' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

fn kind_of(array: &ArrayRef) -> Result<Kind> {
    let literals = |array: &ArrayRef| Ok::<_, crate::Error>(Box::new(Literals::new(array)?));
    let kind = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.offsets().iter().map(|at| *at as usize).collect();
            Kind::List(offsets, literals(list.values())?)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.offsets().iter().map(|at| *at as usize).collect();
            Kind::List(offsets, literals(list.values())?)
        }
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let size = usize::try_from(*size).unwrap_or(0);
            let offsets = (0..=list.len()).map(|row| row * size).collect();
            Kind::List(offsets, literals(list.values())?)
        }
        jsonb if is_jsonb(jsonb) => return scalar_kind(array),
        DataType::Struct(fields) => {
            let named = fields.iter().zip(array.as_struct().columns()).map(|(field, column)| {
                let mut name = Vec::new();
                quoted(field.name().as_bytes(), &mut name);
                Ok((name, Literals::new(column)?))
            });
            Kind::Struct(named.collect::<Result<_>>()?)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.offsets().iter().map(|at| *at as usize).collect();
            Kind::Map(offsets, literals(map.keys())?, literals(map.values())?)
        }
        _ => return scalar_kind(array),
    };
    Ok(kind)
}

fn scalar_kind(array: &ArrayRef) -> Result<Kind> {
    let values = Values::new(array)?;
    let (before, after) = match array.data_type() {
        DataType::Null | DataType::Boolean => return Ok(Kind::Bare(values)),
        DataType::Float16 | DataType::Float32 => {
            return Ok(Kind::Number { values, type_name: "REAL" });
        }
        number if number.is_numeric() => return Ok(Kind::Number { values, type_name: "DOUBLE" }),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => return Ok(Kind::Binary(values)),
        DataType::Date32 => ("DATE ", ""),
        DataType::Time32(_) | DataType::Time64(_) => ("TIME ", ""),
        // A literal has microseconds only.
        DataType::Timestamp(TimeUnit::Nanosecond, None) => ("CAST(", " AS TIMESTAMP(9))"),
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => {
            ("CAST(", " AS TIMESTAMP(9) WITH TIME ZONE)")
        }
        DataType::Timestamp(_, None) | DataType::Date64 => ("TIMESTAMP ", ""),
        DataType::Timestamp(_, Some(_)) => ("TIMESTAMPTZ ", ""),
        DataType::Interval(_) | DataType::Duration(_) => ("INTERVAL ", ""),
        jsonb if is_jsonb(jsonb) => ("JSONB ", ""),
        _ => ("", ""),
    };
    Ok(Kind::Quoted { before, values, after })
}
