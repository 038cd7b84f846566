//! Random expressions by type, over the columns of the tables in scope.

use super::random::Random;
use super::tables;

/// Types that expressions are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Int,
    Big,
    Double,
    Text,
    Date,
    Decimal,
    Bool,
}

/// All types.
pub(super) const TYPES: &[Type] =
    &[Type::Int, Type::Big, Type::Double, Type::Text, Type::Date, Type::Decimal, Type::Bool];

/// Makes expressions over the given table aliases.
pub(super) struct Expressions<'a> {
    pub aliases: &'a [String],
    pub random: &'a mut Random,
}

impl Expressions<'_> {
    /// A column of a type.
    pub fn column(&mut self, of: Type) -> String {
        let alias = self.random.pick(self.aliases).clone();
        let name = match of {
            Type::Int => *self.random.pick(&["a", "a", "id"]),
            Type::Big => "b",
            Type::Double => "c",
            Type::Text => "d",
            Type::Date => "e",
            Type::Decimal => "f",
            Type::Bool => "g",
        };
        format!("{alias}.{name}")
    }

    /// A constant of a type; one of those that occur in the tables as often as not.
    pub fn literal(&mut self, of: Type) -> String {
        let choices: &[&str] = match of {
            Type::Int => &["0", "1", "2", "-1", "3"],
            Type::Big => &["0", "1", "9223372036854775807", "7"],
            Type::Double => &["0.0", "-0.5", "0.25", "'NaN'::double", "1.0"],
            Type::Text => &["''", "'a'", "'ab'", "'a longer text that is not inline'", "'zz'"],
            Type::Date => &["DATE '2022-01-08'", "DATE '2022-02-07'", "DATE '2022-04-08'"],
            Type::Decimal => {
                &["0.00::decimal(10,2)", "1.50::decimal(10,2)", "-0.50::decimal(10,2)"]
            }
            Type::Bool => &["true", "false"],
        };
        (*self.random.pick(choices)).to_string()
    }

    /// A value of a type, `depth` operators deep at most.
    pub fn value(&mut self, of: Type, depth: usize) -> String {
        if depth == 0 || self.random.chance(55) {
            return if self.random.chance(85) { self.column(of) } else { self.literal(of) };
        }
        match self.random.below(4) {
            0 => {
                let (x, y) = (self.value(of, depth - 1), self.value(of, depth - 1));
                format!("coalesce({x}, {y})")
            }
            1 => {
                let when = self.predicate(depth - 1);
                let (x, y) = (self.value(of, depth - 1), self.value(of, depth - 1));
                format!("CASE WHEN {when} THEN {x} ELSE {y} END")
            }
            _ => self.operator(of, depth - 1),
        }
    }

    fn operator(&mut self, of: Type, depth: usize) -> String {
        let x = self.value(of, depth);
        match of {
            Type::Int => match self.random.below(3) {
                0 => format!("({x} + {})", self.value(Type::Int, depth)),
                1 => format!("({x} * 2)"),
                _ => format!("abs({x})"),
            },
            Type::Double => format!("({x} + {})", self.value(Type::Double, depth)),
            Type::Text => match self.random.below(3) {
                0 => format!("upper({x})"),
                1 => format!("({x} || {})", self.literal(Type::Text)),
                _ => format!("substr({x}, 1, 2)"),
            },
            Type::Decimal => format!("(- {x})"),
            Type::Date => x,
            Type::Big => format!("nullif({x}, {})", self.literal(Type::Big)),
            Type::Bool => format!("({})", self.predicate(depth)),
        }
    }

    /// A condition.
    pub fn predicate(&mut self, depth: usize) -> String {
        let of = *self.random.pick(TYPES);
        match self.random.below(if depth > 0 { 10 } else { 7 }) {
            0 => format!("{} IS NULL", self.column(of)),
            1 => format!("{} IS NOT NULL", self.column(of)),
            2 => {
                let list: Vec<String> =
                    (0..1 + self.random.below(3)).map(|_| self.literal(of)).collect();
                let not = if self.random.chance(30) { "NOT " } else { "" };
                format!("{} {not}IN ({})", self.value(of, depth.min(1)), list.join(", "))
            }
            3 => {
                let pattern = *self.random.pick(&["'a%'", "'%b'", "'_'", "'%'", "''"]);
                format!("{} LIKE {pattern}", self.column(Type::Text))
            }
            4 => {
                let (x, low, high) = (self.column(of), self.literal(of), self.literal(of));
                format!("{x} BETWEEN {low} AND {high}")
            }
            5 | 6 => {
                let op = *self.random.pick(&[
                    "=",
                    "<>",
                    "<",
                    "<=",
                    ">",
                    ">=",
                    "IS DISTINCT FROM",
                    "IS NOT DISTINCT FROM",
                ]);
                let left = self.value(of, depth.min(1));
                let right = if self.random.chance(50) { self.literal(of) } else { self.column(of) };
                format!("({left} {op} {right})")
            }
            7 => format!("NOT ({})", self.predicate(depth - 1)),
            n => {
                let op = if n == 8 { "AND" } else { "OR" };
                format!("({} {op} {})", self.predicate(depth - 1), self.predicate(depth - 1))
            }
        }
    }

    /// A condition with a subquery, correlated or not.
    pub fn subquery_predicate(&mut self) -> String {
        let table = *self.random.pick(tables::NAMES);
        let inner = vec!["s".to_string()];
        let of = *self.random.pick(TYPES);
        let outer = self.column(of);
        let mut inside = Expressions { aliases: &inner, random: self.random };
        let (column, local) = (inside.column(of), inside.predicate(1));
        let not = if self.random.chance(40) { "NOT " } else { "" };
        match self.random.below(3) {
            0 => format!("{outer} {not}IN (SELECT {column} FROM {table} AS s WHERE {local})"),
            1 => format!(
                "{not}EXISTS (SELECT 1 FROM {table} AS s WHERE {column} = {outer} AND {local})"
            ),
            _ => {
                let f = *self.random.pick(&["min", "max"]);
                let of = *self.random.pick(&[Type::Int, Type::Text, Type::Date, Type::Decimal]);
                let (x, y) = (self.column(of), column_of(of));
                format!("{x} >= (SELECT {f}(s.{y}) FROM {table} AS s WHERE {local})")
            }
        }
    }

    /// An aggregate whose result does not depend on the order of rows, and its type.
    pub fn aggregate(&mut self) -> String {
        let filter = if self.random.chance(15) {
            format!(" FILTER (WHERE {})", self.predicate(0))
        } else {
            String::new()
        };
        let distinct = if self.random.chance(20) { "DISTINCT " } else { "" };
        let of = *self.random.pick(TYPES);
        let call = match self.random.below(7) {
            0 => "count(*)".to_string(),
            1 => format!("count({distinct}{})", self.value(of, 1)),
            2 => format!("sum({distinct}{})", self.value(Type::Int, 1)),
            3 => format!("sum({})", self.column(Type::Double)),
            4 => format!("avg({})", self.column(Type::Decimal)),
            5 => format!("min({})", self.value(of, 1)),
            _ => format!("max({})", self.value(of, 1)),
        };
        call + &filter
    }

    /// An aggregate, among them those that depend on the order of rows, which is given.
    pub fn aggregate_of_events(&mut self) -> String {
        if self.random.chance(60) {
            return self.aggregate();
        }
        let of = *self.random.pick(TYPES);
        let ids: Vec<String> = self.aliases.iter().map(|alias| format!("{alias}.id")).collect();
        let ids = ids.join(", ");
        let filter = match self.random.chance(20) {
            true => format!(" FILTER (WHERE {})", self.predicate(0)),
            false => String::new(),
        };
        let call = match self.random.below(8) {
            0 => format!("array_agg({} ORDER BY {ids})", self.column(of)),
            1 => format!("array_agg({} ORDER BY {}, {ids})", self.column(of), self.column(of)),
            2 => format!("string_agg({}, ',' ORDER BY {ids})", self.column(Type::Text)),
            3 => format!("first_value({} ORDER BY {ids})", self.column(of)),
            4 => format!("last_value({} ORDER BY {ids})", self.column(of)),
            5 => format!("bool_and({})", self.column(Type::Bool)),
            6 => format!("bit_xor({})", self.column(Type::Int)),
            _ => format!("bool_or({})", self.column(Type::Bool)),
        };
        call + &filter
    }

    /// An aggregate whose result has this type, or one that compares with it.
    pub fn aggregate_of(&mut self, of: Type) -> String {
        let value = self.column(of);
        let call = match self.random.below(4) {
            0 => "min",
            1 => "max",
            _ => match of {
                Type::Int | Type::Decimal => "sum",
                Type::Big | Type::Double | Type::Text | Type::Date => "min",
                Type::Bool => "bool_or",
            },
        };
        format!("{call}({value})")
    }

    /// A window function with a unique result; all ids together make each row unique.
    pub fn window(&mut self) -> String {
        let of = *self.random.pick(TYPES);
        let partition = if self.random.chance(60) {
            format!("PARTITION BY {} ", self.column(of))
        } else {
            String::new()
        };
        let direction = *self.random.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let key = *self.random.pick(TYPES);
        let key = self.column(key);
        let ids: Vec<String> = self.aliases.iter().map(|alias| format!("{alias}.id")).collect();
        let total = format!("ORDER BY {key}{direction}, {}", ids.join(", "));
        let loose = format!("ORDER BY {key}{direction}");
        match self.random.below(8) {
            0 => format!("row_number() OVER ({partition}{total})"),
            1 => format!("rank() OVER ({partition}{loose})"),
            2 => format!("dense_rank() OVER ({partition}{loose})"),
            3 => format!("lag({}, 1) OVER ({partition}{total})", self.column(of)),
            4 => format!("sum({}) OVER ({partition}{loose})", self.column(Type::Int)),
            5 => format!("count(*) OVER ({partition})"),
            6 => format!(
                "min({}) OVER ({partition}{total} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
                self.column(Type::Text)
            ),
            _ => format!(
                "last_value({}) OVER ({partition}{total} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
                self.column(of)
            ),
        }
    }
}

/// The column that has a type.
pub(super) fn column_of(of: Type) -> &'static str {
    match of {
        Type::Int => "a",
        Type::Big => "b",
        Type::Double => "c",
        Type::Text => "d",
        Type::Date => "e",
        Type::Decimal => "f",
        Type::Bool => "g",
    }
}
