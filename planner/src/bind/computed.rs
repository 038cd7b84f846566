//! The expressions of computed columns and watermarks, bound to the columns that a table stores.
//!
//! Invariant: what comes out is coerced and simplified, names stored columns alone (without a qualifier), and depends on
//! nothing but the row and volatile functions; a watermark depends on the row alone.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion_common::TableReference;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::logical_plan::builder::LogicalTableSource;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Volatility};
use datafusion_sql::planner::PlannerContext;
use datafusion_sql::sqlparser::ast::{self, Ident, ObjectName, Query, Spanned, Visit, Visitor};

use super::names::normalized;
use super::provider::Binder;
use super::statements::ours;
use crate::catalog::TableName;
use crate::error::{ErrorKind, PlannerError, Result, Span};
use crate::parse::{ComputedAst, WatermarkAst, span_of};
use crate::sql_text::sql_type_name;
use crate::suggest::did_you_mean;

/// The stored columns of a table that is being created.
pub(super) struct Stored<'b, 'a> {
    binder: &'b Binder<'a>,
    scan: LogicalPlan,
}

impl<'b, 'a> Stored<'b, 'a> {
    pub(super) fn new(
        binder: &'b Binder<'a>,
        table: &TableName,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let source = Arc::new(LogicalTableSource::new(Arc::clone(schema)));
        let name = TableReference::bare(table.table.as_str());
        let scan = LogicalPlanBuilder::scan(name, source, None).and_then(|scan| scan.build());
        Ok(Stored { binder, scan: ours(scan)? })
    }

    /// A computed column and its field.
    pub(super) fn computed(
        &self,
        column: &ComputedAst,
        all: &[ComputedAst],
    ) -> Result<(Expr, FieldRef)> {
        let name = normalized(&column.name);
        refuse_computed(&column.expr, &name, all)?;
        let what = format!("the computed column {name}");
        let expr = self.bound(&column.expr, &self.scan, &what)?;
        let (expr, field) = self.finished(self.scan.clone(), expr, &what, place(&column.expr))?;
        let field = field.as_ref().clone().with_name(name).with_nullable(true);
        Ok((expr, Arc::new(field)))
    }

    /// The position of the column of a watermark, and its expression in the column's type. Rows of a table that is append
    /// only are in the order of any `numbers`.
    pub(super) fn watermark(
        &self,
        watermark: &WatermarkAst,
        computed: &[(usize, (Expr, FieldRef))],
        schema: &SchemaRef,
        numbers: bool,
    ) -> Result<(usize, Expr)> {
        let name = normalized(&watermark.column);
        let column = schema.index_of(&name).map_err(|_| {
            let names = schema.fields().iter().map(|field| field.name().as_str());
            PlannerError::name(format!("the column {name} of the watermark does not exist"))
                .with_hint(did_you_mean(&name, names))
                .with_span(span_of(watermark.column.span))
        })?;
        let data_type = schema.field(column).data_type();
        let what = format!("the watermark for {name}");
        let is_time = match data_type {
            DataType::Timestamp(..) => true,
            DataType::Date32 => numbers,
            other => numbers && other.is_integer(),
        };
        if !is_time {
            let message = format!("{what} needs a timestamp, but {}", is_a(&name, data_type));
            let error = PlannerError::new(ErrorKind::Type, message)
                .with_hint("a computed column can make a timestamp of it".to_string());
            return Err(error.with_span(span_of(watermark.column.span)));
        }
        let all = self.with_computed(computed)?;
        let span = place(&watermark.expr);
        let expr = self.bound(&watermark.expr, &all, &what)?;
        let (expr, field) = self.finished(all.clone(), expr, &what, span)?;
        if expr.is_volatile() && !watermark.ttl {
            let error = PlannerError::invalid(format!("{what} is volatile"));
            let detail = "A watermark depends on the row alone.".to_string();
            return Err(error.with_detail(detail).with_span(span));
        }
        let same = match (field.data_type(), data_type) {
            (DataType::Timestamp(_, given), DataType::Timestamp(_, wanted)) => {
                given.is_some() == wanted.is_some()
            }
            (given, wanted) if wanted.is_integer() => given.is_integer(),
            (given, wanted) => given == wanted,
        };
        if !same {
            let given = sql_type_name(field.data_type());
            let message = format!("{what} is {given}, but {}", is_a(&name, data_type));
            return Err(PlannerError::new(ErrorKind::Type, message).with_span(span));
        }
        let expr = match field.data_type() == data_type {
            true => expr,
            false => datafusion_expr::cast(expr, data_type.clone()),
        };
        Ok((column, expr))
    }

