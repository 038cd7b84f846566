//! Windows of HOP put together from slices, against the same windows by a row for each, and aggregates of streams in two
//! phases against one: over random rows out of order, late, and with gaps.

use std::fmt::Write as _;
use std::io::Write;

use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use thalweg::Session;

/// A generator of numbers that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Rows of (k, v, name, time), some of them up to 9 seconds behind; the watermark is a second behind.
fn lines(seed: u64, rows: usize) -> String {
    let mut random = Random(seed);
    let mut now = 60_000;
    let mut text = String::new();
    for _ in 0..rows {
        now += match random.below(500) {
            0 => 45_000,
            1..=90 => 0,
            step => step / 10,
        };
        let behind = [0, 0, 0, 0, 10, 200, 900, 3_000, 9_000][random.below(9) as usize];
        let at = now - behind;
        let null_or = |random: &mut Random, bound| match random.below(12) {
            0 => String::new(),
            _ => random.below(bound).to_string(),
        };
        let (k, v, name) = (null_or(&mut random, 8), null_or(&mut random, 40), random.below(3));
        let (hour, minute, second) = (at / 3_600_000, at / 60_000 % 60, at / 1_000 % 60);
        let millis = at % 1_000;
        writeln!(text, "{k},{v},n{name},2026-01-01 {hour:02}:{minute:02}:{second:02}.{millis:03}")
            .expect("a test runs what works");
    }
    text
}

fn session(lines: &str, settings: &[(&str, &str)]) -> (Session, tempfile::NamedTempFile) {
    let mut file =
        tempfile::Builder::new().suffix(".csv").tempfile().expect("a test runs what works");
    write!(file, "k,v,name,ts\n{lines}").expect("a test runs what works");
    let session = Session::new();
    run(&session, "SET execution.runtime_mode = streaming");
    for (key, value) in settings {
        run(&session, &format!("SET {key} = {value}"));
    }
    let create = format!(
        "CREATE TABLE t (k INT, v BIGINT, name VARCHAR, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'true')",
        file.path().display()
    );
    run(&session, &create);
    (session, file)
}

/// The lines of a result.
fn run(session: &Session, sql: &str) -> Vec<String> {
    let batches = block_on(async { session.sql(sql).await?.collect().await })
        .expect("a test runs what works");
    let text = pretty_format_batches(&batches).expect("a test runs what works").to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

const AGGREGATIONS: [&str; 4] = [
    "SELECT k, window_start, window_end, count(*), sum(v), max(v), avg(v) FROM windows \
     GROUP BY k, window_start, window_end",
    "SELECT window_end, min(v), count(DISTINCT v) FROM windows GROUP BY window_start, window_end",
    "SELECT name, window_time, count(DISTINCT k), min(name) FROM windows WHERE v IS NULL OR v > 5 \
     GROUP BY name, window_start, window_end, window_time",
    "SELECT window_end, k + 1, count(*) FILTER (WHERE v > 20), stddev(v) > 3 FROM windows GROUP BY window_end, k + 1",
];

const HOPS: [(u32, u32); 5] = [(2, 10), (1, 7), (5, 5), (3, 10), (1, 60)];

fn hop(aggregation: &str, (slide, size): (u32, u32)) -> String {
    let windows = format!(
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)"
    );
    aggregation.replace("FROM windows", &format!("FROM TABLE({windows})"))
}

#[test]
fn windows_of_slices_are_those_of_a_row_for_each() {
    for seed in [1, 2] {
        let lines = lines(seed, 4_000);
        let (whole, _whole) =
            session(&lines, &[("optimizer.sliced_windows", "off"), ("threads", "1")]);
        let settings: [&[(&str, &str)]; 3] = [
            &[("threads", "1")],
            &[("threads", "2"), ("batch_size", "100")],
            &[("threads", "2"), ("optimizer.two_phase_aggregate", "off")],
        ];
        for hop_of in HOPS {
            for aggregation in AGGREGATIONS {
                let sql = hop(aggregation, hop_of);
                let wanted = run(&whole, &sql);
                assert!(wanted.len() > 5, "{sql}");
                for settings in settings {
                    let (sliced, _file) = session(&lines, settings);
                    assert_eq!(run(&sliced, &sql), wanted, "seed {seed}, {settings:?}: {sql}");
                }
            }
        }
        for aggregation in AGGREGATIONS {
            let windows = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))";
            let sql = aggregation.replace("FROM windows", &format!("FROM {windows}"));
            let wanted = run(&whole, &sql);
            for settings in settings {
                let (sliced, _file) = session(&lines, settings);
                assert_eq!(run(&sliced, &sql), wanted, "seed {seed}, {settings:?}: {sql}");
            }
        }
    }
}

#[test]
fn two_phases_give_the_windows_of_one() {
    let tumble = |aggregation: &str| {
        let windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND))";
        aggregation.replace("FROM windows", &format!("FROM {windows}"))
    };
    let lines = lines(3, 5_000);
    let (single, _single) =
        session(&lines, &[("threads", "2"), ("optimizer.two_phase_aggregate", "off")]);
    for batch in ["1", "64", "8192"] {
        let (two, _two) = session(&lines, &[("threads", "2"), ("batch_size", batch)]);
        for aggregation in AGGREGATIONS {
            let sql = tumble(aggregation);
            assert_eq!(run(&two, &sql), run(&single, &sql), "batches of {batch}: {sql}");
        }
    }
}

#[test]
fn plans_tell_slices() {
    let (session, _file) = session(&lines(1, 10), &[]);
    let sliced = |sql: &str| {
        let plan = run(&session, &format!("EXPLAIN {sql}")).join("\n");
        assert_eq!(plan.contains("slices"), !plan.contains("hop_starts"), "{plan}");
        plan.contains("slices")
    };
    let hop = |select: &str| {
        format!(
            "SELECT {select} FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND))"
        )
    };
    assert!(sliced(&format!(
        "{} GROUP BY k, window_start, window_end",
        hop("k, window_end, count(*)")
    )));
    assert!(sliced(&format!("{} GROUP BY window_end", hop("window_end, max(v)"))));
    // What looks at the windows of each row needs a row for each.
    for looks in [
        format!("{} GROUP BY k, window_end", hop("k, count(window_start)")),
        format!(
            "{} WHERE window_end > ts + INTERVAL '3' SECOND GROUP BY k, window_end",
            hop("k, count(*)")
        ),
        format!("{} GROUP BY window_end, window_end - ts", hop("window_end, count(*)")),
        format!("{} GROUP BY date_trunc('minute', window_end)", hop("count(*)")),
        format!("{} GROUP BY window_end", hop("window_end, array_agg(v ORDER BY ts)")),
    ] {
        assert!(!sliced(&looks), "{looks}");
    }
}
