//! Functions of text that the library lacks, or that it lets grow without bounds.
//!
//! `repeat`, `lpad`, `rpad`, `concat` and `concat_ws` fail before they take more memory than is allowed for the results of one call, which
//! whoever owns the process sets; `md5` and `version` are ours.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion_functions::{string, unicode};

use super::md5::digest;
use super::over_arrays;

/// What the results of one call may take when nobody has set it: the longest text PostgreSQL knows.
const RESULT_BYTES_MAX: usize = 1 << 30;

static ALLOWED: AtomicUsize = AtomicUsize::new(RESULT_BYTES_MAX);

/// Sets how many bytes the texts may have that one call of a function makes for one batch.
pub fn limit_results(bytes: usize) {
    ALLOWED.store(bytes.min(RESULT_BYTES_MAX), Ordering::Relaxed);
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let bounded =
        [string::repeat(), unicode::lpad(), unicode::rpad(), string::concat(), string::concat_ws()];
    let mut all: Vec<Arc<ScalarUDF>> =
        bounded.map(|library| Arc::new(ScalarUDF::from(Bounded { library }))).to_vec();
    let md5 = Signature::string(1, Volatility::Immutable);
    all.push(Arc::new(ScalarUDF::from(Own { name: "md5", signature: md5 })));
    let version = Signature::nullary(Volatility::Immutable);
    all.push(Arc::new(ScalarUDF::from(Own { name: "version", signature: version })));
    all
}

/// A function of the library that is not called when its result would be too long.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    library: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn aliases(&self) -> &[String] {
        self.library.aliases()
    }

    fn signature(&self) -> &Signature {
        self.library.signature()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.library.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.library.return_field_from_args(args)
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.library.coerce_types(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = match self.name() {
            "concat" | "concat_ws" => joined_bytes(&args),
            name => result_bytes(name == "repeat", &args)?,
        };
        let allowed = ALLOWED.load(Ordering::Relaxed);
        if bytes > allowed as u128 {
            return exec_err!(
                "the result of {} would have {bytes} bytes, and a result may have {allowed}",
                self.name()
            );
        }
        self.library.invoke_with_args(args)
    }
}

/// The bytes of all texts of all rows; those of separators, which `concat_ws` puts between them, are counted once.
fn joined_bytes(args: &ScalarFunctionArgs) -> u128 {
    let all = args.args.iter().map(|arg| match arg {
        ColumnarValue::Scalar(value) => {
            let length = value.try_as_str().flatten().map_or(0, str::len);
            length as u128 * args.number_rows as u128
        }
        ColumnarValue::Array(texts) => match texts.data_type() {
            // The length is the low half of a view.
            DataType::Utf8View => {
                let views = texts.as_string_view().views().iter();
                views.map(|view| u128::from(*view as u32)).sum()
            }
            DataType::Utf8 => {
                let offsets = texts.as_string::<i32>().value_offsets();
                let ends = offsets.first().zip(offsets.last());
                ends.map_or(0, |(first, last)| (last - first) as u128)
            }
            DataType::LargeUtf8 => {
                let offsets = texts.as_string::<i64>().value_offsets();
                let ends = offsets.first().zip(offsets.last());
                ends.map_or(0, |(first, last)| (last - first) as u128)
            }
            _ => 0,
        },
    });
    all.sum()
}

/// The bytes of the results, or a little more. Padded texts have as many characters as the second argument says, of
/// four bytes at most.
fn result_bytes(repeats: bool, args: &ScalarFunctionArgs) -> Result<u128> {
    let [text, number, ..] = args.args.as_slice() else { return Ok(0) };
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let numbers = cast(&number.to_array(rows)?, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let count = |row: usize| match numbers.is_valid(row) {
        true => u128::try_from(numbers.value(row)).unwrap_or(0),
        false => 0,
    };
    if !repeats {
        let ascii = args.args.get(2).is_none_or(|fill| match fill {
            ColumnarValue::Scalar(fill) => fill.try_as_str().flatten().is_none_or(str::is_ascii),
            ColumnarValue::Array(_) => false,
        });
        let width = if ascii { 1 } else { 4 };
        return Ok((0..rows).map(|row| width * count(row)).sum());
    }
    let texts = cast(&text.to_array(rows)?, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let length = |row: usize| if texts.is_valid(row) { texts.value(row).len() as u128 } else { 0 };
    Ok((0..rows).map(|row| length(row) * count(row)).sum())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Own {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match arrays {
            [] => {
                let version = concat!("Thalweg ", env!("CARGO_PKG_VERSION"));
                Ok(Arc::new(StringViewArray::from(vec![version])) as ArrayRef)
            }
            [texts] => digests(texts),
            _ => plan_err!("{} takes one argument", self.name),
        })
    }
}

fn digests(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let hexadecimal = |text: &str| {
        digest(text.as_bytes()).iter().fold(String::with_capacity(32), |mut out, byte| {
            // Writing to a string does not fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
    };
    let digests = texts.as_string_view().iter().map(|text| text.map(hexadecimal));
    Ok(Arc::new(digests.collect::<StringViewArray>()))
}
