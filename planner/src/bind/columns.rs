//! The columns of CREATE TABLE: types, keys, default values; which of them are computed or come from the connector, and
//! the watermark.
//!
//! Invariant: columns stand in the order in which they are declared; all positions count in that order. Computed columns
//! have no default, and are in no key: nobody could hold rows to it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion_common::{Constraint, Constraints, DFSchema};
use datafusion_expr::Expr;
use datafusion_sql::planner::PlannerContext;
use datafusion_sql::sqlparser::ast::{
    self, CastKind, ColumnDef, ColumnOption, ConstraintCharacteristics, Ident, IndexColumn,
    TableConstraint,
};

use super::computed::Stored;
use super::names::normalized;
use super::provider::Binder;
use super::statements::ours;
use crate::catalog::TableName;
use crate::error::{PlannerError, Result};
use crate::parse::{ComputedAst, TableColumns, span_of};
use crate::statement::{ComputedColumn, MetadataColumn, Watermark};

/// Values of columns that an INSERT leaves out, by column name.
type Defaults = Vec<(String, Expr)>;

/// Columns as declared.
pub(super) struct Columns {
    /// All of them, computed ones included.
    pub(super) schema: SchemaRef,
    pub(super) constraints: Constraints,
    /// False when the keys are NOT ENFORCED.
    pub(super) keys_enforced: bool,
    pub(super) defaults: Defaults,
    pub(super) computed: Vec<ComputedColumn>,
    pub(super) metadata: Vec<MetadataColumn>,
    pub(super) watermark: Option<Watermark>,
}

/// Binds the columns of a table.
pub(super) fn columns(
    binder: &Binder<'_>,
    table: &TableName,
    defs: &[ColumnDef],
    constraints: &[TableConstraint],
    declared: &TableColumns,
) -> Result<Columns> {
    let (defs, declared) = &with_generated(defs, declared)?;
    let order = Order::new(defs, declared)?;
    refuse_without_stored(defs, declared)?;
    let (keys, defaults) = column_options(binder, defs)?;
    let schema = ours(binder.sql().build_schema(defs.to_vec()))
        .map_err(|e| e.with_span(defs.first().and_then(|def| span_of(def.name.span))))?;
    let schema = with_keys_not_null(schema, &keys);
    let keys = with_table_keys(binder, keys, constraints, &schema, &order)?;
    let stored = with_keys_not_null(schema.as_ref().clone(), &keys);
    let source = Stored::new(binder, table, &stored)?;
    let computed = declared.computed.iter().map(|column| {
        let bound = source.computed(column, &declared.computed)?;
        if column.is_generated && bound.0.is_volatile() {
            let message = format!("the generated column {} is volatile", normalized(&column.name));
            let hint = "a column without a type, c AS expression, may be".to_string();
            let error = PlannerError::invalid(message).with_hint(hint);
            return Err(error.with_span(span_of(column.name.span)));
        }
        Ok((order.of(&normalized(&column.name)), bound))
    });
    let computed = computed.collect::<Result<Vec<_>>>()?;
    let schema = order.schema(&stored, &computed);
    let watermark = declared.watermark.as_ref().map(|watermark| {
        let (column, expr) =
            source.watermark(watermark, &computed, &schema, declared.append_only)?;
        Ok(Watermark { column, expr, ttl: watermark.ttl })
    });
    Ok(Columns {
        watermark: watermark.transpose()?,
        metadata: order.metadata(declared),
        constraints: order.keys(keys),
        keys_enforced: keys_enforced(defs, constraints)?,
        computed: computed
            .into_iter()
            .map(|(column, (expr, _))| ComputedColumn { column, expr })
            .collect(),
        schema,
        defaults,
    })
}

