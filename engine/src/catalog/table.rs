//! What the engine knows of a table, and how the planner and the optimizer see it.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::{Constraint, Constraints};
use datafusion_expr::{Expr as LogicalExpr, TableProviderFilterPushDown, TableSource};
use thalweg_optimizer::{ColumnBound, MeasuredShare, TableStatistics};
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::source::{AlignmentSpec, NullTime};

use crate::connectors::metadata::MetadataKey;
use crate::error::Result;

/// A table that scans can read: a connector of the runtime, and what the connector needs to find the data.
pub trait Table: Any + Send + Sync + fmt::Debug {
    /// The columns.
    fn schema(&self) -> SchemaRef;
    /// Name of the connector under which the session's services know how to read it.
    fn connector(&self) -> &str;
    /// What the connector gets in [`thalweg_runtime::source::SourceSpec::options`].
    fn options(&self) -> serde_json::Value;
    /// Row counts, sizes and column statistics, as far as they are known without reading data.
    fn statistics(&self) -> TableStatistics;
    /// How many distinct values a column has, by its position, if that takes a few short reads at most. Blocks.
    fn distinct(&self, _column: usize) -> Option<f64> {
        None
    }
    /// The share of rows that pass filters over the table's columns by position, found from bounds and on a small
    /// sample. Blocks for the sample's first read. A filter that fails on the sample counts as not measured.
    fn selectivity(
        &self,
        _filters: &[Expr],
        _functions: &FunctionRegistry,
    ) -> Option<MeasuredShare> {
        None
    }
    /// Whether the table has no end: a query over it goes on until it is stopped.
    fn is_unbounded(&self) -> bool {
        false
    }
    /// Whether a view over the table hears of its changes.
    fn can_be_followed(&self) -> bool {
        false
    }
    /// Whether rows may come that withdraw others which came before.
    fn withdraws(&self) -> bool {
        false
    }
    /// Columns that are computed when the table is read, which its connector does not know.
    fn computed(&self) -> &[ComputedColumn] {
        &[]
    }
    /// Columns that the connector fills from what it knows of a row beside its values.
    fn metadata(&self) -> &[MetadataField] {
        &[]
    }
    /// What the connector knows of a row beside its values.
    fn metadata_keys(&self) -> &'static [MetadataKey] {
        &[]
    }
    /// The column that tells when a row happened, if the table declares one.
    fn event_time(&self) -> Option<&EventTime> {
        None
    }
    /// Whether its reader tells how far event time has come, rather than the rows.
    fn tells_watermarks(&self) -> bool {
        false
    }
    /// What columns are never below, over the watermarks that its reader tells.
    fn bounds(&self) -> &[ColumnBound] {
        &[]
    }
    /// The sink that takes rows for the table, with its stored columns in their order; `None` if there is none.
    fn sink(&self) -> Option<TableSink> {
        None
    }
    /// Takes note that rows were written into the sink. Blocks.
    fn written(&self) -> Result<()> {
        Ok(())
    }
    /// Keys that the table declares.
    fn constraints(&self) -> Option<&Constraints>;
    /// Whether the keys and the NOT NULLs are only a user's word, to which nothing holds the rows.
    fn is_only_declared(&self) -> bool {
        false
    }
}

/// Where rows for a table go. Its options are a JSON object, in which the sink finds the number of a
/// [`crate::connectors::RowCounter`] under `"counter"`, a number of the statement's own under `"run"`, and whether the rows have no end under `"endless"`.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSink {
    /// The sink.
    pub spec: SinkSpec,
    /// Whether several writers may take rows side by side; otherwise one takes all in their order.
    pub parallel: bool,
    /// What may become of rows.
    pub kind: SinkKind,
}

/// What a sink can do with the rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    /// It adds rows, which stay.
    Append,
    /// A row takes the place of the one with its primary key, or takes that one away.
    Upsert,
    /// It tells of each row that it comes or goes.
    Retract,
}

