//! Points in time in JSON: text in the usual forms, or whole nanoseconds since 1970.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit};
use thalweg_runtime::{Error, Result};

/// The column as the decoder reads it: points in time as the text that they are written in, all nullable.
pub fn decoded(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Timestamp(..) => DataType::Utf8,
        other => other.clone(),
    };
    // The decoder must not refuse what the table allows.
    Field::new(field.name(), data_type, true)
}

/// A decoded column in the type of its field. `file` is named in errors.
pub fn finished(column: &ArrayRef, field: &Field, file: &str) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, _) = field.data_type() else { return Ok(column.clone()) };
    let Some(texts) = column.as_string_opt::<i32>() else { return Ok(column.clone()) };
    let numbers: Vec<Option<i64>> = texts.iter().map(|text| text?.parse().ok()).collect();
    let others: StringArray =
        texts.iter().zip(&numbers).map(|(text, n)| text.filter(|_| n.is_none())).collect();
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let read =
        cast_with_options(&others, field.data_type(), &options).map_err(|error| Error::User {
            message: format!("column \"{}\" of \"{file}\" has no point in time", field.name()),
            detail: Some(error.to_string()),
            hint: Some("write it as 2026-01-31T12:00:00Z, or in nanoseconds since 1970".into()),
        })?;
    if numbers.iter().all(Option::is_none) {
        return Ok(read);
    }
    let ticks = cast_with_options(&read, &DataType::Int64, &options)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let nanoseconds = nanoseconds(*unit);
    let merged: Int64Array = ticks
        .iter()
        .zip(&numbers)
        .map(|(read, number)| number.map(|number| number.div_euclid(nanoseconds)).or(read))
        .collect();
    Ok(cast_with_options(&(Arc::new(merged) as ArrayRef), field.data_type(), &options)?)
}

/// The nanoseconds of a unit.
fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn text_and_nanoseconds_are_points_in_time() {
        let field = Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), false);
        assert_eq!(decoded(&field), Field::new("t", DataType::Utf8, true));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            Some("1970-01-01T00:00:01.5Z"),
            Some("1970-01-01T01:00:00+01:00"),
            Some("1970-01-01 00:00:02"),
            Some("-1"),
            Some("1500"),
            None,
        ]));
        let found = finished(&texts, &field, "f").unwrap();
        let wanted = vec![Some(1_500_000), Some(0), Some(2_000_000), Some(-1), Some(1), None];
        assert_eq!(found.as_ref(), &TimestampMicrosecondArray::from(wanted) as &dyn Array);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["soon"]));
        let error = finished(&texts, &field, "f").unwrap_err().to_string();
        assert!(error.contains("\"t\" of \"f\""), "{error}");
    }
}
