//! Objects as rows or changes, in the conventions of the format, whatever the text comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::datatypes::{Schema, SchemaRef};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::{Error, Result};

use super::instants;
use super::table::RowFormat;
use crate::connectors::debezium::{self, Changes};
use crate::connectors::json::{JsonLayout, JsonRecords};
use crate::connectors::rejects::{BadRecords, Rejects};
use crate::connectors::scan::apply_mask;
use crate::connectors::text::{Block, Decoded};

/// How objects are read.
pub struct ObjectRecords {
    records: JsonRecords,
    format: RowFormat,
    /// The columns that are read, in the table's types.
    columns: SchemaRef,
}

impl ObjectRecords {
    /// Reads these columns of objects, one a line.
    pub fn new(
        format: RowFormat,
        columns: &SchemaRef,
        bad_records: BadRecords,
        batch_rows: usize,
    ) -> Self {
        let decoded = columns.fields().iter().map(|field| instants::decoded(field));
        let decoded = Schema::new(decoded.collect::<Vec<_>>());
        let schema = match format {
            RowFormat::Json => Arc::new(decoded),
            RowFormat::DebeziumJson => debezium::schema(&decoded),
        };
        let records = JsonRecords {
            layout: JsonLayout::Lines,
            rejects: Rejects::new(bad_records),
            schema,
            constants: Vec::new(),
            batch_rows,
            places: Vec::new(),
        };
        ObjectRecords { records, format, columns: columns.clone() }
    }

    /// The objects that could not be read.
    pub fn rejects(&mut self) -> &mut Rejects {
        &mut self.records.rejects
    }

    /// Where the object of each row of the last batch begins and ends in the block.
    pub fn places(&self) -> &[(usize, usize)] {
        &self.records.places
    }

    /// Takes a batch of objects from a block of a text called `name`.
    pub fn decode(&mut self, block: &mut Block, name: &str) -> Result<Decoded> {
        let (decoded, rows) = match self.records.decode(block, name)? {
            Decoded::Rows(decoded, rows) if rows > 0 => (decoded, rows),
            other => return Ok(other),
        };
        let changes = match self.format {
            RowFormat::Json => Changes {
                columns: decoded,
                kinds: vec![RowKind::Insert; rows].into(),
                origins: (0..rows).collect(),
            },
            RowFormat::DebeziumJson => {
                let JsonRecords { rejects, places, .. } = &mut self.records;
                let mut bad =
                    |change: usize, error| rejects.reject(block, places[change], || error);
                debezium::changes(&decoded, name, &mut bad)?
            }
        };
        let (columns, kinds) = self.finished(changes, block, name)?;
        self.records.rejects.place(block);
        Ok(match self.format {
            // Nothing was left of the batch.
            _ if kinds.is_empty() => Decoded::Rows(Vec::new(), 0),
            RowFormat::Json => Decoded::Rows(columns, kinds.len()),
            RowFormat::DebeziumJson => Decoded::Changes(columns, kinds),
        })
    }

    /// The rows in the table's types, without those of objects whose points in time are none.
    fn finished(
        &mut self,
        changes: Changes,
        block: &Block,
        name: &str,
    ) -> Result<(Vec<ArrayRef>, Arc<[RowKind]>)> {
        let Changes { mut columns, mut kinds, mut origins } = changes;
        let in_types = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
            let columns = columns.iter().zip(self.columns.fields());
            columns.map(|(column, field)| instants::finished(column, field, name)).collect()
        };
        let finished = match in_types(&columns) {
            Ok(finished) => finished,
            Err(_) => {
                let bad = self.without_times(&columns, &origins, name);
                for (&object, error) in &bad {
                    let place = self.records.places[object];
                    self.records.rejects.reject(block, place, || error.clone())?;
                }
                let bad: BTreeSet<usize> = bad.into_keys().collect();
                let mut kept = BooleanBufferBuilder::new(origins.len());
                origins.iter().for_each(|object| kept.append(!bad.contains(object)));
                let kept = kept.finish();
                apply_mask(&mut columns, &kept)?;
                kinds = kept.set_indices().map(|row| kinds[row]).collect();
                origins.retain(|object| !bad.contains(object));
                in_types(&columns)?
            }
        };
        let places = &self.records.places;
        self.records.places = origins.iter().map(|&object| places[object]).collect();
        Ok((finished, kinds))
    }

    /// The objects that have a value which is no point in time, each with the first error.
    fn without_times(
        &self,
        columns: &[ArrayRef],
        origins: &[usize],
        name: &str,
    ) -> BTreeMap<usize, Error> {
        let mut bad = BTreeMap::new();
        for (column, field) in columns.iter().zip(self.columns.fields()) {
            for (row, &object) in origins.iter().enumerate() {
                if let Err(error) = instants::finished(&column.slice(row, 1), field, name) {
                    bad.entry(object).or_insert(error);
                }
            }
        }
        bad
    }
}
