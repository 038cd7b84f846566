//! The time as a table, for views that follow it.
//!
//! One row with one column, which is changed when views commit. Invariant: the time never goes back.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parking_lot::Mutex;
use thalweg_planner::CLOCK_TIME;

use crate::connectors::MemoryTable;
use crate::error::Result;

/// The zone of the column, in which nothing is shown.
const ZONE: &str = "UTC";

/// The table, from when somebody first asks for it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    table: OnceLock<MemoryTable>,
    last_us: Mutex<i64>,
}

impl Clock {
    /// The table with the time of now.
    ///
    /// # Errors
    /// What the table reports.
    pub(crate) fn table(&self) -> Result<MemoryTable> {
        let table = self.table.get_or_init(|| MemoryTable::new(schema(), Vec::new())).clone();
        self.tick()?;
        Ok(table)
    }

    /// Lets the time go on, if anybody has asked for the table.
    ///
    /// # Errors
    /// What the table reports.
    pub(crate) fn tick(&self) -> Result<()> {
        let Some(table) = self.table.get() else { return Ok(()) };
        let mut last = self.last_us.lock();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        *last = (*last).max(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
        let time = TimestampMicrosecondArray::from(vec![*last]).with_timezone(ZONE);
        let row = RecordBatch::try_new(schema(), vec![Arc::new(time)])?;
        table.replace(vec![row])?;
        Ok(())
    }
}

fn schema() -> SchemaRef {
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
    Arc::new(Schema::new(vec![Field::new(CLOCK_TIME, zoned, false)]))
}
