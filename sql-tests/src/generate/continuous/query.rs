//! Random continuous queries as parts that can be left out one by one.
//!
//! What they answer is unique: lists and first rows are ordered by the numbers of all rows they are made of.

use std::fmt;

use super::super::expression::{Expressions, TYPES, Type};
use super::super::query::Query as Plain;
use super::super::random::Random;
use super::super::reduce;
use super::kind::Kind;
use super::{joins, ranked, windows};

/// A query.
#[derive(Debug, Clone)]
pub(in super::super) enum Query {
    /// One whose parts are known.
    Select(Select),
    /// One of those that are made for all settings.
    Plain(Box<Plain>),
    /// One of nested parts.
    Text(String),
}

/// One SELECT.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Select {
    pub distinct: bool,
    pub items: Vec<String>,
    /// All of FROM.
    pub from: String,
    pub conjuncts: Vec<String>,
    pub group_by: Vec<String>,
    pub having: Vec<String>,
    /// What stands behind: another query, EMIT.
    pub tail: String,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::Select(select) => write!(f, "{select}"),
            Query::Plain(plain) => write!(f, "{plain}"),
            Query::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> =
            self.items.iter().enumerate().map(|(at, item)| format!("{item} AS x{at}")).collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        write!(f, "SELECT {distinct}{} FROM {}", items.join(", "), self.from)?;
        for (word, parts, separator) in [
            ("WHERE", &self.conjuncts, " AND "),
            ("GROUP BY", &self.group_by, ", "),
            ("HAVING", &self.having, " AND "),
        ] {
            if !parts.is_empty() {
                write!(f, " {word} {}", parts.join(separator))?;
            }
        }
        write!(f, "{}", self.tail)
    }
}

impl Query {
    /// The next query of a kind.
    pub fn random(kind: Kind, random: &mut Random) -> Self {
        let select = match kind {
            Kind::Windows => windows::grouped(random),
            Kind::Cascades => windows::cascade(random),
            Kind::WindowJoins => windows::joined(random),
            Kind::Joins => joins::regular(random),
            Kind::IntervalJoins => joins::interval(random),
            Kind::AsOf => joins::as_of(random),
            Kind::Groups => grouped(random),
            Kind::Ranks => ranked::first_rows(random),
            Kind::Over => ranked::over(random),
            Kind::Sets => sets(random),
            Kind::Unnest => joins::unnested(random),
            Kind::Nested => return Query::Text(nested(random)),
            Kind::Plain => return Query::Plain(Box::new(Plain::random(random))),
        };
        Query::Select(select)
    }

    /// Queries with one part less.
    pub fn smaller(&self) -> Vec<Query> {
        let select = match self {
            Query::Select(select) => select,
            Query::Plain(plain) => {
                return reduce::smaller(plain)
                    .into_iter()
                    .map(|q| Query::Plain(Box::new(q)))
                    .collect();
            }
            Query::Text(_) => return Vec::new(),
        };
        let mut found = Vec::new();
        let mut with = |change: &dyn Fn(&mut Select)| {
            let mut less = select.clone();
            change(&mut less);
            found.push(Query::Select(less));
        };
        for at in 0..select.conjuncts.len() {
            with(&|s| drop(s.conjuncts.remove(at)));
        }
        for at in 0..select.having.len() {
            with(&|s| drop(s.having.remove(at)));
        }
        for at in 0..if select.items.len() > 1 { select.items.len() } else { 0 } {
            with(&|s| drop(s.items.remove(at)));
        }
        if select.distinct {
            with(&|s| s.distinct = false);
        }
        if !select.tail.is_empty() {
            with(&|s| s.tail.clear());
        }
        found
    }
}

/// Keys, aggregates and perhaps a condition on groups, over the columns of these aliases.
pub(super) fn aggregate(select: &mut Select, keys: usize, aliases: &[String], random: &mut Random) {
    let mut e = Expressions { aliases, random };
    for _ in 0..keys {
        let of = *e.random.pick(TYPES);
        let key = if e.random.chance(75) { e.column(of) } else { e.value(of, 1) };
        // A constant would be a key of no use, or the item at a place.
        if aliases.iter().any(|alias| key.contains(&format!("{alias}."))) {
            select.items.push(key.clone());
            select.group_by.push(key);
        }
    }
    for _ in 0..1 + e.random.below(3) {
        let call = e.aggregate_of_events();
        select.items.push(call);
    }
    if e.random.chance(15) {
        select.having.push(format!("{} IS NOT NULL", e.aggregate()));
    }
}

/// Conditions over the columns of these aliases.
pub(super) fn conditions(select: &mut Select, aliases: &[String], random: &mut Random) {
    let mut e = Expressions { aliases, random };
    for _ in 0..*e.random.pick(&[0, 0, 1, 1, 2]) {
        let condition = format!("({})", e.predicate(1));
        select.conjuncts.push(condition);
    }
    if e.random.chance(8) {
        let condition = e.subquery_predicate();
        select.conjuncts.push(condition);
    }
}

