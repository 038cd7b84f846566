//! Statements that write rows: CREATE TABLE, INSERT and COPY.
//!
//! Rows go to a memory table when all of them are there: a statement that fails or is cancelled leaves nothing.

use std::any::Any;
use std::future::poll_fn;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion_common::{Constraint, Constraints};
use datafusion_expr::TableSource;
use thalweg_optimizer::PhysicalPlan;
use thalweg_planner::{
    ConflictAction, Copy, CreateExternalTable, CreateTable, Insert, QueryPlan, distinct_names,
};
use thalweg_runtime::operators::sink::SinkSpec;

use super::frame::Frame;
use super::inserts;
use super::plan::{PlanUse, physical_plan, result_schema};
use super::sink_kinds::primary_key;
use super::statement::{StatementContext, on_conflict, statement_text};
use super::table_options::TableOptions;
use super::views;
use crate::catalog::{
    Declaration, DeclaredTable, EngineTable, Entry, OnConflict, Table, TableSink, TimeOptions,
    unknown_option,
};
use crate::connectors::compact::compacted;
use crate::connectors::memory::{LateRows, OnKey, RowTimes, ViewTable};
use crate::connectors::registry::{self, TableDefinition};
use crate::connectors::{
    FILE_SINK, FileFormat, FileWriteOptions, MemoryTable, Replaced, RowCounter,
};
use crate::error::{Error, Report, Result};

/// `CREATE TABLE`, with the rows of a query when there is one.
pub(super) async fn create_table(cx: &StatementContext<'_>, create: CreateTable) -> Result<Frame> {
    let CreateTable {
        name,
        if_not_exists,
        or_replace,
        temporary,
        schema,
        constraints,
        keys_enforced,
        defaults,
        computed,
        metadata,
        watermark,
        options,
        query,
        append_only,
    } = create;
    if let Some((key, _)) = options.first() {
        let report = Report::new(format!("unknown option \"{key}\" of a table in memory"));
        return Err(Error::catalog(report.with_hint(registry::HOW_TO_NAME_ONE.to_string())));
    }
    let conflict = on_conflict(or_replace, if_not_exists);
    let catalog = cx.session.catalog();
    if conflict == OnConflict::Keep && catalog.get(&name).is_some() {
        return Ok(Frame::empty());
    }
    if conflict == OnConflict::Replace
        && let Some(key) = catalog.key_of(&name)
    {
        views::refuse_if_read(cx, &key, &format!("the table \"{name}\" cannot be replaced"))?;
    }
    let written = query.is_some();
    let (schema, batches) = match query {
        Some(query) => {
            let schema = schema_of_result(&schema, &query);
            let batches = rows(cx, &query, schema.clone()).await?;
            (schema, batches)
        }
        None => (schema, Vec::new()),
    };
    let count = count(&batches);
    let memory = cx.session.inner.executor.memory();
    let shown = name.to_string();
    let ttl = watermark.as_ref().is_some_and(|watermark| watermark.ttl);
    if ttl && !append_only {
        let report = Report::new("WATERMARK … WITH TTL is for tables that are APPEND ONLY");
        return Err(Error::catalog(
            report.with_hint("write APPEND ONLY behind the columns".to_string()),
        ));
    }
    let declared = Declaration {
        schema,
        computed,
        metadata,
        watermark,
        time_options: TimeOptions::default(),
        constraints,
        keys_enforced,
    };
    refuse_metadata(&declared, "a table in memory")?;
    let keys = match keys_enforced {
        true => declared.stored_constraints(),
        false => Constraints::default(),
    };
    let table = MemoryTable::new(declared.stored_schema(), batches)
        .with_keys(keys, memory, &shown)?
        .charged_to(memory, &shown)
        .append_only(append_only);
    let stored = table.clone();
    let table = declared.over(Arc::new(table))?;
    let declared = (table.as_ref() as &dyn Any).downcast_ref::<DeclaredTable>();
    if let Some((declared, time)) = declared.and_then(|table| Some((table, table.declared_time()?)))
    {
        let functions = cx.session.inner.executor.functions();
        let late = match (append_only, ttl) {
            (false, _) => LateRows::Stay,
            (true, false) => LateRows::AreLeftOut,
            (true, true) => LateRows::AndOldOnesGo,
        };
        stored.in_time(RowTimes::new(declared, time, late, &functions)?)?;
    }
    let defaults = Arc::new(defaults.into_iter().collect());
    let entry = Entry::Table { table, sql: Some(statement_text(cx)), defaults };
    catalog.create(&name, entry, temporary, conflict)?;
    Ok(if written { Frame::written(count) } else { Frame::empty() })
}

