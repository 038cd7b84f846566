//! Tables whose declaration says more than their connector knows: computed columns, a watermark, keys that nothing holds
//! the rows to.
//!
//! A [`DeclaredTable`] stands before the table of the stored columns. Invariant: its connector is asked about stored
//! columns alone, by their positions there.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Constraint, Constraints};
use datafusion_expr::Expr as LogicalExpr;
use thalweg_optimizer::physical::{ColumnId, ColumnTable};
use thalweg_optimizer::{ColumnBound, MeasuredShare, TableStatistics};
use thalweg_planner::{ComputedColumn as PlannedColumn, MetadataColumn, Watermark};
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::source::NullTime;

use super::table::{ComputedColumn, EventTime, MetadataField, Table, TableSink, TimeOptions};
use crate::connectors::{FILE_CONNECTOR, WATCH_CONNECTOR, metadata};
use crate::error::Result;
use crate::lower::Scope;

/// What a statement declares of a table's columns.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// All columns in the order declared.
    pub schema: SchemaRef,
    /// Which of them are computed; all others but metadata are stored.
    pub computed: Vec<PlannedColumn>,
    /// Which of the columns the connector fills from what it knows of a row.
    pub metadata: Vec<MetadataColumn>,
    /// When rows happened.
    pub watermark: Option<Watermark>,
    /// What the table's options say of that.
    pub time_options: TimeOptions,
    /// Keys, by position among all columns; never over computed ones.
    pub constraints: Constraints,
    /// Whether rows are held to the keys, if the connector can do that.
    pub keys_enforced: bool,
}

impl Declaration {
    /// The stored columns, in their order.
    pub fn stored_schema(&self) -> SchemaRef {
        let fields = self.schema.fields().iter().enumerate();
        let stored =
            fields.filter(|(at, _)| !self.is_computed(*at)).map(|(_, field)| field.clone());
        Arc::new(Schema::new(stored.collect::<Vec<_>>()))
    }

    /// The keys by position among the stored columns.
    pub fn stored_constraints(&self) -> Constraints {
        let place = |at: usize| at - (0..at).filter(|&before| self.is_computed(before)).count();
        let moved = |columns: &[usize]| columns.iter().map(|&at| place(at)).collect();
        let keys = self.constraints.iter().map(|key| match key {
            Constraint::PrimaryKey(columns) => Constraint::PrimaryKey(moved(columns)),
            Constraint::Unique(columns) => Constraint::Unique(moved(columns)),
        });
        Constraints::new_unverified(keys.collect())
    }

    /// The table as declared, before that of its stored columns.
    pub fn over(self, stored: Arc<dyn Table>) -> Result<Arc<dyn Table>> {
        let plain = self.computed.is_empty()
            && self.metadata.is_empty()
            && self.watermark.is_none()
            && self.keys_enforced;
        match plain {
            true => Ok(stored),
            false => Ok(Arc::new(DeclaredTable::new(stored, self)?)),
        }
    }

    fn is_computed(&self, at: usize) -> bool {
        self.computed.iter().any(|column| column.column == at)
            || self.metadata.iter().any(|column| column.column == at)
    }
}

/// What event time is for in the query of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUse {
    /// Nothing: no row is late, and none is waited for.
    Nothing,
    /// State is forgotten that it closes; results are there at once. Rows without a time are like others.
    State,
    /// It says when results are final.
    Results,
}

/// See the module.
#[derive(Debug)]
pub struct DeclaredTable {
    stored: Arc<dyn Table>,
    schema: SchemaRef,
    computed: Vec<ComputedColumn>,
    metadata: Vec<MetadataField>,
    event_time: Option<EventTime>,
    /// Whether queries may rely on it: its column is a timestamp that stays as it is.
    tells_time: bool,
    constraints: Constraints,
    keys_enforced: bool,
}

