//! Points in time as texts that show them in the session's time zone.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::Result;
use thalweg_planner::zoned_text;

/// A column in which every point in time, those inside of other values too, is a text.
pub(super) fn in_zone(array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    if !has_instants(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Timestamp(_, Some(_)) => zoned_text(array, zone),
        DataType::List(item) => list(array.as_list::<i32>(), item, zone),
        DataType::LargeList(item) => list(array.as_list::<i64>(), item, zone),
        DataType::FixedSizeList(item, size) => {
            let lists = array.as_fixed_size_list();
            let values = in_zone(lists.values(), zone)?;
            let nulls = lists.nulls().cloned();
            let lists = FixedSizeListArray::try_new(like(item, &values), *size, values, nulls)?;
            Ok(Arc::new(lists))
        }
        DataType::Struct(_) => Ok(Arc::new(structure(array.as_struct(), zone)?)),
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let inner = structure(map.entries(), zone)?;
            let field = entries.as_ref().clone().with_data_type(inner.data_type().clone());
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::new(field), offsets, inner, nulls, *sorted)?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn has_instants(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_some(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_instants(item.data_type())
        }
        DataType::Map(entries, _) => has_instants(entries.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_instants(field.data_type())),
        _ => false,
    }
}

fn list<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
    zone: &str,
) -> Result<ArrayRef> {
    let values = in_zone(lists.values(), zone)?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(like(item, &values), offsets, values, nulls)?))
}

fn structure(structs: &StructArray, zone: &str) -> Result<StructArray> {
    let columns =
        structs.columns().iter().map(|column| in_zone(column, zone)).collect::<Result<Vec<_>>>()?;
    let fields: Fields =
        structs.fields().iter().zip(&columns).map(|(field, column)| like(field, column)).collect();
    Ok(StructArray::try_new(fields, columns, structs.nulls().cloned())?)
}

/// The field with the type of the new values.
fn like(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(values.data_type().clone()))
}
