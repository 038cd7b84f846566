//! Values as each dialect's files write them.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};

use super::dialect::Dialect;

/// The rows of batches as text; `types` are the column types that the record names.
pub(super) fn rows(dialect: Dialect, batches: &[RecordBatch], types: &[char]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> = batch
            .columns()
            .iter()
            .enumerate()
            .map(|(i, column)| column_text(dialect, column, types.get(i).copied().unwrap_or('?')))
            .collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()),
        );
    }
    rows
}

fn column_text(dialect: Dialect, column: &ArrayRef, wanted: char) -> Vec<String> {
    let column = unpacked(column);
    if dialect == Dialect::Sqlite
        && let Some(values) = sqlite_numbers(&column, wanted)
    {
        return values;
    }
    let text = texts(dialect, &column);
    (0..column.len())
        .map(|row| if column.is_null(row) { "NULL".to_string() } else { text(row) })
        .collect()
}

/// Dictionaries as the values they stand for.
fn unpacked(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(_, value) => cast(column, value).unwrap_or_else(|_| column.clone()),
        _ => column.clone(),
    }
}

/// Integers and reals with three digits, as the record's column type demands.
fn sqlite_numbers(column: &ArrayRef, wanted: char) -> Option<Vec<String>> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "NULL".into());
    match wanted {
        'I' if column.data_type().is_numeric() => {
            let values = cast(column, &DataType::Int64).ok()?;
            Some(
                values
                    .as_primitive::<Int64Type>()
                    .iter()
                    .map(|v| text(v.map(|v| v.to_string())))
                    .collect(),
            )
        }
        'R' if column.data_type().is_numeric() => {
            let values = cast(column, &DataType::Float64).ok()?;
            Some(
                values
                    .as_primitive::<Float64Type>()
                    .iter()
                    .map(|v| text(v.map(|v| format!("{v:.3}"))))
                    .collect(),
            )
        }
        _ => None,
    }
}

type Texts<'a> = Box<dyn Fn(usize) -> String + 'a>;

fn texts(dialect: Dialect, column: &ArrayRef) -> Texts<'_> {
    match column.data_type() {
        jsonb if is_jsonb(jsonb) => {
            // Its one column is its text.
            texts(dialect, column.as_struct().column(0))
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            Box::new(move |row| float(dialect, values.value(row), values.value(row).to_string()))
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            Box::new(move |row| {
                float(dialect, f64::from(values.value(row)), values.value(row).to_string())
            })
        }
        DataType::Boolean => {
            let values = column.as_boolean();
            let words = match dialect {
                Dialect::Thalweg | Dialect::Datafusion | Dialect::Duckdb => ["false", "true"],
                Dialect::Sqlite => ["0", "1"],
                Dialect::Postgres | Dialect::Risingwave => ["f", "t"],
            };
            Box::new(move |row| words[usize::from(values.value(row))].to_string())
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
            if matches!(dialect, Dialect::Thalweg | Dialect::Datafusion) =>
        {
            let plain = formatted(dialect, column);
            Box::new(move |row| rounded(&plain(row)))
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::Struct(_)
            if dialect == Dialect::Risingwave =>
        {
            Box::new(move |row| composite(dialect, column, row))
        }
        DataType::Interval(_) if dialect == Dialect::Risingwave => {
            let plain = cast(column, &DataType::Interval(IntervalUnit::MonthDayNano));
            let plain = plain.unwrap_or_else(|_| column.clone());
            Box::new(move |row| interval(&plain, row))
        }
        _ => {
            let plain = formatted(dialect, column);
            Box::new(move |row| match plain(row) {
                text if text.is_empty() => "(empty)".to_string(),
                text => text.replace('\0', "\\0").trim_end_matches('\n').to_string(),
            })
        }
    }
}

/// Lists in braces and rows in parentheses; NULL is nothing in a row.
fn composite(dialect: Dialect, column: &ArrayRef, row: usize) -> String {
    let cell = |values: &ArrayRef, row: usize, null: &str| match values.is_null(row) {
        true => null.to_string(),
        false => texts(dialect, values)(row),
    };
    match column.data_type() {
        DataType::Struct(_) => {
            let fields = column.as_struct().columns().iter();
            // A row within a row stands in quotes.
            let quoted = |field: &ArrayRef| match field.data_type() {
                DataType::Struct(_) if field.is_valid(row) && !is_jsonb(field.data_type()) => {
                    format!("\"{}\"", cell(field, row, ""))
                }
                _ => cell(field, row, ""),
            };
            let cells: Vec<String> = fields.map(quoted).collect();
            format!("({})", cells.join(","))
        }
        _ => {
            let list = match cast(column, &list_of(column.data_type())) {
                Ok(list) => list,
                Err(error) => return format!("unprintable: {error}"),
            };
            let values = list.as_list::<i32>().value(row);
            let cells: Vec<String> =
                (0..values.len()).map(|at| cell(&values, at, "NULL")).collect();
            format!("{{{}}}", cells.join(","))
        }
    }
}

/// Whether a struct is a JSON document.
fn is_jsonb(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(fields) if fields.len() == 1 && fields[0].name() == "\u{1}jsonb")
}

