//! Random queries as parts that can be left out one by one.

use std::fmt;

use super::expression::{Expressions, TYPES, Type};
use super::random::Random;
use super::tables;

/// A query: selects joined by set operations, perhaps ordered and limited.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub first: Select,
    /// Operation and right side.
    pub others: Vec<(&'static str, Select)>,
    /// Orders by all columns, so that a limit has one answer.
    pub limit: Option<(usize, usize)>,
}

/// One SELECT.
#[derive(Debug, Clone)]
pub(super) struct Select {
    pub distinct: bool,
    pub items: Vec<String>,
    pub from: Relation,
    pub joins: Vec<Join>,
    pub conjuncts: Vec<String>,
    /// Group keys; none means no grouping unless the items aggregate.
    pub group_by: Vec<String>,
    pub having: Vec<String>,
}

/// Something with columns and an alias.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub sql: String,
    pub alias: String,
}

/// A join to the relations before it.
#[derive(Debug, Clone)]
pub(super) struct Join {
    pub kind: &'static str,
    pub relation: Relation,
    /// Conditions; a cross join has none.
    pub on: Vec<String>,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        for (operation, select) in &self.others {
            write!(f, " {operation} {select}")?;
        }
        if let Some((limit, offset)) = self.limit {
            let positions: Vec<String> =
                (1..=self.first.items.len()).map(|i| i.to_string()).collect();
            write!(f, " ORDER BY {} LIMIT {limit} OFFSET {offset}", positions.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let items: Vec<String> =
            self.items.iter().enumerate().map(|(i, item)| format!("{item} AS x{i}")).collect();
        write!(
            f,
            "SELECT {distinct}{} FROM {} AS {}",
            items.join(", "),
            self.from.sql,
            self.from.alias
        )?;
        for join in &self.joins {
            write!(f, " {} JOIN {} AS {}", join.kind, join.relation.sql, join.relation.alias)?;
            if !join.on.is_empty() {
                write!(f, " ON {}", join.on.join(" AND "))?;
            }
        }
        for (word, parts, separator) in [
            ("WHERE", &self.conjuncts, " AND "),
            ("GROUP BY", &self.group_by, ", "),
            ("HAVING", &self.having, " AND "),
        ] {
            if !parts.is_empty() {
                write!(f, " {word} {}", parts.join(separator))?;
            }
        }
        Ok(())
    }
}

impl Query {
    /// The next query of a generator.
    pub fn random(random: &mut Random) -> Self {
        let types: Vec<Type> = (0..1 + random.below(3)).map(|_| *random.pick(TYPES)).collect();
        let sets = random.chance(20);
        let first = if sets { Select::of_types(&types, random) } else { Select::random(random) };
        let others = match sets {
            true => (0..1 + random.below(2))
                .map(|_| {
                    let operation = *random.pick(&[
                        "UNION",
                        "UNION ALL",
                        "INTERSECT",
                        "EXCEPT",
                        "INTERSECT ALL",
                        "EXCEPT ALL",
                    ]);
                    (operation, Select::of_types(&types, random))
                })
                .collect(),
            false => Vec::new(),
        };
        let limit = random.chance(25).then(|| (random.below(12), *random.pick(&[0, 0, 3])));
        Query { first, others, limit }
    }
}

const JOINS: &[&str] = &["INNER", "INNER", "LEFT", "RIGHT", "FULL", "CROSS"];

impl Select {
    /// A select of columns, aggregates or window functions.
    fn random(random: &mut Random) -> Self {
        let mut select = Select::body(random);
        let aliases = select.aliases();
        let mut e = Expressions { aliases: &aliases, random };
        match e.random.below(10) {
            0..4 => {
                let items = 1 + e.random.below(3);
                select.items = (0..items).map(|_| e.any_value()).collect();
                select.distinct = e.random.chance(15);
            }
            4..8 => {
                select.group_by = (0..e.random.below(3)).map(|_| e.any_value()).collect();
                // A number would mean the item at that place.
                select.group_by.retain(|key| key.parse::<i64>().is_err());
                select.items = select.group_by.clone();
                select
                    .items
                    .extend((0..1 + e.random.below(3)).map(|_| e.aggregate()).collect::<Vec<_>>());
                if e.random.chance(20) {
                    select.having.push(format!("{} IS NOT NULL", e.aggregate()));
                }
            }
            _ => {
                select.items = vec![e.any_value()];
                select
                    .items
                    .extend((0..1 + e.random.below(2)).map(|_| e.window()).collect::<Vec<_>>());
            }
        }
        select
    }

