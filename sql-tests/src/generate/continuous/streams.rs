//! One seed: its events, its queries, and whether their streams give what their batches give.

use tempfile::TempDir;

use super::super::equivalence::{Failure, Report};
use super::super::outcome::Outcome;
use super::super::random::Random;
use super::events::{Arrangement, tables};
use super::query::Query;
use super::shrink::shrink;
use super::{BATCH_SIZES, Plan, TIMEOUT};
use crate::engine::Engine;

/// How a query runs.
#[derive(Debug, Clone)]
struct Settings(Vec<(String, String)>);

/// Tables in files, and a session that reads them.
struct Run {
    arrangement: Arrangement,
    settings: Settings,
    engine: Engine,
    _files: TempDir,
}

impl Run {
    fn new(arrangement: Arrangement, settings: Settings) -> Result<Self, String> {
        let files = TempDir::new().map_err(|error| error.to_string())?;
        let engine = Engine::new(&settings.0, TIMEOUT)?;
        for statement in arrangement.write(files.path())? {
            engine.run(&statement)?;
        }
        Ok(Run { arrangement, settings, engine, _files: files })
    }

    fn outcome(&self, sql: &str) -> Outcome {
        match self.settings.is_stream() {
            true => Outcome::of_changes(&self.engine, sql),
            false => Outcome::of(&self.engine, sql),
        }
    }

    /// The same settings over other rows.
    fn over(&self, arrangement: &Arrangement) -> Result<Self, String> {
        // What others are compared with has its rows in one file; a late row is late by the order of all.
        let arrangement = match self.settings.is_stream() {
            true => arrangement.clone(),
            false => arrangement.gathered(),
        };
        Run::new(arrangement, self.settings.clone())
    }
}

impl Settings {
    fn batch() -> Self {
        Settings(vec![("threads".into(), "1".into())])
    }

    fn stream(threads: usize, batch_size: &str) -> Self {
        let settings = [
            ("threads", threads.to_string()),
            ("batch_size", batch_size.to_string()),
            ("execution.runtime_mode", "streaming".to_string()),
        ];
        Settings(settings.map(|(key, value)| (key.to_string(), value)).into())
    }

    /// The settings at a place: places in a row go through all numbers of threads and sizes of batches.
    fn at(place: usize, switches: &[String], random: &mut Random) -> Self {
        let batch_size = BATCH_SIZES[(place + place / 8) % BATCH_SIZES.len()];
        let mut settings = Settings::stream(1 + place % 8, batch_size);
        let timeout = *random.pick(&["0", "100 ms", "-1"]);
        settings.0.push(("buffer_timeout".to_string(), timeout.to_string()));
        let chance = *random.pick(&[0, 0, 0, 10, 30]);
        let off = switches.iter().filter(|_| random.chance(chance));
        settings.0.extend(off.map(|name| (name.clone(), "off".to_string())));
        settings
    }

    fn is_stream(&self) -> bool {
        self.0.iter().any(|(_, value)| value == "streaming")
    }

    fn text(&self) -> String {
        let lines: Vec<String> =
            self.0.iter().map(|(key, value)| format!("SET {key} = '{value}';")).collect();
        lines.join(" ")
    }
}

/// Runs a plan.
///
/// # Errors
/// What kept the sessions from being set up.
pub fn check(plan: &Plan) -> Result<Report, String> {
    let mut random = Random::new(plan.seed);
    let tables = tables(&mut random);
    let late = Arrangement::late(&tables, &mut random);
    let base = match plan.late {
        true => Run::new(late.clone(), Settings::stream(1, "1"))?,
        false => {
            let arranged = Arrangement::random(&tables, 1, &mut random);
            Run::new(arranged.gathered(), Settings::batch())?
        }
    };
    let switches = base.engine.strategy_switches();
    let mut drawn = Vec::new();
    for number in 0..plan.settings {
        let place = (plan.seed as usize).wrapping_sub(1).wrapping_mul(plan.settings) + number;
        let settings = Settings::at(place, &switches, &mut random);
        let arrangement = match plan.late {
            true => late.clone(),
            false => Arrangement::random(&tables, *random.pick(&[1, 1, 3, 6]), &mut random),
        };
        drawn.push(Run::new(arrangement, settings)?);
    }
    let mut report = Report::default();
    for number in 0..plan.queries {
        // A turn that shifts by the seed, so that few queries a seed still meet all kinds.
        let kind = plan.kinds[(number + plan.seed as usize) % plan.kinds.len()];
        let query = Query::random(kind, &mut random);
        if plan.only.is_none_or(|only| only == number) {
            check_query(plan, number, &query, &base, &drawn, &mut report);
        }
    }
    Ok(report)
}

