//! Rows as objects of JSON, in the conventions of the format.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use thalweg_runtime::Result;

use super::table::RowFormat;
use crate::connectors::write::format::{Values, write_json_string, write_timestamp};

/// The rows of a batch, ready to be written.
pub struct Objects {
    columns: Vec<(Vec<u8>, Cells)>,
}

/// The values of a column.
struct Cells {
    nulls: Option<NullBuffer>,
    kind: Kind,
}

enum Kind {
    /// A point in time as text.
    Text {
        ticks: Int64Array,
        per_second: i64,
        zoned: bool,
    },
    /// A point in time in milliseconds since 1970.
    Milliseconds {
        ticks: Int64Array,
        per_second: i64,
    },
    /// A number that shows that it is no whole one.
    Double(Values),
    Object(Objects),
    /// As everywhere else.
    Other(Values),
}

impl Objects {
    /// The rows of a batch.
    pub fn new(batch: &RecordBatch, format: RowFormat) -> Result<Self> {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        Objects::of(names.zip(batch.columns()), format)
    }

    fn of<'a>(
        columns: impl Iterator<Item = (&'a str, &'a ArrayRef)>,
        format: RowFormat,
    ) -> Result<Self> {
        let columns = columns.enumerate().map(|(place, (name, column))| {
            let mut key = if place > 0 { vec![b','] } else { Vec::new() };
            write_json_string(name, &mut key);
            key.push(b':');
            Ok((key, Cells::new(column, format)?))
        });
        Ok(Objects { columns: columns.collect::<Result<_>>()? })
    }

    /// Writes a row, NULLs as `null`.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        for (key, cells) in &self.columns {
            out.extend_from_slice(key);
            cells.write(row, out);
        }
        out.push(b'}');
    }
}

impl Cells {
    fn new(column: &ArrayRef, format: RowFormat) -> Result<Self> {
        let kind = match column.data_type() {
            DataType::Timestamp(unit, zone) => {
                let ticks = cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
                let per_second = per_second(*unit);
                match format {
                    RowFormat::Json => Kind::Text { ticks, per_second, zoned: zone.is_some() },
                    RowFormat::DebeziumJson => Kind::Milliseconds { ticks, per_second },
                }
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                Kind::Double(Values::new(column)?)
            }
            DataType::Struct(fields) => {
                let names = fields.iter().map(|field| field.name().as_str());
                Kind::Object(Objects::of(names.zip(column.as_struct().columns()), format)?)
            }
            _ => Kind::Other(Values::new(column)?),
        };
        Ok(Cells { nulls: column.logical_nulls(), kind })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.kind {
            Kind::Text { ticks, per_second, zoned } => {
                out.push(b'"');
                write_point(ticks.value(row), *per_second, *zoned, out);
                out.push(b'"');
            }
            Kind::Milliseconds { ticks, per_second } => {
                let milliseconds = i128::from(ticks.value(row)) * 1_000;
                let milliseconds = milliseconds.div_euclid(i128::from(*per_second));
                out.extend_from_slice(milliseconds.to_string().as_bytes());
            }
            Kind::Double(values) => {
                let from = out.len();
                values.write_json(row, out);
                if out[from..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') {
                    out.extend_from_slice(b".0");
                }
            }
            Kind::Object(objects) => objects.write(row, out),
            Kind::Other(values) => values.write_json(row, out),
        }
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Writes `2026-01-31T12:00:00`, with three, six or nine digits behind the point where there are any.
fn write_point(ticks: i64, per_second: i64, zoned: bool, out: &mut Vec<u8>) {
    let from = out.len();
    write_timestamp(ticks, per_second, false, out);
    let text = &mut out[from..];
    let blank = text.iter().position(|byte| *byte == b' ');
    if let Some(blank) = blank {
        text[blank] = b'T';
    }
    if let Some(point) = text.iter().position(|byte| *byte == b'.') {
        let digits = text.len() - point - 1;
        out.extend(std::iter::repeat_n(b'0', digits.next_multiple_of(3) - digits));
    }
    if zoned {
        out.push(b'Z');
    }
}
