//! The options of `WITH (…)` that do not depend on the connector: what becomes of records that cannot be read and of rows
//! without a time, when a source is idle, and which sources wait for each other.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_planner::{TableName, intervals};
use thalweg_runtime::source::{AlignmentSpec, NullTime};

use super::statement::StatementContext;
use crate::catalog::{Entry, OnConflict, TimeOptions};
use crate::connectors::registry::DEAD_LETTERS;
use crate::connectors::{DEAD_LETTER_COLUMNS, MemoryTable, wrong_value};
use crate::error::{Error, Report, Result};

/// The options of event time.
const NULL_HANDLING: &str = "scan.watermark.null-handling";
const EMIT: &str = "scan.watermark.emit";
const IDLE_TIMEOUT: &str = "scan.watermark.idle-timeout";
const GROUP: &str = "scan.watermark.alignment.group";
const MAX_DRIFT: &str = "scan.watermark.alignment.max-drift";
const UPDATE_INTERVAL: &str = "scan.watermark.alignment.update-interval";
/// How long watermarks lie apart that are emitted from time to time, unless the table says so.
const EMIT_INTERVAL_NS: u64 = 200_000_000;
/// How often a scan that waits looks at the others, unless the table says so.
const UPDATE_INTERVAL_US: i64 = 1_000_000;

/// What the options say.
#[derive(Debug, Default)]
pub(super) struct TableOptions {
    /// The number of the table in memory that takes records which cannot be read.
    pub(super) dead_letters: Option<u64>,
    /// What they say of event time.
    pub(super) time: TimeOptions,
}

/// The parts of an alignment as they are written.
#[derive(Debug, Default)]
struct Alignment {
    group: Option<String>,
    max_drift_us: Option<i64>,
    update_interval_us: Option<i64>,
}

impl TableOptions {
    /// Takes them out of all options of a table. A dead-letter table that is not there is made.
    pub(super) fn take(
        cx: &StatementContext<'_>,
        options: &mut Vec<(String, String)>,
        has_watermark: bool,
    ) -> Result<Self> {
        let mut taken = TableOptions::default();
        let (mut letters, mut alignment, mut of_time) = (None, Alignment::default(), None);
        let mut left = Vec::with_capacity(options.len());
        for (key, value) in options.drain(..) {
            let lower = key.to_ascii_lowercase();
            match lower.as_str() {
                DEAD_LETTERS => letters = Some(value.clone()),
                NULL_HANDLING => taken.time.null_time = Some(null_time(&value)?),
                EMIT => taken.time.emit_interval_ns = emit_interval_ns(&value)?,
                IDLE_TIMEOUT => {
                    let micros = micros(IDLE_TIMEOUT, &value)?;
                    taken.time.idle_timeout_ns = micros.unsigned_abs().saturating_mul(1_000);
                }
                GROUP => alignment.group = Some(value.clone()),
                MAX_DRIFT => alignment.max_drift_us = Some(micros(MAX_DRIFT, &value)?),
                UPDATE_INTERVAL => {
                    alignment.update_interval_us = Some(micros(UPDATE_INTERVAL, &value)?.max(1));
                }
                _ => {
                    left.push((key, value));
                    continue;
                }
            }
            if lower != DEAD_LETTERS {
                of_time = Some(lower);
            }
        }
        *options = left;
        if let Some(key) = of_time.filter(|_| !has_watermark) {
            let report = Report::new(format!("{key} is for tables with an event time"));
            let hint = "Declare WATERMARK FOR column AS expression.".to_string();
            return Err(Error::catalog(report.with_hint(hint)));
        }
        taken.time.alignment = alignment.spec()?;
        taken.dead_letters = letters.map(|name| dead_letters(cx, &name)).transpose()?;
        Ok(taken)
    }
}

impl Alignment {
    fn spec(self) -> Result<Option<AlignmentSpec>> {
        match (self.group, self.max_drift_us) {
            (Some(group), Some(max_drift_us)) => {
                let interval = self.update_interval_us.unwrap_or(UPDATE_INTERVAL_US);
                let update_interval_ns = interval.unsigned_abs().saturating_mul(1_000);
                Ok(Some(AlignmentSpec { group, max_drift_us, update_interval_ns }))
            }
            (None, None) if self.update_interval_us.is_none() => Ok(None),
            _ => Err(Error::catalog(Report::new(format!(
                "an alignment needs both {GROUP} and {MAX_DRIFT}"
            )))),
        }
    }
}

