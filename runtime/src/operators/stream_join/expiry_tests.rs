//! Rows that expire in a join of streams: what comes out when, and what is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};
use datafusion_common::ScalarValue;

use super::tests::Folded;
use super::*;
use crate::element::RowKind;
use crate::expr::{BinaryOperator, Expr};
use crate::operators::OperatorSpec;
use crate::operators::harness::{Driver, Interruptions, context};
use crate::operators::join_model::Random;

/// A row: key, time and number.
type Row = (Option<i64>, i64, i64);

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const KINDS: [StreamJoinKind; 10] = [
    StreamJoinKind::Inner,
    StreamJoinKind::Left,
    StreamJoinKind::Right,
    StreamJoinKind::Full,
    StreamJoinKind::LeftSemi,
    StreamJoinKind::LeftAnti,
    StreamJoinKind::LeftMark,
    StreamJoinKind::RightSemi,
    StreamJoinKind::RightAnti,
    StreamJoinKind::RightMark,
];

fn binary(op: BinaryOperator, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn plus(expr: Expr, number: i64) -> Expr {
    binary(BinaryOperator::Plus, expr, Expr::literal(ScalarValue::Int64(Some(number))))
}

fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast { expr: Box::new(expr), to, fallible: false }
}

/// A join of rows of equal keys where the right row's time is from the left one's plus `from` to that plus `to`.
#[derive(Debug, Clone)]
struct Case {
    kind: StreamJoinKind,
    from: i64,
    to: i64,
    /// Whether times are timestamps, not integers.
    clock: bool,
    withdrawn: bool,
}

impl Case {
    fn spec(&self) -> OperatorSpec {
        let of_side = |behind: i64| {
            let bound = plus(cast(Expr::Column(0), DataType::Int64), behind);
            let (time, bound, own) = match self.clock {
                true => (cast(Expr::Column(1), MICROS), cast(bound, MICROS), Expr::Column(0)),
                false => (Expr::Column(1), bound, cast(Expr::Column(0), DataType::Int64)),
            };
            StreamJoinSide {
                types: vec![DataType::Int64; 3],
                keys: vec![Expr::Column(0)],
                withdrawn: self.withdrawn,
                expiry: Some(ExpirySpec { time, bound, own: Some(own), watermark_type: MICROS }),
            }
        };
        let (left, right) = (|| Expr::Column(1), || Expr::Column(4));
        let filter = binary(
            BinaryOperator::And,
            binary(BinaryOperator::GtEq, right(), plus(left(), self.from)),
            binary(BinaryOperator::LtEq, right(), plus(left(), self.to)),
        );
        let all = |column: fn(usize) -> StreamJoinColumn| (0..3).map(column);
        let (left, right) = (all(StreamJoinColumn::Left), all(StreamJoinColumn::Right));
        let mark = [StreamJoinColumn::Mark];
        let output: Vec<StreamJoinColumn> = match self.kind {
            StreamJoinKind::LeftSemi | StreamJoinKind::LeftAnti => left.collect(),
            StreamJoinKind::RightSemi | StreamJoinKind::RightAnti => right.collect(),
            StreamJoinKind::LeftMark => left.chain(mark).collect(),
            StreamJoinKind::RightMark => right.chain(mark).collect(),
            StreamJoinKind::Inner
            | StreamJoinKind::Left
            | StreamJoinKind::Right
            | StreamJoinKind::Full => left.chain(right).collect(),
        };
        OperatorSpec::StreamJoin(StreamJoinSpec {
            kind: self.kind,
            left: of_side(-self.to),
            right: of_side(self.from),
            null_equal: false,
            null_aware: false,
            lookup: None,
            patient: true,
            filter: Some(filter),
            output,
        })
    }

    /// The time below which rows of a side have expired by a watermark.
    fn bound(&self, side: usize, watermark: i64) -> i64 {
        watermark + if side == 0 { -self.to } else { self.from }
    }

    /// The time below which rows of a side are late.
    fn late_below(&self, side: usize, watermark: i64) -> i64 {
        self.bound(side, watermark).min(watermark)
    }

    /// The join of all rows; those without a match where `is_out` says so.
    fn model(&self, rows: &[Vec<Row>; 2], is_out: &dyn Fn(usize, &Row) -> bool) -> Vec<String> {
        let matches = |l: &Row, r: &Row| {
            let apart = r.1 - l.1;
            l.0.is_some() && l.0 == r.0 && apart >= self.from && apart <= self.to
        };
        let (pairs, alone) = match self.kind {
            StreamJoinKind::Inner => (true, [false, false]),
            StreamJoinKind::Left => (true, [true, false]),
            StreamJoinKind::Right => (true, [false, true]),
            StreamJoinKind::Full => (true, [true, true]),
            StreamJoinKind::LeftSemi | StreamJoinKind::LeftAnti | StreamJoinKind::LeftMark => {
                (false, [true, false])
            }
            StreamJoinKind::RightSemi | StreamJoinKind::RightAnti | StreamJoinKind::RightMark => {
                (false, [false, true])
            }
        };
        let mut out = Vec::new();
        if pairs {
            for l in &rows[0] {
                let found = rows[1].iter().filter(|r| matches(l, r));
                out.extend(found.map(|r| format!("{}|{}", text(l), text(r))));
            }
        }
        for side in (0..2).filter(|&side| alone[side]) {
            for row in &rows[side] {
                let matched = rows[1 - side]
                    .iter()
                    .any(|other| if side == 0 { matches(row, other) } else { matches(other, row) });
                let known = matched || is_out(side, row);
                let text = text(row);
                out.extend(match self.kind {
                    _ if !known => None,
                    StreamJoinKind::LeftSemi | StreamJoinKind::RightSemi => matched.then_some(text),
                    StreamJoinKind::LeftAnti | StreamJoinKind::RightAnti => {
                        (!matched).then_some(text)
                    }
                    StreamJoinKind::LeftMark | StreamJoinKind::RightMark => {
                        Some(format!("{text}|{matched}"))
                    }
                    _ if matched => None,
                    _ if side == 0 => Some(format!("{text}|∅|∅|∅")),
                    _ => Some(format!("∅|∅|∅|{text}")),
                });
            }
        }
        out.sort();
        out
    }
}

