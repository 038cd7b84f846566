//! The SQL names of types, as DESCRIBE, the information schema and the table format show them.

use crate::jsonb::is_jsonb;
use arrow::datatypes::{DataType, TimeUnit};

/// The SQL name of a type; nested types name their parts.
pub fn sql_type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float16 | DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(unit, zone) => return timestamp_name(*unit, zone.is_some()),
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BYTEA",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision},{scale})"),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => return format!("{}[]", sql_type_name(item.data_type())),
        DataType::FixedSizeList(item, size) => {
            return format!("{}[{size}]", sql_type_name(item.data_type()));
        }
        jsonb if is_jsonb(jsonb) => "JSONB",
        DataType::Struct(fields) => {
            let part = |name: &str, part: &DataType| format!("{name} {}", sql_type_name(part));
            let parts: Vec<String> = fields.iter().map(|f| part(f.name(), f.data_type())).collect();
            return format!("STRUCT({})", parts.join(", "));
        }
        DataType::Map(entries, _) => return map_name(entries.data_type()),
        DataType::Dictionary(_, value) => return sql_type_name(value),
        DataType::RunEndEncoded(_, value) => return sql_type_name(value.data_type()),
        DataType::Union(_, _) => "UNION",
    };
    name.to_string()
}

/// Microseconds are what TIMESTAMP means, so that only other precisions are named.
fn timestamp_name(unit: TimeUnit, zoned: bool) -> String {
    let precision = match unit {
        TimeUnit::Second => "(0)",
        TimeUnit::Millisecond => "(3)",
        TimeUnit::Microsecond => "",
        TimeUnit::Nanosecond => "(9)",
    };
    format!("TIMESTAMP{precision}{}", if zoned { " WITH TIME ZONE" } else { "" })
}

fn map_name(entries: &DataType) -> String {
    match entries {
        DataType::Struct(fields) if fields.len() == 2 => {
            format!(
                "MAP({}, {})",
                sql_type_name(fields[0].data_type()),
                sql_type_name(fields[1].data_type())
            )
        }
        other => format!("MAP({})", sql_type_name(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use std::sync::Arc;

    #[test]
    fn nested_types_name_their_parts() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Decimal128(10, 2), true)));
        assert_eq!(sql_type_name(&list), "DECIMAL(10,2)[]");
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", list, true)];
        assert_eq!(
            sql_type_name(&DataType::Struct(fields.into())),
            "STRUCT(a BIGINT, b DECIMAL(10,2)[])"
        );
    }

    #[test]
    fn only_unusual_precisions_are_named() {
        assert_eq!(sql_type_name(&DataType::Timestamp(TimeUnit::Microsecond, None)), "TIMESTAMP");
        let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        assert_eq!(sql_type_name(&zoned), "TIMESTAMP(3) WITH TIME ZONE");
    }
}
