//! One seed: random statements over tables in memory, and whether materialized views of random queries follow them.

use super::super::equivalence::{Failure, Report};
use super::super::expression::Expressions;
use super::super::outcome::Outcome;
use super::super::random::Random;
use super::events::{COLUMNS, Event};
use super::query::Query;
use super::shrink::shrink;
use super::{Kind, Plan, TIMEOUT};
use crate::engine::Engine;

const TABLES: [&str; 4] = ["t0", "t1", "t2", "t3"];

/// Views of a seed stand beside each other this many at a time, so that they share the statements.
const VIEWS_AT_A_TIME: usize = 8;

/// Where a view is compared with its query.
const POINTS: usize = 3;

/// What happens to the tables: statements before the view is there, and some before each point.
#[derive(Debug, Clone)]
struct Story {
    /// Statements, each with the number of the point before which it stands; 0 is before the view.
    statements: Vec<(usize, String)>,
}

impl Story {
    fn random(random: &mut Random) -> Self {
        let mut ids = 0;
        let mut statements = Vec::new();
        for table in TABLES {
            let create = format!("CREATE TABLE {table} ({COLUMNS})");
            statements.push((0, create));
            for _ in 0..random.below(3) {
                statements.push((0, insert(table, &mut ids, random)));
            }
        }
        for point in 1..=POINTS {
            for _ in 0..1 + random.below(4) {
                let table = *random.pick(&TABLES);
                let statement = match random.below(10) {
                    0..5 => insert(table, &mut ids, random),
                    5..7 => update(table, random),
                    7..9 => format!("DELETE FROM {table} WHERE {}", condition(table, random)),
                    _ => match random.chance(20) {
                        true => format!("TRUNCATE {table}"),
                        false => {
                            format!("UPDATE {table} SET a = a WHERE {}", condition(table, random))
                        }
                    },
                };
                statements.push((point, statement));
            }
        }
        Story { statements }
    }

    fn before(&self, point: usize) -> impl Iterator<Item = &str> {
        self.statements.iter().filter(move |(at, _)| *at == point).map(|(_, sql)| sql.as_str())
    }

    fn len(&self) -> usize {
        self.statements.len()
    }

    fn without(&self, places: std::ops::Range<usize>) -> Self {
        let mut statements = self.statements.clone();
        let mut place = 0;
        statements.retain(|(_, sql)| {
            place += 1;
            sql.starts_with("CREATE") || !places.contains(&(place - 1))
        });
        Story { statements }
    }
}