/// A length of time that is not negative, in microseconds.
fn micros(key: &str, value: &str) -> Result<i64> {
    let interval = intervals::parse(value).filter(|interval| interval.months == 0);
    let micros = interval.map(|i| i64::from(i.days) * 86_400_000_000 + i.nanoseconds / 1_000);
    micros
        .filter(|micros| *micros >= 0)
        .ok_or_else(|| wrong_value(key, value, "a time such as '5 s'"))
}

/// `on-event`, `on-periodic`, or how long watermarks lie apart.
fn emit_interval_ns(value: &str) -> Result<u64> {
    match value.trim().to_ascii_lowercase().replace('_', "-").as_str() {
        "on-event" => Ok(0),
        "on-periodic" => Ok(EMIT_INTERVAL_NS),
        _ => {
            let wrong =
                || wrong_value(EMIT, value, "on-event, on-periodic or a time such as '200 ms'");
            let micros = micros(EMIT, value).map_err(|_| wrong())?;
            Ok(micros.unsigned_abs().saturating_mul(1_000))
        }
    }
}

fn null_time(value: &str) -> Result<NullTime> {
    match value.trim().to_ascii_lowercase().replace('_', "-").as_str() {
        "fail" => Ok(NullTime::Fail),
        "drop" => Ok(NullTime::Drop),
        "skip-watermark" => Ok(NullTime::SkipWatermark),
        _ => Err(wrong_value(NULL_HANDLING, value, "fail, drop or skip-watermark")),
    }
}

/// The number of a dead-letter table.
fn dead_letters(cx: &StatementContext<'_>, name: &str) -> Result<u64> {
    let name = table_name(name);
    let catalog = cx.session.catalog();
    let table = match catalog.get(&name) {
        None => {
            let memory = cx.session.inner.executor.memory();
            let table = MemoryTable::new(columns(), Vec::new());
            let table = table.charged_to(memory, &name.to_string());
            let number = table.id();
            let columns = DEAD_LETTER_COLUMNS.map(|(name, of)| match of {
                DataType::Int64 => format!("{name} BIGINT"),
                _ => format!("{name} VARCHAR"),
            });
            let sql = format!("CREATE TABLE {name} ({});", columns.join(", "));
            let table = Arc::new(table);
            let entry = Entry::Table { table, sql: Some(sql), defaults: Arc::default() };
            catalog.create(&name, entry, false, OnConflict::Fail)?;
            return Ok(number);
        }
        Some(Entry::Table { table, .. }) => table,
        Some(Entry::View { .. } | Entry::MaterializedView { .. }) => {
            return Err(unfit(&name, "It is a view.".to_string()));
        }
    };
    let Some(memory) = (table.as_ref() as &dyn Any).downcast_ref::<MemoryTable>() else {
        return Err(unfit(&name, "It is no plain table in memory.".to_string()));
    };
    match lacking(&table.schema()) {
        Some(lack) => Err(unfit(&name, lack)),
        None => Ok(memory.id()),
    }
}

/// A name in one or two parts, as in a statement without quotes.
fn table_name(name: &str) -> TableName {
    match name.trim().split_once('.') {
        Some((schema, table)) => TableName::partial(schema.trim(), table.trim()),
        None => TableName::bare(name.trim()),
    }
}

fn columns() -> SchemaRef {
    let fields = DEAD_LETTER_COLUMNS.map(|(name, of)| Field::new(name, of, true));
    Arc::new(Schema::new(fields.to_vec()))
}

/// What the columns of a table lack to take records which cannot be read.
fn lacking(schema: &Schema) -> Option<String> {
    for (name, wanted) in DEAD_LETTER_COLUMNS {
        let Ok(field) = schema.field_with_name(name) else {
            return Some(format!("It has no column \"{name}\"."));
        };
        let of = field.data_type();
        let fits = match wanted {
            DataType::Int64 => *of == DataType::Int64,
            _ => *of == DataType::Utf8View || (name == "raw" && *of == DataType::Binary),
        };
        if !fits {
            return Some(format!("Its column \"{name}\" has another type."));
        }
    }
    let known = |name: &str| DEAD_LETTER_COLUMNS.iter().any(|(column, _)| *column == name);
    let other = schema.fields().iter().find(|f| !known(f.name()) && !f.is_nullable());
    other.map(|field| format!("Its column \"{}\" is NOT NULL.", field.name()))
}

fn unfit(name: &TableName, why: String) -> Error {
    let report = Report::new(format!("\"{name}\" cannot be a dead-letter table")).with_detail(why);
    Error::catalog(report.with_hint(
        "It is made as CREATE TABLE name (source VARCHAR, line BIGINT, raw VARCHAR, error VARCHAR) if it is not there."
            .to_string(),
    ))
}
