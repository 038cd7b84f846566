//! Windows that overlap, against a model that puts each row into each of its windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::DataType;

use super::model::Random;
use super::*;
use crate::expr::Expr;
use crate::operators::OperatorSpec;
use crate::operators::harness::{self, Driver, Interruptions};

/// A row: its slice, a key and a value.
type Row = (i64, i64, i64);

/// A window of slices over rows of (key, slice's start, value).
#[derive(Clone, Copy)]
struct Windows {
    count: i64,
    step: i64,
    length: i64,
    origin: i64,
    /// Whether the key is a key of the grouping.
    by_key: bool,
    /// Whether the windows are single values of the closing key.
    panes: bool,
    /// Whether windows begin together.
    cumulative: bool,
}

fn aggregate(function: &str, distinct: bool) -> AggregateSpec {
    AggregateSpec {
        function: function.into(),
        arg_types: vec![DataType::Int64],
        args: vec![Expr::Column(2)],
        distinct,
        filter: None,
        order_by: Vec::new(),
        ignore_nulls: false,
        result: DataType::Int64,
    }
}

impl Windows {
    fn spec(self, phase: AggregatePhase) -> OperatorSpec {
        let micros = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        let bound =
            Expr::Cast { expr: Box::new(Expr::Column(0)), to: DataType::Int64, fallible: false };
        let slices = SlicesSpec {
            count: u32::try_from(self.count).unwrap(),
            step: u32::try_from(self.step).unwrap(),
            length: self.length,
            origin: self.origin,
            cumulative: self.cumulative,
        };
        let keys = if self.by_key { 0..2 } else { 1..2 };
        let closing = ClosingSpec {
            key: usize::from(self.by_key),
            bound,
            watermark_type: micros,
            slices: (!self.panes).then_some(slices),
        };
        OperatorSpec::HashAggregate(HashAggregateSpec {
            phase,
            input: vec![DataType::Int64; 3],
            key_types: vec![DataType::Int64; keys.len()],
            keys: keys.map(Expr::Column).collect(),
            grouping_sets: None,
            aggregates: vec![
                aggregate("count", false),
                aggregate("max", false),
                aggregate("count", true),
            ],
            late_keys: Vec::new(),
            emission: Emission::Closed(closing),
            withdrawn: false,
        })
    }

    fn start(self, slice: i64) -> i64 {
        self.origin + slice * self.length
    }

    fn batch(self, rows: &[Row]) -> StreamElement {
        let column = |value: &dyn Fn(&Row) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
        };
        let columns =
            vec![column(&|row| row.1), column(&|row| self.start(row.0)), column(&|row| row.2)];
        StreamElement::Batch(harness::batch(columns))
    }
}

/// What a stream consists of: rows, or that slices below a number are complete.
#[derive(Debug, Clone)]
enum Event {
    Rows(Vec<Row>),
    Complete(i64),
}

