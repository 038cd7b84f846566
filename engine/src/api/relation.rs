//! A relation: rows of a table, or of what was done to one.

use arrow::array::RecordBatch;
use datafusion_common::{Column, DataFusionError, TableReference};
use datafusion_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, SortExpr};
use thalweg_planner::{Catalog, ParsedStatement, PlannerError, QueryPlan, Statement, TableName};

use super::grouped::GroupedRelation;
use crate::catalog::StatementCatalog;
use crate::error::{Error, Report, Result};
use crate::{Frame, Session};

type PlanResult<T> = Result<T, DataFusionError>;

/// A query that is being built; see the module.
#[derive(Debug, Clone)]
pub struct Relation {
    session: Session,
    builder: Result<LogicalPlanBuilder>,
}

impl Session {
    /// The rows of a table or view, by a name as SQL would write it.
    pub fn table(&self, name: &str) -> Relation {
        let name = TableName::from(&TableReference::parse_str(name));
        let builder = self.with_catalog(|catalog| scan(self, catalog, &name));
        Relation { session: self.clone(), builder }
    }

    /// The rows of a file, or of the files of a glob or folder.
    pub fn read(&self, path: &str) -> Relation {
        let builder = self.with_catalog(|catalog| {
            let source = catalog.path(path).map_err(planner_failure)?;
            LogicalPlanBuilder::scan(TableReference::bare(path), source, None).map_err(failure)
        });
        Relation { session: self.clone(), builder }
    }
}

/// The plan of a table's rows, or of a view's query.
fn scan(
    session: &Session,
    catalog: &StatementCatalog<'_>,
    name: &TableName,
) -> Result<LogicalPlanBuilder> {
    let reference = TableReference::from(name);
    if let Some(source) = catalog.table(name).map_err(planner_failure)? {
        return LogicalPlanBuilder::scan(reference, source, None).map_err(failure);
    }
    if catalog.view(name).is_none() {
        return Err(missing_table(catalog, name));
    }
    let planner = session.planner();
    let parsed: Vec<ParsedStatement> = planner
        .parse(&format!("SELECT * FROM {}", reference.to_quoted_string()))
        .map_err(planner_failure)?;
    let [statement] = parsed.as_slice() else {
        return Err(Error::internal("one statement was written"));
    };
    match planner.plan(statement, catalog).map_err(planner_failure)? {
        Statement::Query(QueryPlan { plan, shared, .. }) if shared.is_empty() => {
            LogicalPlanBuilder::from(plan).alias(reference).map_err(failure)
        }
        _ => Err(Error::unsupported(format!(
            "a view that reads a query at several places (\"{name}\") in the Table API"
        ))),
    }
}

fn missing_table(catalog: &StatementCatalog<'_>, name: &TableName) -> Error {
    let known = catalog.table_names();
    let hint =
        thalweg_planner::suggest::did_you_mean(&name.to_string(), known.iter().map(String::as_str));
    Error::catalog(Report::new(format!("the table \"{name}\" does not exist")).with_hint(hint))
}

impl Relation {
    /// Only the rows for which the condition is true.
    pub fn filter(self, condition: Expr) -> Self {
        self.then(|builder| builder.filter(condition))
    }

    /// These expressions as the columns; name them by `.alias("name")`.
    pub fn select(self, columns: impl IntoIterator<Item = Expr>) -> Self {
        let columns: Vec<Expr> = columns.into_iter().collect();
        self.then(|builder| builder.project(columns))
    }

    /// A name by which conditions can tell this relation's columns from another's.
    pub fn alias(self, name: &str) -> Self {
        self.then(|builder| builder.alias(TableReference::bare(name)))
    }

    /// Groups of rows with equal keys; no key makes one group of all rows.
    pub fn group_by(self, keys: impl IntoIterator<Item = Expr>) -> GroupedRelation {
        GroupedRelation::new(self, keys.into_iter().collect())
    }

