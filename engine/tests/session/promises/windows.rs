//! Windows: when their results leave, and that these are rows like any others.

use futures::StreamExt;
use futures::executor::block_on;

use super::streams::{rows, run, session};
use super::{ROWS, changelog, tumble};

#[test]
fn subtasks_without_a_split_hold_no_window_open() {
    let (session, _file) = session(&ROWS);
    for threads in [1, 3, 16] {
        let told = changelog(&session, threads, &tumble(""));
        let mut told: Vec<&str> = told.iter().map(String::as_str).collect();
        told.sort_unstable();
        assert_eq!(told, ["+I,0,a,1", "+I,0,b,2", "+I,10,a,3", "+I,20,a,4", "+I,20,b,6"]);
    }
}

#[test]
fn a_row_is_late_only_when_all_its_windows_have_closed() {
    // The watermark is at second 12 when the row of second 8 comes: of its windows [0, 10) has closed, [5, 15) has not.
    let (session, _file) = session(&[("a", 1, 1), ("a", 2, 17), ("a", 4, 8), ("a", 8, 30)]);
    let windows = |function: &str| {
        format!(
            "SELECT extract(second FROM window_start)::int AS s, extract(second FROM window_end)::int AS e, sum(v) AS v \
             FROM {function}(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND) \
             WHERE ts < '2024-01-01 00:00:15' GROUP BY window_start, window_end"
        )
    };
    for threads in [1, 4] {
        run(&session, &format!("SET threads = {threads}"));
        assert_eq!(rows(&session, &windows("HOP")), ["0,10,1", "5,15,4", "55,5,1"]);
        // It has missed a window, and is none of the rows that have missed all of theirs.
        let late = "SELECT count(*) FROM late_rows('SELECT count(*) FROM HOP(TABLE e, DESCRIPTOR(ts), \
                    INTERVAL ''5'' SECOND, INTERVAL ''10'' SECOND) GROUP BY window_start, window_end')";
        assert_eq!(rows(&session, late), ["0"]);
    }
}

#[test]
fn by_default_each_result_of_a_window_comes_once_and_final() {
    let (session, _file) = session(&ROWS);
    let told = changelog(&session, 1, &tumble(""));
    assert!(told.iter().all(|row| row.starts_with("+I")), "{told:?}");
    let plan = rows(&session, &format!("EXPLAIN {}", tumble(""))).join("\n");
    assert!(plan.contains("state bounded by the watermark"), "{plan}");
}

#[test]
fn results_of_a_window_can_be_seen_before_it_closes() {
    let (session, _file) = session(&[("a", 1, 1), ("a", 2, 3), ("a", 3, 30)]);
    let told = changelog(&session, 1, &tumble("EMIT ON UPDATE"));
    assert_eq!(told, ["+I,0,a,1", "-D,0,a,1", "+I,0,a,3", "+I,30,a,3"]);
}

#[test]
fn a_correction_leaves_before_its_window_is_forgotten() {
    let (session, _file) = session(&ROWS);
    let sql = tumble("EMIT AFTER WINDOW CLOSE ALLOW LATENESS INTERVAL '1' MINUTE");
    let told = changelog(&session, 1, &sql);
    let corrected = ["-D,0,a,1".to_string(), "+I,0,a,6".to_string()];
    assert!(told.windows(2).any(|pair| pair == corrected), "{told:?}");
    assert_eq!(rows(&session, &sql), ["0,a,6", "0,b,2", "10,a,3", "20,a,4", "20,b,6"]);
}

#[test]
fn windows_of_two_streams_are_joined_and_grouped_again() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("b", 4, 14), ("a", 5, 40)]);
    let side = |name: &str, key: &str| {
        format!(
            "(SELECT window_start, window_end, sum(v) AS v FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND) \
             WHERE k = '{key}' GROUP BY window_start, window_end) {name}"
        )
    };
    let sql = format!(
        "SELECT extract(second FROM l.window_start)::int AS s, sum(l.v + r.v) AS v FROM {} JOIN {} \
         ON l.window_start = r.window_start AND l.window_end = r.window_end GROUP BY l.window_start, l.window_end",
        side("l", "a"),
        side("r", "b")
    );
    assert_eq!(rows(&session, &sql), ["0,3", "10,7"]);
}

#[test]
fn windows_take_rows_that_are_withdrawn() {
    let (session, _file) =
        session(&[("a", 1, 1), ("b", 2, 3), ("a", 3, 12), ("b", 4, 14), ("a", 5, 40)]);
    // The last row of each key moves from window to window; a row without a partner is withdrawn when one comes.
    for (sql, expected) in [
        (
            "SELECT extract(second FROM window_start)::int AS s, sum(v) AS v FROM TUMBLE(TABLE (SELECT k, max(v) AS v, \
             max(ts) AS ts FROM e GROUP BY k), DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end",
            vec!["10,4", "40,5"],
        ),
        (
            "SELECT extract(second FROM window_start)::int AS s, count(v) AS v, count(w) AS w FROM TUMBLE(TABLE \
             (SELECT l.v AS v, r.v AS w, l.ts AS ts FROM e l LEFT JOIN e r ON l.k = r.k AND r.v = l.v + 2), \
             DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end",
            vec!["0,2,2", "10,2,1", "40,1,0"],
        ),
    ] {
        for threads in [1, 4] {
            run(&session, &format!("SET threads = {threads}"));
            assert_eq!(rows(&session, sql), expected, "{sql}");
        }
    }
}

#[test]
fn a_slow_side_that_is_caught_up_holds_no_window_open() {
    let (session, _file) = session(&[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rates.csv"), "0,7,2024-01-01 00:00:00\n").unwrap();
    let watched = format!(
        "CREATE TABLE rates (a BIGINT, rate BIGINT, since TIMESTAMP, WATERMARK FOR since AS since) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'false', 'scan.watch' = 'true')",
        folder.path().display()
    );
    run(&session, &watched);
    run(
        &session,
        "CREATE TABLE g (a BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
         'rows-per-second' = '0', 'seed' = '1', 'fields.a.min' = '0', 'fields.a.max' = '0', \
         'fields.ts.kind' = 'sequence', 'fields.ts.start' = '2024-01-01 00:00:00')",
    );
    // The watched file has one row and brings no other: windows close by the time of the other side alone, which always
    // has rows and still lets that one through.
    let sql = "SELECT window_start, max(rate) AS rate FROM TUMBLE(TABLE (SELECT g.ts AS ts, rate FROM g JOIN rates \
               ON g.a = rates.a AND g.ts BETWEEN since AND since + INTERVAL '1' MINUTE), \
               DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY window_start, window_end";
    let first = block_on(async {
        let mut stream = session.sql(sql).await.unwrap().stream().unwrap();
        stream.next().await.unwrap().unwrap()
    });
    assert!(first.num_rows() > 0);
}
