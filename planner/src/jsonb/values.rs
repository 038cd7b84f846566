//! Values of columns as JSON, and columns of JSONB.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, StringArray, StringViewArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{Result, exec_err};

use super::document::Json;
use super::{fields, is_jsonb};

/// The documents of a column of JSONB.
pub(super) fn documents(column: &ArrayRef) -> Result<Vec<Option<Json>>> {
    let texts = texts_of(column)?;
    let read = |row: usize| match texts.is_valid(row) && column.is_valid(row) {
        false => Ok(None),
        true => parsed(texts.value(row)).map(Some),
    };
    (0..column.len()).map(read).collect()
}

/// The texts within a column of JSONB.
pub(super) fn texts_of(column: &ArrayRef) -> Result<StringViewArray> {
    let texts = cast(column.as_struct().column(0), &DataType::Utf8View)?;
    Ok(texts.as_string_view().clone())
}

/// The document of a text.
pub(super) fn parsed(text: &str) -> Result<Json> {
    match Json::parse(text) {
        Some(document) => Ok(document),
        None => exec_err!("\"{text}\" is no JSON"),
    }
}

/// A column of JSONB.
pub(super) fn column(documents: Vec<Option<Json>>) -> Result<ArrayRef> {
    let nulls = documents.iter().map(Option::is_some).collect();
    let texts: StringViewArray =
        documents.into_iter().map(|document| document.map(|json| json.text())).collect();
    Ok(Arc::new(StructArray::try_new(fields(), vec![Arc::new(texts)], Some(nulls))?))
}

/// A value of a column; NULL is `null`.
pub(super) fn json_of(column: &ArrayRef, row: usize) -> Result<Json> {
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(Json::Null);
    }
    Ok(match column.data_type() {
        DataType::Null => Json::Null,
        other if is_jsonb(other) => parsed(texts_of(&column.slice(row, 1))?.value(0))?,
        DataType::Boolean => {
            let booleans: &BooleanArray = column.as_boolean();
            Json::Bool(booleans.value(row))
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let numbers = cast(&column.slice(row, 1), &DataType::Float64)?;
            let numbers: &Float64Array = numbers.as_primitive::<Float64Type>();
            let number = numbers.value(0);
            match number.is_finite() {
                true => Json::Number(number.to_string()),
                false => Json::Text(number.to_string()),
            }
        }
        other if other.is_integer() || other.is_decimal() => Json::Number(text_of(column, row)?),
        DataType::List(_) => list_of(&column.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list_of(&column.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(_, _) => list_of(&column.as_fixed_size_list().value(row))?,
        DataType::Struct(parts) => {
            let values = parts.iter().zip(column.as_struct().columns());
            let pair = |(part, values): (&arrow::datatypes::FieldRef, &ArrayRef)| {
                Ok((part.name().clone(), json_of(values, row)?))
            };
            Json::object(values.map(pair).collect::<Result<_>>()?)
        }
        _ => Json::Text(text_of(column, row)?),
    })
}

/// The elements of a list.
fn list_of(values: &ArrayRef) -> Result<Json> {
    let items = (0..values.len()).map(|row| json_of(values, row));
    Ok(Json::List(items.collect::<Result<_>>()?))
}

/// The text of a value that is not NULL.
pub(super) fn text_of(column: &ArrayRef, row: usize) -> Result<String> {
    let text = cast(&column.slice(row, 1), &DataType::Utf8)?;
    let text: &StringArray = text.as_string::<i32>();
    Ok(text.value(0).to_string())
}
