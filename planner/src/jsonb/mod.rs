//! JSON documents as values: the type JSONB, and its functions.
//!
//! A document is kept as its text in the one form that equal documents share, in a struct of one column by whose name the
//! type is known. So documents are grouped, compared and kept like other values. Invariant: every text within such a
//! struct is one that was written by this module.

mod document;
mod values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use self::document::Json;
use self::values::{column, documents, json_of, text_of, texts_of};
use crate::conversions::over_arrays;

/// The name of the one column within; no user can mean it.
const TEXT: &str = "\u{1}jsonb";

fn fields() -> Fields {
    Fields::from(vec![Field::new(TEXT, DataType::Utf8View, true)])
}

/// The type JSONB.
pub(crate) fn jsonb_type() -> DataType {
    DataType::Struct(fields())
}

/// Whether a type is JSONB: a struct whose only column holds the text of a document.
pub fn is_jsonb(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(fields) if fields.len() == 1 && fields[0].name() == TEXT)
}

/// One of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum JsonFunction {
    /// A text as a document: `CAST(text AS JSONB)`.
    Parse,
    /// The text of a document: `CAST(document AS TEXT)`.
    AsText,
    /// Any value as a document.
    ToJsonb,
    /// `document -> key` and `document -> place`.
    Get,
    /// `document ->> key` and `document ->> place`.
    GetText,
    /// An object of a list of keys and one of values.
    Object,
    /// An object of keys and values in turn.
    BuildObject,
    /// A list of values.
    BuildArray,
    /// What kind of value a document is.
    TypeOf,
    /// How many elements a list has.
    ArrayLength,
}

/// All of them, for registries.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    JsonFunction::ALL.into_iter().map(JsonFunction::function).collect()
}

impl JsonFunction {
    const ALL: [JsonFunction; 10] = [
        JsonFunction::Parse,
        JsonFunction::AsText,
        JsonFunction::ToJsonb,
        JsonFunction::Get,
        JsonFunction::GetText,
        JsonFunction::Object,
        JsonFunction::BuildObject,
        JsonFunction::BuildArray,
        JsonFunction::TypeOf,
        JsonFunction::ArrayLength,
    ];

    /// The name under which plans and users call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            JsonFunction::Parse => "jsonb",
            JsonFunction::AsText => "jsonb_text",
            JsonFunction::ToJsonb => "to_jsonb",
            JsonFunction::Get => "jsonb_get",
            JsonFunction::GetText => "jsonb_get_text",
            JsonFunction::Object => "jsonb_of_lists",
            JsonFunction::BuildObject => "jsonb_build_object",
            JsonFunction::BuildArray => "jsonb_build_array",
            JsonFunction::TypeOf => "jsonb_typeof",
            JsonFunction::ArrayLength => "jsonb_array_length",
        }
    }

    pub(crate) fn function(self) -> Arc<ScalarUDF> {
        let signature = match self {
            JsonFunction::Parse
            | JsonFunction::AsText
            | JsonFunction::ToJsonb
            | JsonFunction::TypeOf
            | JsonFunction::ArrayLength => Signature::any(1, Volatility::Immutable),
            JsonFunction::Get | JsonFunction::GetText | JsonFunction::Object => {
                Signature::any(2, Volatility::Immutable)
            }
            JsonFunction::BuildObject | JsonFunction::BuildArray => {
                Signature::variadic_any(Volatility::Immutable)
            }
        };
        Arc::new(ScalarUDF::from(Function { function: self, signature }))
    }

    fn compute(self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match (self, args) {
            (JsonFunction::Parse, [texts]) if is_jsonb(texts.data_type()) => Ok(texts.clone()),
            (JsonFunction::Parse, [texts]) => {
                let texts = cast(texts, &DataType::Utf8View)?;
                let read = |text: Option<&str>| text.map(values::parsed).transpose();
                column(texts.as_string_view().iter().map(read).collect::<Result<_>>()?)
            }
            (JsonFunction::AsText, [documents]) => Ok(Arc::new(texts_of(documents)?)),
            (JsonFunction::ToJsonb, [values]) => {
                let nulls = values.logical_nulls();
                let read = |row: usize| match nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                    true => Ok(None),
                    false => json_of(values, row).map(Some),
                };
                column((0..values.len()).map(read).collect::<Result<_>>()?)
            }
            (JsonFunction::Get, [from, at]) => column(parts(from, at)?),
            (JsonFunction::GetText, [from, at]) => {
                let text = |part: Option<Json>| match part {
                    None | Some(Json::Null) => None,
                    Some(Json::Text(text)) => Some(text),
                    Some(other) => Some(other.text()),
                };
                Ok(Arc::new(parts(from, at)?.into_iter().map(text).collect::<StringViewArray>()))
            }
            (JsonFunction::Object, [keys, items]) => objects_of_lists(keys, items),
            (JsonFunction::BuildObject, pairs) => built_objects(pairs, rows),
            (JsonFunction::BuildArray, items) => {
                let list = |row| {
                    let items = items.iter().map(|item| json_of(item, row));
                    Ok(Some(Json::List(items.collect::<Result<Vec<Json>>>()?)))
                };
                column((0..rows).map(list).collect::<Result<_>>()?)
            }
            (JsonFunction::TypeOf, [from]) => {
                let kinds = documents(from)?.into_iter().map(|json| json.map(|json| json.kind()));
                Ok(Arc::new(kinds.collect::<StringViewArray>()))
            }
            (JsonFunction::ArrayLength, [from]) => {
                let length = |json: Option<Json>| match json {
                    None => Ok(None),
                    Some(Json::List(items)) => Ok(Some(items.len() as i32)),
                    Some(other) => exec_err!("the length of a JSON {}, not an array", other.kind()),
                };
                let lengths = documents(from)?.into_iter().map(length);
                Ok(Arc::new(lengths.collect::<Result<Int32Array>>()?))
            }
            _ => plan_err!("{} was called with other arguments than it takes", self.name()),
        }
    }
}

