//! Tables that exist only as statistics, and short ways to plan and print.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableSource};
use thalweg_optimizer::physical::{PhysicalNode, PhysicalOp, PhysicalPlan, Provenance, explain};
use thalweg_optimizer::{
    ColumnStatistics, HintedStrategy, JoinHint, OptimizerInput, OptimizerOptions, SharedInput,
    StatisticsProvider, TableStatistics, TimeoutHint, TimeoutScope, optimize,
};
use thalweg_planner::{
    Catalog, HintScope, OptionHint, Planner, PlannerError, SharedSource, Statement, TableName,
    ViewDefinition,
};

/// A table of which only statistics exist.
pub struct Table {
    schema: SchemaRef,
    statistics: TableStatistics,
}

impl TableSource for Table {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion_common::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// Tables by name.
#[derive(Default)]
pub struct Tables(BTreeMap<String, Arc<Table>>);

/// Reads the statistics out of the table itself.
pub struct Statistics;

impl StatisticsProvider for Statistics {
    fn table(&self, source: &dyn TableSource) -> TableStatistics {
        source
            .downcast_ref::<Table>()
            .map_or_else(TableStatistics::unknown, |table| table.statistics.clone())
    }
}

/// A column: name, type, distinct values, and for integers and dates the bounds.
pub type ColumnSpec<'a> = (&'a str, DataType, f64, Option<(i32, i32)>);

impl Tables {
    /// Adds a table.
    pub fn add(&mut self, name: &str, rows: f64, columns: &[ColumnSpec<'_>]) {
        let fields: Vec<Field> =
            columns.iter().map(|(name, t, ..)| Field::new(*name, t.clone(), true)).collect();
        let scalar = |t: &DataType, v: i32| match t {
            DataType::Date32 => ScalarValue::Date32(Some(v)),
            _ => ScalarValue::Int32(Some(v)).cast_to(t).expect("bounds are numbers"),
        };
        let statistics = columns
            .iter()
            .map(|(_, t, distinct, bounds)| ColumnStatistics {
                null_count: Some(0.0),
                min: bounds.map(|(min, _)| scalar(t, min)),
                max: bounds.map(|(_, max)| scalar(t, max)),
                distinct: (*distinct > 0.0).then_some(*distinct),
                avg_width: None,
            })
            .collect();
        let table = Table {
            schema: Arc::new(Schema::new(fields)),
            statistics: TableStatistics {
                rows: Some(rows),
                provenance: Provenance::Exact,
                bytes: None,
                columns: statistics,
            },
        };
        self.0.insert(name.to_owned(), Arc::new(table));
    }
}

impl Catalog for Tables {
    fn table(&self, name: &TableName) -> thalweg_planner::Result<Option<Arc<dyn TableSource>>> {
        Ok(self.0.get(&name.to_string()).map(|table| table.clone() as Arc<dyn TableSource>))
    }

    fn view(&self, _: &TableName) -> Option<ViewDefinition> {
        None
    }

    fn path(&self, path: &str) -> thalweg_planner::Result<Arc<dyn TableSource>> {
        Err(PlannerError::invalid(format!("no file matches {path}")))
    }

