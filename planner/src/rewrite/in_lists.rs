//! The library's simplification of expressions, kept from merging lists where a NULL would be lost.
//!
//! It merges the tests of one value against two lists: `x IN a AND x IN b` becomes IN what both have, `x IN a AND x NOT IN
//! b` IN what only the first has, and `x NOT IN a OR x NOT IN b` NOT IN what both have. With a NULL in the value or in a
//! list, or with columns as items, these say something else than before. (`x IN a OR x IN b` and `x NOT IN a AND x NOT IN b`
//! are merged rightly.) Where tests of a value could meet so, each gets a shield, behind which it is simplified alone; without such tests, which is nearly always, the library sees the plan as it is.
//!
//! Invariant: no shield is left in a plan.

use std::collections::{HashMap, HashSet};

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result};
use datafusion_expr::expr::{Alias, InList, Like};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::shield::{bared, shielded};

/// The rule for whole plans.
#[derive(Debug, Default)]
pub(super) struct SoundSimplification(SimplifyExpressions);

impl OptimizerRule for SoundSimplification {
    fn name(&self) -> &str {
        "sound_simplification"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let Transformed { data: plan, transformed: has_shields, .. } = with_shields(plan)?;
        let simplified = self.0.rewrite(plan, config)?;
        if !has_shields {
            return Ok(simplified);
        }
        // The library may have put a projection above an aggregation.
        let plan = simplified.data.transform_up(without_shields)?.data;
        Ok(Transformed::yes(plan))
    }
}

/// A node's expressions with shields around tests that could meet, under their old names.
fn with_shields(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut shield = |expr: Expr| {
        let contested: HashSet<Option<Column>> =
            contested(&expr).into_iter().map(|value| value.cloned()).collect();
        if contested.is_empty() {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        let apart = expr.transform_up(|e| {
            let is_contested = |value: Value| contested.contains(&value.cloned());
            let meets = |(values, _): (Values, _)| values.into_iter().any(is_contested);
            match test_of(&e).is_some_and(meets) {
                true => Ok(Transformed::yes(shielded(e))),
                false => Ok(Transformed::no(e)),
            }
        })?;
        Ok(Transformed::yes(name.restore(apart.data)))
    };
    plan.map_expressions(|expr| match expr {
        // Grouping sets have no names of their own.
        Expr::GroupingSet(_) => expr.map_children(&mut shield),
        other => shield(other),
    })
}

fn without_shields(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(|expr| {
        let bare = expr.transform_up(|e| match bared(e) {
            Ok(condition) => Ok(Transformed::yes(condition)),
            Err(Expr::Not(inner)) => Ok(negated(*inner)),
            Err(other) => Ok(Transformed::no(other)),
        })?;
        Ok(bare.update_data(without_own_name))
    })
}

/// The negation of what had a shield when the library would have negated it.
fn negated(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::InList(InList { expr, list, negated }) => {
            Transformed::yes(Expr::InList(InList { expr, list, negated: !negated }))
        }
        Expr::Like(like) => Transformed::yes(Expr::Like(Like { negated: !like.negated, ..like })),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op.negate() {
            Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            None => {
                let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
                Transformed::no(Expr::Not(Box::new(binary)))
            }
        },
        other => Transformed::no(Expr::Not(Box::new(other))),
    }
}

/// An expression without an alias that it would be called by anyway.
fn without_own_name(expr: Expr) -> Expr {
    let Expr::Alias(alias) = expr else { return expr };
    let Alias { expr, relation, name, metadata } = alias;
    if metadata.is_none() && expr.qualified_name() == (relation.clone(), name.clone()) {
        return *expr;
    }
    Expr::Alias(Alias { expr, relation, name, metadata })
}

/// What a test is about: a column, or `None` for values without one.
type Value<'a> = Option<&'a Column>;
type Values<'a> = Vec<Value<'a>>;

/// Which tests of a value there are: those that say that it is in a list, and those that say that it is not.
#[derive(Debug, Clone, Copy)]
struct Tests {
    positive: bool,
    negative: bool,
}

impl Tests {
    const ANY: Tests = Tests { positive: true, negative: true };

    fn flipped(self) -> Self {
        Tests { positive: self.negative, negative: self.positive }
    }

    fn and(self, other: Tests) -> Self {
        Tests {
            positive: self.positive || other.positive,
            negative: self.negative || other.negative,
        }
    }
}

/// How the parts of an expression meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    All,
    Any,
    /// Below a NOT, which the library turns into ALL of the negations, after it has merged what is there.
    NotAny,
    /// As the library likes: it makes both of a CASE.
    Unknown,
}

