//! State that is forgotten by the clock: groups and rows of joins that nothing touches for as long as the job says, with
//! snapshots and restores between all batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};

use super::OperatorSpec;
use super::changelog_window::{ChangelogWindowSpec, KeepSpec};
use super::event_time_window::{CompletionSpec, CompletionUnit, EventTimeWindowSpec, Reach};
use super::harness::{Driver, Interruptions, rows};
use super::hash_aggregate::{AggregatePhase, AggregateSpec, Emission, HashAggregateSpec};
use super::sort_key_spec::SortKeySpec;
use super::stream_join::{StreamJoinColumn, StreamJoinKind, StreamJoinSide, StreamJoinSpec};
use super::window::{FrameBound, FrameUnits, WindowFrameSpec, WindowFunctionSpec, WindowSpec};
use crate::batch::Batch;
use crate::element::{RowKind, StreamElement, Watermark};
use crate::env::Sim;
use crate::expr::{Expr, FunctionRegistry};
use crate::graph::JobGraph;
use crate::job::{JobContext, JobOptions, Services};
use crate::memory::MemoryManager;
use crate::operators::PortId;

/// An operator of a job that keeps state for a second, and its clock.
struct Clocked {
    driver: Driver,
    clock: Arc<Sim>,
}

impl Clocked {
    fn new(spec: &OperatorSpec, interruptions: Interruptions) -> Self {
        let clock = Sim::new(1);
        let services = Services {
            env: clock.clone(),
            memory: MemoryManager::unlimited(),
            functions: FunctionRegistry::built_in(),
            sources: Default::default(),
            sinks: Default::default(),
            windowings: Default::default(),
        };
        let options = JobOptions { state_ttl_us: 1_000_000, ..JobOptions::default() };
        let job = JobContext::new(1, &JobGraph::default(), options, services);
        Clocked { driver: Driver::new(spec, &job, interruptions).unwrap(), clock }
    }

    /// What a batch brings out, with the signs of changes, after some milliseconds.
    fn feed(&mut self, after_ms: i64, port: u16, changes: &[(RowKind, i64, i64)]) -> Vec<String> {
        self.clock.advance_us(after_ms * 1_000);
        let column = |of: fn(&(RowKind, i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(changes.iter().map(of)))
        };
        let mut batch = Batch::new(vec![column(|row| row.1), column(|row| row.2)], changes.len());
        if changes.iter().any(|row| row.0 == RowKind::Delete) {
            batch = batch.with_kinds(changes.iter().map(|row| row.0).collect());
        }
        let out = self.driver.feed(PortId(port), StreamElement::Batch(batch)).unwrap();
        let mut lines = Vec::new();
        for element in out {
            let StreamElement::Batch(batch) = element else { panic!("emitted {element:?}") };
            let batch = batch.compact().unwrap();
            for (row, line) in rows(std::slice::from_ref(&batch)).into_iter().enumerate() {
                let kind = batch.kinds().map_or(RowKind::Insert, |kinds| kinds[row]);
                lines.push(format!("{}{line}", if kind == RowKind::Delete { '-' } else { '+' }));
            }
        }
        lines
    }
}

use RowKind::{Delete, Insert};

const BOTH: [Interruptions; 2] = [Interruptions::None, Interruptions::EveryBatch];

/// Changes of one aggregate by the first of two columns.
fn grouped(aggregate: AggregateSpec, withdrawn: bool) -> OperatorSpec {
    OperatorSpec::HashAggregate(HashAggregateSpec {
        phase: AggregatePhase::Single,
        input: vec![DataType::Int64; 2],
        keys: vec![Expr::Column(0)],
        key_types: vec![DataType::Int64],
        grouping_sets: None,
        aggregates: vec![aggregate],
        late_keys: Vec::new(),
        emission: Emission::Changes,
        withdrawn,
    })
}

#[test]
fn groups_that_nothing_touches_begin_anew() {
    let max = AggregateSpec {
        function: "max".into(),
        args: vec![Expr::Column(1)],
        arg_types: vec![DataType::Int64],
        distinct: false,
        filter: None,
        order_by: Vec::new(),
        ignore_nulls: false,
        result: DataType::Int64,
    };
    let spec = grouped(max, false);
    for interruptions in BOTH {
        let mut groups = Clocked::new(&spec, interruptions);
        assert_eq!(groups.feed(0, 0, &[(Insert, 1, 10), (Insert, 2, 20)]), ["+1|10", "+2|20"]);
        assert_eq!(groups.feed(700, 0, &[(Insert, 2, 21)]), ["-2|20", "+2|21"]);
        // A row that changes nothing in the result touches its group, too.
        assert_eq!(groups.feed(700, 0, &[(Insert, 2, 5)]), [""; 0]);
        assert_eq!(groups.feed(700, 0, &[(Insert, 2, 6), (Insert, 1, 3)]), ["+1|3"]);
        assert_eq!(groups.feed(2_000, 0, &[(Insert, 2, 1), (Insert, 1, 4)]), ["+2|1", "+1|4"]);
    }
}