/// A list type with offsets of 32 bits.
fn list_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::LargeList(field) => DataType::List(field.clone()),
        other => other.clone(),
    }
}

/// An interval as PostgreSQL writes it: `1 year 2 mons 3 days 04:05:06`.
fn interval(column: &ArrayRef, row: usize) -> String {
    let Some(values) = column.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return "unprintable".to_string();
    };
    let value = values.value(row);
    let mut parts = Vec::new();
    let mut part = |number: i32, one: &str, several: &str| match number {
        0 => {}
        1 => parts.push(format!("1 {one}")),
        n => parts.push(format!("{n} {several}")),
    };
    part(value.months / 12, "year", "years");
    part(value.months % 12, "mon", "mons");
    part(value.days, "day", "days");
    if value.nanoseconds != 0 || parts.is_empty() {
        let sign = if value.nanoseconds < 0 { "-" } else { "" };
        let micros = value.nanoseconds.unsigned_abs() / 1_000;
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let mut time =
            format!("{sign}{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if rest > 0 {
            time += format!(".{rest:06}").trim_end_matches('0');
        }
        parts.push(time);
    }
    parts.join(" ")
}

/// Arrow's own text, with times as the dialect writes them.
fn formatted(dialect: Dialect, column: &ArrayRef) -> Texts<'_> {
    let options =
        FormatOptions::new().with_null("NULL").with_duration_format(DurationFormat::Pretty);
    let options = match dialect {
        Dialect::Thalweg | Dialect::Datafusion => options,
        Dialect::Sqlite | Dialect::Duckdb | Dialect::Postgres | Dialect::Risingwave => options
            .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
            .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
            .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f")),
    };
    match ArrayFormatter::try_new(column.as_ref(), &options) {
        // The formatter borrows its options, so each column is written out here.
        Ok(formatter) => {
            let cells: Vec<String> =
                (0..column.len()).map(|row| formatter.value(row).to_string()).collect();
            Box::new(move |row| cells[row].clone())
        }
        Err(error) => {
            let text = format!("unprintable: {error}");
            Box::new(move |_| text.clone())
        }
    }
}

fn float(dialect: Dialect, value: f64, shortest: String) -> String {
    if value.is_nan() {
        return if dialect == Dialect::Duckdb { "nan" } else { "NaN" }.to_string();
    }
    if value.is_infinite() {
        let name = if dialect == Dialect::Duckdb { "inf" } else { "Infinity" };
        return if value > 0.0 { name.to_string() } else { format!("-{name}") };
    }
    match dialect {
        Dialect::Thalweg | Dialect::Datafusion => rounded(&shortest),
        Dialect::Duckdb if !shortest.contains('.') => format!("{shortest}.0"),
        Dialect::Sqlite | Dialect::Duckdb | Dialect::Postgres | Dialect::Risingwave => shortest,
    }
}

/// A number's text with at most twelve digits after the point and without trailing zeros.
fn rounded(text: &str) -> String {
    const DIGITS: usize = 12;
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut kept: Vec<u8> = whole.bytes().chain(fraction.bytes().take(DIGITS)).collect();
    if fraction.as_bytes().get(DIGITS).is_some_and(|digit| *digit >= b'5') {
        let carried = kept.iter().rposition(|digit| *digit != b'9');
        if let Some(at) = carried {
            kept[at] += 1;
        }
        kept[carried.map_or(0, |at| at + 1)..].fill(b'0');
        if carried.is_none() {
            kept.insert(0, b'1');
        }
    }
    let places = fraction.len().min(DIGITS);
    let kept = String::from_utf8(kept).unwrap_or_default();
    let (whole, fraction) = kept.split_at(kept.len() - places);
    let fraction = fraction.trim_end_matches('0');
    let text = if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") };
    if text.bytes().all(|b| b == b'0' || b == b'.') { text } else { format!("{sign}{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_what_cannot_be_compared() {
        let cases = [
            ("1.50", "1.5"),
            ("-0", "0"),
            ("10.00", "10"),
            ("0.1234567890125", "0.123456789013"),
            ("9.9999999999999", "10"),
            ("-2.5", "-2.5"),
            ("100", "100"),
        ];
        for (text, expected) in cases {
            assert_eq!(rounded(text), expected);
        }
    }
}
