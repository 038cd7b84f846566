//! Expressions: from columns by id to columns by position.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{Between, Case, InList, Like};
use datafusion_expr::{Expr as LogicalExpr, ExprSchemable, Operator};
use thalweg_optimizer::physical::{ColumnId, ColumnTable};
use thalweg_runtime::expr::{BinaryOperator, Expr, IsTest};
use thalweg_runtime::{Error, Result};

/// The columns an expression may read, in the order of the runtime's positions.
pub struct Scope<'a> {
    columns: &'a [ColumnId],
    table: &'a ColumnTable,
    schema: DFSchema,
    parameters: Vec<String>,
}

impl<'a> Scope<'a> {
    /// A scope over columns of one input.
    pub fn new(columns: &'a [ColumnId], table: &'a ColumnTable) -> Result<Self> {
        let mut seen = std::collections::BTreeSet::new();
        let fields: Vec<_> =
            columns.iter().filter(|c| seen.insert(**c)).map(|c| table.get(*c).field()).collect();
        let schema = DFSchema::try_from(Schema::new(fields))?;
        Ok(Scope { columns, table, schema, parameters: Vec::new() })
    }

    /// Types of the columns, by position.
    pub fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|c| self.table.get(*c).data_type.clone()).collect()
    }

    /// Position of a column.
    pub fn position(&self, column: ColumnId) -> Result<usize> {
        self.columns.iter().position(|c| *c == column).ok_or_else(|| {
            let name = &self.table.get(column).name;
            Error::Internal(format!("column {column} ({name}) is not in the input"))
        })
    }

    /// The type of an expression.
    pub fn type_of(&self, expr: &LogicalExpr) -> Result<DataType> {
        Ok(expr.get_type(&self.schema)?)
    }

    /// Several expressions.
    pub fn lower_all<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e LogicalExpr>,
    ) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|e| self.lower(e)).collect()
    }

    /// One expression.
    pub fn lower(&mut self, expr: &LogicalExpr) -> Result<Expr> {
        match expr {
            LogicalExpr::Alias(alias) => self.lower(&alias.expr),
            LogicalExpr::Column(column) => {
                let id = ColumnId::from_column(column).ok_or_else(|| {
                    Error::Internal(format!("column {column} without an identity"))
                })?;
                Ok(Expr::Column(self.position(id)?))
            }
            LogicalExpr::Literal(value, _) => Ok(Expr::literal(value.clone())),
            LogicalExpr::BinaryExpr(b) => self.binary(b.op, &b.left, &b.right),
            LogicalExpr::Like(like) => self.like(like),
            LogicalExpr::SimilarTo(like) => self.similar_to(like),
            LogicalExpr::Not(e) => Ok(Expr::Not(self.boxed(e)?)),
            LogicalExpr::IsNotNull(e) => self.is(IsTest::NotNull, e),
            LogicalExpr::IsNull(e) => self.is(IsTest::Null, e),
            LogicalExpr::IsTrue(e) => self.is(IsTest::True, e),
            LogicalExpr::IsFalse(e) => self.is(IsTest::False, e),
            LogicalExpr::IsUnknown(e) => self.is(IsTest::Unknown, e),
            LogicalExpr::IsNotTrue(e) => self.is(IsTest::NotTrue, e),
            LogicalExpr::IsNotFalse(e) => self.is(IsTest::NotFalse, e),
            LogicalExpr::IsNotUnknown(e) => self.is(IsTest::NotUnknown, e),
            LogicalExpr::Negative(e) => Ok(Expr::Negative(self.boxed(e)?)),
            LogicalExpr::Between(between) => self.between(between),
            LogicalExpr::Case(case) => self.case(case),
            LogicalExpr::Cast(c) => self.cast(&c.expr, c.field.data_type(), false),
            LogicalExpr::TryCast(c) => self.cast(&c.expr, c.field.data_type(), true),
            LogicalExpr::ScalarFunction(call) => {
                let (_, field) = expr.to_field(&self.schema)?;
                let result = Field::new(call.func.name(), field.data_type().clone(), true)
                    .with_metadata(field.metadata().clone());
                let args = self.lower_all(&call.args)?;
                Ok(Expr::Function { name: call.func.name().to_string(), args, result })
            }
            LogicalExpr::InList(list) => self.in_list(list),
            LogicalExpr::HigherOrderFunction(call) => Ok(Expr::HigherOrder {
                name: call.func.name().to_string(),
                args: self.lower_all(&call.args)?,
            }),
            LogicalExpr::Lambda(lambda) => {
                let known = self.parameters.len();
                self.parameters.extend(lambda.params.iter().cloned());
                let body = self.boxed(&lambda.body);
                self.parameters.truncate(known);
                Ok(Expr::Lambda { params: lambda.params.clone(), body: body? })
            }
            LogicalExpr::LambdaVariable(variable) => {
                let place = self.parameters.iter().rposition(|p| *p == variable.name);
                let (Some(place), Some(field)) = (place, &variable.field) else {
                    return Err(Error::Internal(format!("no parameter {}", variable.name)));
                };
                let index = self.columns.len() + place;
                Ok(Expr::LambdaVariable { index, field: field.as_ref().clone() })
            }
            LogicalExpr::Placeholder(p) => {
                Err(Error::user(format!("the parameter {} has no value", p.id)))
            }
            other => Err(Error::Unsupported(format!("the expression {other}"))),
        }
    }

    fn boxed(&mut self, expr: &LogicalExpr) -> Result<Box<Expr>> {
        Ok(Box::new(self.lower(expr)?))
    }

    fn is(&mut self, test: IsTest, expr: &LogicalExpr) -> Result<Expr> {
        Ok(Expr::Is { test, expr: self.boxed(expr)? })
    }

    fn binary(&mut self, op: Operator, left: &LogicalExpr, right: &LogicalExpr) -> Result<Expr> {
        let pattern = |negated, case_insensitive| (negated, case_insensitive);
        let like = match op {
            Operator::LikeMatch => Some(pattern(false, false)),
            Operator::ILikeMatch => Some(pattern(false, true)),
            Operator::NotLikeMatch => Some(pattern(true, false)),
            Operator::NotILikeMatch => Some(pattern(true, true)),
            _ => None,
        };
        let (left, right) = (self.boxed(left)?, self.boxed(right)?);
        if let Some((negated, case_insensitive)) = like {
            return Ok(Expr::Like { negated, case_insensitive, expr: left, pattern: right });
        }
        Ok(Expr::Binary { op: BinaryOperator::try_from(op)?, left, right })
    }

    fn like(&mut self, like: &Like) -> Result<Expr> {
        let pattern = match like.escape_char {
            None | Some('\\') => self.boxed(&like.pattern)?,
            Some(escape) => Box::new(with_backslash_escapes(&like.pattern, escape)?),
        };
        Ok(Expr::Like {
            negated: like.negated,
            case_insensitive: like.case_insensitive,
            expr: self.boxed(&like.expr)?,
            pattern,
        })
    }

    fn similar_to(&mut self, like: &Like) -> Result<Expr> {
        if like.escape_char.is_some() {
            return Err(Error::Unsupported("SIMILAR TO with ESCAPE".into()));
        }
        let op = match (like.negated, like.case_insensitive) {
            (false, false) => BinaryOperator::RegexMatch,
            (false, true) => BinaryOperator::RegexIMatch,
            (true, false) => BinaryOperator::RegexNotMatch,
            (true, true) => BinaryOperator::RegexNotIMatch,
        };
        Ok(Expr::Binary { op, left: self.boxed(&like.expr)?, right: self.boxed(&like.pattern)? })
    }

    fn between(&mut self, between: &Between) -> Result<Expr> {
        let side = |op, bound: Box<Expr>, value: &Expr| Expr::Binary {
            op,
            left: Box::new(value.clone()),
            right: bound,
        };
        let value = self.lower(&between.expr)?;
        let both = Expr::Binary {
            op: BinaryOperator::And,
            left: Box::new(side(BinaryOperator::GtEq, self.boxed(&between.low)?, &value)),
            right: Box::new(side(BinaryOperator::LtEq, self.boxed(&between.high)?, &value)),
        };
        Ok(if between.negated { Expr::Not(Box::new(both)) } else { both })
    }

    fn case(&mut self, case: &Case) -> Result<Expr> {
        let operand = case.expr.as_ref().map(|e| self.boxed(e)).transpose()?;
        let branches = case
            .when_then_expr
            .iter()
            .map(|(when, then)| Ok((self.lower(when)?, self.lower(then)?)))
            .collect::<Result<Vec<_>>>()?;
        let otherwise = case.else_expr.as_ref().map(|e| self.boxed(e)).transpose()?;
        Ok(Expr::Case { operand, branches, otherwise })
    }

    fn cast(&mut self, expr: &LogicalExpr, to: &DataType, fallible: bool) -> Result<Expr> {
        Ok(Expr::Cast { expr: self.boxed(expr)?, to: to.clone(), fallible })
    }

    fn in_list(&mut self, list: &InList) -> Result<Expr> {
        Ok(Expr::InList {
            expr: self.boxed(&list.expr)?,
            list: self.lower_all(&list.list)?,
            negated: list.negated,
        })
    }
}

/// A LIKE pattern with another escape character, rewritten to use a backslash.
fn with_backslash_escapes(pattern: &LogicalExpr, escape: char) -> Result<Expr> {
    let LogicalExpr::Literal(value, _) = pattern else {
        return Err(Error::Unsupported("ESCAPE with a pattern that is not constant".into()));
    };
    let Some(Some(text)) = value.try_as_str() else { return Ok(Expr::literal(value.clone())) };
    let mut rewritten = String::with_capacity(text.len() + 4);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == escape {
            let escaped = characters.next().ok_or_else(|| {
                Error::user("a LIKE pattern must not end with its escape character")
            })?;
            rewritten.push('\\');
            rewritten.push(escaped);
        } else if c == '\\' {
            rewritten.push_str("\\\\");
        } else {
            rewritten.push(c);
        }
    }
    Ok(Expr::literal(ScalarValue::from(rewritten.as_str()).cast_to(&value.data_type())?))
}
