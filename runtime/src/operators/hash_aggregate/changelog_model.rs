//! What changelogs test beyond the aggregates of the batch model: values that must leave no trace, nested and computed
//! arguments, and functions whose result depends on the order of arrival, which one task alone keeps.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::ScalarValue;

use super::model::{
    self, ANYTHING, Expected, Row, by_float, distinct, filtered, float, list, mean, ordered,
    sorted, spec_of, text, values, with_literal,
};
use crate::aggregates::AggregateSpec;
use crate::expr::Expr;

/// Every kind of aggregate with what it should give.
pub(super) fn aggregates() -> Vec<(AggregateSpec, Expected)> {
    let mut all = model::aggregates();
    all.extend(without_trace());
    all.extend(sets_and_filters());
    all.extend(by_arrival());
    all.extend(computed());
    all
}

/// The sum of the values that are not finite, if there is one.
fn not_finite(values: &[f64]) -> Option<f64> {
    let special: Vec<f64> = values.iter().copied().filter(|v| !v.is_finite()).collect();
    (!special.is_empty()).then(|| special.iter().sum())
}

fn without_trace() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let share = ScalarValue::Float64(Some(0.3));
    vec![
        (spec_of("sum", &[3], T::Float64), |rows| {
            let values = values(rows, |r| r.wild);
            let sum = not_finite(&values).unwrap_or_else(|| values.iter().sum());
            float((!values.is_empty()).then_some(sum))
        }),
        (spec_of("avg", &[3], T::Float64), |rows| {
            let values = values(rows, |r| r.wild);
            float(not_finite(&values).or_else(|| mean(&values)))
        }),
        (spec_of("var_pop", &[3], T::Float64), |rows| {
            let values = values(rows, |r| r.wild);
            let variance = mean(&values).map(|mean| {
                values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64
            });
            float(not_finite(&values).map(|_| f64::NAN).or(variance))
        }),
        (distinct("sum", &[3], T::Float64), |rows| {
            let mut set = values(rows, |r| r.wild);
            set.sort_by(by_float);
            set.dedup_by(|a, b| by_float(a, b).is_eq());
            let sum = not_finite(&set).unwrap_or_else(|| set.iter().sum());
            float((!set.is_empty()).then_some(sum))
        }),
        (spec_of("median", &[3], T::Float64), |rows| {
            let mut values = values(rows, |r| r.wild);
            values.sort_by(by_float);
            let n = values.len();
            float((n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0))
        }),
        (spec_of("bit_or", &[2], T::Int64), |rows| {
            text(values(rows, |r| r.big).into_iter().reduce(|a, b| a | b))
        }),
        (spec_of("bool_and", &[7], T::Boolean), |rows| {
            text(values(rows, |r| r.flag).into_iter().min())
        }),
        (spec_of("max", &[7], T::Boolean), |rows| text(values(rows, |r| r.flag).into_iter().max())),
        (with_literal(spec_of("approx_percentile_cont", &[8], T::Float64), share), |_| {
            ANYTHING.into()
        }),
    ]
}

fn sets_and_filters() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let strings = T::List(Arc::new(Field::new_list_field(T::Utf8View, true)));
    let flagged = |spec: AggregateSpec| AggregateSpec { filter: Some(Expr::Column(7)), ..spec };
    vec![
        (flagged(distinct("count", &[5], T::Int64)), |rows| {
            let flagged = values(rows, |r| r.text.clone().filter(|_| r.flag == Some(true)));
            flagged.into_iter().collect::<BTreeSet<_>>().len().to_string()
        }),
        (distinct("count", &[1, 7], T::Int64), |rows| {
            values(rows, |r| r.small.zip(r.flag))
                .into_iter()
                .collect::<BTreeSet<_>>()
                .len()
                .to_string()
        }),
        (filtered("min", &[6], T::Date32), |_| ANYTHING.into()),
        (filtered("max", &[9], T::Int64), |rows| {
            text(values(rows, |r| (r.flag == Some(true)).then_some(r.number)).into_iter().max())
        }),
        (flagged(ordered(spec_of("array_agg", &[5], strings.clone()), &[(5, false)])), |rows| {
            let rows: Vec<&Row> = rows.iter().copied().filter(|r| r.flag == Some(true)).collect();
            list(sorted(&rows, |r| r.text.clone()).into_iter().map(|r| text(r.text.clone())))
        }),
        (
            AggregateSpec {
                distinct: true,
                ..ordered(spec_of("array_agg", &[5], strings), &[(5, false)])
            },
            |rows| {
                let mut all = sorted(rows, |r| r.text.clone());
                all.dedup_by(|a, b| a.text == b.text);
                list(all.into_iter().map(|r| text(r.text.clone())))
            },
        ),
        (distinct("median", &[8], T::Float64), |rows| {
            let mut set = values(rows, |r| r.tame);
            set.sort_by(by_float);
            set.dedup();
            let n = set.len();
            float((n > 0).then(|| (set[(n - 1) / 2] + set[n / 2]) / 2.0))
        }),
        (distinct("var_pop", &[1], T::Float64), |rows| {
            let set: BTreeSet<i32> = values(rows, |r| r.small).into_iter().collect();
            let set: Vec<f64> = set.into_iter().map(f64::from).collect();
            float(mean(&set).map(|mean| {
                set.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / set.len() as f64
            }))
        }),
    ]
}

