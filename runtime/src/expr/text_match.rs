//! Whether a text is one of a few constants: `=`, `<>`, `IN` and their disjunctions.
//!
//! A text of up to twelve bytes stands whole in its view, so that one comparison of 128 bits decides; of a longer one
//! the length and the first four bytes are compared before the text itself is looked at. Lists that are long, hold a
//! NULL or anything but constants are left to the general expressions.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal as PhysicalLiteral;

/// Constants compared one after the other; more are looked up by their hash elsewhere.
const VALUES_MAX: usize = 8;
/// Bytes that stand in a view.
const INLINE_BYTES_MAX: usize = 12;

/// `input IN (values)`, or `NOT IN`.
#[derive(Debug, Clone, Eq)]
pub struct TextMatch {
    input: Arc<dyn PhysicalExpr>,
    values: Vec<Arc<str>>,
    negated: bool,
}

impl TextMatch {
    /// The expression, if `input` is text in views and all of `values` are few constants.
    pub fn try_new<'a>(
        input: &Arc<dyn PhysicalExpr>,
        values: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
        negated: bool,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let values: Option<Vec<Arc<str>>> = values.into_iter().map(constant).collect();
        let Some(values) = values.filter(|v| (1..=VALUES_MAX).contains(&v.len())) else {
            return Ok(None);
        };
        if input.data_type(schema)? != DataType::Utf8View || constant(input).is_some() {
            return Ok(None);
        }
        Ok(Some(TextMatch { input: input.clone(), values, negated }))
    }

    /// `left OR right`, or `left AND right` of negated ones, as one if both look at the same text.
    pub fn merge(left: &dyn PhysicalExpr, right: &dyn PhysicalExpr, negated: bool) -> Option<Self> {
        let (left, right) = (left.downcast_ref::<Self>()?, right.downcast_ref::<Self>()?);
        let fits = left.values.len() + right.values.len() <= VALUES_MAX;
        let alike = left.negated == negated && right.negated == negated;
        (fits && alike && left.input.eq(&right.input)).then(|| TextMatch {
            values: left.values.iter().chain(&right.values).cloned().collect(),
            ..left.clone()
        })
    }

    fn matches(&self, texts: &StringViewArray) -> BooleanBuffer {
        let short: Vec<u128> = self.values.iter().filter_map(|v| inline_view(v)).collect();
        let long: Vec<&str> =
            self.values.iter().map(|v| &**v).filter(|v| v.len() > INLINE_BYTES_MAX).collect();
        let views = texts.views();
        let negated = self.negated;
        match (short.as_slice(), long.as_slice()) {
            (&[one], []) => {
                BooleanBuffer::collect_bool(views.len(), |row| (views[row] == one) != negated)
            }
            (short, []) => BooleanBuffer::collect_bool(views.len(), |row| {
                short.iter().fold(false, |found, v| found | (*v == views[row])) != negated
            }),
            (short, long) => {
                let long: Vec<(u64, &str)> = long.iter().map(|v| (head(v), *v)).collect();
                BooleanBuffer::collect_bool(views.len(), |row| {
                    let view = views[row];
                    // The length and the first bytes are the lower half of a view.
                    let candidate = |(head, text): &(u64, &str)| {
                        *head == view as u64 && texts.is_valid(row) && texts.value(row) == *text
                    };
                    (short.contains(&view) || long.iter().any(candidate)) != negated
                })
            }
        }
    }
}

/// The text of a constant.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<str>> {
    match expr.downcast_ref::<PhysicalLiteral>()?.value() {
        ScalarValue::Utf8View(Some(text)) => Some(text.as_str().into()),
        _ => None,
    }
}

/// The view of a text that stands whole in it: the length, then the bytes, then zeros.
fn inline_view(text: &str) -> Option<u128> {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
    view[4..].get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(u128::from_le_bytes(view))
}