#[test]
fn withdrawals_from_groups_that_were_forgotten_change_nothing() {
    for (interruptions, name) in
        BOTH.into_iter().flat_map(|i| ["max", "sum", "array_agg"].map(|name| (i, name)))
    {
        let list = DataType::new_list(DataType::Int64, true);
        let aggregate = AggregateSpec {
            function: name.into(),
            args: vec![Expr::Column(1)],
            arg_types: vec![DataType::Int64],
            distinct: false,
            filter: None,
            order_by: Vec::new(),
            ignore_nulls: false,
            result: if name == "array_agg" { list } else { DataType::Int64 },
        };
        let spec = grouped(aggregate, true);
        let shown = |sign: char, key: i64, value: i64| match name {
            "array_agg" => format!("{sign}{key}|[{value}]"),
            _ => format!("{sign}{key}|{value}"),
        };
        let mut groups = Clocked::new(&spec, interruptions);
        let came = groups.feed(0, 0, &[(Insert, 1, 10), (Insert, 2, 20)]);
        assert_eq!(came, [shown('+', 1, 10), shown('+', 2, 20)]);
        // A withdrawal touches its group, and takes its last row away.
        let gone = groups.feed(700, 0, &[(Delete, 2, 20), (Insert, 2, 21)]);
        assert_eq!(gone, [shown('-', 2, 20), shown('+', 2, 21)]);
        assert_eq!(groups.feed(700, 0, &[(Delete, 1, 10)]), [""; 0], "{name}");
        assert_eq!(groups.feed(0, 0, &[(Insert, 1, 11)]), [shown('+', 1, 11)]);
        assert_eq!(groups.feed(0, 0, &[(Delete, 2, 21)]), [shown('-', 2, 21)]);
        let all = [(Delete, 1, 11), (Delete, 2, 21), (Insert, 3, 1)];
        assert_eq!(groups.feed(2_000, 0, &all), [shown('+', 3, 1)], "{name}");
    }
}

fn window(function: WindowFunctionSpec) -> WindowSpec {
    WindowSpec {
        input: vec![DataType::Int64; 2],
        partition_by: vec![Expr::Column(0)],
        order_by: vec![SortKeySpec::ascending(Expr::Column(1))],
        functions: vec![function],
    }
}

fn function(name: &str, args: Vec<Expr>, result: DataType) -> WindowFunctionSpec {
    WindowFunctionSpec {
        function: name.into(),
        aggregate: name == "sum",
        arg_types: vec![DataType::Int64; args.len()],
        args,
        frame: WindowFrameSpec {
            units: FrameUnits::Rows,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
        },
        filter: None,
        distinct: false,
        ignore_nulls: false,
        result,
    }
}

#[test]
fn partitions_of_first_rows_that_nothing_touches_begin_anew() {
    for (interruptions, withdrawn) in BOTH.into_iter().flat_map(|i| [(i, false), (i, true)]) {
        let spec = OperatorSpec::ChangelogWindow(ChangelogWindowSpec {
            window: window(function("row_number", vec![], DataType::UInt64)),
            withdrawn,
            keep: Some(KeepSpec { rows: 1 }),
            closing: None,
        });
        let mut first = Clocked::new(&spec, interruptions);
        assert_eq!(first.feed(0, 0, &[(Insert, 1, 10), (Insert, 2, 20)]), ["+1|10|1", "+2|20|1"]);
        assert_eq!(first.feed(700, 0, &[(Insert, 2, 9)]), ["-2|20|1", "+2|9|1"]);
        // A row that is not the first one touches its partition, too.
        assert_eq!(first.feed(700, 0, &[(Insert, 2, 15)]), [""; 0]);
        assert_eq!(first.feed(700, 0, &[(Insert, 2, 16), (Insert, 1, 30)]), ["+1|30|1"]);
        assert_eq!(first.feed(2_000, 0, &[(Insert, 2, 17)]), ["+2|17|1"]);
        if withdrawn {
            assert_eq!(first.feed(0, 0, &[(Delete, 2, 9), (Delete, 1, 30)]), [""; 0]);
            assert_eq!(first.feed(0, 0, &[(Delete, 2, 17)]), ["-2|17|1"]);
        }
    }
}

