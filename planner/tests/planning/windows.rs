//! Windowing table functions: what is refused, and how; what they become.

use super::stub::{error, text};

const DATA: &str = "TABLE (SELECT CAST(s AS TIMESTAMP) AS ts, id FROM t)";

#[track_caller]
fn refused(call: &str, message: &str, more: &str) {
    let sql = format!("SELECT * FROM {}", call.replace("DATA", DATA));
    let rendered = error(&sql);
    assert_eq!(rendered.lines().next(), Some(message), "{sql}\n{rendered}");
    assert!(rendered.contains("\nLINE 1: ") && rendered.contains(more), "{rendered}");
}

#[test]
fn arguments_that_are_missing_or_wrong_are_named() {
    let usage = "HINT: write TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset] [, zone])";
    let day = "INTERVAL '1' DAY";
    refused("TUMBLE()", "TUMBLE has no argument DATA", usage);
    refused("TABLE(TUMBLE(DATA))", "TUMBLE has no argument TIMECOL", usage);
    refused("TUMBLE(DATA, DESCRIPTOR(ts))", "TUMBLE has no argument SIZE", usage);
    refused(
        &format!("TUMBLE(DATA, DESCRIPTOR(ts), {day}, {day}, 'UTC', {day})"),
        "TUMBLE has more arguments than it takes",
        usage,
    );
    refused(
        &format!("TUMBLE(DATA, DESCRIPTOR(ts), {day}, SIZE => {day})"),
        "TUMBLE has the argument SIZE twice",
        usage,
    );
    refused(
        &format!("TUMBLE(DATA, DESCRIPTOR(ts), SIZ => {day})"),
        "TUMBLE has no parameter SIZ",
        "HINT: did you mean \"size\"?",
    );
    refused(
        &format!("TUMBLE(DATA PARTITION BY id, DESCRIPTOR(ts), {day})"),
        "TUMBLE takes no PARTITION BY: its windows are the same for all",
        usage,
    );
    refused(
        &format!("TUMBLE(DATA, DESCRIPTOR(ts + {day}), {day})"),
        "TUMBLE takes the time of rows as DESCRIPTOR(column)",
        usage,
    );
    refused(&format!("HOP(DATA, DESCRIPTOR(ts), ts, {day})"), "column ts does not exist", "LINE 1");
    refused(
        "HOP(DATA, DESCRIPTOR(ts), 1, 2)",
        "SLIDE of HOP is a constant interval, such as INTERVAL '10' MINUTES",
        "LINE 1",
    );
}

#[test]
fn names_that_do_not_exist_are_found_at_their_place() {
    refused(
        "TUMBLE(TABLE nope, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "table nope does not exist",
        "\n                                   ^^^^",
    );
    refused(
        "TUMBLE(DATA, DESCRIPTOR(tz), INTERVAL '1' DAY)",
        "column tz does not exist",
        "HINT: did you mean \"ts\"?",
    );
    refused(
        "SESSION(DATA PARTITION BY (id, kk), DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "column kk does not exist",
        "^^",
    );
}

#[test]
fn lengths_that_make_no_windows_are_refused() {
    refused(
        "HOP(DATA, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '5' MINUTES)",
        "the SIZE of HOP must be a multiple of its SLIDE",
        "HINT: HOP takes SLIDE first, then SIZE",
    );
    refused(
        "CUMULATE(DATA, DESCRIPTOR(ts), INTERVAL '3' MINUTES, INTERVAL '10' MINUTES)",
        "the SIZE of CUMULATE must be a multiple of its STEP",
        "HINT: CUMULATE takes STEP first, then SIZE",
    );
    refused(
        "HOP(DATA, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' DAY)",
        "HOP with so small a SLIDE is not supported",
        "DETAIL: A row may be in 2000 windows at most.",
    );
    refused(
        "SESSION(DATA, DESCRIPTOR(ts), INTERVAL '1' MONTH)",
        "GAP of months or years in SESSION is not supported",
        "HINT: write it in days",
    );
    for length in ["INTERVAL '0' DAYS", "- INTERVAL '1' DAY"] {
        refused(
            &format!("SESSION(DATA, DESCRIPTOR(ts), {length})"),
            "GAP of SESSION must be longer than nothing",
            "LINE 1",
        );
    }
    refused(
        "TUMBLE(DATA, DESCRIPTOR(ts), INTERVAL '1 nanosecond')",
        "SIZE is finer than the times of its column",
        "LINE 1",
    );
}

#[test]
fn data_must_have_times_and_no_windows() {
    refused(
        "TUMBLE(TABLE t, DESCRIPTOR(id), INTERVAL '1' DAY)",
        "the time column of TUMBLE must be a TIMESTAMP, not BIGINT",
        "HINT: cast it in a subquery: (SELECT CAST(id AS TIMESTAMP) AS …)",
    );
    refused(
        "HOP(TABLE TUMBLE(DATA, DESCRIPTOR(ts), INTERVAL '1' DAY), DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' DAY)",
        "the data of HOP has a column window_start already",
        "HINT: give it another name",
    );
    refused(
        "TUMBLE(3, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "TUMBLE takes a table as its first argument: TABLE t",
        "LINE 1",
    );
}

#[test]
fn tumbling_windows_are_a_projection() {
    let plan = text(&format!(
        "SELECT window_start FROM TUMBLE({DATA}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    ));
    assert!(
        plan.contains("window_floor(") && plan.contains("Int64(60000000), Int64(0))"),
        "{plan}"
    );
    assert!(!plan.contains("Window"), "{plan}");
}

#[test]
fn words_outside_of_from_mean_what_they_meant() {
    let plan = text("SELECT session.id, hop FROM (SELECT id, k AS hop FROM t) session");
    assert!(plan.contains("session"), "{plan}");
    let refused = error("SELECT tumble(id, 1) FROM t");
    assert!(refused.starts_with("TUMBLE groups rows, and this is no key of GROUP BY"), "{refused}");
}
