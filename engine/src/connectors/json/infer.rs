//! Columns and types of JSON files, from a sample of their objects. Strings that are all ISO dates, times or timestamps
//! are read as such, as in delimited text; `"NaN"`, `"Infinity"` and `"-Infinity"` are doubles among numbers, since JSON has
//! no other way of writing them, and text by themselves.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{
    DataType, Date32Type, Field, Schema, SchemaRef, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use thalweg_runtime::{Error, Result};

use super::layout::{JsonLayout, ValueEnd};
use crate::connectors::files::{Compression, FoundFile, must_share_a_column, unpacking_reader};
use crate::connectors::text::value;

/// Bytes of the first file's beginning that are looked at, and of each of some others.
const SAMPLE_BYTES: u64 = 8 << 20;
const OTHER_BYTES: u64 = 256 << 10;
/// Other files that are looked at.
const OTHER_FILES_MAX: usize = 64;

/// What was found out.
#[derive(Debug, Clone)]
pub struct JsonShape {
    /// How objects follow each other.
    pub layout: JsonLayout,
    /// The columns, in the order in which they first occur.
    pub schema: SchemaRef,
    /// Bytes of an object, on average over the sample.
    pub record_bytes: f64,
}

/// Looks at files. With declared columns only the layout is found out.
pub fn infer_files(
    files: &[FoundFile],
    compression: Compression,
    declared: Option<&SchemaRef>,
) -> Result<JsonShape> {
    let sampled = files.iter().find(|f| f.size > 0).unwrap_or(&files[0]);
    let (text, whole) = beginning(sampled, compression, SAMPLE_BYTES)?;
    let layout = JsonLayout::of(&text);
    let mut shape = Shape::Object(Vec::new());
    let records = add_all(&mut shape, sampled, &text, whole, layout, declared.is_none())?;
    if declared.is_none() {
        let others = files.iter().filter(|f| f.path != sampled.path && f.size > 0);
        for file in others.take(OTHER_FILES_MAX) {
            let (text, whole) = beginning(file, compression, OTHER_BYTES)?;
            let mut other = Shape::Object(Vec::new());
            add_all(&mut other, file, &text, whole, layout, true)?;
            must_share_a_column(&sampled.name, shape.keys(), &file.name, other.keys())?;
            shape.add(other);
        }
    }
    let schema = match declared {
        Some(declared) => declared.clone(),
        None => columns(shape, sampled)?,
    };
    Ok(JsonShape { layout, schema, record_bytes: text.len() as f64 / records.max(1) as f64 })
}

fn columns(shape: Shape, file: &FoundFile) -> Result<SchemaRef> {
    let Shape::Object(fields) = shape else {
        return Err(Error::Internal("the shape of rows is an object".into()));
    };
    if fields.is_empty() {
        return Err(Error::User {
            message: format!("the JSON file \"{}\" holds no object with a key", file.name),
            detail: None,
            hint: Some(file.declaration("json")),
        });
    }
    let fields: Vec<Field> =
        fields.into_iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

fn beginning(
    file: &FoundFile,
    compression: Compression,
    bytes_max: u64,
) -> Result<(Vec<u8>, bool)> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        unpacking_reader(File::open(&file.path)?, compression)?
            .take(bytes_max + 1)
            .read_to_end(&mut text)?;
        Ok(text)
    };
    let mut text = read().map_err(|e| Error::io(format!("cannot read \"{}\"", file.name), &e))?;
    let whole = text.len() as u64 <= bytes_max;
    if text.starts_with(b"\xef\xbb\xbf") {
        text.drain(..3);
    }
    Ok((text, whole))
}

/// Adds the objects of a sample and counts them. A text that is no JSON is left to the reader, which names its line,
/// unless it is the very first.
fn add_all(
    shape: &mut Shape,
    file: &FoundFile,
    text: &[u8],
    whole: bool,
    layout: JsonLayout,
    look: bool,
) -> Result<usize> {
    let (mut at, mut records) = (0, 0);
    while let ValueEnd::At(start, end) = layout.next(text, at, whole) {
        at = end;
        if look {
            match serde_json::from_slice::<Shape>(&text[start..end]) {
                Ok(object @ Shape::Object(_)) => shape.add(object),
                Ok(_) if records == 0 => {
                    return Err(no_object(file, "its first value is no object"));
                }
                Err(e) if records == 0 => return Err(no_object(file, &e.to_string())),
                Ok(_) | Err(_) => {}
            }
        }
        records += 1;
    }
    Ok(records)
}

