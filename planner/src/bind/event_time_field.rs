//! The options `event_time_field` and `watermark_field` of a table: another way to write `WATERMARK FOR column AS column`.

use datafusion_sql::sqlparser::ast::{Expr, Ident};

use crate::error::{PlannerError, Result};
use crate::parse::{TableColumns, WatermarkAst};

/// What is declared of a table's columns, with the watermark that its options ask for; those are taken out.
pub(super) fn with_event_time_field(
    declared: &TableColumns,
    options: &mut Vec<(String, String)>,
) -> Result<TableColumns> {
    let mut take = |key: &str| {
        let at = options.iter().position(|(k, _)| k == key)?;
        Some(options.remove(at).1)
    };
    let (time, watermark) = (take("event_time_field"), take("watermark_field"));
    let mut declared = declared.clone();
    let Some(time) = time else {
        return match watermark {
            None => Ok(declared),
            Some(_) => Err(PlannerError::invalid("watermark_field needs event_time_field")
                .with_hint("declare WATERMARK FOR time AS expression instead".to_string())),
        };
    };
    if declared.watermark.is_some() {
        return Err(PlannerError::invalid("a table has event_time_field or a WATERMARK, not both"));
    }
    let quoted = |name: &str| Ident::with_quote('"', name);
    let expr = Expr::Identifier(quoted(watermark.as_deref().unwrap_or(&time)));
    declared.watermark = Some(WatermarkAst { column: quoted(&time), expr, ttl: false });
    Ok(declared)
}
