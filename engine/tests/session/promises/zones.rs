//! Windows that begin where people want them to: by an offset, and with the days of a time zone.

use std::io::Write;

use thalweg::Session;

use super::streams::{rows, run, session};

#[test]
fn windows_begin_by_an_offset() {
    let (session, _file) = session(&[("a", 1, 1), ("a", 2, 3), ("a", 4, 12), ("a", 8, 13)]);
    let sql = "SELECT extract(second FROM window_start)::int AS s, extract(second FROM window_end)::int AS e, sum(v) AS v \
               FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND) \
               GROUP BY window_start, window_end";
    assert_eq!(rows(&session, sql), ["13,23,8", "3,13,6", "53,3,1"]);
    let hop = "SELECT extract(second FROM window_start)::int AS s, sum(v) AS v \
               FROM HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND, INTERVAL '3' SECOND) \
               GROUP BY window_start, window_end";
    assert_eq!(rows(&session, hop), ["13,8", "3,6", "53,1", "58,3", "8,12"]);
}

#[test]
fn daily_windows_are_local_days_when_clocks_are_turned() {
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    // One row an hour, from the evening before the shortest day to the morning after; the longest day likewise.
    for (month, day) in [(3, 30), (10, 26)] {
        for hour in 20..20 + 36 {
            let (day, hour) = (day + hour / 24, hour % 24);
            let (month, day) = if month == 3 && day == 32 { (4, 1) } else { (month, day) };
            writeln!(file, "2024-{month:02}-{day:02}T{hour:02}:00:00Z").unwrap();
        }
    }
    let session = Session::new();
    run(&session, "SET time_zone = 'Europe/Berlin'");
    let create = format!(
        "CREATE TABLE e (ts TIMESTAMP WITH TIME ZONE, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', \
         'path' = '{}', 'format' = 'csv', 'csv.header' = 'false')",
        file.path().display()
    );
    run(&session, &create);
    let sql = "SELECT to_char(window_start AT TIME ZONE 'Europe/Berlin', '%m-%d %H:%M') AS day, \
               (extract(epoch FROM window_end) - extract(epoch FROM window_start))::int / 3600 AS hours, count(*) AS n \
               FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' DAY) GROUP BY window_start, window_end";
    let expected = [
        "03-30 00:00,24,3",
        "03-31 00:00,23,23",
        "04-01 00:00,24,10",
        "10-26 00:00,24,2",
        "10-27 00:00,25,25",
        "10-28 00:00,24,9",
    ];
    for mode in ["batch", "streaming"] {
        run(&session, &format!("SET execution.runtime_mode = {mode}"));
        assert_eq!(rows(&session, sql), expected, "{mode}");
    }
}