/// `CREATE EXTERNAL TABLE`.
pub(super) fn create_external_table(
    cx: &StatementContext<'_>,
    mut create: CreateExternalTable,
) -> Result<Frame> {
    let conflict = on_conflict(create.or_replace, create.if_not_exists);
    let catalog = cx.session.catalog();
    if conflict == OnConflict::Keep && catalog.get(&create.name).is_some() {
        return Ok(Frame::empty());
    }
    if create.watermark.as_ref().is_some_and(|watermark| watermark.ttl) {
        let report = Report::new("WATERMARK … WITH TTL is for tables in memory");
        return Err(Error::catalog(report.with_hint("leave WITH TTL out".to_string())));
    }
    let TableOptions { dead_letters, time: time_options } =
        TableOptions::take(cx, &mut create.options, create.watermark.is_some())?;
    let declared = create.schema.map(|schema| Declaration {
        schema,
        computed: create.computed,
        metadata: create.metadata,
        watermark: create.watermark,
        time_options,
        constraints: create.constraints.clone(),
        keys_enforced: true,
    });
    declared.iter().try_for_each(refuse_keys_of_metadata)?;
    let table = registry::create(TableDefinition {
        name: create.name.to_string(),
        connector: create.connector,
        format: create.format,
        locations: create.locations,
        schema: declared.as_ref().map(Declaration::stored_schema),
        constraints: declared.as_ref().map_or(create.constraints, Declaration::stored_constraints),
        options: create.options,
        partition_columns: create.partition_columns,
        dead_letters,
    })?;
    let table = match declared {
        Some(declared) => declared.over(table)?,
        None => table,
    };
    let entry = Entry::Table { table, sql: Some(statement_text(cx)), defaults: Arc::default() };
    catalog.create(&create.name, entry, create.temporary, conflict)?;
    Ok(Frame::empty())
}

/// Fails when a key has a column that is no value of the row.
fn refuse_keys_of_metadata(declared: &Declaration) -> Result<()> {
    let columns = declared.constraints.iter().flat_map(|key| match key {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns.clone(),
    });
    let is_metadata = |at: &usize| declared.metadata.iter().any(|column| column.column == *at);
    match columns.into_iter().find(is_metadata) {
        Some(at) => {
            let name = declared.schema.field(at).name();
            let report = Report::new(format!("a key cannot have the column \"{name}\""))
                .with_detail("It is METADATA.");
            Err(Error::catalog(report))
        }
        None => Ok(()),
    }
}

/// Fails when a column is to come from a connector that knows nothing beside the row.
fn refuse_metadata(declared: &Declaration, what: &str) -> Result<()> {
    let Some(column) = declared.metadata.first() else { return Ok(()) };
    let name = declared.schema.field(column.column).name();
    let report = Report::new(format!("{what} has no metadata \"{}\"", column.key))
        .with_detail(format!("The column \"{name}\" is declared as METADATA."));
    Err(Error::catalog(report))
}

/// `INSERT INTO` and `INSERT OVERWRITE`.
pub(super) async fn insert(cx: &StatementContext<'_>, insert: Insert) -> Result<Frame> {
    let table = EngineTable::of(insert.source.as_ref()).map(|table| table.table.clone());
    let key = table.as_deref().and_then(primary_key);
    if insert.overwrite && table.is_some_and(|table| table.sink().is_some()) {
        return Err(Error::unsupported(format!("INSERT OVERWRITE \"{}\"", insert.table)));
    }
    if !insert.overwrite && inserts::runs_into_sink(&insert)? {
        return inserts::run(cx, &insert).await;
    }
    let Insert { table: name, source, input, overwrite, on_conflict } = insert;
    let memory = memory_table(source.as_ref(), &format!("INSERT INTO \"{name}\""))?;
    if overwrite {
        refuse_append_only(memory, &format!("INSERT OVERWRITE \"{name}\""))?;
    }
    let batches = rows(cx, &input, memory.schema()).await?;
    let count = count(&batches);
    match (overwrite, on_conflict, key) {
        (true, ..) => memory.replace(batches)?,
        (false, Some(action), Some(key)) => {
            let on_key = match action {
                ConflictAction::Error => OnKey::Error,
                ConflictAction::Nothing => OnKey::Nothing,
                ConflictAction::Update => OnKey::Update,
            };
            if on_key == OnKey::Update {
                refuse_append_only(memory, &format!("ON CONFLICT DO UPDATE in \"{name}\""))?;
            }
            let budget = cx.session.inner.executor.memory();
            return Ok(Frame::written(memory.upsert(batches, &key, on_key, budget)?));
        }
        (false, ..) => {
            let late = memory.append(batches)? as u64;
            return Ok(Frame::written(count - late).warned_of_late(late));
        }
    }
    Ok(Frame::written(count))
}

/// The sink with the columns of the query, if the table declares none.
pub(super) fn of_columns(mut sink: TableSink, table: &dyn Table, input: &QueryPlan) -> TableSink {
    if table.schema().fields().is_empty()
        && let Some(options) = sink.spec.options.as_object_mut()
    {
        let schema = with_distinct_names(&result_schema(input));
        let schema = serde_json::to_value(schema).expect("a schema can be written as JSON");
        options.insert("schema".to_string(), schema);
    }
    sink
}

/// Tells a sink that takes changes which columns tell the rows of the query apart, if any do.
pub(super) fn tell_key(sink: &mut TableSink, plan: &PhysicalPlan) {
    if let (Some(options), Some(key)) = (sink.spec.options.as_object_mut(), &plan.key)
        && sink.kind.takes_changes()
    {
        options.insert("result_key".to_string(), key.clone().into());
    }
}