#[test]
fn partitions_of_running_functions_that_nothing_touches_begin_anew() {
    let sum = || function("sum", vec![Expr::Column(1)], DataType::Int64);
    let distinct = || WindowFunctionSpec { distinct: true, ..sum() };
    let lag = || function("lag", vec![Expr::Column(1)], DataType::Int64);
    // What the second row gives, the third, and the one that comes too late for what was before.
    let running = [
        (sum(), 0, ["30", "60", "40"]),
        (distinct(), 0, ["30", "60", "40"]),
        (lag(), 1, ["10", "20", "∅"]),
    ];
    for (interruptions, (function, rows_before, [second, third, anew])) in
        BOTH.into_iter().flat_map(|i| running.clone().map(|case| (i, case)))
    {
        let bound =
            Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
        let reach = Reach { rows_before: Some(rows_before), ..Reach::NOTHING };
        let spec = OperatorSpec::EventTimeWindow(EventTimeWindowSpec {
            window: window(function),
            completion: CompletionSpec {
                unit: CompletionUnit::Row(reach),
                time: Expr::Column(1),
                bound,
                watermark_type: DataType::Timestamp(TimeUnit::Microsecond, None),
            },
            withdrawn: false,
            keep: None,
        });
        let mut sums = Clocked::new(&spec, interruptions);
        let mut feed = |after_ms, row: (RowKind, i64, i64), watermark| {
            sums.feed(after_ms, 0, &[row]);
            let passed = StreamElement::Watermark(Watermark(watermark));
            let out = sums.driver.feed(PortId(0), passed).unwrap();
            let batches = out.into_iter().filter_map(|element| match element {
                StreamElement::Batch(batch) => Some(batch.compact().unwrap()),
                _ => None,
            });
            rows(&batches.collect::<Vec<_>>())
        };
        feed(0, (Insert, 1, 10), 11);
        assert_eq!(feed(700, (Insert, 1, 20), 21), [format!("1|20|{second}")]);
        assert_eq!(feed(700, (Insert, 2, 25), 26).len(), 1);
        assert_eq!(feed(100, (Insert, 1, 30), 31), [format!("1|30|{third}")]);
        assert_eq!(feed(2_000, (Insert, 1, 40), 41), [format!("1|40|{anew}")]);
    }
}

#[test]
fn rows_of_joins_are_forgotten_and_so_is_what_withdraws_them() {
    let side = |withdrawn| StreamJoinSide {
        types: vec![DataType::Int64; 2],
        keys: vec![Expr::Column(0)],
        withdrawn,
        expiry: None,
    };
    for (interruptions, withdrawn) in BOTH.into_iter().flat_map(|i| [(i, false), (i, true)]) {
        let spec = |kind| {
            OperatorSpec::StreamJoin(StreamJoinSpec {
                kind,
                left: side(withdrawn),
                right: side(withdrawn),
                null_equal: false,
                null_aware: false,
                lookup: None,
                patient: true,
                filter: None,
                output: vec![StreamJoinColumn::Left(1), StreamJoinColumn::Right(1)],
            })
        };
        let mut join = Clocked::new(&spec(StreamJoinKind::Inner), interruptions);
        assert_eq!(join.feed(0, 0, &[(Insert, 1, 10)]), [""; 0]);
        assert_eq!(join.feed(700, 1, &[(Insert, 1, 5)]), ["+10|5"]);
        assert_eq!(join.feed(700, 1, &[(Insert, 1, 6)]), [""; 0], "the left row has gone");
        assert_eq!(join.feed(200, 0, &[(Insert, 1, 11)]), ["+11|5", "+11|6"]);
        if withdrawn {
            assert_eq!(join.feed(0, 0, &[(Delete, 1, 10)]), [""; 0]);
            assert_eq!(join.feed(0, 0, &[(Delete, 1, 11)]), ["-11|5", "-11|6"]);
        }
        let mut join = Clocked::new(&spec(StreamJoinKind::Left), interruptions);
        assert_eq!(join.feed(0, 0, &[(Insert, 1, 10)]), ["+10|∅"]);
        assert_eq!(join.feed(0, 1, &[(Insert, 1, 5)]), ["+10|5", "-10|∅"]);
        assert_eq!(join.feed(700, 0, &[(Insert, 1, 11)]), ["+11|5"]);
        // The right row has gone, and so has the first left one; the other knows that it has had a match.
        assert_eq!(join.feed(700, 1, &[(Insert, 1, 6)]), ["+11|6"]);
    }
}