/// The stored columns, and the others with those that the parser reads: `name type GENERATED ALWAYS AS (expr)`.
fn with_generated(
    defs: &[ColumnDef],
    declared: &TableColumns,
) -> Result<(Vec<ColumnDef>, TableColumns)> {
    let (mut stored, mut declared) = (Vec::new(), declared.clone());
    for def in defs {
        let expr = def.options.iter().find_map(|option| match &option.option {
            ColumnOption::Generated { generation_expr: Some(expr), .. } => Some(expr),
            _ => None,
        });
        let Some(expr) = expr else {
            stored.push(def.clone());
            continue;
        };
        let other = def.options.iter().map(|option| &option.option).find(|option| {
            !matches!(
                option,
                ColumnOption::Generated { .. } | ColumnOption::Null | ColumnOption::Comment(_)
            )
        });
        if let Some(other) = other {
            let error = PlannerError::not_supported(format!("{other} on a generated column"));
            return Err(error.with_span(span_of(def.name.span)));
        }
        let cast = ast::Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(expr.clone()),
            data_type: def.data_type.clone(),
            array: false,
            format: None,
        };
        declared.computed.push(ComputedAst {
            name: def.name.clone(),
            expr: cast,
            is_generated: true,
        });
    }
    Ok((stored, declared))
}

/// Columns that are found out by looking at files are not known when expressions are bound.
fn refuse_without_stored(defs: &[ColumnDef], declared: &TableColumns) -> Result<()> {
    let computed = declared.computed.first().map(|column| column.name.span);
    let watermark = declared.watermark.as_ref().map(|watermark| watermark.column.span);
    match computed.or(watermark) {
        Some(first) if defs.is_empty() => {
            let error =
                PlannerError::invalid("computed columns and watermarks need declared columns");
            Err(error.with_span(span_of(first)))
        }
        _ => Ok(()),
    }
}

/// Where the columns stand, those of the parser and the others.
struct Order {
    /// The names in the order written.
    names: Vec<String>,
    /// For each stored column its position among all.
    stored: Vec<usize>,
}

impl Order {
    fn new(defs: &[ColumnDef], declared: &TableColumns) -> Result<Self> {
        let mut idents: Vec<(&Ident, bool)> = defs.iter().map(|def| (&def.name, true)).collect();
        idents.extend(declared.computed.iter().map(|column| (&column.name, false)));
        idents.sort_by_key(|(ident, _)| ident.span.start);
        let mut seen = HashSet::new();
        for (ident, _) in &idents {
            if !seen.insert(normalized(ident)) {
                let message = format!("column {} appears twice", normalized(ident));
                return Err(PlannerError::name(message).with_span(span_of(ident.span)));
            }
        }
        let stored = idents.iter().enumerate().filter(|(_, (_, stored))| *stored);
        Ok(Order {
            stored: stored.map(|(at, _)| at).collect(),
            names: idents.into_iter().map(|(ident, _)| normalized(ident)).collect(),
        })
    }

    fn of(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_default()
    }

    fn schema(&self, stored: &SchemaRef, computed: &[(usize, (Expr, FieldRef))]) -> SchemaRef {
        let stored = self.stored.iter().copied().zip(stored.fields().iter().cloned());
        let computed = computed.iter().map(|(at, (_, field))| (*at, field.clone()));
        let mut fields: Vec<(usize, FieldRef)> = stored.chain(computed).collect();
        fields.sort_by_key(|(at, _)| *at);
        Arc::new(Schema::new(fields.into_iter().map(|(_, field)| field).collect::<Vec<_>>()))
    }

    fn metadata(&self, declared: &TableColumns) -> Vec<MetadataColumn> {
        let columns = declared.metadata.iter().map(|column| {
            let name = normalized(&column.name);
            MetadataColumn {
                column: self.of(&name),
                key: column.key.clone().unwrap_or(name),
                is_virtual: column.is_virtual,
            }
        });
        columns.collect()
    }

    /// Keys over stored columns as keys over all.
    fn keys(&self, keys: Vec<Constraint>) -> Constraints {
        let moved = |columns: Vec<usize>| columns.into_iter().map(|at| self.stored[at]).collect();
        let keys = keys.into_iter().map(|key| match key {
            Constraint::PrimaryKey(columns) => Constraint::PrimaryKey(moved(columns)),
            Constraint::Unique(columns) => Constraint::Unique(moved(columns)),
        });
        Constraints::new_unverified(keys.collect())
    }
}

