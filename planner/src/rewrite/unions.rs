//! The types of a UNION's columns.
//!
//! Decimals that meet doubles in a column become doubles; of all else the library decides. A UNION has its types as soon
//! as it is bound ([`together`]), so that what is bound above it is bound to them, and may get others in the analysis,
//! when its inputs do.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use super::decimals::{double, is_float};

/// The rows of all inputs, which have as many columns each, in types that hold the values of all.
pub(crate) fn together(inputs: Vec<LogicalPlan>) -> Result<Union> {
    let inputs = inputs.into_iter().map(Arc::new).collect();
    let union = coerce(Union::try_new_with_loose_types(inputs)?)?.data;
    let LogicalPlan::Union(union) = union else {
        return datafusion_common::internal_err!("a coerced union is one");
    };
    match TypeCoercionRewriter::coerce_union(union)? {
        LogicalPlan::Union(union) => Ok(union),
        _ => datafusion_common::internal_err!("a coerced union is one"),
    }
}

/// Makes doubles of the decimals in a UNION's columns that are doubles in some input.
pub(super) fn coerce(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let any = |at: usize, is: fn(&DataType) -> bool| {
        let mut types = union.inputs.iter().filter_map(|i| i.schema().fields().get(at));
        types.any(|field| is(field.data_type()))
    };
    let mixed: Vec<usize> =
        (0..columns).filter(|&at| any(at, is_float) && any(at, DataType::is_decimal)).collect();
    let unchanged = mixed.is_empty();
    let inputs = union.inputs.into_iter().map(|input| with_doubles(input, &mixed));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let schema = with_types_of(&union.schema, inputs.first())?;
    let union = LogicalPlan::Union(Union { inputs, schema });
    Ok(Transformed::new_transformed(union, !unchanged))
}

/// A UNION's schema with the types of its first input: it has those of the inputs as they were bound, from which the
/// library goes on to coerce.
fn with_types_of(schema: &DFSchemaRef, input: Option<&Arc<LogicalPlan>>) -> Result<DFSchemaRef> {
    let Some(input) = input.filter(|i| i.schema().fields().len() == schema.fields().len()) else {
        return Ok(Arc::clone(schema));
    };
    let fields = schema.iter().zip(input.schema().fields()).map(|((qualifier, field), first)| {
        let field = field.as_ref().clone().with_data_type(first.data_type().clone());
        (qualifier.cloned(), Arc::new(field))
    });
    let metadata = schema.metadata().clone();
    Ok(Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?))
}

/// The plan with doubles in the given columns where they are decimals.
fn with_doubles(input: Arc<LogicalPlan>, columns: &[usize]) -> Result<Arc<LogicalPlan>> {
    let decimal = |at: &usize| input.schema().field(*at).data_type().is_decimal();
    if !columns.iter().any(decimal) {
        return Ok(input);
    }
    let exprs = (0..input.schema().fields().len()).map(|at| {
        let (qualifier, field) = input.schema().qualified_field(at);
        let column = Expr::Column(Column::from((qualifier, field)));
        if columns.contains(&at) && decimal(&at) {
            return double(column).alias_qualified(qualifier.cloned(), field.name());
        }
        column
    });
    let exprs: Vec<Expr> = exprs.collect();
    Ok(Arc::new(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
}