fn check_query(
    plan: &Plan,
    number: usize,
    query: &Query,
    base: &Run,
    drawn: &[Run],
    report: &mut Report,
) {
    let sql = query.to_string();
    let expected = base.outcome(&sql);
    match &expected {
        Outcome::Rows(_) => report.answered += 1,
        Outcome::Refused(message) => {
            let reason = message.lines().next().unwrap_or_default();
            report.refused.push(format!("{reason}: {query}"));
        }
        Outcome::Broken(_) => {
            let text = story(plan, number, query, base, base);
            report.failures.push(Failure { query: number, sql, text });
            return;
        }
    }
    let differs = |run: &&Run| !run.outcome(&sql).agrees_with(&expected);
    if let Some(run) = drawn.iter().find(differs) {
        let (small, base, run) = reduce(query, base, run);
        let text = story(plan, number, &small, &base, &run);
        report.failures.push(Failure { query: number, sql: small.to_string(), text });
    }
}

/// Whether a query still fails: the base gives rows, or other ones, or the run is at fault.
fn fails(sql: &str, base: &Run, run: &Run) -> bool {
    let expected = base.outcome(sql);
    matches!(expected, Outcome::Rows(_)) && !run.outcome(sql).agrees_with(&expected)
}

/// A smaller query over fewer rows that still fails, as far as that can be found.
fn reduce(query: &Query, base: &Run, run: &Run) -> (Query, Run, Run) {
    let mut small = query.clone();
    while let Some(less) = small.smaller().into_iter().find(|q| fails(&q.to_string(), base, run)) {
        small = less;
    }
    let sql = small.to_string();
    let both = |rows: &Arrangement| Some((base.over(rows).ok()?, run.over(rows).ok()?));
    let rows = shrink(
        run.arrangement.clone(),
        Arrangement::len,
        |rows, places| rows.without(places),
        |rows| both(rows).is_some_and(|(base, run)| fails(&sql, &base, &run)),
    );
    let again = |run: &Run| Run::new(run.arrangement.clone(), run.settings.clone());
    match both(&rows) {
        Some((base, run)) if fails(&sql, &base, &run) => (small, base, run),
        // It fails now and then only: the rows as they were.
        _ => match (again(base), again(run)) {
            (Ok(base), Ok(run)) => (small, base, run),
            (Err(error), _) | (_, Err(error)) => {
                unreachable!("sessions that could be set up once: {error}")
            }
        },
    }
}

fn story(plan: &Plan, number: usize, query: &Query, base: &Run, run: &Run) -> String {
    let sql = query.to_string();
    let kinds: Vec<String> = plan.kinds.iter().map(|kind| format!(" --about {kind}")).collect();
    let kinds =
        if plan.kinds.len() == super::Kind::ALL.len() { String::new() } else { kinds.concat() };
    format!(
        "equivalence {} --seed {} --queries {} --settings {}{kinds} --only {number}\n{}\n{}\n{sql};\n-- {}: {}\n-- these settings: {}\n-- plan:\n{}",
        if plan.late { "--late" } else { "--streams" },
        plan.seed,
        plan.queries,
        plan.settings,
        run.arrangement.script(&sql),
        run.settings.text(),
        base.settings.text(),
        base.outcome(&sql).to_text(),
        run.outcome(&sql).to_text(),
        run.engine.explain(&sql)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_run_goes_through_threads_and_batches() {
        let mut random = Random::new(1);
        let drawn: Vec<Settings> = (0..48).map(|at| Settings::at(at, &[], &mut random)).collect();
        let has = |key: &str, value: &str| {
            drawn.iter().any(|settings| settings.0.iter().any(|(k, v)| k == key && v == value))
        };
        assert!((1..=8).all(|n| has("threads", &n.to_string())));
        assert!(BATCH_SIZES.iter().all(|size| has("batch_size", size)));
    }
}