    /// The stored columns and the computed ones.
    fn with_computed(&self, computed: &[(usize, (Expr, FieldRef))]) -> Result<LogicalPlan> {
        let stored = self.scan.schema().columns().into_iter().map(Expr::Column);
        let computed =
            computed.iter().map(|(_, (expr, field))| expr.clone().alias(field.name().as_str()));
        let plan = LogicalPlanBuilder::from(self.scan.clone()).project(stored.chain(computed));
        ours(plan.and_then(|plan| plan.build()))
    }

    /// The expression over the columns of a plan.
    fn bound(&self, expr: &ast::Expr, plan: &LogicalPlan, what: &str) -> Result<Expr> {
        let span = place(expr);
        if let ControlFlow::Break(()) = Visit::visit(expr, &mut Queries) {
            return Err(
                PlannerError::not_supported(format!("a subquery in {what}")).with_span(span)
            );
        }
        let expr = self.binder.prepare(expr.clone(), &[])?;
        let sql = self.binder.sql();
        let bound = sql.sql_to_expr(expr, plan.schema(), &mut PlannerContext::new());
        let bound = ours(bound).map_err(|error| error.with_span(span))?;
        refuse_in_rows(&bound, what).map_err(|error| error.with_span(span))?;
        Ok(bound)
    }

    /// The expression with its types and simplified, over stored columns, and the field of its values.
    fn finished(
        &self,
        input: LogicalPlan,
        expr: Expr,
        what: &str,
        span: Option<Span>,
    ) -> Result<(Expr, FieldRef)> {
        let plan = LogicalPlanBuilder::from(input).project([expr.alias("value")]);
        let plan = ours(plan.and_then(|plan| plan.build())).map_err(|e| e.with_span(span))?;
        let plan = self.binder.finish(plan).map_err(|e| e.with_span(span))?.plan;
        let field = Arc::clone(plan.schema().field(0));
        let expr = value_of(&plan, 0).ok_or_else(|| {
            PlannerError::not_supported(format!("this expression in {what}")).with_span(span)
        })?;
        Ok((expr, field))
    }
}