impl DeclaredTable {
    /// The table of the stored columns, with what a statement declares.
    pub fn new(stored: Arc<dyn Table>, declaration: Declaration) -> Result<Self> {
        let Declaration {
            schema,
            computed,
            metadata,
            watermark,
            time_options,
            constraints,
            keys_enforced,
            ..
        } = declaration;
        let known = stored.metadata_keys();
        let connector = match stored.connector() {
            FILE_CONNECTOR | WATCH_CONNECTOR => "filesystem",
            other => other,
        };
        let what = format!("a table of the connector \"{connector}\"");
        let metadata = metadata.into_iter().map(|MetadataColumn { column, key, .. }| {
            let field = metadata::field(schema.field(column), &key, known, &what)?;
            Ok(MetadataField { column, field })
        });
        let mut metadata = metadata.collect::<Result<Vec<_>>>()?;
        metadata.sort_by_key(|field| field.column);
        let computed = computed.into_iter().map(|PlannedColumn { column, expr }| {
            let is_volatile = expr.is_volatile();
            Ok(ComputedColumn { column, expr: over_positions(&expr, &schema)?, is_volatile })
        });
        let computed = computed.collect::<Result<Vec<_>>>()?;
        let event_time = watermark.map(|Watermark { column, expr, ttl: _ }| {
            let watermark = over_positions(&expr, &schema)?;
            Ok::<_, crate::Error>(EventTime { column, watermark, options: time_options })
        });
        let event_time = event_time.transpose()?;
        let stays = |at: usize| !computed.iter().any(|c| c.column == at && c.is_volatile);
        let tells_time = event_time.as_ref().is_some_and(|time| {
            let column = schema.field(time.column).data_type();
            matches!(column, DataType::Timestamp(..)) && stays(time.column)
        });
        Ok(DeclaredTable {
            stored,
            schema,
            computed,
            metadata,
            event_time,
            tells_time,
            constraints,
            keys_enforced,
        })
    }

    /// What WATERMARK declares, if rows can tell it: of whichever type the column is.
    pub(crate) fn declared_time(&self) -> Option<&EventTime> {
        let stays = |at: usize| !self.computed.iter().any(|c| c.column == at && c.is_volatile);
        self.event_time.as_ref().filter(|time| stays(time.column))
    }

    /// The same declaration before another table of the same stored columns.
    pub fn over_stored(&self, stored: Arc<dyn Table>, used: TimeUse) -> DeclaredTable {
        let event_time = self.event_time.clone().filter(|_| used != TimeUse::Nothing);
        let event_time = event_time.map(|time| match used {
            TimeUse::Nothing | TimeUse::Results => time,
            TimeUse::State => {
                let null_time = Some(NullTime::SkipWatermark);
                EventTime { options: TimeOptions { null_time, ..time.options }, ..time }
            }
        });
        DeclaredTable {
            stored,
            schema: self.schema.clone(),
            computed: self.computed.clone(),
            metadata: self.metadata.clone(),
            event_time,
            tells_time: self.tells_time,
            constraints: self.constraints.clone(),
            keys_enforced: self.keys_enforced,
        }
    }

    /// The table of the stored columns.
    pub fn stored(&self) -> &Arc<dyn Table> {
        &self.stored
    }
}

impl Table for DeclaredTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn connector(&self) -> &str {
        self.stored.connector()
    }

    fn options(&self) -> serde_json::Value {
        self.stored.options()
    }

    fn statistics(&self) -> TableStatistics {
        let mut statistics = self.stored.statistics();
        if statistics.columns.is_empty() {
            return statistics;
        }
        let columns = StoredColumns::of(self);
        let known = |at| columns.place(at).and_then(|place| statistics.columns.get(place).cloned());
        let all = (0..self.schema.fields().len()).map(|at| known(at).unwrap_or_default());
        statistics.columns = all.collect();
        statistics
    }

    fn distinct(&self, column: usize) -> Option<f64> {
        let columns = StoredColumns::of(self);
        self.stored.distinct(columns.place(column).filter(|at| *at < columns.stored)?)
    }

    fn selectivity(&self, filters: &[Expr], functions: &FunctionRegistry) -> Option<MeasuredShare> {
        let columns = StoredColumns::of(self);
        let once = filters.iter().enumerate();
        let once = once.filter(|(_, f)| !columns.reads_volatile(f) && !columns.reads_metadata(f));
        let over_stored = once.map(|(at, filter)| (at, columns.over_stored(filter.clone())));
        let (places, over_stored): (Vec<usize>, Vec<Expr>) = over_stored.unzip();
        if over_stored.is_empty() {
            return None;
        }
        let share = self.stored.selectivity(&over_stored, functions)?;
        let mut measured = vec![false; filters.len()];
        places.iter().zip(&share.measured).for_each(|(&at, &known)| measured[at] = known);
        Some(MeasuredShare { measured, ..share })
    }

    fn is_unbounded(&self) -> bool {
        self.stored.is_unbounded()
    }

    fn can_be_followed(&self) -> bool {
        self.stored.can_be_followed()
    }

    fn withdraws(&self) -> bool {
        self.stored.withdraws()
    }

    fn computed(&self) -> &[ComputedColumn] {
        &self.computed
    }

    fn metadata(&self) -> &[MetadataField] {
        &self.metadata
    }

    fn event_time(&self) -> Option<&EventTime> {
        self.event_time.as_ref().filter(|_| self.tells_time)
    }

    fn tells_watermarks(&self) -> bool {
        self.event_time().is_some() && self.stored.tells_watermarks()
    }

    fn bounds(&self) -> &[ColumnBound] {
        self.stored.bounds()
    }

    fn sink(&self) -> Option<TableSink> {
        self.stored.sink()
    }

    fn written(&self) -> Result<()> {
        self.stored.written()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints).filter(|keys| !keys.is_empty())
    }

    fn is_only_declared(&self) -> bool {
        !self.keys_enforced || self.stored.is_only_declared()
    }
}

