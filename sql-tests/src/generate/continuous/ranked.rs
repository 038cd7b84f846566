//! Window functions, and first rows of partitions by ROW_NUMBER.

use super::super::expression::{Expressions, TYPES, Type};
use super::super::random::Random;
use super::query::{Select, conditions, relation};

/// The first rows of partitions: one is a deduplication.
pub(super) fn first_rows(random: &mut Random) -> Select {
    let partition = *random.pick(&[
        "",
        "PARTITION BY a ",
        "PARTITION BY d ",
        "PARTITION BY g, a ",
        "PARTITION BY e ",
    ]);
    let order = *random.pick(&[
        "ts, id",
        "ts DESC, id",
        "c DESC, id",
        "f, id DESC",
        "b NULLS FIRST, id",
        "id",
    ]);
    let rows = *random.pick(&["= 1", "<= 1", "<= 3", "< 3", "BETWEEN 2 AND 3", "= 2"]);
    let source = match random.chance(30) {
        true => format!(
            "(SELECT a, g, max(id) AS id, count(*) AS b, max(c) AS c, min(d) AS d, max(e) AS e, sum(f) AS f, \
             max(ts) AS ts FROM {} AS q GROUP BY a, g)",
            relation(random)
        ),
        false => relation(random),
    };
    let place = *random.pick(&["row_number", "row_number", "row_number", "rank", "dense_rank"]);
    let mut select = Select {
        from: format!(
            "(SELECT *, {place}() OVER ({partition}ORDER BY {order}) AS place FROM {source} AS s) AS r0"
        ),
        ..Select::default()
    };
    select.conjuncts.push(format!("r0.place {rows}"));
    let joined = ["r0".to_string()];
    if random.chance(30) {
        let mut e = Expressions { aliases: &joined, random };
        let condition = format!("({})", e.predicate(1));
        select.conjuncts.push(condition);
    }
    if random.chance(30) {
        select.items =
            vec!["r0.g".into(), "count(*)".into(), "max(r0.d)".into(), "sum(r0.place)".into()];
        select.group_by = vec!["r0.g".into()];
    } else {
        select.items = ["id", "a", "d"].map(|c| format!("r0.{c}")).into();
        if random.chance(50) {
            select.items.push("r0.place".into());
        }
    }
    select
}

/// Window functions over event time and others.
pub(super) fn over(random: &mut Random) -> Select {
    let aliases = ["r0".to_string()];
    let mut select = Select { from: format!("{} AS r0", relation(random)), ..Select::default() };
    conditions(&mut select, &aliases, random);
    let mut e = Expressions { aliases: &aliases, random };
    select.items.push("r0.id".into());
    for _ in 0..1 + e.random.below(2) {
        let function = match e.random.chance(50) {
            true => e.window(),
            false => e.over_time(),
        };
        select.items.push(function);
    }
    select
}

impl Expressions<'_> {
    /// A window function over frames of time or rows in the order of time.
    fn over_time(&mut self) -> String {
        let alias = self.random.pick(self.aliases).clone();
        let partition = match self.random.chance(60) {
            true => format!("PARTITION BY {alias}.{} ", self.random.pick(&["a", "d", "g"])),
            false => String::new(),
        };
        let number = self.column(Type::Int);
        let of = *self.random.pick(TYPES);
        let any = self.column(of);
        let call = match self.random.below(6) {
            0 => "count(*)".to_string(),
            1 => format!("sum({number})"),
            2 => format!("avg({})", self.column(Type::Decimal)),
            3 => format!("min({any})"),
            4 => format!("count({any})"),
            _ => format!("max({any})"),
        };
        let frame = *self.random.pick(&[
            "",
            " RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND INTERVAL '2' SECOND FOLLOWING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            ", ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            ", ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ]);
        // Frames of rows need an order without ties.
        let frame = frame.replace(", ROWS", &format!(", {alias}.id ROWS"));
        format!("{call} OVER ({partition}ORDER BY {alias}.ts{frame})")
    }
}
