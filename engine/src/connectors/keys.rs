//! The keys of a table in memory: no two of its rows have the same key.
//!
//! Invariant: after a call that went well the index holds the keys of the rows that the table has then. After one that
//! failed it is stale, and the next call fills it anew from the rows that are there. NULLs are keys in no UNIQUE
//! constraint; that a primary key has none is the schema's business.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use arrow::util::display::array_value_to_string;
use datafusion_common::{Constraint, Constraints};
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::rows::Selected;
use thalweg_runtime::state::KeyedState;
use thalweg_runtime::{Error, Result};

/// All keys of one table.
#[derive(Debug)]
pub struct Keys {
    table: String,
    keys: Vec<Key>,
    stale: bool,
}

#[derive(Debug)]
struct Key {
    kind: Kind,
    columns: Vec<usize>,
    seen: KeyedState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Primary,
    Unique,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Primary => "primary key",
            Kind::Unique => "unique key",
        })
    }
}

impl Keys {
    /// The keys of an empty table; what they hold is charged to `memory`. Types that cannot be keys are errors.
    pub fn new(
        table: &str,
        schema: &Schema,
        constraints: &Constraints,
        memory: &Arc<MemoryManager>,
    ) -> Result<Keys> {
        let key = |constraint: &Constraint| {
            let (kind, columns) = match constraint {
                Constraint::PrimaryKey(columns) => (Kind::Primary, columns.clone()),
                Constraint::Unique(columns) => (Kind::Unique, columns.clone()),
            };
            let types: Vec<_> =
                columns.iter().map(|&at| schema.field(at).data_type().clone()).collect();
            let reservation = memory.reserve(format!("{kind} of table {table}"));
            Ok(Key { kind, columns, seen: KeyedState::new(&types, &[], reservation)? })
        };
        let keys = constraints.iter().map(key).collect::<Result<Vec<_>>>()?;
        Ok(Keys { table: table.to_string(), keys, stale: false })
    }

    /// Takes the keys of rows that come to those that the table holds; a key that is there twice is an error.
    pub fn add(&mut self, held: &[RecordBatch], added: &[RecordBatch]) -> Result<()> {
        if self.stale {
            return self.replace(held.iter().chain(added));
        }
        self.take(added.iter())
    }

    /// Takes the keys of rows that stand in the place of all others.
    pub fn replace<'a>(&mut self, rows: impl Iterator<Item = &'a RecordBatch>) -> Result<()> {
        self.keys.iter_mut().for_each(|key| key.seen.clear());
        self.take(rows)
    }

    fn take<'a>(&mut self, mut rows: impl Iterator<Item = &'a RecordBatch>) -> Result<()> {
        let table = &self.table;
        let keys = &mut self.keys;
        let taken =
            rows.try_for_each(|batch| keys.iter_mut().try_for_each(|k| k.take(table, batch)));
        self.stale = taken.is_err();
        taken
    }
}

impl Key {
    fn take(&mut self, table: &str, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|&at| batch.column(at).clone()).collect();
        let rows = without_nulls(&columns, batch.num_rows());
        let selected = Selected::new(batch.num_rows(), rows.as_deref());
        let (mut ids, mut new) = (Vec::new(), Vec::new());
        self.seen.lookup_or_insert(&columns, None, selected, &mut ids, &mut new)?;
        let mut new = new.into_iter().peekable();
        for i in 0..selected.len() {
            if new.next_if_eq(&selected.row(i)).is_none() {
                return Err(self.twice(table, batch, selected.row(i) as usize));
            }
        }
        Ok(())
    }

    fn twice(&self, table: &str, batch: &RecordBatch, row: usize) -> Error {
        let schema = batch.schema();
        let names: Vec<&str> =
            self.columns.iter().map(|&at| schema.field(at).name().as_str()).collect();
        let value = |at: &usize| array_value_to_string(batch.column(*at), row).unwrap_or_default();
        let values: Vec<String> = self.columns.iter().map(value).collect();
        Error::User {
            message: format!("two rows of the table \"{table}\" would have the same {}", self.kind),
            detail: Some(format!("The key ({}) is ({}).", names.join(", "), values.join(", "))),
            hint: None,
        }
    }
}

/// The rows without a NULL in any of the columns; `None` for all.
fn without_nulls(columns: &[ArrayRef], rows: usize) -> Option<Vec<u32>> {
    if columns.iter().all(|column| column.logical_null_count() == 0) {
        return None;
    }
    let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
    let whole = |row: &u32| nulls.iter().all(|nulls| nulls.is_valid(*row as usize));
    Some((0..rows as u32).filter(whole).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array};
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn batch(a: &[Option<i32>], b: &[f64]) -> RecordBatch {
        let fields =
            [Field::new("a", DataType::Int32, true), Field::new("b", DataType::Float64, true)];
        let a = Arc::new(Int32Array::from(a.to_vec()));
        let b = Arc::new(Float64Array::from(b.to_vec()));
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![a, b]).unwrap()
    }

    fn keys(constraint: Constraint) -> Keys {
        let schema = batch(&[], &[]).schema();
        let constraints = Constraints::new_unverified(vec![constraint]);
        Keys::new("t", &schema, &constraints, &MemoryManager::new(usize::MAX)).unwrap()
    }

    #[test]
    fn a_key_comes_once() {
        let mut keys = keys(Constraint::PrimaryKey(vec![0]));
        let first = batch(&[Some(1), Some(2)], &[0.0, 0.0]);
        keys.add(&[], std::slice::from_ref(&first)).unwrap();
        for twice in [[Some(3), Some(3)], [Some(4), Some(2)]] {
            let held = std::slice::from_ref(&first);
            assert!(keys.add(held, &[batch(&twice, &[0.0, 0.0])]).is_err());
            // What was not taken has left nothing.
            keys.add(held, &[]).unwrap();
        }
        let error = keys.add(&[first], &[batch(&[Some(1)], &[0.0])]).unwrap_err().to_string();
        assert!(error.contains("same primary key"), "{error}");
    }

    #[test]
    fn nulls_are_no_keys_and_zeros_are_one() {
        let mut unique = keys(Constraint::Unique(vec![0, 1]));
        let rows = batch(&[None, None, Some(1), Some(1)], &[1.0, 1.0, 1.0, 2.0]);
        unique.add(&[], &[rows]).unwrap();
        let mut zeros = keys(Constraint::Unique(vec![1]));
        assert!(zeros.add(&[], &[batch(&[None, None], &[0.0, -0.0])]).is_err());
        assert!(zeros.add(&[], &[batch(&[None, None], &[f64::NAN, -f64::NAN])]).is_err());
    }

    #[test]
    fn other_rows_bring_other_keys() {
        let mut keys = keys(Constraint::Unique(vec![0]));
        keys.add(&[], &[batch(&[Some(1)], &[0.0])]).unwrap();
        keys.replace([batch(&[Some(2)], &[0.0])].iter()).unwrap();
        keys.add(&[], &[batch(&[Some(1)], &[0.0])]).unwrap();
        assert!(keys.add(&[], &[batch(&[Some(2)], &[0.0])]).is_err());
    }
}