fn insert(table: &str, ids: &mut i32, random: &mut Random) -> String {
    let rows: Vec<String> = (0..1 + random.below(8))
        .map(|_| {
            *ids += 1;
            Event::random(*ids, random).literals()
        })
        .collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

fn update(table: &str, random: &mut Random) -> String {
    let set = *random.pick(&[
        "a = a + 1",
        "a = NULL",
        "d = 'b'",
        "f = f + 0.50, g = NOT g",
        "c = 1.25",
        "c = NULL, b = 7",
        "e = DATE '2022-01-07'",
        "ts = ts + INTERVAL '5' SECOND",
        "a = a, d = d || 'x'",
    ]);
    format!("UPDATE {table} SET {set} WHERE {}", condition(table, random))
}

fn condition(table: &str, random: &mut Random) -> String {
    let aliases = [table.to_string()];
    Expressions { aliases: &aliases, random }.predicate(1)
}

/// Runs a plan.
///
/// # Errors
/// What kept the sessions from being set up.
pub fn check(plan: &Plan) -> Result<Report, String> {
    let mut random = Random::new(plan.seed);
    let mut report = Report::default();
    // Versions need a key that these tables do not have.
    let kinds: Vec<Kind> = plan.kinds.iter().copied().filter(|kind| *kind != Kind::AsOf).collect();
    let mut number = 0;
    while number < plan.queries {
        let story = Story::random(&mut random);
        let settings = vec![
            ("threads".to_string(), (1 + random.below(3)).to_string()),
            ("batch_size".to_string(), random.pick(&super::BATCH_SIZES).to_string()),
            ("view_commit_interval".to_string(), random.pick(&["1 h", "1 ms"]).to_string()),
        ];
        let count = VIEWS_AT_A_TIME.min(plan.queries - number);
        let queries: Vec<(usize, Query)> = (number..number + count)
            .map(|at| {
                (at, Query::random(kinds[(at + plan.seed as usize) % kinds.len()], &mut random))
            })
            .filter(|(at, _)| plan.only.is_none_or(|only| only == *at))
            .collect();
        check_story(plan, &story, &settings, &queries, &mut report)?;
        number += count;
    }
    Ok(report)
}

type Settings = Vec<(String, String)>;

/// What a view came to at one point.
#[derive(Debug)]
struct Difference {
    point: usize,
    expected: Outcome,
    found: Outcome,
}

fn check_story(
    plan: &Plan,
    story: &Story,
    settings: &Settings,
    queries: &[(usize, Query)],
    report: &mut Report,
) -> Result<(), String> {
    if queries.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = queries.iter().map(|(_, query)| query.to_string()).collect();
    for (found, (number, query)) in run(story, settings, &texts)?.into_iter().zip(queries) {
        match found {
            Found::Followed => report.answered += 1,
            Found::Refused(reason) => report.refused.push(format!("{reason}: {query}")),
            Found::Differs(_) => {
                let (query, text) = told(plan, *number, story, settings, query);
                report.failures.push(Failure { query: *number, sql: query.to_string(), text });
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
enum Found {
    Followed,
    Refused(String),
    Differs(Difference),
}

/// Runs a story with a view of each query.
fn run(story: &Story, settings: &Settings, queries: &[String]) -> Result<Vec<Found>, String> {
    let engine = Engine::new(settings, TIMEOUT)?;
    for statement in story.before(0) {
        engine.run(statement).map_err(|error| format!("{statement}: {error}"))?;
    }
    let mut found = Vec::new();
    for (at, query) in queries.iter().enumerate() {
        let create = format!("CREATE MATERIALIZED VIEW v{at} AS {query}");
        found.push(match Outcome::of(&engine, &create) {
            Outcome::Rows(_) => Found::Followed,
            Outcome::Refused(message) => {
                Found::Refused(message.lines().next().unwrap_or_default().to_string())
            }
            broken @ Outcome::Broken(_) => Found::Differs(Difference {
                point: 0,
                expected: Outcome::Rows(vec![]),
                found: broken,
            }),
        });
    }
    for point in 0..=POINTS {
        for statement in story.before(point).filter(|_| point > 0) {
            // A sum may overflow; then nothing of the statement happens.
            let _ = engine.run(statement);
        }
        engine.run("FLUSH")?;
        for (at, query) in queries.iter().enumerate() {
            if matches!(found[at], Found::Followed) {
                let expected = Outcome::of(&engine, query);
                let view = Outcome::of(&engine, &format!("SELECT * FROM v{at}"));
                // A view whose query fails for some state of the tables has failed for good.
                if matches!(expected, Outcome::Refused(_)) {
                    found[at] = Found::Refused(expected.to_text());
                } else if !view.agrees_with(&expected) {
                    found[at] = Found::Differs(Difference { point, expected, found: view });
                }
            }
        }
    }
    Ok(found)
}

/// A smaller query and story that still differ, and all about them for a person.
fn told(
    plan: &Plan,
    number: usize,
    story: &Story,
    settings: &Settings,
    query: &Query,
) -> (Query, String) {
    let differs = |story: &Story, query: &Query| {
        let found = run(story, settings, &[query.to_string()]).ok()?.pop()?;
        match found {
            Found::Differs(difference) => Some(difference),
            Found::Followed | Found::Refused(_) => None,
        }
    };
    let mut small = query.clone();
    while let Some(less) = small.smaller().into_iter().find(|q| differs(story, q).is_some()) {
        small = less;
    }
    let story = shrink(
        story.clone(),
        Story::len,
        |story, places| story.without(places),
        |story| differs(story, &small).is_some(),
    );
    let mut script = Vec::new();
    for point in 0..=POINTS {
        script.extend(story.before(point).map(|sql| format!("{sql};")));
        if point == 0 {
            script.push(format!("CREATE MATERIALIZED VIEW v0 AS {small};"));
        }
        script.push("FLUSH;".to_string());
    }
    let (at, expected, found) = match differs(&story, &small) {
        Some(d) => (format!("at point {}", d.point), d.expected.to_text(), d.found.to_text()),
        None => ("it differs now and then only".to_string(), String::new(), String::new()),
    };
    let settings: Vec<String> =
        settings.iter().map(|(key, value)| format!("SET {key} = '{value}';")).collect();
    let text = format!(
        "equivalence --views --seed {} --queries {} --only {number}\n{}\n{}\nSELECT * FROM v0;\n-- {at}\n-- query: {expected}\n-- view: {found}",
        plan.seed,
        plan.queries,
        settings.join(" "),
        script.join("\n"),
    );
    (small, text)
}