fn no_object(file: &FoundFile, detail: &str) -> Error {
    Error::User {
        message: format!("\"{}\" cannot be read as JSON objects", file.name),
        detail: Some(detail.to_string()),
        hint: None,
    }
}

/// What the values at one place look like.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Null,
    Boolean,
    Integer,
    /// Integers beyond 64 bits.
    LongInteger,
    Double,
    /// The name of a double that is no number.
    Unusual,
    Text,
    Date,
    Time,
    Timestamp,
    /// A timestamp with an offset.
    Zoned,
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
}

impl Shape {
    /// Widens the shape so that it covers another one; what has nothing in common becomes text.
    fn add(&mut self, other: Shape) {
        let this = std::mem::replace(self, Shape::Null);
        *self = match (this, other) {
            (Shape::Null, shape) | (shape, Shape::Null) => shape,
            (a, b) if a == b => a,
            (Shape::Integer, Shape::LongInteger) | (Shape::LongInteger, Shape::Integer) => {
                Shape::LongInteger
            }
            (Shape::Integer | Shape::LongInteger, Shape::Double | Shape::Unusual)
            | (Shape::Double | Shape::Unusual, Shape::Integer | Shape::LongInteger)
            | (Shape::Double, Shape::Unusual)
            | (Shape::Unusual, Shape::Double) => Shape::Double,
            (Shape::Date, Shape::Timestamp) | (Shape::Timestamp, Shape::Date) => Shape::Timestamp,
            (Shape::List(mut a), Shape::List(b)) => {
                a.add(*b);
                Shape::List(a)
            }
            (Shape::Object(mut a), Shape::Object(b)) => {
                for (name, shape) in b {
                    match a.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => known.add(shape),
                        None => a.push((name, shape)),
                    }
                }
                Shape::Object(a)
            }
            _ => Shape::Text,
        };
    }

    /// The keys of an object.
    fn keys(&self) -> impl Iterator<Item = &String> {
        let fields = if let Shape::Object(fields) = self { fields.as_slice() } else { &[] };
        fields.iter().map(|(name, _)| name)
    }

    /// The shape of a string. What the decoder would not read stays text.
    fn of_text(text: &str) -> Self {
        if matches!(text, "NaN" | "Infinity" | "-Infinity") {
            return Shape::Unusual;
        }
        let bytes = text.as_bytes();
        if !bytes.first().is_some_and(u8::is_ascii_digit) || bytes.trim_ascii().len() < text.len() {
            return Shape::Text;
        }
        if value::date(bytes).is_some() && Date32Type::parse(text).is_some() {
            return Shape::Date;
        }
        if value::time(bytes).is_some() && Time64NanosecondType::parse(text).is_some() {
            return Shape::Time;
        }
        match value::timestamp(bytes) {
            Some(time) if TimestampMicrosecondType::parse(text) == Some(time.micros) => {
                if time.zoned { Shape::Zoned } else { Shape::Timestamp }
            }
            _ => Shape::Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Shape::Null | Shape::Text | Shape::Unusual => DataType::Utf8View,
            Shape::Date => DataType::Date32,
            Shape::Time => DataType::Time64(TimeUnit::Nanosecond),
            Shape::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Shape::Zoned => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Shape::Boolean => DataType::Boolean,
            Shape::Integer => DataType::Int64,
            Shape::LongInteger => DataType::Decimal128(20, 0),
            Shape::Double => DataType::Float64,
            Shape::List(item) => {
                DataType::List(Arc::new(Field::new_list_field(item.data_type(), true)))
            }
            // An object without keys has no columns to hold.
            Shape::Object(fields) if fields.is_empty() => DataType::Utf8View,
            Shape::Object(fields) => DataType::Struct(
                fields.into_iter().map(|(n, s)| Field::new(n, s.data_type(), true)).collect(),
            ),
        }
    }
}

/// Reads the shape alone off a JSON text, keys in the order in which they are written.
impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Integer)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(if i64::try_from(value).is_ok() { Shape::Integer } else { Shape::LongInteger })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Double)
    }

    fn visit_str<E>(self, text: &str) -> Result<Shape, E> {
        Ok(Shape::of_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut shape = Shape::Null;
        while let Some(item) = items.next_element()? {
            shape.add(item);
        }
        Ok(Shape::List(Box::new(shape)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut fields: Vec<(String, Shape)> = Vec::new();
        while let Some((name, shape)) = entries.next_entry::<String, Shape>()? {
            match fields.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.add(shape),
                None => fields.push((name, shape)),
            }
        }
        Ok(Shape::Object(fields))
    }
}