/// The rows of a table, by position, without what is computed.
pub(super) fn without_computed(plan: LogicalPlan, computed: &[usize]) -> Result<LogicalPlan> {
    if computed.is_empty() {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().enumerate();
    let stored = columns.filter(|(at, _)| !computed.contains(at));
    let stored: Vec<Expr> = stored.map(|(_, column)| Expr::Column(column)).collect();
    ours(LogicalPlanBuilder::from(plan).project(stored).and_then(|plan| plan.build()))
}

/// The columns that a table stores.
pub(super) fn stored_schema(schema: &SchemaRef, computed: &[usize]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let stored = fields.filter(|(at, _)| !computed.contains(at)).map(|(_, field)| field.clone());
    Arc::new(Schema::new(stored.collect::<Vec<_>>()))
}

/// Lets an INSERT name the columns that it writes, if some are computed; fails when it names one of those.
pub(super) fn name_stored(
    insert: &mut ast::Insert,
    schema: &SchemaRef,
    computed: &[usize],
) -> Result<()> {
    if computed.is_empty() {
        return Ok(());
    }
    for column in insert.columns.iter().filter_map(|name| name.0.last()?.as_ident()) {
        let name = normalized(column);
        if let Ok(at) = schema.index_of(&name) {
            refuse_written(&name, at, computed).map_err(|e| e.with_span(span_of(column.span)))?;
        }
    }
    if insert.columns.is_empty() {
        let stored = stored_schema(schema, computed);
        let quoted = |name: &String| ObjectName::from(vec![Ident::with_quote('"', name.as_str())]);
        insert.columns = stored.fields().iter().map(|field| quoted(field.name())).collect();
    }
    Ok(())
}

/// Fails for a column that is computed; `at` is its position.
pub(super) fn refuse_written(name: &str, at: usize, computed: &[usize]) -> Result<()> {
    match computed.contains(&at) {
        false => Ok(()),
        true => Err(PlannerError::invalid(format!("column {name} is computed")).with_detail(
            "Its value follows from the other columns, and cannot be written.".to_string(),
        )),
    }
}

fn is_a(column: &str, data_type: &DataType) -> String {
    format!("the column {column} is {}", sql_type_name(data_type))
}

fn place(expr: &ast::Expr) -> Option<Span> {
    span_of(expr.span())
}

/// Finds subqueries.
struct Queries;

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Fails when a computed column names one: their order would matter.
fn refuse_computed(expr: &ast::Expr, of: &str, all: &[ComputedAst]) -> Result<()> {
    struct Names<'a>(&'a [ComputedAst]);
    impl Visitor for Names<'_> {
        type Break = (String, Option<Span>);

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
            let ast::Expr::Identifier(ident) = expr else { return ControlFlow::Continue(()) };
            let name = normalized(ident);
            match self.0.iter().any(|column| normalized(&column.name) == name) {
                true => ControlFlow::Break((name, span_of(ident.span))),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match Visit::visit(expr, &mut Names(all)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break((name, span)) => {
            let error = PlannerError::invalid(format!(
                "the computed column {of} names the computed column {name}"
            ));
            Err(error.with_hint("write the other's expression out".to_string()).with_span(span))
        }
    }
}

/// Fails when the expression is more than a function of a row.
fn refuse_in_rows(expr: &Expr, what: &str) -> Result<()> {
    let mut refused = None;
    let visited = expr.apply(|node| {
        refused = match node {
            Expr::AggregateFunction(_) => Some("an aggregate function".to_string()),
            Expr::WindowFunction(_) => Some("a window function".to_string()),
            Expr::Unnest(_) => Some("UNNEST".to_string()),
            Expr::Placeholder(parameter) => Some(format!("the parameter {}", parameter.id)),
            Expr::ScalarFunction(call)
                if call.func.signature().volatility == Volatility::Stable =>
            {
                Some(format!(
                    "{}(), which has one value for all rows of a statement,",
                    call.func.name()
                ))
            }
            _ => None,
        };
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    ours(visited)?;
    match refused {
        None => Ok(()),
        Some(refused) => Err(PlannerError::not_supported(format!("{refused} in {what}"))),
    }
}

/// What the column of a plan is over the columns of the scan below, if nothing but projections are between them.
fn value_of(plan: &LogicalPlan, at: usize) -> Option<Expr> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(Expr::Column(datafusion_common::Column::from_name(
            scan.projected_schema.fields().get(at)?.name().as_str(),
        ))),
        LogicalPlan::SubqueryAlias(alias) => value_of(&alias.input, at),
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let mut found = true;
            let expr = projection.expr.get(at)?.clone().unalias_nested().data;
            let expr = expr.transform(|node| match &node {
                Expr::Column(column) => {
                    let below = schema.maybe_index_of_column(column);
                    match below.and_then(|below| value_of(&projection.input, below)) {
                        Some(value) => Ok(Transformed::yes(value)),
                        None => {
                            found = false;
                            Ok(Transformed::no(node))
                        }
                    }
                }
                _ => Ok(Transformed::no(node)),
            });
            expr.ok().filter(|_| found).map(|expr| expr.data)
        }
        _ => None,
    }
}
