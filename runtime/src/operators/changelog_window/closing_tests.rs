//! Partitions that the watermark closes: what is late, and how much is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};

use super::*;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::event_time_window::{CompletionSpec, CompletionUnit};
use crate::operators::harness::{Driver, Interruptions, context, rows};
use crate::operators::sort_key_spec::SortKeySpec;

/// The first two rows of each time (column 0) by number (column 1), kept 5 µs beyond the watermark.
fn spec(withdrawn: bool) -> OperatorSpec {
    let bound =
        Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
    OperatorSpec::ChangelogWindow(ChangelogWindowSpec {
        window: WindowSpec {
            input: vec![DataType::Int64; 2],
            partition_by: vec![Expr::Column(0)],
            order_by: vec![SortKeySpec::ascending(Expr::Column(1))],
            functions: Vec::new(),
        },
        withdrawn,
        keep: Some(KeepSpec { rows: 2 }),
        closing: Some(ClosingSpec {
            completion: CompletionSpec {
                unit: CompletionUnit::Partition,
                time: Expr::Column(0),
                bound,
                watermark_type: DataType::Timestamp(TimeUnit::Microsecond, None),
            },
            lateness_us: 5,
        }),
    })
}

fn batch(rows: &[(i64, i64)]) -> StreamElement {
    let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    StreamElement::Batch(Batch::new(vec![column(|r| r.0), column(|r| r.1)], rows.len()))
}

#[test]
fn rows_of_closed_partitions_are_late() {
    for (withdrawn, interruptions) in [
        (false, Interruptions::None),
        (false, Interruptions::EveryBatch),
        (true, Interruptions::EveryBatch),
    ] {
        let mut driver = Driver::new(&spec(withdrawn), &context(64), interruptions).unwrap();
        let mut out = Vec::new();
        for element in [
            batch(&[(10, 1), (10, 2), (20, 1)]),
            StreamElement::Watermark(Watermark(15)),
            // In time, as the watermark is no more than 5 past the partition.
            batch(&[(10, 0)]),
            StreamElement::Watermark(Watermark(16)),
            batch(&[(10, -1), (20, 0)]),
        ] {
            for element in driver.feed(PortId(0), element).unwrap() {
                let StreamElement::Batch(batch) = element else { continue };
                out.extend(rows(&[batch.compact().unwrap()]));
            }
        }
        out.sort();
        assert_eq!(out, ["10|0", "10|1", "10|2", "10|2", "20|0", "20|1"]);
        assert_eq!(driver.metrics.late_rows.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn closed_partitions_are_forgotten() {
    for withdrawn in [false, true] {
        let job = context(1024);
        let mut driver = Driver::new(&spec(withdrawn), &job, Interruptions::None).unwrap();
        let mut peak = 0;
        for step in 0..400_i64 {
            let came: Vec<_> = (0..200).map(|i| (step * 200 + i, i)).collect();
            driver.feed(PortId(0), batch(&came)).unwrap();
            driver.feed(PortId(0), StreamElement::Watermark(Watermark(step * 200))).unwrap();
            peak = peak.max(job.memory.used());
        }
        let all = 400 * 200 * 100;
        assert!(peak < all / 2, "{peak} bytes for what would be {all} and more");
    }
}
