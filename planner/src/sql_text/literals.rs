//! Literals as users would write them: of values, and in the names that the library gives to computed columns.

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion_common::ScalarValue;

use crate::conversions::zoned_text;
use crate::intervals;

/// A value as a literal of SQL; what has none is shown as the library shows it.
pub fn sql_literal(value: &ScalarValue) -> String {
    if value.is_null() {
        return "NULL".to_string();
    }
    let before = match value.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "",
        DataType::Date32 => "DATE ",
        DataType::Time32(_) | DataType::Time64(_) => "TIME ",
        DataType::Timestamp(_, None) => "TIMESTAMP ",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ ",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL ",
        _ => return value.to_string(),
    };
    match text_of(value) {
        Some(text) => format!("{before}{}", quoted(&text)),
        None => value.to_string(),
    }
}

/// The text that a cast makes of a value.
fn text_of(value: &ScalarValue) -> Option<String> {
    let array = value.to_array().ok()?;
    let texts = match value.data_type() {
        DataType::Timestamp(_, zone) => {
            zoned_text(&array, zone.as_deref().unwrap_or("UTC")).ok()?
        }
        _ => zoned_text(&array, "UTC").ok()?,
    };
    let text = ScalarValue::try_from_array(&texts, 0).ok()?;
    text.try_as_str().flatten().map(str::to_string)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Kinds of literals in the names that the library gives to columns, such as `sum(t.a + Int64(1))`, with what stands in
/// front of their text in SQL; those without quotes have `None`.
const KINDS: [(&str, Option<&str>); 21] = [
    ("Int8", None),
    ("Int16", None),
    ("Int32", None),
    ("Int64", None),
    ("UInt8", None),
    ("UInt16", None),
    ("UInt32", None),
    ("UInt64", None),
    ("Float32", None),
    ("Float64", None),
    ("Boolean", None),
    ("Decimal32", None),
    ("Decimal64", None),
    ("Decimal128", None),
    ("Decimal256", None),
    ("Utf8", Some("")),
    ("LargeUtf8", Some("")),
    ("Utf8View", Some("")),
    ("Date32", Some("DATE ")),
    ("Binary", Some("X")),
    ("IntervalMonthDayNano", Some("INTERVAL ")),
];

/// A column's name with literals as users would write them.
pub fn with_sql_literals(name: &str) -> String {
    let name = name.replace("count(Int64(1))", "count(*)");
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        if !in_word && let Some((literal, behind)) = literal_at(rest) {
            out.push_str(&literal);
            rest = behind;
            continue;
        }
        in_word = first.is_alphanumeric() || first == '_' || first == '.';
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}

/// The literal with which a text begins, as SQL, and what follows it.
fn literal_at(text: &str) -> Option<(String, &str)> {
    let (kind, inner) = text.split_once('(')?;
    let (_, before) = KINDS.iter().find(|(known, _)| *known == kind)?;
    if let Some(behind) = inner.strip_prefix("NULL)") {
        return Some(("NULL".to_string(), behind));
    }
    match before {
        Some(before) => {
            let (value, behind) = inner.strip_prefix('"')?.split_once("\")")?;
            let value = match kind {
                "IntervalMonthDayNano" => interval(value)?,
                _ => value.to_string(),
            };
            Some((format!("{before}{}", quoted(&value)), behind))
        }
        None => {
            let (value, behind) = inner.split_once(')')?;
            // Precision and scale follow a decimal.
            let value = value.split(',').next()?;
            let bare = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
            (bare && !value.is_empty()).then(|| (value.to_string(), behind))
        }
    }
}

/// The text of an interval that the library shows by its parts.
fn interval(parts: &str) -> Option<String> {
    let part = |name: &str| {
        let (_, rest) = parts.split_once(&format!("{name}: "))?;
        rest.split([',', ' ', '}']).next()?.parse::<i64>().ok()
    };
    let (months, days) = (part("months")?.try_into().ok()?, part("days")?.try_into().ok()?);
    let mut text = String::new();
    intervals::write(
        IntervalMonthDayNano { months, days, nanoseconds: part("nanoseconds")? },
        &mut text,
    );
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_in_sql() {
        for (value, text) in [
            (ScalarValue::from("it's"), "'it''s'"),
            (ScalarValue::Utf8View(Some("x".into())), "'x'"),
            (ScalarValue::from(7_i64), "7"),
            (ScalarValue::from(true), "true"),
            (ScalarValue::Int64(None), "NULL"),
            (ScalarValue::Decimal128(Some(150), 3, 2), "1.50"),
            (ScalarValue::Date32(Some(20_454)), "DATE '2026-01-01'"),
            (
                ScalarValue::TimestampMicrosecond(Some(1_767_225_600_000_000), None),
                "TIMESTAMP '2026-01-01 00:00:00'",
            ),
            (ScalarValue::new_interval_mdn(0, 1, 0), "INTERVAL '1 day'"),
        ] {
            assert_eq!(sql_literal(&value), text);
        }
    }

    #[test]
    fn names_of_columns_lose_the_types_of_their_literals() {
        let month =
            "IntervalMonthDayNano(\"IntervalMonthDayNano { months: 1, days: 0, nanoseconds: 0 }\")";
        for (name, text) in [
            ("count(Int64(1))", "count(*)"),
            (
                "sum(t.a + Int64(-1)) FILTER (WHERE t.b = Utf8(\"x(y)\"))",
                "sum(t.a + -1) FILTER (WHERE t.b = 'x(y)')",
            ),
            ("Decimal128(1.50,3,2) * t.a", "1.50 * t.a"),
            ("Boolean(NULL)", "NULL"),
            (month, "INTERVAL '1 mon'"),
            ("Date32(\"2026-01-01\")", "DATE '2026-01-01'"),
            ("myInt64(1)", "myInt64(1)"),
            ("Int64(a b)", "Int64(a b)"),
            ("plain", "plain"),
        ] {
            assert_eq!(with_sql_literals(name), text);
        }
    }
}