fn by_arrival() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let numbers = T::List(Arc::new(Field::new_list_field(T::Int64, true)));
    vec![
        (spec_of("first_value", &[9], T::Int64), |rows| text(rows.first().map(|r| r.number))),
        (spec_of("last_value", &[9], T::Int64), |rows| text(rows.last().map(|r| r.number))),
        (spec_of("any_value", &[9], T::Int64), |rows| text(rows.first().map(|r| r.number))),
        (spec_of("array_agg", &[9], numbers), |rows| {
            list(rows.iter().map(|r| r.number.to_string()))
        }),
        (with_literal(spec_of("nth_value", &[9], T::Int64), ScalarValue::Int64(Some(3))), |rows| {
            text(rows.get(2).map(|r| r.number))
        }),
        (spec_of("first_value", &[5], T::Utf8View), |_| ANYTHING.into()),
        (spec_of("last_value", &[3], T::Float64), |_| ANYTHING.into()),
        (ordered(spec_of("last_value", &[5], T::Utf8View), &[(1, false)]), |_| ANYTHING.into()),
        (ordered(spec_of("first_value", &[0], T::Utf8View), &[(8, true), (9, true)]), |rows| {
            let mut rows = sorted(rows, |r| Some(-r.number));
            rows.sort_by(|a, b| match (a.tame, b.tame) {
                (Some(a), Some(b)) => by_float(&b, &a),
                (a, b) => a.is_none().cmp(&b.is_none()),
            });
            text(rows.first().and_then(|r| r.name.clone()))
        }),
    ]
}

/// Aggregates of nested values, of points in time and of constants.
fn computed() -> Vec<(AggregateSpec, Expected)> {
    use DataType as T;
    let micros = T::Timestamp(TimeUnit::Microsecond, None);
    let numbers = T::List(Arc::new(Field::new_list_field(T::Int64, true)));
    let pair = Expr::Function {
        name: "make_array".into(),
        args: vec![Expr::Column(10), Expr::Column(9)],
        result: Field::new("pair", numbers.clone(), false),
    };
    let time = Expr::Cast { expr: Box::new(Expr::Column(6)), to: micros.clone(), fallible: false };
    let of = |spec: AggregateSpec, arg: &Expr, data_type: &T| AggregateSpec {
        args: vec![arg.clone()],
        arg_types: vec![data_type.clone()],
        ..spec
    };
    let one = ScalarValue::Int64(Some(1));
    vec![
        (of(spec_of("min", &[], numbers.clone()), &pair, &numbers), |rows| {
            let least = rows.iter().map(|r| (r.third, r.number)).min();
            text(least.map(|(third, number)| format!("[{third}, {number}]")))
        }),
        (of(spec_of("max", &[], numbers.clone()), &pair, &numbers), |rows| {
            let greatest = rows.iter().map(|r| (r.third, r.number)).max();
            text(greatest.map(|(third, number)| format!("[{third}, {number}]")))
        }),
        (of(distinct("count", &[], T::Int64), &pair, &numbers), |rows| rows.len().to_string()),
        (of(spec_of("max", &[], micros.clone()), &time, &micros), |rows| {
            let day = values(rows, |r| r.day).into_iter().max();
            let time = day.and_then(arrow::temporal_conversions::date32_to_datetime);
            text(time.map(|time| time.format("%Y-%m-%dT%H:%M:%S").to_string()))
        }),
        (with_literal(spec_of("array_agg", &[], numbers), one), |rows| {
            list(rows.iter().map(|_| "1".to_string()))
        }),
    ]
}
