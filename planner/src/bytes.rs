//! Bytes written as text: what `CAST(text AS BYTEA)` means.
//!
//! `\xDEADBEEF` is PostgreSQL's hexadecimal form, in which the engine itself writes bytes; else `\xHH`, `\ooo` and `\\`
//! stand for one byte each, and so does every other ASCII character; others are refused, since their bytes depend on an
//! encoding. What has no text is cast as usual.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name that stands for the cast in plans.
pub(crate) const BYTEA: &str = "bytea";

/// The function behind `CAST(… AS BYTEA)`.
pub(crate) fn bytea() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Bytea { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bytea {
    signature: Signature,
}

impl ScalarUDFImpl for Bytea {
    fn name(&self) -> &str {
        BYTEA
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return exec_err!("{BYTEA} takes one argument");
        };
        match value {
            ColumnarValue::Array(array) => bytes(array).map(ColumnarValue::Array),
            ColumnarValue::Scalar(scalar) => {
                let bytes = bytes(&scalar.to_array()?)?;
                let value = datafusion_common::ScalarValue::try_from_array(&bytes, 0)?;
                Ok(ColumnarValue::Scalar(value))
            }
        }
    }
}

fn bytes(values: &ArrayRef) -> Result<ArrayRef> {
    let text = match values.data_type() {
        DataType::Utf8 => values.clone(),
        DataType::LargeUtf8 | DataType::Utf8View => cast(values, &DataType::Utf8)?,
        DataType::Dictionary(_, of) if of.is_string() => cast(values, &DataType::Utf8)?,
        _ => return Ok(cast(values, &DataType::Binary)?),
    };
    let text = text.as_string::<i32>();
    let mut out = BinaryBuilder::with_capacity(text.len(), text.value_data().len());
    let mut buffer = Vec::new();
    for value in text {
        match value {
            None => out.append_null(),
            Some(value) => {
                buffer.clear();
                if parse(value.as_bytes(), &mut buffer).is_none() {
                    return exec_err!(
                        "\"{value}\" is not the text of bytes: write others than ASCII as \\xHH"
                    );
                }
                out.append_value(&buffer);
            }
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Adds the bytes that a text stands for; `None` when an escape is broken.
fn parse(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if let Some(digits) = text.strip_prefix(b"\\x")
        && !digits.contains(&b'\\')
        && digits.len() % 2 == 0
        && digits.iter().all(u8::is_ascii_hexdigit)
    {
        for pair in digits.chunks(2) {
            out.push(16 * digit(pair[0], 16)? + digit(pair[1], 16)?);
        }
        return Some(());
    }
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if !byte.is_ascii() {
            // Which bytes are meant depends on an encoding.
            return None;
        }
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let escape = text.get(at + 1)?;
        at += match escape {
            b'\\' => {
                out.push(b'\\');
                2
            }
            b'x' | b'X' => {
                let (high, low) = (text.get(at + 2)?, text.get(at + 3)?);
                out.push(16 * digit(*high, 16)? + digit(*low, 16)?);
                4
            }
            _ => {
                let octal = text.get(at + 1..at + 4)?;
                let value = octal
                    .iter()
                    .try_fold(0_u32, |sum, byte| Some(8 * sum + u32::from(digit(*byte, 8)?)))?;
                out.push(u8::try_from(value).ok()?);
                4
            }
        };
    }
    Some(())
}

fn digit(byte: u8, radix: u32) -> Option<u8> {
    char::from(byte).to_digit(radix).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        parse(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn both_forms_of_bytes_are_read() {
        assert_eq!(parsed(r"\xdeadBEEF").unwrap(), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(parsed(r"\xAA\xFFa\000\\").unwrap(), [0xaa, 0xff, b'a', 0, b'\\']);
        assert_eq!(parsed("").unwrap(), [0_u8; 0]);
        for broken in ["ü", r"\xG0", r"\xA", r"\", r"a\9", r"\777"] {
            assert_eq!(parsed(broken), None, "{broken}");
        }
    }
}