    /// A select whose columns have these types, for set operations.
    fn of_types(types: &[Type], random: &mut Random) -> Self {
        let mut select = Select::body(random);
        select.joins.truncate(1);
        let aliases = select.aliases();
        select.conjuncts.retain(|c| !c.contains("r2.") && !c.contains("r3."));
        let mut e = Expressions { aliases: &aliases, random };
        select.items = types.iter().map(|of| e.column(*of)).collect();
        select
    }

    /// Relations, joins and conditions.
    fn body(random: &mut Random) -> Self {
        let from = Relation::random(0, random);
        let mut aliases = vec![from.alias.clone()];
        let mut joins = Vec::new();
        for i in 1..=*random.pick(&[0, 0, 1, 1, 2, 3]) {
            let relation = Relation::random(i, random);
            let mut kind = *random.pick(JOINS);
            let mut on = Vec::new();
            if kind != "CROSS" {
                on = join_conditions(&aliases, &relation.alias, random);
            } else if i == 3 {
                kind = "INNER";
                on = join_conditions(&aliases, &relation.alias, random);
            }
            aliases.push(relation.alias.clone());
            joins.push(Join { kind, relation, on });
        }
        let mut e = Expressions { aliases: &aliases, random };
        let mut conjuncts: Vec<String> =
            (0..e.random.below(3)).map(|_| format!("({})", e.predicate(2))).collect();
        if e.random.chance(25) {
            conjuncts.push(e.subquery_predicate());
        }
        Select {
            distinct: false,
            items: Vec::new(),
            from,
            joins,
            conjuncts,
            group_by: Vec::new(),
            having: Vec::new(),
        }
    }

    fn aliases(&self) -> Vec<String> {
        let joined = self.joins.iter().map(|join| join.relation.alias.clone());
        std::iter::once(self.from.alias.clone()).chain(joined).collect()
    }
}

/// An equality nearly always, perhaps more.
fn join_conditions(aliases: &[String], alias: &str, random: &mut Random) -> Vec<String> {
    let new = [alias.to_string()];
    let of = *random.pick(&[
        Type::Int,
        Type::Int,
        Type::Text,
        Type::Date,
        Type::Double,
        Type::Decimal,
        Type::Big,
    ]);
    let left = Expressions { aliases, random }.column(of);
    let right = Expressions { aliases: &new, random }.column(of);
    let op = *random.pick(&["=", "=", "=", "=", "=", "IS NOT DISTINCT FROM", "<"]);
    let mut on = vec![format!("({left} {op} {right})")];
    if random.chance(30) {
        let all: Vec<String> = aliases.iter().cloned().chain(new).collect();
        on.push(format!("({})", Expressions { aliases: &all, random }.predicate(1)));
    }
    on
}

impl Relation {
    fn random(number: usize, random: &mut Random) -> Self {
        let table = *random.pick(tables::NAMES);
        let alias = format!("r{number}");
        let sql = if random.chance(12) {
            let inner = vec!["u".to_string()];
            let predicate = Expressions { aliases: &inner, random }.predicate(1);
            format!("(SELECT * FROM {table} AS u WHERE {predicate})")
        } else {
            table.to_string()
        };
        Relation { sql, alias }
    }
}

impl Expressions<'_> {
    fn any_value(&mut self) -> String {
        let of = *self.random.pick(TYPES);
        self.value(of, 2)
    }
}