fn text(row: &Row) -> String {
    let key = row.0.map_or("∅".to_string(), |key| key.to_string());
    format!("{key}|{}|{}", row.1, row.2)
}

fn batch(rows: &[Row]) -> StreamElement {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>()),
    ];
    StreamElement::Batch(Batch::new(columns, rows.len()))
}

fn random_row(random: &mut Random, time: i64) -> Row {
    let key = random.below(8);
    ((key > 0).then_some(key as i64 % 4), time, random.below(3) as i64)
}

#[test]
fn rows_leave_when_they_expire() {
    let seed = 314;
    println!("seed {seed}");
    let mut random = Random(seed);
    for kind in KINDS {
        for (from, to, clock) in [(-3, 5, false), (-3, 5, true), (2, 6, true), (-8, -2, true)] {
            let case = Case { kind, from, to, clock, withdrawn: false };
            let batch_rows = [1, 4, 1024][random.below(3) as usize];
            let job = context(batch_rows);
            let mut driver = Driver::new(&case.spec(), &job, Interruptions::EveryBatch).unwrap();
            let mut folded = Folded::default();
            let mut rows: [Vec<Row>; 2] = Default::default();
            let (mut watermark, mut late) = (0, 0);
            for time in 0..60 {
                for (side, rows) in rows.iter_mut().enumerate() {
                    let mut came = Vec::new();
                    for _ in 0..random.below(4) {
                        let in_time = watermark + random.below(9) as i64;
                        came.push(random_row(&mut random, in_time));
                    }
                    rows.extend(&came);
                    if time > 20 && random.below(4) == 0 {
                        let before = case.late_below(side, watermark) - 1;
                        came.push(random_row(&mut random, before));
                        late += 1;
                    }
                    folded.apply(driver.feed(PortId(side as u16), batch(&came)).unwrap());
                }
                if time % 3 == 2 {
                    watermark = time - 2;
                    let event = StreamElement::Watermark(Watermark(watermark));
                    folded.apply(driver.feed(PortId(0), event).unwrap());
                    let is_out = |side: usize, row: &Row| {
                        row.0.is_none() || row.1 < case.bound(side, watermark)
                    };
                    assert_eq!(folded.rows(), case.model(&rows, &is_out), "{case:?} at {time}");
                }
            }
            for port in 0..2 {
                folded.apply(driver.feed(PortId(port), StreamElement::End).unwrap());
            }
            assert_eq!(folded.rows(), case.model(&rows, &|_, _| true), "{case:?} at the end");
            assert_eq!(folded.deletes, 0, "{case:?}");
            assert_eq!(driver.metrics.late_rows.load(Ordering::Relaxed), late, "{case:?}");
        }
    }
}

#[test]
fn forgotten_rows_take_no_memory() {
    for kind in [StreamJoinKind::Inner, StreamJoinKind::Full] {
        let case = Case { kind, from: -100, to: 100, clock: true, withdrawn: false };
        let job = context(1024);
        let mut driver = Driver::new(&case.spec(), &job, Interruptions::None).unwrap();
        let mut random = Random(8);
        for time in 0..600 {
            for port in 0..2 {
                // Many keys, so that they have to be forgotten as well.
                let row = |i: i64| (Some(time * 100 + i), time * 100 + i, i);
                let rows: Vec<Row> = (0..100).map(row).collect();
                driver.feed(PortId(port), batch(&rows)).unwrap();
            }
            if random.below(3) == 0 {
                let event = StreamElement::Watermark(Watermark(time * 100));
                driver.feed(PortId(0), event).unwrap();
            }
        }
        assert!(job.memory.used() < 5 << 20, "{kind:?}: {} bytes", job.memory.used());
    }
}

#[test]
fn what_was_forgotten_can_be_withdrawn() {
    let case = Case { kind: StreamJoinKind::Left, from: 0, to: 5, clock: true, withdrawn: true };
    let mut driver = Driver::new(&case.spec(), &context(8), Interruptions::EveryBatch).unwrap();
    let mut folded = Folded::default();
    let delete = |rows: &[Row]| match batch(rows) {
        StreamElement::Batch(batch) => {
            let kinds = vec![RowKind::Delete; rows.len()];
            StreamElement::Batch(batch.with_kinds(kinds.into()))
        }
        other => other,
    };
    let old: [Row; 2] = [(Some(1), 10, 0), (Some(2), 10, 0)];
    let new: [Row; 1] = [(Some(1), 100, 0)];
    folded.apply(driver.feed(PortId(0), batch(&old)).unwrap());
    folded.apply(driver.feed(PortId(0), batch(&new)).unwrap());
    folded.apply(driver.feed(PortId(1), batch(&[(Some(1), 12, 7)])).unwrap());
    let watermark = StreamElement::Watermark(Watermark(90));
    folded.apply(driver.feed(PortId(0), watermark).unwrap());
    // The result of what was forgotten stays; nothing else does.
    folded.apply(driver.feed(PortId(0), delete(&[old[1], new[0]])).unwrap());
    assert_eq!(folded.rows(), ["1|10|0|1|12|7", "2|10|0|∅|∅|∅"]);
}
