//! Tables about tables: the rows of `information_schema`, SHOW and DESCRIBE.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_planner::{FunctionKind, Functions, sql_type_name};

use super::store::{CATALOG_NAME, Entry, INFORMATION_SCHEMA, TableCatalog};
use crate::error::Result;
use crate::settings::Settings;

/// The names of the tables of `information_schema`.
pub const INFORMATION_TABLES: [&str; 7] =
    ["columns", "df_settings", "routines", "schemata", "settings", "tables", "views"];

/// What the listings are made from.
pub struct Listings<'a> {
    /// Schemas, tables and views.
    pub catalog: &'a TableCatalog,
    /// Settings with their values now.
    pub settings: &'a Settings,
    /// All functions.
    pub functions: &'a Functions,
}

impl Listings<'_> {
    /// The rows of a table of `information_schema`; `None` when there is none of this name.
    pub fn information_table(&self, name: &str) -> Option<Result<RecordBatch>> {
        Some(match name {
            "tables" => self.tables(),
            "columns" => self.columns(),
            "schemata" => self.schemata(),
            "views" => self.views(),
            "settings" | "df_settings" => self.settings(),
            "routines" => self.routines(),
            _ => return None,
        })
    }

    fn tables(&self) -> Result<RecordBatch> {
        let entries = self.catalog.entries();
        let mut rows: Vec<[&str; 4]> = entries
            .iter()
            .map(|(schema, name, entry)| [CATALOG_NAME, schema, name, entry.kind()])
            .collect();
        rows.extend(
            INFORMATION_TABLES.iter().map(|name| [CATALOG_NAME, INFORMATION_SCHEMA, name, "VIEW"]),
        );
        texts(["table_catalog", "table_schema", "table_name", "table_type"], &rows)
    }

    fn columns(&self) -> Result<RecordBatch> {
        let entries = self.catalog.entries();
        let schemas: Vec<SchemaRef> = entries.iter().map(|(_, _, entry)| entry.schema()).collect();
        let fields = || {
            let numbered = entries.iter().zip(&schemas);
            numbered.flat_map(|((schema, table, _), fields)| {
                fields
                    .fields()
                    .iter()
                    .enumerate()
                    .map(move |(at, field)| (schema, table, at as i64 + 1, field))
            })
        };
        let types: Vec<String> =
            fields().map(|(_, _, _, field)| sql_type_name(field.data_type())).collect();
        let rows: Vec<[&str; 6]> = fields()
            .zip(&types)
            .map(|((schema, table, _, field), data_type)| {
                [
                    CATALOG_NAME,
                    schema.as_str(),
                    table.as_str(),
                    field.name().as_str(),
                    yes_no(field),
                    data_type.as_str(),
                ]
            })
            .collect();
        let names = [
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "is_nullable",
            "data_type",
        ];
        let mut columns = text_columns(names, &rows);
        let ordinals: ArrayRef = Arc::new(fields().map(|(_, _, at, _)| at).collect::<Int64Array>());
        columns.insert(4, ("ordinal_position", ordinals));
        batch(columns)
    }

    fn schemata(&self) -> Result<RecordBatch> {
        let schemas = self.catalog.schemas();
        let rows: Vec<[&str; 2]> =
            schemas.iter().map(|schema| [CATALOG_NAME, schema.as_str()]).collect();
        texts(["catalog_name", "schema_name"], &rows)
    }

    fn views(&self) -> Result<RecordBatch> {
        let entries = self.catalog.entries();
        let rows: Vec<[&str; 4]> = entries
            .iter()
            .filter_map(|(schema, name, entry)| match entry {
                Entry::View { definition, .. } => {
                    Some([CATALOG_NAME, schema.as_str(), name.as_str(), definition.sql.as_str()])
                }
                Entry::MaterializedView { definition, .. } => {
                    Some([CATALOG_NAME, schema.as_str(), name.as_str(), definition.as_str()])
                }
                Entry::Table { .. } => None,
            })
            .collect();
        texts(["table_catalog", "table_schema", "table_name", "view_definition"], &rows)
    }

    fn routines(&self) -> Result<RecordBatch> {
        let names = self.functions.names();
        let rows: Vec<[&str; 4]> = names
            .iter()
            .map(|(name, kind)| [CATALOG_NAME, "public", name.as_str(), kind_name(*kind)])
            .collect();
        texts(["routine_catalog", "routine_schema", "routine_name", "function_type"], &rows)
    }

    /// All settings, as SHOW ALL lists them.
    pub fn settings(&self) -> Result<RecordBatch> {
        let entries = self.settings.list();
        let rows: Vec<[&str; 3]> =
            entries.iter().map(|e| [e.name, e.value.as_str(), e.description]).collect();
        texts(["name", "value", "description"], &rows)
    }

    /// One setting, as SHOW shows it: a column of its name with its value.
    pub fn setting(&self, name: &str) -> Result<RecordBatch> {
        let value = self.settings.get(name)?.to_string();
        texts([name], &[[value.as_str()]])
    }

    /// Tables and views, or views only, as SHOW TABLES and SHOW VIEWS list them.
    pub fn relations(&self, views_only: bool) -> Result<RecordBatch> {
        let entries = self.catalog.entries();
        let wanted = |entry: &Entry| !views_only || !matches!(entry, Entry::Table { .. });
        let rows: Vec<[&str; 3]> = entries
            .iter()
            .filter(|(_, _, entry)| wanted(entry))
            .map(|(schema, name, entry)| [schema.as_str(), name.as_str(), entry.kind()])
            .collect();
        texts(["table_schema", "table_name", "table_type"], &rows)
    }

    /// All schemas, as SHOW SCHEMAS lists them.
    pub fn schemas(&self) -> Result<RecordBatch> {
        let schemas = self.catalog.schemas();
        let rows: Vec<[&str; 1]> = schemas.iter().map(|schema| [schema.as_str()]).collect();
        texts(["schema_name"], &rows)
    }

    /// All functions, as SHOW FUNCTIONS lists them.
    pub fn functions(&self) -> Result<RecordBatch> {
        let names = self.functions.names();
        let rows: Vec<[&str; 2]> =
            names.iter().map(|(name, kind)| [name.as_str(), kind_name(*kind)]).collect();
        texts(["function_name", "function_type"], &rows)
    }
}

/// The columns of something, as DESCRIBE and SHOW COLUMNS list them.
pub fn describe(schema: &Schema) -> Result<RecordBatch> {
    let types: Vec<String> = schema.fields().iter().map(|f| sql_type_name(f.data_type())).collect();
    let rows: Vec<[&str; 3]> = schema
        .fields()
        .iter()
        .zip(&types)
        .map(|(field, data_type)| [field.name().as_str(), data_type.as_str(), yes_no(field)])
        .collect();
    texts(["column_name", "data_type", "is_nullable"], &rows)
}

/// A batch of text columns from rows.
pub fn texts<const N: usize>(names: [&str; N], rows: &[[&str; N]]) -> Result<RecordBatch> {
    batch(text_columns(names, rows))
}

fn text_columns<'a, const N: usize>(
    names: [&'a str; N],
    rows: &[[&str; N]],
) -> Vec<(&'a str, ArrayRef)> {
    let column = |at: usize| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row[at])))
    };
    names.into_iter().enumerate().map(|(at, name)| (name, column(at))).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), false);
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| field(name, array.data_type())).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn yes_no(field: &Field) -> &'static str {
    if field.is_nullable() { "YES" } else { "NO" }
}

fn kind_name(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Scalar => "SCALAR",
        FunctionKind::Aggregate => "AGGREGATE",
        FunctionKind::Window => "WINDOW",
    }
}