/// The table in memory behind a source, with its stored columns; other tables cannot do `what`.
pub(super) fn memory_table<'a>(source: &'a dyn TableSource, what: &str) -> Result<&'a MemoryTable> {
    let table = EngineTable::of(source).map(|engine| engine.table.as_ref() as &dyn Any);
    if table.is_some_and(|table| table.is::<ViewTable>()) {
        let report = Report::new(format!("{what} is not possible"))
            .with_detail("A materialized view changes with the tables that its query reads.");
        return Err(Error::Statement(Box::new(report)));
    }
    let stored = table.map(|table| match table.downcast_ref::<DeclaredTable>() {
        Some(declared) => declared.stored().as_ref() as &dyn Any,
        None => table,
    });
    stored.and_then(|table| table.downcast_ref::<MemoryTable>()).ok_or_else(|| {
        let report = Report::new(format!("{what} is not supported"))
            .with_detail("Only tables in memory can be changed.")
            .with_hint("COPY (query) TO 'file' writes files.".to_string());
        Error::Unsupported(Box::new(report))
    })
}

/// Fails for a table whose rows never go or change.
pub(super) fn refuse_append_only(table: &MemoryTable, what: &str) -> Result<()> {
    if !table.is_append_only() {
        return Ok(());
    }
    let report = Report::new(format!("{what} is not possible"))
        .with_detail("The table is APPEND ONLY: its rows never go or change.");
    Err(Error::Statement(Box::new(report)))
}

/// `COPY … TO`.
pub(super) async fn copy(cx: &StatementContext<'_>, copy: Copy) -> Result<Frame> {
    let executor = &cx.session.inner.executor;
    let counter = RowCounter::new();
    let mut target = FileWriteOptions::new(&copy.path, &result_schema(&copy.input));
    if let Some(format) = &copy.format {
        target.set("format", format)?;
    }
    for (key, value) in &copy.options {
        if !target.set(key, value)? {
            return Err(unknown_option(key, &FileWriteOptions::KEYS));
        }
    }
    if !copy.partition_by.is_empty() {
        target.set("partition_by", &copy.partition_by.join(","))?;
    }
    if !copy.options.iter().any(|(key, _)| ["overwrite", "append"].contains(&key.as_str())) {
        (target.append, target.overwrite) = cx.settings.existing_files();
    }
    target.check(copy.format.is_some())?;
    (target.counter, target.run) = (Some(counter.id()), executor.random_u64());
    if target.format != FileFormat::Csv {
        target.schema = with_distinct_names(&target.schema);
    }
    let parallel = !target.is_single_file();
    let replaced = Replaced::find(&target)?;
    let sink = SinkSpec { sink: FILE_SINK.to_string(), options: target.to_value() };
    let plan = physical_plan(&copy.input, &cx.settings, PlanUse::default())?;
    let job = executor.run(&plan, sink, parallel, &cx.settings, &cx.token).await?;
    *cx.last_job.lock() = Some(job);
    replaced.remove()?;
    Ok(Frame::written(counter.rows()))
}

/// The columns under names of their own, as CREATE TABLE AS has them: readers find columns by name.
fn with_distinct_names(schema: &Schema) -> Schema {
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let fields = schema.fields().iter().zip(distinct_names(names));
    Schema::new(fields.map(|(f, name)| f.as_ref().clone().with_name(name)).collect::<Vec<_>>())
}

/// All rows of a query, as rows of a table of the given columns.
pub(super) async fn rows(
    cx: &StatementContext<'_>,
    query: &QueryPlan,
    schema: SchemaRef,
) -> Result<Vec<RecordBatch>> {
    let plan = physical_plan(query, &cx.settings, PlanUse::default())?;
    let executor = &cx.session.inner.executor;
    let mut execution = executor.start(&plan, nullable(&schema), None, &cx.settings, &cx.token)?;
    let mut batches = Vec::new();
    let mut charge = executor.memory().reserve("rows to be written");
    while let Some(batch) = poll_fn(|context| execution.poll_batch(context)).await {
        let batch = compacted(checked(&batch?, &schema)?)?;
        charge.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    *cx.last_job.lock() = Some(execution.job().clone());
    Ok(batches)
}

/// The batch under the table's schema, unless it has a NULL where the table takes none.
fn checked(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            let report =
                Report::new(format!("a value for the column \"{}\" is NULL", field.name()));
            return Err(Error::Execution(Box::new(report.with_detail("The column is NOT NULL."))));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)?)
}

fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of CREATE TABLE AS: that a query never gives a NULL does not make a column NOT NULL.
fn schema_of_result(declared: &SchemaRef, query: &QueryPlan) -> SchemaRef {
    let fields = declared.fields().iter().zip(query.plan.schema().fields());
    let field = |(declared, given): (&FieldRef, &FieldRef)| {
        let not_null = !declared.is_nullable() && given.is_nullable();
        declared.as_ref().clone().with_nullable(!not_null)
    };
    Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()))
}

/// How many rows the batches have.
pub(super) fn count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}
