//! The expressions that aggregates read, each evaluated once a batch however many aggregates use it.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow_schema::SchemaRef;
use datafusion_common::ScalarValue;

use super::spec::AggregateSpec;
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, Expr, FunctionRegistry, compile_all, positional_schema};
use crate::rows::unpack;

/// The distinct argument, filter and order expressions of some aggregates.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    exprs: Vec<Expr>,
    compiled: Vec<CompiledExpr>,
}

impl Arguments {
    /// Compiles what the aggregates need over an input of the given schema.
    ///
    /// # Errors
    /// As [`compile_all`].
    pub fn new(
        specs: &[AggregateSpec],
        schema: &SchemaRef,
        functions: &FunctionRegistry,
    ) -> Result<Self> {
        let mut exprs: Vec<Expr> = Vec::new();
        for expr in specs.iter().flat_map(expressions) {
            if !exprs.contains(expr) {
                exprs.push(expr.clone());
            }
        }
        let compiled = compile_all(&exprs, schema, functions)?;
        Ok(Arguments { exprs, compiled })
    }

    /// The column that holds an expression of one of the aggregates.
    pub(crate) fn position(&self, expr: &Expr) -> usize {
        let found = self.exprs.iter().position(|known| known == expr);
        found.expect("every expression of the aggregates was taken in")
    }

    /// The value of an expression that is the same in all rows because it reads none.
    pub(crate) fn constant(&self, expr: &Expr) -> Result<Option<ScalarValue>> {
        match expr {
            Expr::Literal(value) => Ok(Some(value.0.clone())),
            Expr::Cast { expr: inner, .. } | Expr::Negative(inner) => {
                if self.constant(inner)?.is_none() {
                    return Ok(None);
                }
                let functions = FunctionRegistry::built_in();
                let compiled =
                    compile_all(std::slice::from_ref(expr), &positional_schema(&[]), &functions)?;
                let array = compiled[0].evaluate(&Batch::new(Vec::new(), 1))?;
                Ok(Some(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => Ok(None),
        }
    }

    /// The type of a column, dictionaries unpacked.
    pub(crate) fn data_type(&self, column: usize) -> DataType {
        crate::rows::unpacked_type(self.compiled[column].data_type())
    }

    /// One column for each expression, without dictionaries. The batch must have no selection.
    ///
    /// # Errors
    /// What the expressions report.
    pub fn evaluate(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        self.compiled.iter().map(|expr| unpack(&expr.evaluate(batch)?)).collect()
    }
}

fn expressions(spec: &AggregateSpec) -> impl Iterator<Item = &Expr> {
    let order = spec.order_by.iter().map(|key| &key.expr);
    spec.args.iter().chain(&spec.filter).chain(order)
}

/// The values at some positions.
pub(crate) fn take_all(columns: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
    columns
        .iter()
        .map(|column| {
            debug_assert!(rows.values().iter().all(|&row| (row as usize) < column.len()));
            Ok(take(column, rows, None)?)
        })
        .collect()
}