/// Result lines by watermark, each window's in no order, and the number of late rows.
fn expected(windows: Windows, events: &[Event]) -> (Vec<Vec<String>>, u64) {
    let mut open: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    let (mut complete, mut late, mut out) = (i64::MIN / 2, 0, Vec::new());
    let mut close = |open: &mut BTreeMap<(i64, i64), Vec<i64>>, complete: i64| {
        let behind = if windows.cumulative { 0 } else { windows.count };
        let later = open.split_off(&(complete - behind + 1, i64::MIN));
        let closed = std::mem::replace(open, later);
        let lines = closed.into_iter().map(|((window, key), values)| {
            let distinct: BTreeSet<i64> = values.iter().copied().collect();
            let key = if windows.by_key { format!("{key}|") } else { String::new() };
            let (start, max) = (windows.start(window), values.iter().max().unwrap());
            format!("{key}{start}|{}|{max}|{}", values.len(), distinct.len())
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        out.push(lines);
    };
    for event in events {
        match event {
            Event::Complete(slices) => {
                complete = complete.max(*slices);
                close(&mut open, complete);
            }
            Event::Rows(rows) => {
                for &(slice, key, value) in rows {
                    let key = if windows.by_key { key } else { 0 };
                    if windows.cumulative {
                        let begins = slice.div_euclid(windows.count) * windows.count;
                        late += u64::from(begins + windows.count <= complete);
                        // Windows by their ends; those that end by what is complete have left.
                        for end in (slice + 1).max(complete + 1)..=begins + windows.count {
                            open.entry((end, key)).or_default().push(value);
                        }
                        continue;
                    }
                    let last_window = slice.div_euclid(windows.step) * windows.step;
                    late += u64::from(last_window + windows.count <= complete);
                    let first = (slice - windows.count + 1).max(complete - windows.count + 1);
                    for window in (first..=slice).filter(|w| w.rem_euclid(windows.step) == 0) {
                        open.entry((window, key)).or_default().push(value);
                    }
                }
            }
        }
    }
    close(&mut open, i64::MAX / 2);
    (out, late)
}

/// The lines of elements by watermark, each window's in no order.
fn lines(elements: Vec<StreamElement>) -> Vec<Vec<String>> {
    let mut out = vec![Vec::new()];
    for element in elements {
        match element {
            StreamElement::Batch(batch) => out.last_mut().unwrap().extend(harness::rows(&[batch])),
            StreamElement::Watermark(_) => out.push(Vec::new()),
            other => panic!("emitted {other:?}"),
        }
    }
    out.iter_mut().for_each(|lines| lines.sort());
    out
}

fn elements(windows: Windows, events: &[Event]) -> Vec<StreamElement> {
    let element = |event: &Event| match event {
        Event::Rows(rows) => windows.batch(rows),
        // In the middle of the first slice that is not complete.
        Event::Complete(slices) => {
            StreamElement::Watermark(Watermark(windows.start(*slices) + windows.length / 2))
        }
    };
    events.iter().map(element).collect()
}

fn found(
    windows: Windows,
    events: &[Event],
    interruptions: Interruptions,
) -> (Vec<Vec<String>>, u64) {
    let job = harness::context(7);
    let spec = windows.spec(AggregatePhase::Single);
    let mut driver = Driver::new(&spec, &job, interruptions).unwrap();
    let out = lines(driver.run(vec![elements(windows, events)]).unwrap());
    (out, driver.metrics.late_rows.load(Ordering::Relaxed))
}

fn found_in_two_phases(
    windows: Windows,
    events: &[Event],
    interruptions: Interruptions,
) -> (Vec<Vec<String>>, u64) {
    let job = harness::context(7);
    let partial = windows.spec(AggregatePhase::Partial);
    let mut partial = Driver::new(&partial, &job, interruptions).unwrap();
    let pages = partial.run(vec![elements(windows, events)]).unwrap();
    let last = windows.spec(AggregatePhase::Final);
    let mut last = Driver::new(&last, &job, interruptions).unwrap();
    let out = lines(last.run(vec![pages]).unwrap());
    (out, last.metrics.late_rows.load(Ordering::Relaxed))
}

fn check(windows: Windows, events: &[Event]) {
    let wanted = expected(windows, events);
    for interruptions in [Interruptions::None, Interruptions::EveryBatch] {
        let what = format!("{} slices, {events:?}, {interruptions:?}", windows.count);
        assert_eq!(found(windows, events, interruptions), wanted, "{what}");
        let two_phases = found_in_two_phases(windows, events, interruptions);
        assert_eq!(two_phases, wanted, "in two phases, {what}");
    }
}

/// Rows out of order and late, with gaps between them.
fn random_events(random: &mut Random, count: i64) -> Vec<Event> {
    let mut now = random.below(40) as i64 - 20;
    let mut events = Vec::new();
    for _ in 0..30 {
        let spread = 2 * count as u64 + 4;
        let rows = (0..random.below(6)).map(|_| {
            let slice = now + random.below(spread) as i64 - spread as i64 / 2;
            (slice, random.below(4) as i64, random.below(5) as i64)
        });
        events.push(Event::Rows(rows.collect()));
        now += match random.below(12) {
            0 => 3 * count + 50,
            1..=5 => 0,
            step => step as i64 - 5,
        };
        if random.below(3) > 0 {
            events.push(Event::Complete(now - 1));
        }
    }
    events
}

#[test]
fn windows_hold_the_rows_of_their_slices() {
    let mut random = Random(17);
    for count in [1, 2, 3, 5, 8, 10, 21] {
        for (length, origin, step) in [(1, 0, 1), (10, -3, 1), (1, 4, 2), (3, 0, 5)] {
            for by_key in [true, false] {
                let events = random_events(&mut random, count);
                let step = step.min(count);
                check(
                    Windows {
                        count,
                        step,
                        length,
                        origin,
                        by_key,
                        panes: false,
                        cumulative: false,
                    },
                    &events,
                );
            }
        }
    }
}

#[test]
fn a_row_for_an_old_slice_is_in_the_windows_that_are_open() {
    let windows = Windows {
        count: 4,
        step: 1,
        length: 1,
        origin: 0,
        by_key: true,
        panes: false,
        cumulative: false,
    };
    let events = [
        Event::Rows(vec![(0, 1, 1), (3, 1, 2)]),
        Event::Complete(5),
        // Window 1 and those before have left. Slice 1 has none left, slice 2 one, and slice 4 three.
        Event::Rows(vec![(1, 1, 9), (2, 1, 5), (4, 2, 7)]),
        Event::Complete(6),
    ];
    let (lines, late) = found(windows, &events, Interruptions::None);
    assert_eq!(late, 1);
    let first = ["1|-1|1|1|1", "1|-2|1|1|1", "1|-3|1|1|1", "1|0|2|2|2", "1|1|1|2|1"];
    assert_eq!(lines[0], first);
    assert_eq!(lines[1], ["1|2|2|5|2", "2|2|1|7|1"]);
    assert_eq!(lines[2], ["1|3|1|2|1", "2|3|1|7|1", "2|4|1|7|1"]);
}

#[test]
fn panes_in_two_phases_hold_the_same_rows_as_in_one() {
    let mut random = Random(23);
    for by_key in [true, false] {
        for (length, origin) in [(1, 0), (10, -3)] {
            let windows = Windows {
                count: 1,
                step: 1,
                length,
                origin,
                by_key,
                panes: true,
                cumulative: false,
            };
            let mut events = random_events(&mut random, 2);
            // The bound of single values is the watermark itself.
            events.retain(|event| length == 1 || matches!(event, Event::Rows(_)));
            check(windows, &events);
        }
    }
}

#[test]
fn cumulative_windows_hold_the_rows_since_they_began() {
    let mut random = Random(29);
    for count in [1, 2, 3, 6, 10] {
        for (length, origin) in [(1, 0), (10, -3)] {
            for by_key in [true, false] {
                let events = random_events(&mut random, count);
                let windows = Windows {
                    count,
                    step: 1,
                    length,
                    origin,
                    by_key,
                    panes: false,
                    cumulative: true,
                };
                check(windows, &events);
            }
        }
    }
}
