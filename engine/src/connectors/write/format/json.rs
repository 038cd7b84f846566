//! Rows as JSON objects.

use arrow::array::ArrayRef;
use thalweg_runtime::Result;

use super::values::Values;

/// Writes each row as an object; `separator` writes what comes in front of a row. NULL is written as `null`.
pub fn write_json_rows(
    names: &[&str],
    columns: &[ArrayRef],
    rows: usize,
    mut separator: impl FnMut(usize, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<()> {
    let columns = columns.iter().map(Values::new).collect::<Result<Vec<_>>>()?;
    let mut keys = Vec::with_capacity(names.len());
    for name in names {
        let mut key = Vec::new();
        write_json_string(name, &mut key);
        key.push(b':');
        keys.push(key);
    }
    for row in 0..rows {
        separator(row, out);
        out.push(b'{');
        for (i, (key, values)) in keys.iter().zip(&columns).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            values.write_json(row, out);
        }
        out.push(b'}');
    }
    Ok(())
}

/// Writes a string with its quotes.
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..=0x1f => 0,
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain..i]);
        plain = i + 1;
        match short {
            0 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            short => out.extend_from_slice(&[b'\\', short]),
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Decimal128Array, Float64Array, Int64Array, ListArray, StringArray, StructArray,
    };
    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::*;

    #[test]
    fn values_keep_their_kind() {
        let list =
            ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), None])]);
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let object =
            StructArray::from(vec![(Arc::new(Field::new("k", DataType::Int64, true)), inner)]);
        let decimal = Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec!["a\"\\\n\u{1}é"])),
            Arc::new(Float64Array::from(vec![f64::NAN])),
            Arc::new(decimal),
            Arc::new(list),
            Arc::new(object),
            Arc::new(Int64Array::from(vec![None::<i64>])),
        ];
        let mut out = Vec::new();
        let names = ["s", "f", "d", "l", "o", "n"];
        write_json_rows(&names, &columns, 1, |_, _| {}, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"s":"a\"\\\n\u0001é","f":"NaN","d":1.50,"l":[1,null],"o":{"k":7},"n":null}"#
        );
    }
}