/// The keys and defaults that are said at single columns.
fn column_options(binder: &Binder<'_>, defs: &[ColumnDef]) -> Result<(Vec<Constraint>, Defaults)> {
    let (mut keys, mut defaults) = (Vec::new(), Vec::new());
    for (at, def) in defs.iter().enumerate() {
        for option in &def.options {
            let span = span_of(def.name.span);
            match &option.option {
                ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Comment(_) => {}
                ColumnOption::PrimaryKey(_) => keys.push(Constraint::PrimaryKey(vec![at])),
                ColumnOption::Unique(_) => keys.push(Constraint::Unique(vec![at])),
                ColumnOption::Default(expr) => {
                    let schema = DFSchema::empty();
                    let sql = binder.sql();
                    let value = sql.sql_to_expr(expr.clone(), &schema, &mut PlannerContext::new());
                    defaults
                        .push((normalized(&def.name), ours(value).map_err(|e| e.with_span(span))?));
                }
                other => {
                    return Err(
                        PlannerError::not_supported(format!("{other} on a column")).with_span(span)
                    );
                }
            }
        }
    }
    Ok((keys, defaults))
}

/// The keys of the columns and those that are said behind them.
fn with_table_keys(
    binder: &Binder<'_>,
    mut keys: Vec<Constraint>,
    constraints: &[TableConstraint],
    stored: &SchemaRef,
    order: &Order,
) -> Result<Vec<Constraint>> {
    for column in constraints.iter().flat_map(key_columns) {
        if let ast::Expr::Identifier(ident) = &column.column.expr {
            let name = normalized(ident);
            if order.names.contains(&name) && stored.index_of(&name).is_err() {
                let error = PlannerError::invalid(format!("the computed column {name} is no key"))
                    .with_hint("a key names columns that are stored".to_string());
                return Err(error.with_span(span_of(ident.span)));
            }
        }
    }
    let schema = Arc::new(ours(DFSchema::try_from(Arc::clone(stored)))?);
    let named = ours(binder.sql().new_constraint_from_table_constraints(constraints, &schema))?;
    keys.extend(named.iter().cloned());
    Ok(keys)
}

fn key_columns(constraint: &TableConstraint) -> &[IndexColumn] {
    match constraint {
        TableConstraint::PrimaryKey(key) => &key.columns,
        TableConstraint::Unique(key) => &key.columns,
        _ => &[],
    }
}

/// Whether rows are held to the keys; all of them say the same.
fn keys_enforced(defs: &[ColumnDef], constraints: &[TableConstraint]) -> Result<bool> {
    let options = defs.iter().flat_map(|def| &def.options).map(|option| &option.option);
    let of_columns = options.filter_map(|option| match option {
        ColumnOption::PrimaryKey(key) => Some(key.characteristics),
        ColumnOption::Unique(key) => Some(key.characteristics),
        _ => None,
    });
    let of_table = constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::PrimaryKey(key) => Some(key.characteristics),
        TableConstraint::Unique(key) => Some(key.characteristics),
        _ => None,
    });
    let enforced = |said: Option<ConstraintCharacteristics>| {
        said.and_then(|said| said.enforced).unwrap_or(true)
    };
    let said: Vec<bool> = of_columns.chain(of_table).map(enforced).collect();
    match (said.contains(&true), said.contains(&false)) {
        (true, true) => {
            Err(PlannerError::not_supported("a table some of whose keys are NOT ENFORCED"))
        }
        (_, loose) => Ok(!loose),
    }
}

/// The columns of primary keys hold no NULL.
fn with_keys_not_null(schema: Schema, keys: &[Constraint]) -> SchemaRef {
    let is_key = |at: usize| {
        keys.iter()
            .any(|key| matches!(key, Constraint::PrimaryKey(columns) if columns.contains(&at)))
    };
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let nullable = field.is_nullable() && !is_key(at);
        Arc::new(field.as_ref().clone().with_nullable(nullable))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