/// A table's columns as its connector counts them.
pub(crate) struct StoredColumns<'a> {
    computed: &'a [ComputedColumn],
    metadata: &'a [MetadataField],
    /// How many columns are stored.
    stored: usize,
    /// For each column its position among the stored ones, metadata behind them.
    places: Vec<Option<usize>>,
}

impl<'a> StoredColumns<'a> {
    /// The columns of a table.
    pub(crate) fn of(table: &'a dyn Table) -> Self {
        let (computed, metadata) = (table.computed(), table.metadata());
        let all = table.schema().fields().len();
        let stored = all - computed.len() - metadata.len();
        let (mut next, mut behind) = (0.., stored..);
        let places = (0..all).map(|at| {
            let is_computed = computed.iter().any(|column| column.column == at);
            let is_metadata = metadata.iter().any(|column| column.column == at);
            match (is_computed, is_metadata) {
                (true, _) => None,
                (false, true) => behind.next(),
                (false, false) => next.next(),
            }
        });
        StoredColumns { places: places.collect(), computed, metadata, stored }
    }

    /// The position of a column among the stored ones, or behind them for metadata; `None` when it is computed.
    pub(crate) fn place(&self, column: usize) -> Option<usize> {
        self.places[column]
    }

    /// The stored columns of a schema of all.
    pub(crate) fn schema(&self, all: &Schema) -> Schema {
        let is_stored = |place: &Option<usize>| place.is_some_and(|place| place < self.stored);
        let stored = all.fields().iter().zip(&self.places).filter(|(_, place)| is_stored(place));
        Schema::new(stored.map(|(field, _)| field.clone()).collect::<Vec<_>>())
    }

    /// What the connector is asked for beside the stored columns, in the order of the positions behind them.
    pub(crate) fn metadata(&self) -> Vec<Field> {
        self.metadata.iter().map(|column| column.field.clone()).collect()
    }

    /// Whether the expression reads what the connector knows of a row.
    pub(crate) fn reads_metadata(&self, expr: &Expr) -> bool {
        self.over_stored(expr.clone()).columns().into_iter().any(|at| at >= self.stored)
    }

    /// An expression over all columns as one over the stored ones: computed columns are written out.
    pub(crate) fn over_stored(&self, expr: Expr) -> Expr {
        expr.replace_columns(&mut |at| match self.computed_at(at) {
            Some(column) => self.over_stored(column.expr.clone()),
            None => Expr::Column(self.places[at].unwrap_or_default()),
        })
    }

    /// Whether the expression reads a column that may not be computed twice.
    pub(crate) fn reads_volatile(&self, expr: &Expr) -> bool {
        let computed = expr.columns().into_iter().filter_map(|at| self.computed_at(at));
        computed.into_iter().any(|column| column.is_volatile)
    }

    fn computed_at(&self, at: usize) -> Option<&'a ComputedColumn> {
        self.computed.iter().find(|column| column.column == at)
    }
}