impl SinkKind {
    /// Whether rows may be taken back that came before.
    pub fn takes_changes(self) -> bool {
        match self {
            SinkKind::Append => false,
            SinkKind::Upsert | SinkKind::Retract => true,
        }
    }
}

/// A column that is computed from the stored ones.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputedColumn {
    /// Its position in the table's schema.
    pub column: usize,
    /// Its value, over columns of the table's schema that are stored.
    pub expr: Expr,
    /// Whether it may have another value each time it is computed.
    pub is_volatile: bool,
}

/// A column that is declared as METADATA.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataField {
    /// Its position in the table's schema.
    pub column: usize,
    /// How the connector is asked for it.
    pub field: Field,
}

/// `WATERMARK FOR column AS watermark`.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTime {
    /// The position of the column, which is a timestamp; it may be a computed one.
    pub column: usize,
    /// What a row declares: later rows should have times after it. Over columns of the table's schema that are stored.
    pub watermark: Expr,
    /// What the table's options say of it.
    pub options: TimeOptions,
}

/// What the options of a table say of its event time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimeOptions {
    /// What becomes of rows whose time is NULL, if that is said.
    pub null_time: Option<NullTime>,
    /// How long watermarks lie apart, in nanoseconds; 0 where each leaves with the rows that declare it.
    pub emit_interval_ns: u64,
    /// How long a split that is caught up holds time back before it is idle, in nanoseconds.
    pub idle_timeout_ns: u64,
    /// The tables that this one waits for when it is ahead.
    pub alignment: Option<AlignmentSpec>,
}

/// The adapter through which plans carry a [`Table`].
#[derive(Debug, Clone)]
pub struct EngineTable {
    /// The table.
    pub table: Arc<dyn Table>,
    schema: SchemaRef,
    /// The keys that plans may rely on.
    keys: Option<Constraints>,
    defaults: Arc<HashMap<String, LogicalExpr>>,
}

impl EngineTable {
    /// Wraps a table for the planner.
    pub fn new(table: Arc<dyn Table>) -> Arc<Self> {
        Self::with_defaults(table, Arc::default(), false)
    }

    /// Wraps a table with the values of columns that an INSERT leaves out, by column name. Plans believe what is only
    /// declared when `trusted` is set.
    pub fn with_defaults(
        table: Arc<dyn Table>,
        defaults: Arc<HashMap<String, LogicalExpr>>,
        trusted: bool,
    ) -> Arc<Self> {
        let believed = trusted || !table.is_only_declared();
        let schema = if believed { table.schema() } else { nullable(&table.schema()) };
        let keys = table.constraints().filter(|_| believed).map(|keys| reliable(keys, &schema));
        Arc::new(EngineTable { table, schema, keys, defaults })
    }

    /// The same for a table that stands in this one's place: it has the same columns.
    pub fn replaced(&self, table: Arc<dyn Table>) -> EngineTable {
        EngineTable { table, ..self.clone() }
    }

    /// The same with all declared keys, whether or not something holds the rows to them.
    pub fn trusting(&self) -> EngineTable {
        let keys = self.table.constraints().map(|keys| reliable(keys, &self.table.schema()));
        EngineTable { keys, ..self.clone() }
    }

    /// The table behind a plan's source, if it is one of the engine's.
    pub fn of(source: &dyn TableSource) -> Option<&EngineTable> {
        source.downcast_ref()
    }
}

/// The columns, any of which may hold a NULL.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The keys that tell all rows apart: several rows may have NULL as their UNIQUE value.
fn reliable(keys: &Constraints, schema: &SchemaRef) -> Constraints {
    let no_null = |at: &usize| !schema.field(*at).is_nullable();
    let kept = keys.iter().filter(|key| match key {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => {
            columns.iter().all(no_null)
        }
    });
    Constraints::new_unverified(kept.cloned().collect())
}

impl TableSource for EngineTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.keys.as_ref()
    }

    fn get_column_default(&self, column: &str) -> Option<&LogicalExpr> {
        self.defaults.get(column)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&LogicalExpr],
    ) -> datafusion_common::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}
