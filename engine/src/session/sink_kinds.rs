//! Whether a sink can take what a query gives, which is found out before anything runs.
//!
//! A query gives rows that stay or a result that changes, whose rows a key of the query may tell apart. A sink with a
//! primary key holds one row for each of its keys. Where a key of the query lies within the sink's, no two rows have the
//! same key; where none does, and the result changes, the statement must say by ON CONFLICT which of them counts.

use datafusion_common::Constraint;
use thalweg_optimizer::PhysicalPlan;
use thalweg_planner::{ConflictAction, TableName};
use thalweg_runtime::operators::sink::SinkSpec;

use crate::catalog::{SinkKind, StoredColumns, Table, TableSink};
use crate::connectors::{CONFLICT_SINK, ConflictSpec};
use crate::error::{Error, Report, Result};

/// The option of a table in memory that lets rows take the place of others by these columns.
pub(super) const UPSERT_KEY: &str = "key";

/// The positions among the stored columns of a table's primary key.
pub(super) fn primary_key(table: &dyn Table) -> Option<Vec<usize>> {
    let stored = StoredColumns::of(table);
    let key = table.constraints()?.iter().find_map(|key| match key {
        Constraint::PrimaryKey(columns) => Some(columns.clone()),
        Constraint::Unique(_) => None,
    })?;
    key.into_iter().map(|at| stored.place(at)).collect()
}

/// The sink as it takes the rows of a plan; fails if it cannot. `declared` gives keys that hold if tables are believed.
pub(super) fn fitted(
    mut sink: TableSink,
    plan: &PhysicalPlan,
    declared: impl FnOnce() -> Vec<Vec<usize>>,
    (name, table): (&TableName, &dyn Table),
    on_conflict: Option<ConflictAction>,
) -> Result<TableSink> {
    let Some(key) = primary_key(table) else { return Ok(sink) };
    let fits = |keys: Vec<Vec<usize>>| {
        keys.iter().any(|own| own.iter().all(|column| key.contains(column)))
    };
    // What tables declare of their rows counts here: no plan relies on it.
    let told_apart = fits(keys(plan)) || (plan.root.changes && fits(declared()));
    let Some(action) = on_conflict else {
        if plan.root.changes && !told_apart {
            return Err(another_key(plan, name, table, &key));
        }
        if let Some(options) = sink.spec.options.as_object_mut()
            && sink.kind == SinkKind::Upsert
            && !plan.root.changes
        {
            // Rows that stay take no other's place unless the statement says so.
            options.remove(UPSERT_KEY);
        }
        return Ok(sink);
    };
    if told_apart && sink.kind != SinkKind::Upsert {
        return Ok(sink);
    }
    if action == ConflictAction::Update && sink.kind == SinkKind::Append {
        let report = Report::new(format!("\"{name}\" cannot replace rows that were written"))
            .with_hint("ON CONFLICT DO NOTHING keeps the first row of each key.".to_string());
        return Err(Error::Unsupported(Box::new(report)));
    }
    // A table in memory has rows of its own to look at, unless rows have to come back when others go.
    if sink.kind == SinkKind::Upsert && (told_apart || !plan.root.changes) {
        if let Some(options) = sink.spec.options.as_object_mut() {
            options.insert("on_conflict".to_string(), text(action).into());
        }
        return Ok(sink);
    }
    let spec = ConflictSpec {
        key,
        action: text(action).to_string(),
        table: name.to_string(),
        sink: sink.spec.sink,
        options: sink.spec.options,
    };
    let options = serde_json::to_value(spec)
        .map_err(|e| Error::internal(format!("the options of a sink: {e}")))?;
    let spec = SinkSpec { sink: CONFLICT_SINK.to_string(), options };
    Ok(TableSink { spec, parallel: false, kind: sink.kind })
}

/// The name of an action in the options of sinks.
pub(super) fn text(action: ConflictAction) -> &'static str {
    match action {
        ConflictAction::Error => "error",
        ConflictAction::Nothing => "nothing",
        ConflictAction::Update => "update",
    }
}

/// The keys of the result, by position; those with columns that do not leave are left out.
fn keys(plan: &PhysicalPlan) -> Vec<Vec<usize>> {
    let place = |id| plan.output.iter().position(|(column, _)| column == id);
    let unique = plan.root.provided.unique.iter();
    unique.filter_map(|set| set.iter().map(place).collect()).collect()
}

fn another_key(plan: &PhysicalPlan, name: &TableName, table: &dyn Table, key: &[usize]) -> Error {
    let names = |columns: &[usize], name: &dyn Fn(usize) -> String| {
        columns.iter().map(|&at| name(at)).collect::<Vec<_>>().join(", ")
    };
    let schema = StoredColumns::of(table).schema(&table.schema());
    let wanted = names(key, &|at| schema.field(at).name().clone());
    let own = match keys(plan).first() {
        // The columns of the query go into those of the table in their order.
        Some(own) => {
            format!("are told apart by ({})", names(own, &|at| schema.field(at).name().clone()))
        }
        None => "have no key that is known".to_string(),
    };
    let report = Report::new(format!("the result has another key than the table \"{name}\""))
        .with_detail(format!(
            "The rows of the query {own}; the PRIMARY KEY of the table is ({wanted})."
        ));
    Error::Unsupported(Box::new(report.with_hint(
        "Add ON CONFLICT DO UPDATE (the last row of a key counts), DO NOTHING (the first one) or DO ERROR \
         (there may be one alone), or declare the key that the query has."
            .to_string(),
    )))
}
