//! Constants that can be sent: a [`ScalarValue`] written as an Arrow IPC stream of one row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use datafusion_common::ScalarValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// A typed constant, NULL included. Serialised as Arrow IPC, since that knows every type.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal(pub ScalarValue);

impl Serialize for Literal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        encode(&self.0).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Literal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        decode(&bytes).map(Literal).map_err(de::Error::custom)
    }
}

fn encode(value: &ScalarValue) -> crate::Result<Vec<u8>> {
    let array = value.to_array()?;
    let schema = Arc::new(Schema::new(vec![Field::new("v", array.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array])?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

fn decode(bytes: &[u8]) -> crate::Result<ScalarValue> {
    let batch = StreamReader::try_new(bytes, None)?
        .next()
        .ok_or_else(|| crate::Error::Internal("a literal without a row".into()))??;
    Ok(ScalarValue::try_from_array(batch.column(0), 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_survive_serialisation() {
        let values = [
            ScalarValue::Int32(Some(-7)),
            ScalarValue::Utf8View(None),
            ScalarValue::Utf8View(Some("thalweg".into())),
            ScalarValue::Decimal128(Some(12345), 15, 2),
            ScalarValue::Float64(Some(f64::NAN)),
            ScalarValue::Null,
        ];
        for value in values {
            let text = serde_json::to_string(&Literal(value.clone())).unwrap();
            let back: Literal = serde_json::from_str(&text).unwrap();
            assert_eq!(back.0.data_type(), value.data_type());
            assert_eq!(back.0.to_string(), value.to_string());
        }
    }
}
