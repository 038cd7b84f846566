//! Queries over windows of event time: groups by them, windows of their results, joins of equal windows.

use super::super::expression::{Expressions, Type};
use super::super::random::Random;
use super::query::{Select, aggregate, conditions, relation_of};

/// Tables with a watermark.
const TIMED: [&str; 3] = ["t0", "t1", "t2"];

const JOINS: [&str; 5] = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];

/// A windowing table function over this data.
fn table_function(data: &str, time: &str, random: &mut Random) -> String {
    let offset = *random.pick(&["", "", "", ", INTERVAL '3' SECOND"]);
    let time = format!("DESCRIPTOR({time})");
    match random.below(8) {
        0..3 => {
            let size = *random.pick(&["1", "4", "10", "60"]);
            format!("TUMBLE({data}, {time}, INTERVAL '{size}' SECOND{offset})")
        }
        3..5 => {
            let (slide, size) =
                *random.pick(&[("2", "10"), ("5", "10"), ("1", "16"), ("4", "4"), ("10", "60")]);
            format!(
                "HOP({data}, {time}, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND{offset})"
            )
        }
        5..7 => {
            let (step, size) = *random.pick(&[("2", "10"), ("5", "10"), ("1", "16"), ("5", "60")]);
            format!(
                "CUMULATE({data}, {time}, INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND{offset})"
            )
        }
        _ => {
            let keys = *random.pick(&["", " PARTITION BY a", " PARTITION BY (d, g)"]);
            let gap = *random.pick(&["1", "2", "4"]);
            format!("SESSION({data}{keys}, {time}, INTERVAL '{gap}' SECOND)")
        }
    }
}

/// Data of a windowing table function: a table, or a part of it.
fn data(random: &mut Random) -> String {
    match timed(random) {
        part if part.starts_with('(') => part,
        table => format!("TABLE {table}"),
    }
}

/// A table with a watermark, or a part of it.
fn timed(random: &mut Random) -> String {
    let table = *random.pick(&TIMED);
    relation_of(table, random)
}

/// A function of the event time of an alias that does not fall.
pub(super) fn time_bin(alias: &str, random: &mut Random) -> String {
    match random.below(4) {
        0 => format!("date_trunc('minute', {alias}.ts)"),
        1 => format!("date_bin(INTERVAL '7' SECOND, {alias}.ts)"),
        2 => format!("date_bin(INTERVAL '2' SECOND, {alias}.ts + INTERVAL '1' SECOND)"),
        _ => format!("date_bin(INTERVAL '10' SECOND, {alias}.ts)"),
    }
}

/// A call that stands in GROUP BY alone.
fn group_function(alias: &str, random: &mut Random) -> String {
    match random.below(4) {
        0 => format!("TUMBLE({alias}.ts, INTERVAL '10' SECOND)"),
        1 => format!("HOP({alias}.ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND)"),
        2 => format!("CUMULATE({alias}.ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)"),
        _ => format!("SESSION({alias}.ts, INTERVAL '2' SECOND)"),
    }
}

/// Windows of one table, grouped.
pub(super) fn grouped(random: &mut Random) -> Select {
    let aliases = ["r0".to_string()];
    let mut select = Select::default();
    let windows: Vec<String> = match random.below(10) {
        0..7 => {
            let data = data(random);
            let windows = table_function(&data, "ts", random);
            select.from = match random.chance(30) {
                true => format!("TABLE({windows}) AS r0"),
                false => format!("{windows} AS r0"),
            };
            let columns = *random.pick(&[
                &["r0.window_start", "r0.window_end"][..],
                &["r0.window_start", "r0.window_end", "r0.window_time"],
                &["r0.window_end"],
            ]);
            columns.iter().map(|column| (*column).to_string()).collect()
        }
        7 => {
            select.from = format!("{} AS r0", timed(random));
            vec![group_function("r0", random)]
        }
        _ => {
            select.from = format!("{} AS r0", timed(random));
            vec![time_bin("r0", random)]
        }
    };
    conditions(&mut select, &aliases, random);
    select.items = windows.clone();
    select.group_by = windows;
    let keys = *random.pick(&[0, 0, 1, 1, 2]);
    aggregate(&mut select, keys, &aliases, random);
    // Sessions and what a subquery lets through have no end that a watermark tells.
    let open = select.from.contains("SESSION")
        || select.group_by.iter().any(|key| key.contains("SESSION"))
        || select.conjuncts.iter().any(|condition| condition.contains("SELECT"));
    if random.chance(25) && !open {
        select.tail = random
            .pick(&[
                " EMIT ON UPDATE",
                " EMIT CHANGELOG",
                " EMIT AFTER WINDOW CLOSE",
                " EMIT AFTER WINDOW CLOSE ALLOW LATENESS INTERVAL '5' SECOND",
                " EMIT ON UPDATE ALLOW LATENESS INTERVAL '20' SECOND",
                " EMIT PERIODIC INTERVAL '1' SECOND",
            ])
            .to_string();
    }
    select
}

