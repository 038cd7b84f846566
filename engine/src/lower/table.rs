//! What is wanted of a table as operators: the scan of its stored columns, and behind it what the connector cannot do.
//!
//! Computed columns are projected behind the scan. Filters go into the scan, computed columns written out, unless that
//! would compute a volatile column twice, or stop the time: a source that tells the time sees all rows.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_expr::TableSource;
use thalweg_runtime::expr::{BinaryOperator, Expr};
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::filter::FilterSpec;
use thalweg_runtime::operators::project::ProjectSpec;
use thalweg_runtime::operators::source_scan::SourceScanSpec;
use thalweg_runtime::source::{EventTimeSpec, NullTime, RuntimeFilterUse, SourceSpec};

use super::LowerOptions;
use crate::catalog::{EngineTable, EventTime, StoredColumns};

/// What a plan wants of a table; all positions are those of the table's columns.
pub(super) struct Wanted {
    /// The columns that leave, in order.
    pub(super) columns: Vec<usize>,
    /// Conjuncts.
    pub(super) filters: Vec<Expr>,
    /// Filters that may be applied.
    pub(super) runtime_filters: Vec<RuntimeFilterUse>,
    /// At least this many rows are enough, if set.
    pub(super) fetch: Option<usize>,
}

impl Wanted {
    /// The operators, the scan first. The last one gives the columns as wanted.
    pub(super) fn operators(
        self,
        table: &EngineTable,
        options: &LowerOptions,
    ) -> Vec<OperatorSpec> {
        let stored = StoredColumns::of(table.table.as_ref());
        let tells_time = options.streaming || table.table.is_unbounded();
        // A batch needs no time, but obeys what the table says of rows without one.
        let looked_at = |time: &&EventTime| {
            tells_time
                || time.options.null_time.is_some_and(|policy| policy != NullTime::SkipWatermark)
        };
        let event_time = table.table.event_time().filter(looked_at);
        let Wanted { columns, filters, runtime_filters, fetch } = self;
        let (above, inside): (Vec<Expr>, Vec<Expr>) = filters.into_iter().partition(|filter| {
            event_time.is_some() || stored.reads_volatile(filter) || stored.reads_metadata(filter)
        });
        let runtime_filters = runtime_filters.into_iter().filter_map(|used| {
            let inside = event_time.is_none()
                && !stored.reads_volatile(&used.key)
                && !stored.reads_metadata(&used.key);
            inside.then(|| RuntimeFilterUse { key: stored.over_stored(used.key), ..used })
        });
        let runtime_filters = runtime_filters.collect();
        let schema = TableSource::schema(table);
        let mut scan = Scan::new(&stored, &schema);
        let behind = Behind::new(&columns, above, &stored, &mut scan);
        let event_time = match event_time {
            Some(time) => Some(EventTimeSpec {
                name: schema.field(time.column).name().clone(),
                tells_time,
                ..scan.event_time(time, &stored, table.table.tells_watermarks())
            }),
            None => (!table.table.bounds().is_empty()).then(|| scan.told_time()),
        };
        let spec = SourceSpec {
            connector: table.table.connector().to_string(),
            options: table.table.options(),
            projection: scan.projection,
            filters: inside.into_iter().map(|filter| stored.over_stored(filter)).collect(),
            runtime_filters,
            // Rows that a filter behind the scan drops are not enough.
            fetch: fetch.filter(|_| behind.filters.is_empty() && event_time.is_none()),
            batch_rows: options.batch_rows,
            event_time,
            schema: scan.schema,
            metadata: scan.metadata,
        };
        let mut operators = vec![OperatorSpec::SourceScan(SourceScanSpec { source: spec })];
        operators.extend(behind.operators(&schema));
        operators
    }
}

/// The columns that a scan delivers, by their positions among the stored ones.
struct Scan {
    schema: Schema,
    /// What the connector is asked for, behind the stored columns.
    metadata: Vec<Field>,
    projection: Vec<usize>,
}

impl Scan {
    fn new(stored: &StoredColumns<'_>, schema: &Schema) -> Self {
        Scan { schema: stored.schema(schema), metadata: stored.metadata(), projection: Vec::new() }
    }

    /// The place of a stored column among those that are delivered.
    fn deliver(&mut self, stored: usize) -> usize {
        self.projection.iter().position(|&known| known == stored).unwrap_or_else(|| {
            self.projection.push(stored);
            self.projection.len() - 1
        })
    }

    /// An expression over the stored columns as one over those that are delivered.
    fn over_delivered(&mut self, expr: Expr) -> Expr {
        expr.map_columns(&mut |stored| self.deliver(stored))
    }

    fn types(&self) -> Vec<DataType> {
        let own = self.schema.fields().len();
        let field = |at: usize| match at.checked_sub(own) {
            Some(behind) => &self.metadata[behind],
            None => self.schema.field(at),
        };
        self.projection.iter().map(|&at| field(at).data_type().clone()).collect()
    }