impl Meeting {
    /// Whether tests of one value that meet so may be merged wrongly.
    fn is_unsound(self, a: Tests, b: Tests) -> bool {
        let all = a.positive || b.positive;
        let any = a.negative && b.negative;
        match self {
            Meeting::All => all,
            Meeting::Any => any,
            Meeting::NotAny => a.negative || b.negative,
            Meeting::Unknown => all || any,
        }
    }
}

/// The values whose tests in an expression could be merged wrongly.
fn contested(expr: &Expr) -> HashSet<Value<'_>> {
    let mut found = HashSet::new();
    survey(expr, false, &mut found);
    found
}

type Surveyed<'a> = HashMap<Value<'a>, Tests>;

/// The tests in an expression, which stands below a NOT or does not; adds to the contested values.
fn survey<'a>(expr: &'a Expr, negated: bool, contested: &mut HashSet<Value<'a>>) -> Surveyed<'a> {
    if let Some((values, tests)) = test_of(expr) {
        // Conditions inside of a test have to do with each other only.
        parts(expr, contested);
        return values.into_iter().map(|value| (value, tests)).collect();
    }
    match expr {
        Expr::Alias(alias) => survey(&alias.expr, negated, contested),
        Expr::Not(inner) => {
            let mut tests = survey(inner, true, contested);
            tests.values_mut().for_each(|tests| *tests = tests.flipped());
            tests
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let meeting = match op {
                Operator::And => Meeting::All,
                _ if negated => Meeting::NotAny,
                _ => Meeting::Any,
            };
            let left = survey(left, negated, contested);
            let right = survey(right, negated, contested);
            meet(left, right, meeting, contested)
        }
        other => parts(other, contested),
    }
}

/// The tests in the parts of an expression that may become anything.
fn parts<'a>(expr: &'a Expr, contested: &mut HashSet<Value<'a>>) -> Surveyed<'a> {
    let mut all = Surveyed::new();
    // Walking never fails here.
    let _ = expr.apply_children(|child| {
        let mut tests = survey(child, false, contested);
        tests.values_mut().for_each(|tests| *tests = Tests::ANY);
        all = meet(std::mem::take(&mut all), tests, Meeting::Unknown, contested);
        Ok(TreeNodeRecursion::Continue)
    });
    all
}

fn meet<'a>(
    a: Surveyed<'a>,
    b: Surveyed<'a>,
    meeting: Meeting,
    contested: &mut HashSet<Value<'a>>,
) -> Surveyed<'a> {
    let (mut more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    for (value, tests) in fewer {
        let Some(known) = more.get_mut(&value) else {
            more.insert(value, tests);
            continue;
        };
        if meeting.is_unsound(*known, tests) {
            contested.insert(value);
        }
        *known = known.and(tests);
    }
    more
}

/// The values that a condition tests against constants or lists, if it does so or may be rewritten into what does.
fn test_of(expr: &Expr) -> Option<(Values<'_>, Tests)> {
    let positive = Tests { positive: true, negative: false };
    let tests = |positively: bool| if positively { positive } else { positive.flipped() };
    match expr {
        Expr::InList(InList { expr, negated, .. }) => Some((values_of([&**expr]), tests(!negated))),
        Expr::Like(Like { expr, negated, .. }) => Some((values_of([&**expr]), tests(!negated))),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq | Operator::NotEq if left.any_column_refs() != right.any_column_refs() => {
                Some((values_of([&**left, &**right]), tests(*op == Operator::Eq)))
            }
            Operator::RegexMatch | Operator::RegexNotMatch => {
                Some((values_of([&**left]), tests(*op == Operator::RegexMatch)))
            }
            _ => None,
        },
        Expr::ScalarFunction(call) if matches!(call.func.name(), "array_has" | "regexp_like") => {
            Some((values_of(&call.args), positive))
        }
        _ => None,
    }
}

