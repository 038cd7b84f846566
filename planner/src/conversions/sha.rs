//! The SHA-2 digests of texts and bytes, as bytes: `sha224`, `sha256`, `sha384`, `sha512`, and `digest(value, name)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{md5, over_arrays};

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let own = |name, arguments| {
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Sha { name, signature }))
    };
    let mut all = ["sha224", "sha256", "sha384", "sha512"].map(|name| own(name, 1)).to_vec();
    all.push(own("digest", 2));
    all
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sha {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Sha {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match arrays {
            [values] => digests(values, |_| Some(self.name)),
            [values, names] => {
                let names = cast(names, &DataType::Utf8View)?;
                let names = names.as_string_view();
                digests(values, |row| names.is_valid(row).then(|| names.value(row)))
            }
            _ => exec_err!("{} takes one or two arguments", self.name),
        })
    }
}

fn digests<'a>(values: &ArrayRef, name: impl Fn(usize) -> Option<&'a str>) -> Result<ArrayRef> {
    let text = cast(values, &DataType::Binary)?;
    let bytes: &BinaryArray = text.as_binary::<i32>();
    let mut out = BinaryBuilder::new();
    for (row, value) in bytes.iter().enumerate() {
        match (value, name(row)) {
            (Some(value), Some(name)) => out.append_value(digest(name, value)?),
            (None, _) | (_, None) => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn digest(name: &str, value: &[u8]) -> Result<Vec<u8>> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "md5" => md5::digest(value).to_vec(),
        "sha224" => Sha224::digest(value).to_vec(),
        "sha256" => Sha256::digest(value).to_vec(),
        "sha384" => Sha384::digest(value).to_vec(),
        "sha512" => Sha512::digest(value).to_vec(),
        _ => {
            return exec_err!("there is no digest \"{name}\": md5, sha224, sha256, sha384, sha512");
        }
    })
}