    /// Pairs of rows with equal keys; `on` names pairs of columns, left and right.
    pub fn join<'a>(
        self,
        right: Relation,
        join_type: JoinType,
        on: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let (left_keys, right_keys): (Vec<Column>, Vec<Column>) =
            on.into_iter().map(|(left, right)| (Column::from(left), Column::from(right))).unzip();
        self.with(right, |left, right| left.join(right, join_type, (left_keys, right_keys), None))
    }

    /// Pairs of rows that fulfil all conditions.
    pub fn join_on(
        self,
        right: Relation,
        join_type: JoinType,
        conditions: impl IntoIterator<Item = Expr>,
    ) -> Self {
        let conditions: Vec<Expr> = conditions.into_iter().collect();
        self.with(right, |left, right| left.join_on(right, join_type, conditions))
    }

    /// The rows of both relations, equal ones included; columns are matched by their position.
    pub fn union_all(self, other: Relation) -> Self {
        self.with(other, |left, right| left.union(right))
    }

    /// Each row once.
    pub fn distinct(self) -> Self {
        self.then(LogicalPlanBuilder::distinct)
    }

    /// The rows in an order: `col("a").sort(ascending, nulls_first)`.
    pub fn order_by(self, keys: impl IntoIterator<Item = SortExpr>) -> Self {
        let keys: Vec<SortExpr> = keys.into_iter().collect();
        self.then(|builder| builder.sort(keys))
    }

    /// The first rows.
    pub fn limit(self, rows: usize) -> Self {
        self.then(|builder| builder.limit(0, Some(rows)))
    }

    /// All but the first rows.
    pub fn offset(self, rows: usize) -> Self {
        self.then(|builder| builder.limit(rows, None))
    }

    /// The plan as it was built, before analysis and optimisation.
    pub fn logical_plan(&self) -> Result<LogicalPlan> {
        self.builder.clone()?.build().map_err(failure)
    }

    /// Plans the query; it runs when the frame is read.
    pub fn frame(self) -> Result<Frame> {
        let query = self.query_plan()?;
        self.session.frame_of(query)
    }

    /// All rows. They must fit into memory.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        self.frame()?.collect().await
    }

    /// The analysed and rewritten plan.
    pub(super) fn query_plan(&self) -> Result<QueryPlan> {
        let plan = self.logical_plan()?;
        let planner = self.session.planner();
        self.session.with_catalog(|catalog| planner.rewrite(plan, catalog).map_err(planner_failure))
    }

    /// The session that it runs in.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The next step, unless one before it failed.
    pub(super) fn then(
        self,
        step: impl FnOnce(LogicalPlanBuilder) -> PlanResult<LogicalPlanBuilder>,
    ) -> Self {
        let builder = self.builder.and_then(|builder| step(builder).map_err(failure));
        Relation { session: self.session, builder }
    }

    fn with(
        self,
        other: Relation,
        step: impl FnOnce(LogicalPlanBuilder, LogicalPlan) -> PlanResult<LogicalPlanBuilder>,
    ) -> Self {
        match other.logical_plan() {
            Ok(other) => self.then(|builder| step(builder, other)),
            Err(error) => Relation { session: self.session, builder: self.builder.and(Err(error)) },
        }
    }
}

/// An error of building a plan; the plan builder's own words are about the user's columns and types.
fn failure(error: DataFusionError) -> Error {
    Error::statement(
        error
            .strip_backtrace()
            .replace("Error during planning: ", "")
            .replace("Schema error: ", ""),
    )
}

fn planner_failure(error: PlannerError) -> Error {
    // The text was not the user's, so that no place in it is shown.
    Error::from_planner(error, &"".into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::api::aggregates::{count, sum};
    use crate::api::{col, lit};

    fn session() -> Session {
        let session = Session::new();
        let fields = vec![
            Field::new("k", DataType::Int64, true),
            Field::new("name", DataType::Utf8View, true),
        ];
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 2])),
            Arc::new(StringViewArray::from(vec!["a", "b", "c"])),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        session.register_batches("t", vec![batch.clone()]).unwrap();
        session.register_batches("u", vec![batch]).unwrap();
        session
    }

    /// The rewritten plan of the relation equals that of the text.
    fn assert_like_sql(relation: &Relation, sql: &str) {
        let planner = relation.session.planner();
        let parsed = planner.parse(sql).unwrap();
        let planned =
            relation.session.with_catalog(|catalog| planner.plan(&parsed[0], catalog)).unwrap();
        let Statement::Query(expected) = planned else { panic!("{sql} is a query") };
        let built = relation.query_plan().unwrap();
        assert_eq!(
            built.plan.display_indent().to_string(),
            expected.plan.display_indent().to_string()
        );
    }

    #[test]
    fn filters_projections_and_limits() {
        let relation = session()
            .table("t")
            .filter(col("k").gt(lit(1_i64)))
            .select([col("name").alias("n")])
            .limit(2);
        assert_like_sql(&relation, "SELECT name AS n FROM t WHERE k > 1 LIMIT 2");
    }

    #[test]
    fn groups_and_orders() {
        let grouped = session()
            .table("t")
            .group_by([col("k")])
            .agg([sum(col("k")).alias("s"), count(col("name")).alias("c")]);
        let relation = grouped.order_by([col("s").sort(false, true)]);
        assert_like_sql(
            &relation,
            "SELECT k, sum(k) AS s, count(name) AS c FROM t GROUP BY k ORDER BY s DESC NULLS FIRST",
        );
    }

    #[test]
    fn joins() {
        let session = session();
        let relation = session
            .table("t")
            .join(session.table("u"), JoinType::Inner, [("t.k", "u.k")])
            .select([col("t.name"), col("u.k")]);
        assert_like_sql(&relation, "SELECT t.name, u.k FROM t JOIN u ON t.k = u.k");
        let relation = session
            .table("t")
            .join_on(
                session.table("u"),
                JoinType::Left,
                [col("t.k").eq(col("u.k")), col("u.name").eq(lit("a"))],
            )
            .select([col("t.k")]);
        assert_like_sql(&relation, "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k AND u.name = 'a'");
    }

    #[test]
    fn sets() {
        let session = session();
        let keys = || session.table("t").select([col("k")]);
        assert_like_sql(
            &keys().union_all(keys()).distinct(),
            "SELECT DISTINCT k FROM (SELECT k FROM t UNION ALL SELECT k FROM t)",
        );
    }

    #[test]
    fn mistakes_are_reported_at_the_end() {
        let relation = session().table("nope").filter(col("x").gt(lit(1))).limit(3);
        assert!(relation.frame().unwrap_err().to_string().contains("\"nope\" does not exist"));
        let relation = session().table("t").select([col("nope")]).limit(3);
        assert!(relation.frame().unwrap_err().to_string().contains("nope"));
    }
}
