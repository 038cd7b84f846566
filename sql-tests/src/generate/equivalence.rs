//! One seed: its tables, its queries, and whether all settings agree.

use std::time::Duration;

use super::outcome::Outcome;
use super::query::Query;
use super::random::Random;
use super::reduce::reduce;
use super::tables::{Table, tables};
use crate::engine::Engine;

/// How much to try.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Where everything follows from.
    pub seed: u64,
    /// Queries to make.
    pub queries: usize,
    /// Settings to draw; each query runs under all of them.
    pub settings: usize,
    /// Run this query alone, if set.
    pub only: Option<usize>,
}

/// A query on which settings disagree.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its number within the seed.
    pub query: usize,
    /// The smallest form that still fails.
    pub sql: String,
    /// The whole story for a person.
    pub text: String,
}

/// What a seed came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Queries that gave rows or none under the base setting.
    pub answered: usize,
    /// Queries that the base setting refused, with the first words of each reason.
    pub refused: Vec<String>,
    /// Where settings disagree.
    pub failures: Vec<Failure>,
}

/// A query may take so long; more is a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

type Settings = Vec<(String, String)>;

/// Runs a plan.
///
/// # Errors
/// What kept the sessions from being set up.
pub fn check(plan: Plan) -> Result<Report, String> {
    let mut random = Random::new(plan.seed);
    let tables = tables(&mut random);
    let base = engine(&vec![("threads".into(), "1".into())], &tables)?;
    let switches = base.strategy_switches();
    let drawn: Vec<(Settings, Engine)> = (0..plan.settings)
        .map(|number| {
            let place = (plan.seed as usize).wrapping_sub(1).wrapping_mul(plan.settings) + number;
            let settings = draw(place, &switches, &mut random);
            engine(&settings, &tables).map(|engine| (settings, engine))
        })
        .collect::<Result<_, _>>()?;
    let mut report = Report::default();
    for number in 0..plan.queries {
        let query = Query::random(&mut random);
        if plan.only.is_none_or(|only| only == number) {
            check_query(plan, number, &query, &tables, &base, &drawn, &mut report);
        }
    }
    Ok(report)
}

fn check_query(
    plan: Plan,
    number: usize,
    query: &Query,
    tables: &[Table],
    base: &Engine,
    drawn: &[(Settings, Engine)],
    report: &mut Report,
) {
    let expected = Outcome::of(base, &query.to_string());
    match &expected {
        Outcome::Rows(_) => report.answered += 1,
        Outcome::Refused(message) => {
            let reason = message.lines().next().unwrap_or_default();
            report.refused.push(format!("{reason}: {query}"));
        }
        Outcome::Broken(message) => {
            let broken =
                |q: &Query| matches!(Outcome::of(base, &q.to_string()), Outcome::Broken(_));
            let small = reduce(query, broken);
            let text =
                story(plan, number, &small, tables, &[], message, "the base setting should answer");
            report.failures.push(Failure { query: number, sql: small.to_string(), text });
            return;
        }
    }
    for (settings, engine) in drawn {
        if Outcome::of(engine, &query.to_string()).agrees_with(&expected) {
            continue;
        }
        let small = reduce(query, |q| {
            let sql = q.to_string();
            let expected = Outcome::of(base, &sql);
            // A part left out may make the query meaningless.
            matches!(expected, Outcome::Rows(_))
                && !Outcome::of(engine, &sql).agrees_with(&expected)
        });
        let sql = small.to_string();
        let (expected, found) =
            (Outcome::of(base, &sql).to_text(), Outcome::of(engine, &sql).to_text());
        let found = format!("{found}\n  plan:\n{}", engine.explain(&sql));
        let text = story(plan, number, &small, tables, settings, &found, &expected);
        report.failures.push(Failure { query: number, sql, text });
        return;
    }
}

fn story(
    plan: Plan,
    number: usize,
    query: &Query,
    tables: &[Table],
    settings: &[(String, String)],
    found: &str,
    expected: &str,
) -> String {
    let sql = query.to_string();
    let settings: Vec<String> =
        settings.iter().map(|(key, value)| format!("SET {key} = '{value}';")).collect();
    let used: Vec<String> =
        tables.iter().filter(|t| sql.contains(t.name)).map(Table::to_text).collect();
    format!(
        "equivalence --seed {} --queries {} --settings {} --only {number}\n  {}\n  {sql}\n  base setting: {expected}\n  these settings: {found}\n{}",
        plan.seed,
        plan.queries,
        plan.settings,
        settings.join(" "),
        used.join("\n")
    )
}

fn engine(settings: &Settings, tables: &[Table]) -> Result<Engine, String> {
    let engine = Engine::new(settings, TIMEOUT)?;
    for table in tables {
        engine.register(table.name, table.batches.clone())?;
    }
    Ok(engine)
}

const BATCH_SIZES: [&str; 4] = ["1", "7", "1024", "8192"];
const EXCHANGE_MODES: [&str; 3] = ["pipelined", "blocking", "automatic"];

/// The settings at a place of the matrix. Places in a row go through all numbers of threads, batch sizes and exchange
/// modes, run as batches and as streams, and switch off each strategy in turn; others are off besides by chance.
fn draw(place: usize, switches: &[String], random: &mut Random) -> Settings {
    let mode = EXCHANGE_MODES[place % EXCHANGE_MODES.len()];
    let batch = BATCH_SIZES[(place + place / THREADS_MAX) % BATCH_SIZES.len()];
    let mut settings = vec![
        ("threads".to_string(), (1 + place % THREADS_MAX).to_string()),
        ("batch_size".to_string(), batch.to_string()),
        ("execution.exchange_mode".to_string(), mode.to_string()),
    ];
    if place % 2 == 1 {
        settings.push(("execution.runtime_mode".to_string(), "streaming".to_string()));
    }
    let turn = place % switches.len().max(1);
    let chance = *random.pick(&[0, 0, 20, 50]);
    let off = switches.iter().enumerate().filter(|(at, _)| *at == turn || random.chance(chance));
    settings.extend(off.map(|(_, name)| (name.clone(), "off".to_string())));
    settings
}

const THREADS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_run_goes_through_the_matrix() {
        let switches: Vec<String> = (0..20).map(|n| format!("optimizer.s{n}")).collect();
        let mut random = Random::new(1);
        let drawn: Vec<Settings> =
            (0..40).map(|place| draw(place, &switches, &mut random)).collect();
        let has = |key: &str, value: &str| {
            drawn.iter().any(|settings| settings.iter().any(|(k, v)| k == key && v == value))
        };
        assert!((1..=8).all(|n| has("threads", &n.to_string())));
        assert!(BATCH_SIZES.iter().all(|size| has("batch_size", size)));
        assert!(EXCHANGE_MODES.iter().all(|mode| has("execution.exchange_mode", mode)));
        assert!(switches.iter().all(|name| has(name, "off")));
    }
}