    fn table_names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn table_function(
        &self,
        _: &str,
        _: &[Expr],
    ) -> thalweg_planner::Result<Option<Arc<dyn TableSource>>> {
        Ok(None)
    }
}

/// The input of the optimizer for a query.
pub fn input(sql: &str, tables: &Tables) -> OptimizerInput {
    let planner = Planner::new();
    let statements = planner.parse(sql).unwrap_or_else(|error| panic!("{}", error.render(sql)));
    let planned = planner.plan(&statements[0], tables);
    let query = match planned.unwrap_or_else(|error| panic!("{}", error.render(sql))) {
        Statement::Query(query) => query,
        other => panic!("not a query: {other:?}"),
    };
    let id =
        |source: &dyn TableSource| source.downcast_ref::<SharedSource>().map(|s| s.id().0 as u32);
    OptimizerInput {
        plan: query.plan,
        shared: query
            .shared
            .into_iter()
            .map(|shared| SharedInput {
                id: shared.id.0 as u32,
                name: shared.name,
                plan: shared.plan,
            })
            .collect(),
        shared_id: Arc::new(id),
        stream_of: Arc::new(|_| None),
        emit: None,
        hints: query
            .hints
            .into_iter()
            .map(|hint| JoinHint {
                strategy: HintedStrategy::of_name(&hint.name).expect("the planner knows it"),
                relation: hint.relation,
            })
            .collect(),
        blocks: query.options.first().map(|o| o.blocks.to_vec()).unwrap_or_default(),
        buffer_timeouts: query.options.into_iter().map(timeout).collect(),
    }
}

/// The timeouts of these tests are whole microseconds.
fn timeout(option: OptionHint) -> TimeoutHint {
    let scope = match option.scope {
        HintScope::Query => TimeoutScope::Query,
        HintScope::Block(name) => TimeoutScope::Block(name),
        HintScope::Table(name) => TimeoutScope::Table(name),
        HintScope::Unnamed | HintScope::Nowhere => panic!("the planner refuses it"),
    };
    TimeoutHint { scope, micros: option.value.parse().expect("a number") }
}

/// Options with so many threads.
pub fn threads(threads: usize) -> OptimizerOptions {
    OptimizerOptions { threads, ..OptimizerOptions::default() }
}

/// Plans a query.
pub fn plan_with(sql: &str, tables: &Tables, options: &OptimizerOptions) -> PhysicalPlan {
    let input = input(sql, tables);
    optimize(&input, &Statistics, options)
        .unwrap_or_else(|error| panic!("{error}\n{sql}\n{}", input.plan.display_indent()))
}

/// Plans a query for four threads over the small shop.
pub fn plan(sql: &str) -> PhysicalPlan {
    plan_with(sql, &shop(), &threads(4))
}

/// The plan's text.
pub fn text(plan: &PhysicalPlan) -> String {
    explain(plan, false, None)
}

/// All nodes, parents first, shared plans included.
pub fn nodes(plan: &PhysicalPlan) -> Vec<&PhysicalNode> {
    fn walk<'a>(node: &'a PhysicalNode, into: &mut Vec<&'a PhysicalNode>) {
        into.push(node);
        node.inputs.iter().for_each(|channel| walk(&channel.node, into));
    }
    let mut all = Vec::new();
    walk(&plan.root, &mut all);
    plan.shared.iter().for_each(|shared| walk(&shared.root, &mut all));
    all
}

/// How many nodes are of a kind.
pub fn count(plan: &PhysicalPlan, is: impl Fn(&PhysicalOp) -> bool) -> usize {
    nodes(plan).into_iter().filter(|node| is(&node.op)).count()
}

/// The tables of a subtree, in the order of its scans.
pub fn scans(node: &PhysicalNode) -> Vec<String> {
    match &node.op {
        PhysicalOp::Scan { table, .. } => vec![table.clone()],
        _ => node.inputs.iter().flat_map(|channel| scans(&channel.node)).collect(),
    }
}

/// A shop: a large fact table, its header, and small dimensions.
pub fn shop() -> Tables {
    let int = DataType::Int64;
    let text = DataType::Utf8View;
    let mut tables = Tables::default();
    tables.add(
        "item",
        6_000_000.0,
        &[
            ("sale", int.clone(), 1_500_000.0, Some((1, 6_000_000))),
            ("product", int.clone(), 200_000.0, Some((1, 200_000))),
            ("vendor", int.clone(), 10_000.0, Some((1, 10_000))),
            ("amount", DataType::Float64, 100_000.0, None),
            ("shipped", DataType::Date32, 2_500.0, Some((8000, 10_500))),
        ],
    );
    tables.add(
        "sale",
        1_500_000.0,
        &[
            ("id", int.clone(), 1_500_000.0, Some((1, 6_000_000))),
            ("customer", int.clone(), 100_000.0, Some((1, 150_000))),
            ("placed", DataType::Date32, 2_400.0, Some((8000, 10_400))),
            ("status", text.clone(), 3.0, None),
        ],
    );
    tables.add(
        "customer",
        150_000.0,
        &[
            ("id", int.clone(), 150_000.0, Some((1, 150_000))),
            ("country", int.clone(), 25.0, Some((0, 24))),
            ("segment", text.clone(), 5.0, None),
        ],
    );
    tables.add(
        "vendor",
        10_000.0,
        &[
            ("id", int.clone(), 10_000.0, Some((1, 10_000))),
            ("country", int.clone(), 25.0, Some((0, 24))),
        ],
    );
    tables.add(
        "country",
        25.0,
        &[
            ("id", int.clone(), 25.0, Some((0, 24))),
            ("name", text.clone(), 25.0, None),
            ("region", int.clone(), 5.0, Some((0, 4))),
        ],
    );
    tables.add(
        "product",
        200_000.0,
        &[
            ("id", int.clone(), 200_000.0, Some((1, 200_000))),
            ("kind", text.clone(), 150.0, None),
            ("size", int, 50.0, Some((1, 50))),
        ],
    );
    tables
}
