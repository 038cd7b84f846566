//! Which columns a scan reads, and where each comes from in a file.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use thalweg_runtime::expr::cast_column;
use thalweg_runtime::source::SourceSpec;
use thalweg_runtime::{Error, Result};

use super::spec::{FileScan, ScanFile};
use crate::connectors::decoder::contained;
use crate::connectors::files::partition_value;
use crate::connectors::metadata::{self, RowOrigin};

/// The columns that a scan reads: those it delivers and those its filters look at, each once.
#[derive(Debug, Clone)]
pub struct ReadLayout {
    /// Positions in the table, ascending.
    pub columns: Vec<usize>,
    /// The columns read, with the table's types.
    pub schema: SchemaRef,
    /// For each delivered column but metadata its place among those read.
    pub output: Vec<usize>,
    /// The metadata among the delivered columns, with their places there, ascending.
    pub metadata: Vec<(usize, Field)>,
}

/// Where a column of the table comes from in one file.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSource {
    /// A column of the file, by its position there.
    File(usize),
    /// The same value for every row.
    Constant(ScalarValue),
}

impl ReadLayout {
    /// The layout of a spec.
    pub fn new(spec: &SourceSpec) -> Self {
        let own = spec.schema.fields().len();
        let mut columns: Vec<usize> =
            spec.projection.iter().copied().filter(|column| *column < own).collect();
        let delivered = spec.projection.iter().enumerate();
        let metadata = delivered.filter(|(_, column)| **column >= own);
        let metadata: Vec<(usize, Field)> =
            metadata.map(|(place, column)| (place, spec.metadata[column - own].clone())).collect();
        spec.filters.iter().for_each(|f| columns.extend(f.columns()));
        spec.runtime_filters.iter().for_each(|f| columns.extend(f.key.columns()));
        columns.sort_unstable();
        columns.dedup();
        let fields: Vec<_> = columns.iter().map(|&c| spec.schema.fields()[c].clone()).collect();
        let layout =
            ReadLayout { columns, schema: Arc::new(Schema::new(fields)), output: vec![], metadata };
        let output = spec.projection.iter().filter(|column| **column < own);
        ReadLayout { output: output.map(|&c| layout.place(c)).collect(), ..layout }
    }

    /// Whether there is metadata among the delivered columns.
    pub fn has_metadata(&self) -> bool {
        !self.metadata.is_empty()
    }

    /// Puts metadata among the other delivered columns of rows that are read now.
    pub fn add_metadata(
        &self,
        delivered: &mut Vec<ArrayRef>,
        origin: &RowOrigin,
        rows: usize,
        now_us: i64,
    ) -> Result<()> {
        let fields: Vec<Field> = self.metadata.iter().map(|(_, field)| field.clone()).collect();
        let arrays = metadata::columns(&fields, origin, rows, now_us)?;
        for ((place, _), array) in self.metadata.iter().zip(arrays) {
            delivered.insert(*place, array);
        }
        Ok(())
    }

    /// The place of a table column among those read.
    pub fn place(&self, column: usize) -> usize {
        self.columns.binary_search(&column).expect("every column used is among those read")
    }

    /// Where the columns read come from in a file with these columns. A column that the file lacks is NULL.
    pub fn sources(
        &self,
        table: &Schema,
        scan: &FileScan,
        file: &ScanFile,
        file_schema: &Schema,
    ) -> Result<Vec<ColumnSource>> {
        let own = table.fields().len() - scan.partition_columns.len();
        self.columns
            .iter()
            .map(|&c| {
                let field = table.field(c);
                if c >= own {
                    let text = file.partition.get(c - own).and_then(|v| v.as_deref());
                    return Ok(ColumnSource::Constant(partition_value(text, field.data_type())?));
                }
                match find_column(file_schema, field.name()) {
                    Some(index) => Ok(ColumnSource::File(index)),
                    None => Ok(ColumnSource::Constant(ScalarValue::try_from(field.data_type())?)),
                }
            })
            .collect()
    }
}

/// The column of this name, or else the only one whose name differs in case alone.
fn find_column(schema: &Schema, name: &str) -> Option<usize> {
    if let Ok(index) = schema.index_of(name) {
        return Some(index);
    }
    let mut near = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name().eq_ignore_ascii_case(name))
        .map(|(i, _)| i);
    near.next().filter(|_| near.next().is_none())
}

/// A column of one value.
pub fn constant(value: &ScalarValue, rows: usize) -> Result<ArrayRef> {
    if value.is_null() {
        return Ok(new_null_array(&value.data_type(), rows));
    }
    Ok(value.to_array_of_size(rows)?)
}

/// A decoded column in the table's type; a value that does not fit is an error that names file and column.
pub fn to_table_type(column: ArrayRef, to: &DataType, file: &str, name: &str) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(column);
    }
    let options = CastOptions { safe: false, ..Default::default() };
    // Arrow's casts between units of time may overflow on absurd values of a damaged file.
    let cast = contained(|| cast_column(&column, to, &options));
    let detail = match cast {
        Some(Ok(column)) => return Ok(column),
        Some(Err(error)) => error.to_string(),
        None => "a value is out of range".to_string(),
    };
    Err(Error::User {
        message: format!("column \"{name}\" of \"{file}\" cannot be read as {to}"),
        detail: Some(detail),
        hint: None,
    })
}
