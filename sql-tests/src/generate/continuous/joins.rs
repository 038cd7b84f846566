//! Joins: of all types, with conditions on times, to the nearest and to the valid row; and lists opened.

use super::super::expression::{Expressions, TYPES, Type};
use super::super::random::Random;
use super::query::{Select, aggregate, conditions, relation, relation_of};
use super::windows::time_bin;

const KINDS: [&str; 5] = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"];

const TIMED: [&str; 3] = ["t0", "t1", "t2"];

fn aliases(of: &[&str]) -> Vec<String> {
    of.iter().map(|alias| (*alias).to_string()).collect()
}

/// Values of a join's rows, or groups of them.
fn results(select: &mut Select, aliases: &[String], random: &mut Random) {
    if random.chance(35) {
        if random.chance(40) {
            let bin = time_bin(&aliases[0], random);
            select.items.push(bin.clone());
            select.group_by.push(bin);
        }
        let keys = random.below(2);
        aggregate(select, keys, aliases, random);
        return;
    }
    let mut e = Expressions { aliases, random };
    for alias in aliases {
        select.items.push(format!("{alias}.id"));
    }
    for _ in 0..1 + e.random.below(3) {
        let of = *e.random.pick(TYPES);
        let value = e.value(of, 1);
        select.items.push(value);
    }
    select.distinct = e.random.chance(8);
}

/// Equal values, and perhaps another condition.
fn equal(left: &[String], right: &str, random: &mut Random) -> String {
    let of = *random.pick(&[Type::Int, Type::Int, Type::Text, Type::Date, Type::Decimal]);
    let new = [right.to_string()];
    let (x, y) = {
        let x = Expressions { aliases: left, random }.column(of);
        (x, Expressions { aliases: &new, random }.column(of))
    };
    let op = *random.pick(&["=", "=", "=", "=", "IS NOT DISTINCT FROM"]);
    let all: Vec<String> = left.iter().cloned().chain(new).collect();
    match random.chance(25) {
        true => {
            let more = Expressions { aliases: &all, random }.predicate(1);
            format!("{x} {op} {y} AND ({more})")
        }
        false => format!("{x} {op} {y}"),
    }
}

/// Two or three tables whose rows match at any distance; semi and anti joins.
pub(super) fn regular(random: &mut Random) -> Select {
    let mut select = Select { from: format!("{} AS r0", relation(random)), ..Select::default() };
    let mut joined = aliases(&["r0"]);
    for at in 1..=1 + random.below(2) {
        let alias = format!("r{at}");
        let kind = *random.pick(&KINDS[..if at == 1 { 5 } else { 4 }]);
        select.from += &format!(" {kind} {} AS {alias}", relation(random));
        if kind != "CROSS JOIN" {
            let on = equal(&joined, &alias, random);
            select.from += &format!(" ON {on}");
        }
        joined.push(alias);
    }
    conditions(&mut select, &joined, random);
    if random.chance(35) {
        let condition = Expressions { aliases: &joined, random }.subquery_predicate();
        select.conjuncts.push(condition);
    }
    results(&mut select, &joined, random);
    select
}

/// Rows of two tables whose times are near.
pub(super) fn interval(random: &mut Random) -> Select {
    let sides = [0, 1].map(|_| {
        let table = *random.pick(&TIMED);
        relation_of(table, random)
    });
    let near = *random.pick(&[
        "r0.ts BETWEEN r1.ts - INTERVAL '5' SECOND AND r1.ts",
        "r0.ts BETWEEN r1.ts - INTERVAL '2' SECOND AND r1.ts + INTERVAL '8' SECOND",
        "r0.ts >= r1.ts AND r0.ts < r1.ts + INTERVAL '10' SECOND",
        "r1.ts > r0.ts AND r1.ts <= r0.ts + INTERVAL '3' SECOND",
        "r0.ts = r1.ts",
        "r0.ts <= r1.ts - INTERVAL '10' SECOND",
        "date_bin(INTERVAL '10' SECOND, r0.ts) = date_bin(INTERVAL '10' SECOND, r1.ts)",
    ]);
    let on = match random.chance(80) {
        true => format!("{} AND {near}", equal(&aliases(&["r0"]), "r1", random)),
        false => near.to_string(),
    };
    let mut select = Select::default();
    let joined = match random.below(8) {
        0..6 => {
            let kind = *random.pick(&KINDS[..4]);
            select.from = format!("{} AS r0 {kind} {} AS r1 ON {on}", sides[0], sides[1]);
            aliases(&["r0", "r1"])
        }
        n => {
            let not = if n == 6 { "" } else { "NOT " };
            select.from = format!("{} AS r0", sides[0]);
            let found = format!("{not}EXISTS (SELECT 1 FROM {} AS r1 WHERE {on})", sides[1]);
            select.conjuncts.push(found);
            aliases(&["r0"])
        }
    };
    conditions(&mut select, &joined, random);
    results(&mut select, &joined, random);
    select
}

/// The nearest row of another table, and the version that is valid.
pub(super) fn as_of(random: &mut Random) -> Select {
    let left = random.pick(&TIMED);
    let outer = *random.pick(&["", "LEFT "]);
    let from = match random.chance(50) {
        true => {
            let right = relation(random);
            let op = *random.pick(&[">=", ">", "<=", "<"]);
            let key = *random.pick(&[
                "r0.a = r1.a AND ",
                "r0.d = r1.d AND ",
                "r0.g = r1.g AND r0.a = r1.a AND ",
            ]);
            format!("{left} AS r0 ASOF {outer}JOIN {right} AS r1 ON {key}r0.ts {op} r1.ts")
        }
        false => {
            let more = *random.pick(&["", " AND r1.g", " AND r1.id > r0.id"]);
            format!(
                "{left} AS r0 {outer}JOIN v FOR SYSTEM_TIME AS OF r0.ts AS r1 ON r0.a = r1.a{more}"
            )
        }
    };
    let mut select = Select { from, ..Select::default() };
    let joined = aliases(&["r0", "r1"]);
    conditions(&mut select, &joined, random);
    results(&mut select, &joined, random);
    select
}

/// The elements of a list of each row.
pub(super) fn unnested(random: &mut Random) -> Select {
    let list = *random.pick(&[
        "make_array(r0.a, r0.a + 1, r0.id)",
        "make_array(r0.id)",
        "string_to_array(r0.d, ' ')",
        "CASE WHEN r0.g THEN make_array(r0.a, 7) END",
    ]);
    let mut select = Select {
        from: format!("{} AS r0 CROSS JOIN UNNEST({list}) AS u(x)", relation(random)),
        ..Select::default()
    };
    let joined = aliases(&["r0"]);
    conditions(&mut select, &joined, random);
    if random.chance(50) {
        select.items = vec!["u.x".into(), "count(*)".into(), "count(DISTINCT r0.a)".into()];
        select.group_by = vec!["u.x".into()];
        if random.chance(40) {
            select.group_by.push(time_bin("r0", random));
        }
    } else {
        select.items = vec!["r0.id".into(), "u.x".into(), "r0.d".into()];
    }
    select
}
