//! From [`Expr`] to something that can be evaluated on a batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    self, BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LambdaExpr,
    LambdaVariable, LikeExpr, Literal as PhysicalLiteral, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::{HigherOrderFunctionExpr, PhysicalExpr, ScalarFunctionExpr};

use super::cast::DecimalToFloat;
use super::decimal::DecimalArithmetic;
use super::float::CanonicalFloat;
use super::nested::NestedComparison;
use super::text_match::TextMatch;
use super::time_shift::TimeShift;
use super::{BinaryOperator, Expr, FunctionRegistry, IsTest};
use crate::batch::Batch;
use crate::error::{Error, Result};

/// An expression ready to run on batches of one schema.
#[derive(Debug, Clone)]
pub struct CompiledExpr {
    physical: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    column: Option<usize>,
    data_type: DataType,
}

impl CompiledExpr {
    /// The type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The input column that the expression is, if it is no more than that.
    pub fn as_column(&self) -> Option<usize> {
        self.column
    }

    /// One value for each physical row; the batch must have no selection.
    pub fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        debug_assert!(batch.selection().is_none(), "expressions see compact batches");
        if let Some(index) = self.column {
            return Ok(batch.column(index).clone());
        }
        let record_batch = batch.to_record_batch(self.schema.clone())?;
        Ok(self.physical.evaluate(&record_batch)?.into_array(batch.physical_rows())?)
    }

    /// A mask for a predicate; NULL where it is NULL.
    pub fn evaluate_predicate(&self, batch: &Batch) -> Result<BooleanArray> {
        let array = self.evaluate(batch)?;
        match array.as_boolean_opt() {
            Some(mask) => Ok(mask.clone()),
            None if array.data_type() == &DataType::Null => {
                Ok(BooleanArray::new_null(batch.physical_rows()))
            }
            None => Err(Error::Internal(format!("a predicate of type {}", array.data_type()))),
        }
    }
}

/// Compiles several expressions over one schema.
pub fn compile_all(
    exprs: &[Expr],
    schema: &SchemaRef,
    functions: &FunctionRegistry,
) -> Result<Vec<CompiledExpr>> {
    exprs.iter().map(|e| compile(e, schema, functions)).collect()
}

/// Compiles an expression over the columns of `schema`.
pub fn compile(
    expr: &Expr,
    schema: &SchemaRef,
    functions: &FunctionRegistry,
) -> Result<CompiledExpr> {
    let compiler = Compiler { schema, functions, config: Arc::new(ConfigOptions::default()) };
    let physical = compiler.build(expr)?;
    let data_type = physical.data_type(schema)?;
    let column = match expr {
        Expr::Column(index) => Some(*index),
        _ => None,
    };
    Ok(CompiledExpr { physical, schema: schema.clone(), column, data_type })
}

struct Compiler<'a> {
    schema: &'a SchemaRef,
    functions: &'a FunctionRegistry,
    config: Arc<ConfigOptions>,
}

type Built = Result<Arc<dyn PhysicalExpr>>;

