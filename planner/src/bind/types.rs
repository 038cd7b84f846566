//! SQL type names that mean something else here than in the library: the names of PostgreSQL, and timestamps in
//! microseconds.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::Result;
use datafusion_expr::planner::TypePlanner;
use datafusion_sql::sqlparser::ast::{DataType as SqlType, ExactNumberInfo, TimezoneInfo};

use super::text_casts::vector_dimensions;
use crate::jsonb::jsonb_type;
use crate::vectors::vector_type;

/// See the module.
#[derive(Debug)]
pub(super) struct Types {
    /// The zone of TIMESTAMP WITH TIME ZONE.
    pub(super) time_zone: Arc<str>,
}

/// `FLOAT(p)` up to this many bits is a REAL.
const REAL_BITS: u64 = 24;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let data_type = match sql_type {
            SqlType::Timestamp(precision, zone) => self.timestamp(*precision, zone),
            SqlType::Datetime(precision) => self.timestamp(*precision, &TimezoneInfo::None),
            SqlType::TimestampNtz(precision) => self.timestamp(*precision, &TimezoneInfo::None),
            SqlType::Float(ExactNumberInfo::None) | SqlType::Double(_) => DataType::Float64,
            SqlType::Float(ExactNumberInfo::Precision(bits)) if *bits <= REAL_BITS => {
                DataType::Float32
            }
            SqlType::Float(ExactNumberInfo::Precision(_)) => DataType::Float64,
            SqlType::CharacterVarying(_) | SqlType::Character(_) | SqlType::Nvarchar(_) => {
                DataType::Utf8View
            }
            SqlType::Blob(_) | SqlType::Bytes(_) => DataType::Binary,
            SqlType::JSONB => jsonb_type(),
            SqlType::Custom(name, modifiers) => match vector_dimensions(sql_type) {
                Some(dimensions) => vector_type(dimensions),
                None if name.to_string().eq_ignore_ascii_case("timestamp_ltz") => {
                    let precision = modifiers.first().and_then(|p| p.parse().ok());
                    self.timestamp(precision, &TimezoneInfo::WithTimeZone)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

impl Types {
    /// Microseconds, unless the precision asks for nanoseconds.
    fn timestamp(&self, precision: Option<u64>, zone: &TimezoneInfo) -> DataType {
        let unit = if precision.is_some_and(|p| p > 6) {
            TimeUnit::Nanosecond
        } else {
            TimeUnit::Microsecond
        };
        let zone = match zone {
            TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => Some(Arc::clone(&self.time_zone)),
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
        };
        DataType::Timestamp(unit, zone)
    }
}