    /// How event time follows from the rows; columns that only this needs come last and do not leave.
    fn event_time(
        &mut self,
        event_time: &EventTime,
        stored: &StoredColumns<'_>,
        told: bool,
    ) -> EventTimeSpec {
        let delivered = self.projection.len();
        let time = self.over_delivered(stored.over_stored(Expr::Column(event_time.column)));
        let watermark = (!told).then(|| stored.over_stored(event_time.watermark.clone()));
        let watermark = watermark.map(|watermark| self.over_delivered(watermark));
        EventTimeSpec {
            time: Some(time),
            watermark,
            types: self.types(),
            delivered,
            name: String::new(),
            null_time: event_time.options.null_time.unwrap_or(NullTime::Fail),
            tells_time: true,
            emit_interval_ns: event_time.options.emit_interval_ns,
            idle_timeout_ns: event_time.options.idle_timeout_ns,
            alignment: event_time.options.alignment.clone(),
        }
    }

    /// The event time of a table whose reader tells it; rows say nothing of it.
    fn told_time(&self) -> EventTimeSpec {
        EventTimeSpec {
            time: None,
            watermark: None,
            types: self.types(),
            delivered: self.projection.len(),
            name: String::new(),
            null_time: NullTime::SkipWatermark,
            tells_time: true,
            emit_interval_ns: 0,
            idle_timeout_ns: 0,
            alignment: None,
        }
    }
}

/// What comes behind a scan.
struct Behind {
    /// The types of the columns that the scan delivers.
    delivered: Vec<DataType>,
    /// The columns that the filters and the plan read, each with its value over what the scan delivers; by their
    /// positions in the table. Empty when the scan delivers the wanted columns as they are.
    values: Vec<(usize, Expr)>,
    /// Conjuncts over `values`.
    filters: Vec<Expr>,
    /// The wanted columns among `values`.
    output: Vec<usize>,
}

impl Behind {
    fn new(
        columns: &[usize],
        filters: Vec<Expr>,
        stored: &StoredColumns<'_>,
        scan: &mut Scan,
    ) -> Self {
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let mut values = Vec::new();
        let read = columns.iter().copied().chain(filters.iter().flat_map(Expr::columns));
        for column in read {
            places.entry(column).or_insert_with(|| {
                let value = scan.over_delivered(stored.over_stored(Expr::Column(column)));
                values.push((column, value));
                values.len() - 1
            });
        }
        let filters = filters.into_iter().map(|filter| filter.map_columns(&mut |at| places[&at]));
        Behind {
            delivered: scan.types(),
            filters: filters.collect(),
            output: columns.iter().map(|at| places[at]).collect(),
            values,
        }
    }

    fn operators(self, schema: &Schema) -> Vec<OperatorSpec> {
        let Behind { delivered, values, filters, output } = self;
        let mut operators = Vec::new();
        let as_delivered = values.len() == delivered.len()
            && values.iter().enumerate().all(|(at, (_, value))| *value == Expr::Column(at));
        let types: Vec<DataType> =
            values.iter().map(|(column, _)| schema.field(*column).data_type().clone()).collect();
        if !as_delivered {
            let exprs = values.into_iter().map(|(_, value)| value).collect();
            operators.push(OperatorSpec::Project(ProjectSpec { input: delivered, exprs }));
        }
        let all = filters.into_iter().reduce(|left, right| Expr::Binary {
            op: BinaryOperator::And,
            left: Box::new(left),
            right: Box::new(right),
        });
        let in_order =
            output.len() == types.len() && output.iter().enumerate().all(|(at, &o)| at == o);
        match all {
            Some(predicate) => {
                operators.push(OperatorSpec::Filter(FilterSpec {
                    input: types,
                    predicate,
                    output,
                }));
            }
            None if in_order => {}
            None => {
                let exprs = output.into_iter().map(Expr::Column).collect();
                operators.push(OperatorSpec::Project(ProjectSpec { input: types, exprs }));
            }
        }
        operators
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::TimeUnit;
    use datafusion_common::Constraints;
    use datafusion_expr::{Expr as LogicalExpr, cast, col, lit};
    use datafusion_functions::expr_fn::random;
    use thalweg_planner::{ComputedColumn, Watermark};
    use thalweg_runtime::operators::sink::SinkSpec;

    use super::*;
    use crate::catalog::Declaration;
    use crate::connectors::MemoryTable;

    const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

    /// `ts AS ms`, `ms`, `v`, `r AS random()`, `w AS v + 1` with a watermark over `ts` that reads `late`.
    fn table() -> Arc<EngineTable> {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let schema = Arc::new(Schema::new(vec![
            field("ts", TIME),
            field("ms", DataType::Int64),
            field("v", DataType::Int64),
            field("r", DataType::Float64),
            field("w", DataType::Int64),
            field("late", DataType::Int64),
        ]));
        let computed = |column, expr| ComputedColumn { column, expr };
        let time = |ms: LogicalExpr| cast(ms, TIME);
        let declaration = Declaration {
            schema,
            computed: vec![
                computed(0, time(col("ms"))),
                computed(3, random()),
                computed(4, col("v") + lit(1_i64)),
            ],
            metadata: Vec::new(),
            watermark: Some(Watermark {
                column: 0,
                expr: time(col("ms") - col("late")),
                ttl: false,
            }),
            time_options: crate::catalog::TimeOptions::default(),
            constraints: Constraints::default(),
            keys_enforced: true,
        };
        let stored = MemoryTable::new(declaration.stored_schema(), Vec::new());
        EngineTable::new(declaration.over(Arc::new(stored)).unwrap())
    }

    fn options(streaming: bool) -> LowerOptions {
        let sink = SinkSpec { sink: String::new(), options: serde_json::Value::Null };
        LowerOptions { threads: 1, batch_rows: 10, sink, streaming, parallel_sink: false }
    }

    /// `column > 1`.
    fn above(column: usize) -> Expr {
        let one = Expr::literal(datafusion_common::ScalarValue::Int64(Some(1)));
        let (left, right) = (Box::new(Expr::Column(column)), Box::new(one));
        Expr::Binary { op: BinaryOperator::Gt, left, right }
    }

    fn wanted(columns: &[usize], filters: &[usize]) -> Wanted {
        Wanted {
            columns: columns.to_vec(),
            filters: filters.iter().map(|&column| above(column)).collect(),
            runtime_filters: vec![RuntimeFilterUse { filter: 7, key: Expr::Column(4) }],
            fetch: Some(3),
        }
    }

    /// The source, and the operators behind it.
    fn lowered(wanted: Wanted, streaming: bool) -> (SourceSpec, Vec<OperatorSpec>) {
        let mut operators = wanted.operators(&table(), &options(streaming)).into_iter();
        let Some(OperatorSpec::SourceScan(scan)) = operators.next() else { panic!("no scan") };
        (scan.source, operators.collect())
    }

    #[test]
    fn stored_columns_are_delivered_as_they_are() {
        let (source, behind) = lowered(wanted(&[5, 2], &[1]), false);
        let names: Vec<&str> = source.schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["ms", "v", "late"]);
        assert_eq!((source.projection, source.fetch), (vec![2, 1], Some(3)));
        assert_eq!(source.filters, [above(0)]);
        assert!(behind.is_empty() && source.event_time.is_none());
    }

