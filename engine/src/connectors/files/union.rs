//! One set of columns for several files.
//!
//! Columns are matched by name; a column that a file lacks is NULL there. Types that differ are widened without
//! loss, or else the table is refused with both files named. So it is when a file has no column in common with those
//! before it: then the files are not parts of one table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg_runtime::{Error, Result};

/// Columns of a file that an error names at most.
const NAMES_MAX: usize = 6;

/// The columns of all files together, in the order in which they first occur. All are nullable, since a later
/// file may lack them.
pub fn union(schemas: &[(&str, SchemaRef)]) -> Result<SchemaRef> {
    let mut fields: Vec<(Field, &str)> = Vec::new();
    for (file, schema) in schemas {
        let earlier = fields.iter().map(|(f, _)| f.name());
        must_share_a_column(schemas[0].0, earlier, file, schema.fields().iter().map(|f| f.name()))?;
        for field in schema.fields() {
            match fields.iter_mut().find(|(f, _)| f.name() == field.name()) {
                Some((known, first)) => widen(known, first, field, file)?,
                None => {
                    let field = Field::new(field.name(), field.data_type().clone(), true);
                    fields.push((field, file));
                }
            }
        }
    }
    Ok(Arc::new(Schema::new(fields.into_iter().map(|(f, _)| f).collect::<Vec<_>>())))
}

/// Refuses a file none of whose columns the files before it have. The first file, and files without columns, pass.
pub fn must_share_a_column<'a>(
    first: &str,
    earlier: impl IntoIterator<Item = &'a String>,
    file: &str,
    columns: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let earlier: Vec<&str> = earlier.into_iter().map(String::as_str).collect();
    let columns: Vec<&str> = columns.into_iter().map(String::as_str).collect();
    if earlier.is_empty() || columns.is_empty() || columns.iter().any(|c| earlier.contains(c)) {
        return Ok(());
    }
    Err(Error::User {
        message: format!("\"{first}\" and \"{file}\" have no column in common"),
        detail: Some(format!("{} against {}", listed(&earlier), listed(&columns))),
        hint: Some("files that are read together must be parts of one table".into()),
    })
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX { format!("{shown}, …") } else { shown }
}

fn widen(known: &mut Field, first: &str, field: &Field, file: &str) -> Result<()> {
    if known.data_type() == field.data_type() {
        return Ok(());
    }
    let Some(common) = common_type(known.data_type(), field.data_type()) else {
        return Err(Error::User {
            message: format!("the files do not agree on the type of column \"{}\"", field.name()),
            detail: Some(format!(
                "it is {} in \"{first}\" and {} in \"{file}\"",
                known.data_type(),
                field.data_type()
            )),
            hint: Some("read the files one by one and cast the column".into()),
        });
    };
    *known = Field::new(known.name(), common, true);
    Ok(())
}

/// The narrowest type that holds every value of both, if there is one.
pub fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match (a, b) {
        (a, b) if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if is_integer(a) && is_integer(b) => common_integer(a, b)?,
        (a, b) if is_integer(a) && b.is_floating() || a.is_floating() && is_integer(b) => Float64,
        (a, b) if a.is_floating() && b.is_floating() => Float64,
        (Decimal128(p1, s1), Decimal128(p2, s2)) => common_decimal((*p1, *s1), (*p2, *s2))?,
        (Decimal128(p, s), i) | (i, Decimal128(p, s)) if is_integer(i) => {
            common_decimal((*p, *s), (integer_digits(i), 0))?
        }
        (Date32, Timestamp(_, zone)) | (Timestamp(_, zone), Date32) => {
            Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        (Timestamp(_, z1), Timestamp(_, z2)) if z1 == z2 => {
            Timestamp(TimeUnit::Microsecond, z1.clone())
        }
        (List(x), List(y)) => {
            let item = common_type(x.data_type(), y.data_type())?;
            List(Arc::new(Field::new(x.name(), item, true)))
        }
        (Struct(x), Struct(y)) => {
            let mut fields: Vec<Field> = x.iter().map(|f| f.as_ref().clone()).collect();
            for field in y {
                match fields.iter_mut().find(|f| f.name() == field.name()) {
                    Some(known) => {
                        let common = common_type(known.data_type(), field.data_type())?;
                        *known = Field::new(known.name(), common, true);
                    }
                    None => fields.push(field.as_ref().clone().with_nullable(true)),
                }
            }
            Struct(fields.into())
        }
        _ => return None,
    })
}

fn is_integer(t: &DataType) -> bool {
    t.is_integer()
}

fn common_integer(a: &DataType, b: &DataType) -> Option<DataType> {
    let bits = |t: &DataType| t.primitive_width().map(|w| w * 8);
    let (signed_a, signed_b) = (a.is_signed_integer(), b.is_signed_integer());
    let (bits_a, bits_b) = (bits(a)?, bits(b)?);
    if signed_a == signed_b {
        return Some(if bits_a >= bits_b { a.clone() } else { b.clone() });
    }
    // An unsigned type fits a signed one of twice its width.
    let (signed, unsigned) = if signed_a { (bits_a, bits_b) } else { (bits_b, bits_a) };
    Some(match signed.max(unsigned * 2) {
        16 => DataType::Int16,
        32 => DataType::Int32,
        64 => DataType::Int64,
        _ => DataType::Decimal128(20, 0),
    })
}

fn integer_digits(t: &DataType) -> u8 {
    match t.primitive_width() {
        Some(1) => 3,
        Some(2) => 5,
        Some(4) => 10,
        _ => 20,
    }
}

fn common_decimal((p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Option<DataType> {
    let scale = s1.max(s2);
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    let precision = u8::try_from(whole + i16::from(scale)).ok()?;
    (precision <= 38).then_some(DataType::Decimal128(precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_joined_by_name_and_widened() {
        let schema = |fields: Vec<(&str, DataType)>| -> SchemaRef {
            Arc::new(Schema::new(
                fields.into_iter().map(|(n, t)| Field::new(n, t, false)).collect::<Vec<_>>(),
            ))
        };
        let a = schema(vec![("x", DataType::Int32), ("y", DataType::Utf8View)]);
        let b = schema(vec![("z", DataType::Boolean), ("x", DataType::Int64)]);
        let all = union(&[("a", a.clone()), ("b", b)]).unwrap();
        let names: Vec<_> = all.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["x", "y", "z"]);
        assert_eq!(all.field(0).data_type(), &DataType::Int64);
        let c = schema(vec![("y", DataType::Int64)]);
        let Err(Error::User { detail, .. }) = union(&[("a", a), ("c", c)]) else { panic!() };
        assert!(detail.unwrap().contains("\"c\""));
    }

    #[test]
    fn files_of_different_tables_are_refused() {
        let schema = |name: &str| -> SchemaRef {
            Arc::new(Schema::new(vec![Field::new(name, DataType::Int32, false)]))
        };
        let Err(Error::User { message, detail, .. }) =
            union(&[("a", schema("x")), ("b", schema("x")), ("c", schema("y"))])
        else {
            panic!()
        };
        assert_eq!(message, "\"a\" and \"c\" have no column in common");
        assert_eq!(detail.as_deref(), Some("x against y"));
    }

    #[test]
    fn unsigned_and_signed_meet_in_a_wider_type() {
        assert_eq!(common_type(&DataType::UInt32, &DataType::Int8), Some(DataType::Int64));
        assert_eq!(
            common_type(&DataType::UInt64, &DataType::Int8),
            Some(DataType::Decimal128(20, 0))
        );
    }
}