/// What a test of these expressions is about.
fn values_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Values<'a> {
    let columns: HashSet<&Column> = exprs.into_iter().flat_map(Expr::column_refs).collect();
    match columns.is_empty() {
        true => vec![None],
        false => columns.into_iter().map(Some).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion_common::{DFSchema, ScalarValue};
    use datafusion_expr::{EmptyRelation, LogicalPlanBuilder, col, lit, not};
    use datafusion_optimizer::OptimizerContext;

    use super::*;

    /// The value of an expression made of tests over `t` and `u`, with the logic of three values.
    fn value(expr: &Expr, row: &[Option<i32>; 2]) -> Option<bool> {
        match expr {
            Expr::Literal(ScalarValue::Boolean(value), _) => *value,
            Expr::Alias(alias) => value(&alias.expr, row),
            Expr::Not(inner) => value(inner, row).map(|v| !v),
            Expr::IsNull(inner) => Some(number(inner, row).is_none()),
            Expr::IsNotNull(inner) => Some(number(inner, row).is_some()),
            Expr::InList(InList { expr, list, negated }) => {
                let equal = list.iter().map(|item| compare(expr, item, row, |a, b| a == b));
                equal.fold(Some(false), or).map(|found| found != *negated)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::Or => or(value(left, row), value(right, row)),
                Operator::And => and(value(left, row), value(right, row)),
                Operator::Eq => compare(left, right, row, |a, b| a == b),
                Operator::NotEq => compare(left, right, row, |a, b| a != b),
                other => panic!("{other}"),
            },
            other => panic!("{other}"),
        }
    }

    fn compare(
        left: &Expr,
        right: &Expr,
        row: &[Option<i32>; 2],
        with: fn(i32, i32) -> bool,
    ) -> Option<bool> {
        Some(with(number(left, row)?, number(right, row)?))
    }

    fn number(expr: &Expr, row: &[Option<i32>; 2]) -> Option<i32> {
        match expr {
            Expr::Literal(ScalarValue::Int32(value), _) => *value,
            Expr::Literal(ScalarValue::Boolean(None) | ScalarValue::Null, _) => None,
            Expr::Column(column) => row[usize::from(column.name == "u")],
            other => panic!("{other}"),
        }
    }

    fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
        match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
        or(a.map(|v| !v), b.map(|v| !v)).map(|v| !v)
    }

    /// The expression as a projection has it after three passes.
    fn simplified(expr: Expr) -> Expr {
        let fields = ["t", "u"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).unwrap();
        let rows = EmptyRelation { produce_one_row: false, schema: Arc::new(schema) };
        let rows = LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(rows));
        let mut plan = rows.project([expr.alias("v")]).unwrap().build().unwrap();
        let rule = SoundSimplification::default();
        for _ in 0..3 {
            plan = rule.rewrite(plan, &OptimizerContext::new()).unwrap().data;
        }
        plan.expressions().remove(0).unalias()
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % n
        }

        fn item(&mut self) -> Expr {
            match self.below(12) {
                0 => lit(ScalarValue::Int32(None)),
                1 => col("t"),
                2 => col("u"),
                n => lit(n as i32 % 6),
            }
        }

        fn expr(&mut self, depth: u64) -> Expr {
            if depth > 0 && self.below(4) > 0 {
                return match self.below(5) {
                    0 => not(self.expr(depth - 1)),
                    1 | 2 => self.expr(depth - 1).and(self.expr(depth - 1)),
                    _ => self.expr(depth - 1).or(self.expr(depth - 1)),
                };
            }
            let tested = match self.below(8) {
                0 => col("u"),
                1 => lit(2),
                _ => col("t"),
            };
            match self.below(6) {
                0 => tested.eq(self.item()),
                1 => tested.not_eq(self.item()),
                2 => tested.is_null(),
                _ => {
                    let list = (0..=self.below(5)).map(|_| self.item()).collect();
                    tested.in_list(list, self.below(2) == 0)
                }
            }
        }
    }

    #[test]
    fn what_is_simplified_says_the_same_of_all_rows() {
        let values = [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)];
        for seed in 0..3_000 {
            let expr = Random(seed).expr(4);
            let simplified = simplified(expr.clone());
            for t in values {
                for u in values {
                    let row = [t, u];
                    let (before, after) = (value(&expr, &row), value(&simplified, &row));
                    assert_eq!(before, after, "seed {seed}: {expr} => {simplified} for {row:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_merged_rightly_is_merged() {
        let list = |items: std::ops::Range<i32>| items.map(lit).collect::<Vec<_>>();
        let (a, b) = (list(0..4), list(3..8));
        let either = col("t").in_list(a.clone(), false).or(col("t").in_list(b.clone(), false));
        assert_eq!(simplified(either), col("t").in_list(list(0..8), false));
        let neither = col("t").in_list(a, true).and(col("t").in_list(b, true));
        assert_eq!(simplified(neither), col("t").in_list(list(0..8), true));
        let equal = (0..4).map(|n| col("t").eq(lit(n))).reduce(Expr::or).unwrap();
        assert_eq!(simplified(equal), col("t").in_list(list(0..4), false));
    }

    #[test]
    fn a_shielded_test_is_simplified_alone() {
        let both = col("t").in_list(vec![lit(1)], false).and(not(col("t").eq(lit(2))));
        assert_eq!(simplified(both), col("t").eq(lit(1)).and(col("t").not_eq(lit(2))));
    }
}