/// The parts of documents that keys or places name.
fn parts(from: &ArrayRef, at: &ArrayRef) -> Result<Vec<Option<Json>>> {
    let found = documents(from)?;
    if at.data_type().is_integer() {
        let at = cast(at, &DataType::Int64)?;
        let at = at.as_primitive::<Int64Type>();
        let part = |(json, at): (Option<Json>, Option<i64>)| json?.element(at?).cloned();
        return Ok(found.into_iter().zip(at.iter()).map(part).collect());
    }
    let at = cast(at, &DataType::Utf8View)?;
    let at = at.as_string_view();
    let part = |(json, at): (Option<Json>, Option<&str>)| json?.field(at?).cloned();
    Ok(found.into_iter().zip(at.iter()).map(part).collect())
}

/// For each row an object of a list of keys and one of values.
fn objects_of_lists(keys: &ArrayRef, items: &ArrayRef) -> Result<ArrayRef> {
    let (keys, items) = (keys.as_list::<i32>(), items.as_list::<i32>());
    let object = |row: usize| {
        if keys.is_null(row) || items.is_null(row) {
            return Ok(None);
        }
        let (keys, items) = (keys.value(row), items.value(row));
        let pairs = (0..keys.len()).map(|at| Ok((key_of(&keys, at)?, json_of(&items, at)?)));
        Ok(Some(Json::object(pairs.collect::<Result<_>>()?)))
    };
    column((0..keys.len()).map(object).collect::<Result<_>>()?)
}

fn built_objects(pairs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let object = |row: usize| {
        let pairs =
            pairs.chunks(2).map(|pair| Ok((key_of(&pair[0], row)?, json_of(&pair[1], row)?)));
        Ok(Some(Json::object(pairs.collect::<Result<_>>()?)))
    };
    column((0..rows).map(object).collect::<Result<_>>()?)
}

fn key_of(keys: &ArrayRef, row: usize) -> Result<String> {
    if keys.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return exec_err!("a key of a JSON object is NULL");
    }
    text_of(keys, row)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    function: JsonFunction,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let is_text = |t: &DataType| t.is_string() || t.is_null();
        let (takes, gives) = match self.function {
            JsonFunction::Parse => (args.iter().all(|t| is_text(t) || is_jsonb(t)), jsonb_type()),
            JsonFunction::AsText | JsonFunction::TypeOf => {
                (args.iter().all(is_jsonb), DataType::Utf8View)
            }
            JsonFunction::ArrayLength => (args.iter().all(is_jsonb), DataType::Int32),
            JsonFunction::Get | JsonFunction::GetText => {
                let fits = matches!(args, [from, at]
                    if is_jsonb(from) && (is_text(at) || at.is_integer()));
                let text = self.function == JsonFunction::GetText;
                (fits, if text { DataType::Utf8View } else { jsonb_type() })
            }
            JsonFunction::Object => {
                (args.iter().all(|t| matches!(t, DataType::List(_))), jsonb_type())
            }
            JsonFunction::BuildObject => (args.len().is_multiple_of(2), jsonb_type()),
            JsonFunction::ToJsonb | JsonFunction::BuildArray => (true, jsonb_type()),
        };
        match takes {
            true => Ok(gives),
            false => plan_err!("{} does not take arguments of these types", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.is_empty() {
            let one = self.function.compute(&[], 1)?;
            let value = datafusion_common::ScalarValue::try_from_array(&one, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        over_arrays(&args, |arrays| self.function.compute(arrays, arrays[0].len()))
    }
}