    #[test]
    fn computed_columns_are_written_out_in_filters_and_projected_behind_the_scan() {
        let (source, behind) = lowered(wanted(&[4, 1, 0], &[4]), false);
        assert_eq!(source.projection, [1, 0]);
        let [OperatorSpec::Project(project)] = behind.as_slice() else { panic!("{behind:?}") };
        assert_eq!(project.input, [DataType::Int64, DataType::Int64]);
        assert_eq!(project.exprs[1], Expr::Column(1));
        assert_eq!(project.exprs[0].columns(), [0]);
        assert_eq!(source.filters[0].columns(), [1]);
        assert_eq!(source.runtime_filters[0].key.columns(), [1]);
        assert_eq!(source.fetch, Some(3));
    }

    #[test]
    fn a_volatile_column_is_computed_once() {
        let (source, behind) = lowered(wanted(&[2], &[3, 2]), false);
        assert_eq!((source.projection, source.fetch), (vec![1], None));
        assert_eq!(source.filters, [above(1)]);
        let [OperatorSpec::Project(project), OperatorSpec::Filter(filter)] = behind.as_slice()
        else {
            panic!("{behind:?}")
        };
        assert_eq!(project.exprs.len(), 2);
        assert_eq!(filter.input, [DataType::Int64, DataType::Float64]);
        assert_eq!((&filter.predicate, filter.output.as_slice()), (&above(1), &[0][..]));
    }

    #[test]
    fn a_source_that_tells_the_time_sees_all_rows() {
        let (source, behind) = lowered(wanted(&[2], &[2, 1]), true);
        assert!(source.filters.is_empty() && source.runtime_filters.is_empty());
        assert_eq!((source.projection, source.fetch), (vec![1, 0, 2], None));
        let time = source.event_time.unwrap();
        assert_eq!(time.delivered, 2);
        assert_eq!(time.types, [DataType::Int64, DataType::Int64, DataType::Int64]);
        let columns = |expr: Option<Expr>| expr.map(|expr| expr.columns());
        let read = (columns(time.time), columns(time.watermark));
        assert_eq!(read, (Some(vec![1]), Some(vec![1, 2])));
        let [OperatorSpec::Filter(filter)] = behind.as_slice() else { panic!("{behind:?}") };
        assert_eq!((filter.predicate.columns(), filter.output.as_slice()), (vec![0, 1], &[0][..]));
    }

    #[test]
    fn time_is_told_when_no_column_is_wanted() {
        let (source, behind) = lowered(wanted(&[], &[]), true);
        assert_eq!(source.projection, [0, 2]);
        assert_eq!(source.event_time.map(|time| time.delivered), Some(0));
        assert!(behind.is_empty());
    }
}