/// A table or a part of it, without its alias.
pub(super) fn relation(random: &mut Random) -> String {
    let table = *random.pick(&["t0", "t0", "t1", "t1", "t2", "t3"]);
    relation_of(table, random)
}

pub(super) fn relation_of(table: &str, random: &mut Random) -> String {
    if !random.chance(20) {
        return table.to_string();
    }
    let aliases = ["u".to_string()];
    let condition = Expressions { aliases: &aliases, random }.predicate(1);
    format!("(SELECT * FROM {table} AS u WHERE {condition})")
}

/// Groups that no watermark closes.
fn grouped(random: &mut Random) -> Select {
    let aliases = ["r0".to_string()];
    let mut select = Select { from: format!("{} AS r0", relation(random)), ..Select::default() };
    conditions(&mut select, &aliases, random);
    let keys = random.below(3);
    aggregate(&mut select, keys, &aliases, random);
    select
}

/// Set operations over columns of one type each, and DISTINCT.
fn sets(random: &mut Random) -> Select {
    let types: Vec<Type> = (0..1 + random.below(2)).map(|_| *random.pick(TYPES)).collect();
    let aliases = ["r0".to_string()];
    let part = |random: &mut Random| {
        let mut select =
            Select { from: format!("{} AS r0", relation(random)), ..Select::default() };
        conditions(&mut select, &aliases, random);
        let mut e = Expressions { aliases: &aliases, random };
        select.items = types.iter().map(|of| e.column(*of)).collect();
        if e.random.chance(30) {
            let last = e.column(types[types.len() - 1]);
            let window = windows::time_bin("r0", e.random);
            select.items.pop();
            select.group_by = select.items.clone();
            select.group_by.push(window);
            select.items.push(format!("max({last})"));
        }
        select
    };
    let mut select = part(random);
    select.distinct = select.group_by.is_empty() && random.chance(40);
    for _ in 0..random.below(3) {
        let operation = *random.pick(&[
            "UNION",
            "UNION ALL",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
        ]);
        select.tail += &format!(" {operation} {}", part(random));
    }
    select
}

/// Aggregates of aggregates, and conditions on aggregates of other tables.
fn nested(random: &mut Random) -> String {
    let aliases = ["s".to_string()];
    let mut inner = Select { from: format!("{} AS s", relation(random)), ..Select::default() };
    conditions(&mut inner, &aliases, random);
    let mut e = Expressions { aliases: &aliases, random };
    let key = *e.random.pick(&["s.a", "s.d", "s.g", "s.e"]);
    let (number, decimal) = (e.aggregate_of(Type::Int), e.aggregate_of(Type::Decimal));
    inner.items = vec![key.to_string(), "count(*)".to_string(), number, decimal];
    inner.group_by = vec![key.to_string()];
    let outer = *random.pick(&[
        "SELECT x1, count(*) AS n, sum(x2) AS s, max(x3) AS m FROM ({}) AS q GROUP BY x1",
        "SELECT avg(x1) AS v, count(x2) AS n, min(x3) AS m FROM ({}) AS q",
        "SELECT q.x0, q.x1, r.id FROM ({}) AS q JOIN t1 AS r ON r.a = q.x2",
        "SELECT r.id, q.x1 FROM t1 AS r LEFT JOIN ({}) AS q ON r.a = q.x2",
        "SELECT r.id, r.a FROM t0 AS r WHERE r.a IN (SELECT x2 FROM ({}) AS q)",
        "SELECT r.id, r.a FROM t0 AS r WHERE r.a NOT IN (SELECT x1 FROM ({}) AS q)",
        "SELECT r.id, r.f FROM t0 AS r WHERE EXISTS (SELECT 1 FROM ({}) AS q WHERE q.x2 = r.a AND q.x1 > 1)",
        "SELECT r.id, r.f FROM t0 AS r WHERE NOT EXISTS (SELECT 1 FROM ({}) AS q WHERE q.x2 = r.a)",
        "SELECT r.id, r.f FROM t0 AS r WHERE r.f > (SELECT min(x3) FROM ({}) AS q)",
        "SELECT r.id, (SELECT max(x1) FROM ({}) AS q WHERE q.x2 = r.a) AS m FROM t0 AS r",
        "SELECT DISTINCT x1, x2 FROM ({}) AS q",
        "SELECT x0, x1, rank() OVER (ORDER BY x1 DESC) AS place FROM ({}) AS q",
        "WITH q AS ({}) SELECT l.x0, r.x1 FROM q AS l JOIN q AS r ON l.x1 = r.x2",
    ]);
    outer.replace("{}", &inner.to_string())
}