/// Groups of small windows, for what reads them; the columns are `id`, `a`, `n`, `s`, `m`, the window and its time `t`.
fn small_windows(random: &mut Random) -> String {
    let key = *random.pick(&["a", "id % 3"]);
    let data = data(random);
    let size = *random.pick(&["1", "2", "4"]);
    let windows = match random.below(3) {
        0 => format!("HOP({data}, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '8' SECOND)"),
        1 => format!(
            "CUMULATE({data}, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '8' SECOND)"
        ),
        _ => format!("TUMBLE({data}, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)"),
    };
    format!(
        "(SELECT max(id) AS id, {key} AS a, count(*) AS n, sum(f) AS f, max(d) AS d, window_start AS ws, \
         window_end AS we, window_time AS t FROM {windows} GROUP BY window_start, window_end, window_time, {key})"
    )
}

/// Windows of windows, the first of them, and sums over some of their keys.
pub(super) fn cascade(random: &mut Random) -> Select {
    let inner = small_windows(random);
    let mut select = Select::default();
    match random.below(5) {
        0 | 1 => {
            let size = *random.pick(&["8", "16", "60"]);
            let windows = match random.chance(60) {
                true => format!("TUMBLE({inner}, DESCRIPTOR(t), INTERVAL '{size}' SECOND)"),
                false => format!(
                    "HOP({inner}, DESCRIPTOR(t), INTERVAL '8' SECOND, INTERVAL '16' SECOND)"
                ),
            };
            select.from = format!("{windows} AS r0");
            select.group_by = vec!["r0.window_start".into(), "r0.window_end".into()];
        }
        2 => {
            select.from = format!("{inner} AS r0");
            select.group_by = vec!["r0.ws".into(), "r0.we".into()];
        }
        3 => {
            select.from = format!("{inner} AS r0");
            select.group_by = vec!["date_bin(INTERVAL '16' SECOND, r0.we)".into()];
        }
        _ => {
            let order = *random.pick(&["n DESC, a", "f, a, id", "d DESC NULLS LAST, a"]);
            let rows = 1 + random.below(3);
            select.from = format!(
                "(SELECT *, row_number() OVER (PARTITION BY ws, we ORDER BY {order}) AS place FROM {inner} AS q) AS r0"
            );
            select.conjuncts.push(format!("r0.place <= {rows}"));
            select.items =
                ["ws", "we", "a", "n", "f", "d", "place"].map(|c| format!("r0.{c}")).into();
            return select;
        }
    }
    if random.chance(40) {
        select.group_by.push("r0.a".to_string());
    }
    select.items = select.group_by.clone();
    select.items.extend(
        ["sum(r0.n)", "max(r0.f)", "count(DISTINCT r0.d)", "min(r0.d)", "count(*)"]
            .iter()
            .filter(|_| random.chance(60))
            .map(|call| (*call).to_string()),
    );
    select
}

/// Rows, or groups, of two windows that are equal.
pub(super) fn joined(random: &mut Random) -> Select {
    let size = *random.pick(&["4", "10"]);
    let both_groups = random.chance(60);
    let side = |random: &mut Random| {
        let data = data(random);
        let windows = format!("TUMBLE({data}, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)");
        match both_groups {
            true => format!(
                "(SELECT window_start, window_end, a, count(*) AS n, max(d) AS d, sum(f) AS f FROM {windows} \
                 GROUP BY window_start, window_end, a)"
            ),
            false => format!("(SELECT * FROM {windows})"),
        }
    };
    let (left, right) = (side(random), side(random));
    let mut on = vec!["r0.window_start = r1.window_start", "r0.window_end = r1.window_end"];
    if random.chance(70) {
        on.push("r0.a = r1.a");
    }
    let on = on.join(" AND ");
    let mut select = Select::default();
    let aliases: Vec<String> = match random.below(8) {
        0..6 => {
            let kind = *random.pick(&JOINS);
            select.from = format!("{left} AS r0 {kind} {right} AS r1 ON {on}");
            vec!["r0".into(), "r1".into()]
        }
        n => {
            let not = if n == 6 { "" } else { "NOT " };
            select.from = format!("{left} AS r0");
            select.conjuncts.push(format!("{not}EXISTS (SELECT 1 FROM {right} AS r1 WHERE {on})"));
            vec!["r0".into()]
        }
    };
    let mut e = Expressions { aliases: &aliases, random };
    if e.random.chance(35) {
        let window = ["window_start", "window_end"].map(|c| format!("{}.{c}", aliases[0]));
        select.group_by = window.into();
        select.items = select.group_by.clone();
        select.items.push("count(*)".into());
        let text = e.column(Type::Text);
        select.items.push(format!("max({text})"));
    } else {
        for alias in &aliases {
            select.items.extend(["window_start", "a", "d", "f"].map(|c| format!("{alias}.{c}")));
        }
    }
    select
}
