//! A catalog of a few empty tables and views, and short ways to plan and print.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Constraints;
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableSource};
use thalweg_planner::{
    Catalog, Planner, PlannerError, QueryPlan, Result, Statement, TableName, ViewDefinition,
};

/// A table that evaluates any filter.
pub struct Table(pub SchemaRef, pub Constraints);

impl TableSource for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.1)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion_common::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

#[derive(Default)]
pub struct Stub {
    pub tables: BTreeMap<String, Arc<dyn TableSource>>,
    pub views: BTreeMap<String, ViewDefinition>,
}

impl Catalog for Stub {
    fn table(&self, name: &TableName) -> Result<Option<Arc<dyn TableSource>>> {
        Ok(self.tables.get(&name.to_string()).cloned())
    }

    fn view(&self, name: &TableName) -> Option<ViewDefinition> {
        self.views.get(&name.to_string()).cloned()
    }

    fn path(&self, path: &str) -> Result<Arc<dyn TableSource>> {
        if path.contains("missing") {
            return Err(PlannerError::invalid(format!("no file matches {path}")));
        }
        Ok(table(&[("a", DataType::Int64), ("b", DataType::Utf8View)]))
    }

    fn table_names(&self) -> Vec<String> {
        self.tables.keys().chain(self.views.keys()).cloned().collect()
    }

    fn table_function(&self, name: &str, args: &[Expr]) -> Result<Option<Arc<dyn TableSource>>> {
        match name {
            "generate_series" if args.iter().all(|arg| matches!(arg, Expr::Literal(..))) => {
                Ok(Some(table(&[("generate_series", DataType::Int64)])))
            }
            "generate_series" => Err(PlannerError::invalid("the arguments must be constants")),
            _ => Ok(None),
        }
    }

    fn table_function_names(&self) -> Vec<String> {
        vec!["generate_series".to_string()]
    }
}

pub fn table(columns: &[(&str, DataType)]) -> Arc<dyn TableSource> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, ty)| Field::new(*name, ty.clone(), true)).collect();
    Arc::new(Table(Arc::new(Schema::new(fields)), Constraints::default()))
}

pub fn stub() -> Stub {
    let mut stub = Stub::default();
    let columns = [
        ("id", DataType::Int64),
        ("k", DataType::Int32),
        ("v", DataType::Float64),
        ("s", DataType::Utf8View),
    ];
    stub.tables.insert("t".to_string(), table(&columns));
    stub.tables.insert("u".to_string(), table(&columns));
    let orders =
        [("o_id", DataType::Int64), ("customer", DataType::Utf8View), ("placed", DataType::Date32)];
    stub.tables.insert("orders".to_string(), table(&orders));
    stub.tables.insert("s1.orders".to_string(), table(&orders));
    let view = |sql: &str| ViewDefinition { sql: sql.to_string(), columns: Vec::new() };
    stub.views.insert("big".to_string(), view("SELECT id, v FROM t WHERE v > 100"));
    stub.views.insert("whole".to_string(), view("SELECT * FROM t"));
    stub.views.insert("circle".to_string(), view("SELECT * FROM circle"));
    stub
}

/// The only statement of a text, planned.
pub fn plan(sql: &str) -> Result<Statement> {
    plan_in(sql, &stub())
}

pub fn plan_in(sql: &str, catalog: &dyn Catalog) -> Result<Statement> {
    let planner = Planner::new();
    let statements = planner.parse(sql)?;
    assert!(!statements.is_empty(), "{sql}");
    planner.plan(&statements[0], catalog)
}

pub fn query(sql: &str) -> QueryPlan {
    match plan(sql) {
        Ok(Statement::Query(query)) => query,
        Ok(other) => panic!("not a query: {other:?}"),
        Err(error) => panic!("{}", error.render(sql)),
    }
}

/// The plan's text, shared plans first.
pub fn text(sql: &str) -> String {
    let query = query(sql);
    let mut out = String::new();
    for shared in &query.shared {
        out.push_str(&format!(
            "shared {} {}:\n{}\n",
            shared.id,
            shared.name,
            shared.plan.display_indent()
        ));
    }
    format!("{out}{}", query.plan.display_indent())
}

/// The rendered error of a text that must fail.
pub fn error(sql: &str) -> String {
    match plan(sql) {
        Ok(statement) => panic!("{sql} was planned: {statement:?}"),
        Err(error) => error.render(sql),
    }
}
