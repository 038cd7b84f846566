//! Functions in FROM: files whose names do not tell the format, series of numbers, and rows that came too late.
//!
//! Arguments must be constants.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use thalweg_planner::suggest;

use super::table::Table;
use crate::connectors::series::{Series, SeriesTable};
use crate::connectors::{FileFormat, FileOptions, FileTable};
use crate::error::{Error, Report, Result};

/// The names of all table functions.
pub(crate) const NAMES: [&str; 7] =
    ["generate_series", LATE_ROWS, "range", "read_arrow", "read_csv", "read_json", "read_parquet"];

/// The function of the rows that came too late, for which a session is needed.
pub(crate) const LATE_ROWS: &str = "late_rows";

/// The table behind a call; `None` when there is no function of this name.
pub(crate) fn table(name: &str, args: &[Expr]) -> Result<Option<Arc<dyn Table>>> {
    let format = match name {
        "generate_series" => return series(name, args, true).map(Some),
        "range" => return series(name, args, false).map(Some),
        "read_csv" => FileFormat::Csv,
        "read_json" => FileFormat::Json,
        "read_parquet" => FileFormat::Parquet,
        "read_arrow" => FileFormat::Arrow,
        _ => return Ok(None),
    };
    files(name, format, args).map(Some)
}

/// `read_csv('path', …)`: paths or globs.
fn files(name: &str, format: FileFormat, args: &[Expr]) -> Result<Arc<dyn Table>> {
    let paths = args.iter().map(|arg| text_of(name, arg)).collect::<Result<Vec<_>>>()?;
    if paths.is_empty() {
        return Err(Error::statement(format!("{name} needs the path of a file")));
    }
    Ok(Arc::new(FileTable::discover(&paths, Some(format), &FileOptions::default())?))
}

/// `generate_series([start,] stop[, step])` with its end, `range([start,] stop[, step])` without; it starts at 0.
fn series(name: &str, args: &[Expr], inclusive: bool) -> Result<Arc<dyn Table>> {
    let numbers = args.iter().map(|arg| number_of(name, arg)).collect::<Result<Vec<_>>>()?;
    let series = match numbers.as_slice() {
        [stop] => Series::new(0, *stop, 1, inclusive)?,
        [start, stop] => Series::new(*start, *stop, 1, inclusive)?,
        [start, stop, step] => Series::new(*start, *stop, *step, inclusive)?,
        _ => {
            return Err(Error::statement(format!(
                "{name} takes a stop, or a start, a stop and perhaps a step"
            )));
        }
    };
    Ok(Arc::new(SeriesTable::new(series)))
}

fn number_of(name: &str, arg: &Expr) -> Result<i64> {
    let literal = match arg {
        Expr::Literal(value, _) => {
            value.cast_to(&DataType::Int64).ok().filter(|_| value.data_type().is_integer())
        }
        _ => None,
    };
    match literal {
        Some(ScalarValue::Int64(Some(number))) => Ok(number),
        _ => Err(Error::statement(format!("the argument {arg} of {name} is not a whole number"))),
    }
}

/// Sets an option of a file table; an unknown one is an error with a suggestion.
/// `others` are the options that the statement knows beside those of files.
pub(crate) fn set_option(
    options: &mut FileOptions,
    (key, value): (&str, &str),
    others: &[&str],
) -> Result<()> {
    match options.set(key, value)? {
        true => Ok(()),
        false => {
            let known = others.iter().copied().chain(FileOptions::KEYS);
            Err(unknown_option(key, &known.collect::<Vec<_>>()))
        }
    }
}

/// An option that is none of the known ones.
pub(crate) fn unknown_option(key: &str, known: &[&str]) -> Error {
    let hint = suggest::did_you_mean(key, known.iter().copied());
    let report = Report::new(format!("unknown option \"{key}\""));
    let report = report.with_detail(format!("The options are: {}.", known.join(", ")));
    Error::catalog(report.with_hint(hint))
}

/// The argument of a function of one text.
pub(crate) fn only_text(name: &str, args: &[Expr]) -> Result<String> {
    match args {
        [arg] => text_of(name, arg),
        _ => Err(Error::statement(format!("{name} takes one argument, a text"))),
    }
}

fn text_of(name: &str, arg: &Expr) -> Result<String> {
    match arg {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => Ok(text.to_string()),
            _ => Err(wrong_argument(name, value)),
        },
        other => Err(Error::statement(format!("the argument {other} of {name} is not a constant"))),
    }
}

fn wrong_argument(name: &str, value: &ScalarValue) -> Error {
    Error::statement(format!("the argument {value} of {name} is not a text"))
}