/// The length and the first four bytes of a text that does not stand in its view.
fn head(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let prefix = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (u64::from(prefix) << 32) | (text.len() as u64 & u64::from(u32::MAX))
}

impl PartialEq for TextMatch {
    fn eq(&self, other: &Self) -> bool {
        self.negated == other.negated && self.values == other.values && self.input.eq(&other.input)
    }
}

impl Hash for TextMatch {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.values.hash(state);
        self.negated.hash(state);
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "NOT " } else { "" };
        write!(f, "{} {not}IN ({})", self.input, self.values.join(", "))
    }
}

impl PhysicalExpr for TextMatch {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.input.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.input.evaluate(batch)?.into_array(batch.num_rows())?;
        let texts = texts.as_string_view();
        let truth = BooleanArray::new(self.matches(texts), texts.nulls().cloned());
        Ok(ColumnarValue::Array(Arc::new(truth)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(TextMatch { input: children[0].clone(), ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayRef;

    use super::super::literal::Literal;
    use super::super::{BinaryOperator, Expr, FunctionRegistry, compile, positional_schema};
    use crate::batch::Batch;

    use super::{Arc, BooleanArray, DataType, ScalarValue, StringViewArray};

    const TEXTS: [Option<&str>; 9] = [
        Some(""),
        Some("a"),
        None,
        Some("a\0"),
        Some("twelve bytes"),
        Some("thirteen byte"),
        Some("thirteen bits"),
        Some("a much longer text"),
        Some("thirteen byte"),
    ];

    fn literal(text: &str) -> Expr {
        Expr::Literal(Literal(ScalarValue::Utf8View(Some(text.into()))))
    }

    fn binary(op: BinaryOperator, left: Expr, right: Expr) -> Expr {
        Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
    }

    fn check(expr: &Expr, wanted: impl Fn(&str) -> bool) {
        let column: ArrayRef = Arc::new(StringViewArray::from_iter(TEXTS));
        let schema = positional_schema(&[DataType::Utf8View]);
        let compiled = compile(expr, &schema, &FunctionRegistry::built_in()).unwrap();
        let truth = compiled.evaluate_predicate(&Batch::new(vec![column], TEXTS.len())).unwrap();
        let wanted: BooleanArray = TEXTS.iter().map(|t| t.map(&wanted)).collect();
        assert_eq!(truth, wanted, "{expr:?}");
    }

    #[test]
    fn a_constant_of_any_length_is_found_on_either_side() {
        for text in TEXTS.into_iter().flatten().chain(["b", "none of them, long"]) {
            let column = || Expr::Column(0);
            check(&binary(BinaryOperator::Eq, column(), literal(text)), |t| t == text);
            check(&binary(BinaryOperator::Eq, literal(text), column()), |t| t == text);
            check(&binary(BinaryOperator::NotEq, column(), literal(text)), |t| t != text);
        }
    }

    #[test]
    fn lists_and_disjunctions_are_one_comparison() {
        let values = ["a", "", "thirteen byte"];
        let equal = |text| binary(BinaryOperator::Eq, Expr::Column(0), literal(text));
        let other = |text| binary(BinaryOperator::NotEq, Expr::Column(0), literal(text));
        let any = binary(
            BinaryOperator::Or,
            binary(BinaryOperator::Or, equal("a"), equal("")),
            equal("thirteen byte"),
        );
        check(&any, |t| values.contains(&t));
        let all = binary(BinaryOperator::And, other("a"), other("thirteen byte"));
        check(&all, |t| t != "a" && t != "thirteen byte");
        let mixed = binary(BinaryOperator::Or, equal("a"), other("a"));
        check(&mixed, |_| true);
        for negated in [false, true] {
            let list = values.map(literal).to_vec();
            let expr = Expr::InList { expr: Box::new(Expr::Column(0)), list, negated };
            check(&expr, |t| values.contains(&t) != negated);
        }
    }
}
