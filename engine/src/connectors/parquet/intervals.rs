//! Columns of intervals: twelve bytes for months, days and milliseconds.
//!
//! The decoder would read them as days and milliseconds, or as months, and drop the rest. So such columns are decoded as
//! bytes, and made intervals here. Inside lists and structs they are refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use parquet::basic::ConvertedType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

/// The type that such columns have in tables.
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The bytes of a value.
const BYTES: i32 = 12;

const MILLISECOND_NS: i64 = 1_000_000;

/// The root columns of intervals.
///
/// # Errors
/// Fails where intervals are inside of lists or structs.
pub(super) fn interval_roots(schema: &SchemaDescriptor) -> Result<Vec<usize>, ParquetError> {
    let mut roots = Vec::new();
    for (leaf, column) in schema.columns().iter().enumerate() {
        if column.converted_type() != ConvertedType::INTERVAL {
            continue;
        }
        if column.path().parts().len() > 1 {
            let what = format!("Intervals inside of the nested column {}", column.path());
            return Err(ParquetError::NYI(what));
        }
        roots.push(schema.get_column_root_idx(leaf));
    }
    Ok(roots)
}

/// The footer with these root columns as bytes.
pub(super) fn as_bytes(
    metadata: &ParquetMetaData,
    roots: &[usize],
) -> Result<ParquetMetaData, ParquetError> {
    let file = metadata.file_metadata();
    let schema = file.schema_descr().root_schema();
    let fields = schema.get_fields().iter().enumerate().map(|(root, field)| {
        if roots.contains(&root) { bytes_type(field) } else { Ok(Arc::clone(field)) }
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_string),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(schema))),
        file.column_orders().cloned(),
    );
    let groups = metadata.row_groups().to_vec();
    Ok(ParquetMetaDataBuilder::new(file).set_row_groups(groups).build())
}

fn bytes_type(field: &TypePtr) -> Result<TypePtr, ParquetError> {
    let info = field.get_basic_info();
    let field = Type::primitive_type_builder(field.name(), field.get_physical_type())
        .with_repetition(info.repetition())
        .with_id(info.has_id().then(|| info.id()))
        .with_length(BYTES)
        .build()?;
    Ok(Arc::new(field))
}

/// The bytes as intervals; other arrays as they are.
pub(super) fn from_bytes(values: ArrayRef) -> ArrayRef {
    let Some(bytes) = values.as_any().downcast_ref::<FixedSizeBinaryArray>() else {
        return values;
    };
    let intervals = bytes.iter().map(|value| {
        let (months, rest) = value?.split_first_chunk()?;
        let (days, rest) = rest.split_first_chunk()?;
        let (milliseconds, _) = rest.split_first_chunk()?;
        // The format has no signs, yet writers use the bits as signed numbers; more months than these are out of
        // every calendar.
        Some(IntervalMonthDayNano {
            months: i32::from_le_bytes(*months),
            days: i32::from_le_bytes(*days),
            nanoseconds: i64::from(i32::from_le_bytes(*milliseconds)) * MILLISECOND_NS,
        })
    });
    Arc::new(intervals.collect::<IntervalMonthDayNanoArray>())
}