impl Compiler<'_> {
    fn build(&self, expr: &Expr) -> Built {
        match expr {
            Expr::Column(index) => self.column(*index),
            Expr::Literal(value) => Ok(Arc::new(PhysicalLiteral::new(value.0.clone()))),
            Expr::Binary { op, left, right } => self.binary(*op, left, right),
            Expr::Not(e) => Ok(Arc::new(NotExpr::new(self.build(e)?))),
            Expr::Negative(e) => self.negative(e),
            Expr::Is { test, expr } => self.is(*test, expr),
            Expr::Cast { expr, to, fallible } => self.cast(expr, to, *fallible),
            Expr::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref())
            }
            Expr::Like { negated, case_insensitive, expr, pattern } => Ok(Arc::new(LikeExpr::new(
                *negated,
                *case_insensitive,
                self.build(expr)?,
                self.build(pattern)?,
            ))),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Function { name, args, result } => self.function(name, args, result),
            Expr::HigherOrder { name, args } => {
                let function = self.functions.higher_order(name)?;
                let args = self.build_all(args)?;
                Ok(Arc::new(HigherOrderFunctionExpr::try_new_with_schema(
                    function,
                    args,
                    self.schema,
                    self.config.clone(),
                )?))
            }
            Expr::Lambda { params, body } => {
                Ok(Arc::new(LambdaExpr::try_new(params.clone(), self.build(body)?)?))
            }
            Expr::LambdaVariable { index, field } => {
                Ok(Arc::new(LambdaVariable::new(*index, Arc::new(field.clone()))))
            }
        }
    }

    fn build_all(&self, exprs: &[Expr]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        exprs.iter().map(|e| self.build(e)).collect()
    }

    fn column(&self, index: usize) -> Built {
        let field = self.schema.fields().get(index).ok_or_else(|| {
            Error::Internal(format!("column {index} of {}", self.schema.fields().len()))
        })?;
        Ok(Arc::new(Column::new(field.name(), index)))
    }

    /// Of the least integer there is no negative: integers are subtracted from zero, which is checked.
    fn negative(&self, expr: &Expr) -> Built {
        let built = self.build(expr)?;
        let data_type = built.data_type(self.schema)?;
        if !data_type.is_signed_integer() {
            return Ok(expressions::negative(built, self.schema)?);
        }
        let zero = Arc::new(PhysicalLiteral::new(ScalarValue::new_zero(&data_type)?));
        let minus = BinaryExpr::new(zero, BinaryOperator::Minus.into(), built);
        Ok(Arc::new(minus.with_fail_on_overflow(true)))
    }

    fn binary(&self, op: BinaryOperator, left: &Expr, right: &Expr) -> Built {
        let (mut left, mut right) = (self.build(left)?, self.build(right)?);
        if op.compares() {
            left = self.canonical(left)?;
            right = self.canonical(right)?;
        }
        if let Some(nested) = NestedComparison::try_new(op, &left, &right, self.schema)? {
            return Ok(Arc::new(nested));
        }
        if let Some(fast) = self.text_match(op, &left, &right)? {
            return Ok(Arc::new(fast));
        }
        let expr = BinaryExpr::new(left, op.into(), right).with_fail_on_overflow(true);
        let result = expr.data_type(self.schema)?;
        let (left, right) = (expr.left(), expr.right());
        if let Some(fast) = DecimalArithmetic::try_new(op, left, right, &result, self.schema)? {
            return Ok(Arc::new(fast));
        }
        if let Some(fast) = TimeShift::try_new(op, &expr, self.schema)? {
            return Ok(Arc::new(fast));
        }
        Ok(Arc::new(expr))
    }

    /// A comparison of text with constants, or several of the same text.
    fn text_match(
        &self,
        op: BinaryOperator,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<TextMatch>> {
        Ok(match op {
            BinaryOperator::Eq | BinaryOperator::NotEq => {
                let negated = op == BinaryOperator::NotEq;
                match TextMatch::try_new(left, [right], negated, self.schema)? {
                    Some(found) => Some(found),
                    None => TextMatch::try_new(right, [left], negated, self.schema)?,
                }
            }
            BinaryOperator::Or => TextMatch::merge(left.as_ref(), right.as_ref(), false),
            BinaryOperator::And => TextMatch::merge(left.as_ref(), right.as_ref(), true),
            _ => None,
        })
    }

    /// Comparisons see one bit pattern for each floating-point value.
    fn canonical(&self, expr: Arc<dyn PhysicalExpr>) -> Built {
        Ok(if expr.data_type(self.schema)?.is_floating() {
            Arc::new(CanonicalFloat(expr))
        } else {
            expr
        })
    }

    fn is(&self, test: IsTest, expr: &Expr) -> Built {
        let built = self.build(expr)?;
        let equals = |value: bool, op: Operator| -> Arc<dyn PhysicalExpr> {
            let literal = PhysicalLiteral::new(ScalarValue::Boolean(Some(value)));
            Arc::new(BinaryExpr::new(built.clone(), op, Arc::new(literal)))
        };
        Ok(match test {
            IsTest::Null | IsTest::Unknown => Arc::new(IsNullExpr::new(built)),
            IsTest::NotNull | IsTest::NotUnknown => Arc::new(IsNotNullExpr::new(built)),
            IsTest::True => equals(true, Operator::IsNotDistinctFrom),
            IsTest::NotTrue => equals(true, Operator::IsDistinctFrom),
            IsTest::False => equals(false, Operator::IsNotDistinctFrom),
            IsTest::NotFalse => equals(false, Operator::IsDistinctFrom),
        })
    }

    fn cast(&self, expr: &Expr, to: &DataType, fallible: bool) -> Built {
        let built = self.build(expr)?;
        if &built.data_type(self.schema)? == to {
            return Ok(built);
        }
        // A decimal always is near some floating-point number: both kinds of cast are the same there.
        if let Some(exact) = DecimalToFloat::try_new(&built, to, self.schema)? {
            return Ok(Arc::new(exact));
        }
        Ok(if fallible {
            Arc::new(TryCastExpr::new(built, to.clone()))
        } else {
            Arc::new(CastExpr::new(built, to.clone(), None))
        })
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Built {
        let operand = operand.map(|e| self.build(e)).transpose()?;
        let branches = branches
            .iter()
            .map(|(when, then)| Ok((self.build(when)?, self.build(then)?)))
            .collect::<Result<Vec<_>>>()?;
        let otherwise = otherwise.map(|e| self.build(e)).transpose()?;
        Ok(Arc::new(CaseExpr::try_new(operand, branches, otherwise)?))
    }

    fn in_list(&self, expr: &Expr, list: &[Expr], negated: bool) -> Built {
        let built = self.canonical(self.build(expr)?)?;
        let list =
            list.iter().map(|e| self.canonical(self.build(e)?)).collect::<Result<Vec<_>>>()?;
        if let Some(fast) = TextMatch::try_new(&built, &list, negated, self.schema)? {
            return Ok(Arc::new(fast));
        }
        Ok(expressions::in_list(built, list, &negated, self.schema)?)
    }

    fn function(&self, name: &str, args: &[Expr], result: &Field) -> Built {
        let function = self.functions.scalar(name)?;
        Ok(Arc::new(ScalarFunctionExpr::new(
            name,
            function,
            self.build_all(args)?,
            Arc::new(result.clone()),
            self.config.clone(),
        )))
    }
}

impl BinaryOperator {
    /// Whether the operator compares its sides.
    pub fn compares(self) -> bool {
        use BinaryOperator::*;
        matches!(self, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
    }
}

macro_rules! operators {
    ($($name:ident),*) => {
        impl From<BinaryOperator> for Operator {
            fn from(op: BinaryOperator) -> Operator {
                match op { $(BinaryOperator::$name => Operator::$name),* }
            }
        }
        impl TryFrom<Operator> for BinaryOperator {
            type Error = Error;
            fn try_from(op: Operator) -> Result<Self> {
                match op {
                    $(Operator::$name => Ok(BinaryOperator::$name),)*
                    other => Err(Error::Unsupported(format!("the operator {other}"))),
                }
            }
        }
    };
}
operators!(
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    IsDistinctFrom,
    IsNotDistinctFrom,
    RegexMatch,
    RegexIMatch,
    RegexNotMatch,
    RegexNotIMatch,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    BitwiseShiftRight,
    BitwiseShiftLeft,
    StringConcat
);

/// A schema of nullable columns with these types, named by position.
pub fn positional_schema(types: &[DataType]) -> SchemaRef {
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true))
        .collect();
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array};

    use super::*;

    fn evaluate(expr: &Expr, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
        let rows = columns[0].len();
        compile(expr, &positional_schema(&types), &FunctionRegistry::built_in())?
            .evaluate(&Batch::new(columns, rows))
    }

    fn binary(op: BinaryOperator) -> Expr {
        let (left, right) = (Box::new(Expr::Column(0)), Box::new(Expr::Column(1)));
        Expr::Binary { op, left, right }
    }

    fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    }

    #[test]
    fn decimal_arithmetic_agrees_with_arrow() {
        use arrow::compute::kernels::numeric;
        let shapes =
            [((15, 2), (15, 2)), ((20, 4), (12, 0)), ((5, 3), (30, 1)), ((38, 2), (38, 2))];
        for ((p1, s1), (p2, s2)) in shapes {
            let a = decimals(vec![Some(12345), None, Some(-7), Some(0)], p1, s1);
            let b = decimals(vec![Some(-99), Some(5), None, Some(12)], p2, s2);
            let cases: [(_, ArrayRef); 3] = [
                (BinaryOperator::Plus, numeric::add(&a, &b).unwrap()),
                (BinaryOperator::Minus, numeric::sub(&a, &b).unwrap()),
                (BinaryOperator::Multiply, numeric::mul(&a, &b).unwrap()),
            ];
            for (op, wanted) in cases {
                let got = evaluate(&binary(op), vec![a.clone(), b.clone()]).unwrap();
                assert_eq!(&got, &wanted, "{op:?} on ({p1},{s1}) and ({p2},{s2})");
            }
        }
    }

    #[test]
    fn decimals_too_long_for_their_type_are_errors() {
        let largest = 10_i128.pow(38) - 1;
        let a = decimals(vec![Some(largest), None], 38, 0);
        let one = decimals(vec![Some(1), Some(1)], 1, 0);
        let sum = evaluate(&binary(BinaryOperator::Plus), vec![a.clone(), one.clone()]);
        assert!(sum.unwrap_err().to_string().contains("decimal overflow"));
        let product = evaluate(&binary(BinaryOperator::Multiply), vec![a.clone(), a.clone()]);
        assert!(product.unwrap_err().to_string().contains("decimal overflow"));
        let difference = evaluate(&binary(BinaryOperator::Minus), vec![a, one]).unwrap();
        let values = difference.as_primitive::<arrow::datatypes::Decimal128Type>();
        assert_eq!((values.value(0), values.is_null(1)), (largest - 1, true));
    }

    #[test]
    fn products_are_exact_up_to_the_last_digit_of_their_type() {
        let nines = |digits| 10_i128.pow(digits) - 1;
        for (a, b) in [
            (nines(19), nines(19)),
            (-nines(19), nines(19)),
            (i128::from(i64::MIN), i128::from(i64::MAX)),
            (nines(37), 10),
            (nines(38), -1),
            (1 << 63, 1 << 62),
            (-(1 << 64), 1 << 62),
        ] {
            let column = |v| decimals(vec![Some(v), Some(2), Some(0), None], 38, 0);
            let got = evaluate(&binary(BinaryOperator::Multiply), vec![column(a), column(b)]);
            let wanted = vec![Some(a * b), Some(4), Some(0), None];
            assert_eq!(&got.unwrap(), &decimals(wanted, 38, 0), "{a} * {b}");
        }
    }

    #[test]
    fn zeros_are_equal_and_nans_are_equal_and_greatest() {
        let negative_nan = f64::from_bits(f64::NAN.to_bits() | (1 << 63));
        let a: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, negative_nan, 1.0]));
        let b: ArrayRef = Arc::new(Float64Array::from(vec![0.0, negative_nan, 1e308, f64::NAN]));
        let equal = evaluate(&binary(BinaryOperator::Eq), vec![a.clone(), b.clone()]).unwrap();
        assert_eq!(equal.as_boolean(), &BooleanArray::from(vec![true, true, false, false]));
        let greater = evaluate(&binary(BinaryOperator::Gt), vec![a, b]).unwrap();
        assert_eq!(greater.as_boolean(), &BooleanArray::from(vec![false, false, true, false]));
    }

    #[test]
    fn integer_overflow_is_an_error() {
        let a: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![i64::MAX]));
        let error = evaluate(&binary(BinaryOperator::Plus), vec![a.clone(), a]).unwrap_err();
        assert!(error.to_string().to_lowercase().contains("overflow"), "{error}");
    }
}
