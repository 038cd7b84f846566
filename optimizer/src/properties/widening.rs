//! Columns that tell rows apart stay such under a cast that gives different values for different ones, or fails.

use std::collections::BTreeSet;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_expr::Expr;

use crate::physical::{ColumnId, ColumnTable};

/// Sets of columns that tell rows apart, each also with computed casts in place of columns.
pub fn with_widened(
    mut unique: Vec<BTreeSet<ColumnId>>,
    computed: &[(ColumnId, Expr)],
    columns: &ColumnTable,
) -> Vec<BTreeSet<ColumnId>> {
    for (id, expr) in computed {
        let Expr::Cast(cast) = expr else { continue };
        let Some(source) = ColumnId::from_expr(&cast.expr) else { continue };
        let (from, to) = (&columns.get(source).data_type, &columns.get(*id).data_type);
        if !tells_apart(from, to) {
            continue;
        }
        let of_source = unique.iter().filter(|set| set.contains(&source));
        let widened: Vec<BTreeSet<ColumnId>> = of_source
            .map(|set| set.iter().map(|c| if *c == source { *id } else { *c }).collect())
            .collect();
        unique.extend(widened);
    }
    unique
}

/// Whether a cast gives different values for different ones. A number that does not fit an integer type is an error.
fn tells_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, Timestamp,
        Utf8, Utf8View,
    };
    match (from, to) {
        (from, to) if from == to || (from.is_integer() && to.is_integer()) => true,
        (Int8 | Int16, Float32 | Float64)
        | (Int32 | Float32, Float64)
        | (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Date32, Timestamp(..)) => true,
        (Int8 | Int16 | Int32 | Int64, Decimal128(precision, scale)) => {
            i16::from(*precision) - i16::from(*scale) >= 19
        }
        (Decimal128(_, 0), to) if to.is_integer() => true,
        (Decimal128(before, scale_before), Decimal128(after, scale)) => {
            let whole = |precision: &u8, scale: &i8| i16::from(*precision) - i16::from(*scale);
            scale >= scale_before && whole(after, scale) >= whole(before, scale_before)
        }
        (Timestamp(before, zone_before), Timestamp(after, zone)) => {
            zone_before == zone && ticks(*after) >= ticks(*before)
        }
        _ => false,
    }
}

fn ticks(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_hold_all_values_or_refuse_them_keep_them_apart() {
        assert!(tells_apart(&DataType::Int32, &DataType::Int64));
        assert!(tells_apart(&DataType::Int64, &DataType::Int32));
        assert!(!tells_apart(&DataType::Int64, &DataType::Float64));
        assert!(tells_apart(&DataType::Decimal128(20, 0), &DataType::Int64));
        assert!(!tells_apart(&DataType::Decimal128(20, 1), &DataType::Int64));
        assert!(tells_apart(&DataType::Int64, &DataType::Decimal128(21, 2)));
        assert!(!tells_apart(&DataType::Int64, &DataType::Decimal128(20, 2)));
        assert!(!tells_apart(&DataType::Decimal128(10, 4), &DataType::Decimal128(20, 2)));
        let timestamp = |unit| DataType::Timestamp(unit, None);
        assert!(tells_apart(&timestamp(TimeUnit::Millisecond), &timestamp(TimeUnit::Microsecond)));
        assert!(!tells_apart(&timestamp(TimeUnit::Microsecond), &timestamp(TimeUnit::Second)));
    }
}