/// An expression that names columns of a schema, with the columns by their positions there.
fn over_positions(expr: &LogicalExpr, schema: &Schema) -> Result<Expr> {
    let mut columns = ColumnTable::default();
    let mut ids: HashMap<&str, ColumnId> = HashMap::new();
    for field in schema.fields() {
        let id = columns.add(field.name().clone(), field.data_type().clone(), true);
        ids.insert(field.name(), id);
    }
    let known: Vec<ColumnId> =
        schema.fields().iter().map(|field| ids[field.name().as_str()]).collect();
    let renamed = expr.clone().transform(|node| {
        Ok(match &node {
            LogicalExpr::Column(column) => match ids.get(column.name.as_str()) {
                Some(id) => Transformed::yes(id.expr()),
                None => Transformed::no(node),
            },
            _ => Transformed::no(node),
        })
    });
    let renamed = renamed.map_err(thalweg_runtime::Error::from)?.data;
    Ok(Scope::new(&known, &columns)?.lower(&renamed)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion_common::ScalarValue;
    use datafusion_expr::{col, lit};
    use thalweg_runtime::expr::BinaryOperator;

    use super::*;
    use crate::connectors::MemoryTable;

    fn declaration(keys: Vec<Constraint>) -> Declaration {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let computed = |column, expr| PlannedColumn { column, expr };
        Declaration {
            schema: Arc::new(Schema::new(["double", "a", "next", "b"].map(field).to_vec())),
            computed: vec![computed(0, col("a") * lit(2_i64)), computed(2, col("b") + lit(1_i64))],
            metadata: Vec::new(),
            watermark: None,
            time_options: TimeOptions::default(),
            constraints: Constraints::new_unverified(keys),
            keys_enforced: true,
        }
    }

    fn table(declaration: Declaration) -> Arc<dyn Table> {
        let column =
            |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 10)) as ArrayRef;
        let schema = declaration.stored_schema();
        let batch = RecordBatch::try_new(schema.clone(), vec![column(0), column(100)]).unwrap();
        declaration.over(Arc::new(MemoryTable::new(schema, vec![batch]))).unwrap()
    }

    #[test]
    fn statistics_are_those_of_the_stored_columns() {
        let table = table(declaration(Vec::new()));
        let statistics = table.statistics();
        assert_eq!((statistics.rows, statistics.columns.len()), (Some(10.0), 4));
        let least = |at: usize| statistics.columns[at].min.clone();
        assert_eq!(least(1), Some(ScalarValue::Int64(Some(0))));
        assert_eq!(least(3), Some(ScalarValue::Int64(Some(100))));
        assert_eq!((least(0), least(2)), (None, None));
        assert_eq!(table.distinct(0), None);
    }

    #[test]
    fn keys_move_with_their_columns() {
        let keys = vec![Constraint::PrimaryKey(vec![3, 1]), Constraint::Unique(vec![1])];
        let stored = declaration(keys).stored_constraints();
        let stored: Vec<&Constraint> = stored.iter().collect();
        assert_eq!(stored, [&Constraint::PrimaryKey(vec![1, 0]), &Constraint::Unique(vec![0])]);
    }

    #[test]
    fn expressions_are_written_out_over_stored_columns() {
        let table = table(declaration(Vec::new()));
        let columns = StoredColumns::of(table.as_ref());
        assert_eq!([0, 1, 2, 3].map(|at| columns.place(at)), [None, Some(0), None, Some(1)]);
        let sum = Expr::Binary {
            op: BinaryOperator::Plus,
            left: Box::new(Expr::Column(2)),
            right: Box::new(Expr::Column(1)),
        };
        let Expr::Binary { left, right, .. } = columns.over_stored(sum) else { panic!() };
        assert_eq!((left.columns(), *right), (vec![1], Expr::Column(0)));
    }

    #[test]
    fn keys_that_are_not_enforced_are_only_declared() {
        let keys = || vec![Constraint::PrimaryKey(vec![1])];
        assert!(!table(declaration(keys())).is_only_declared());
        let loose = table(Declaration { keys_enforced: false, ..declaration(keys()) });
        assert!(loose.is_only_declared());
        assert_eq!(loose.constraints().map(|keys| keys.iter().count()), Some(1));
    }
}
