//! The names of indexes.
//!
//! An index is a declaration: scans read columns and skip by statistics, so that no query is answered from an index.
//! The names are kept, so that scripts which create and drop indexes mean what they say.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use thalweg_planner::{TableName, suggest};

use crate::error::{Error, Report, Result};

/// The declared indexes of a session, each with its table.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    tables: RwLock<BTreeMap<String, TableName>>,
}

impl Indexes {
    /// Declares an index; false when its name is taken and that is no error.
    pub(super) fn create(
        &self,
        name: &str,
        table: &TableName,
        if_not_exists: bool,
    ) -> Result<bool> {
        let mut tables = self.tables.write();
        if tables.contains_key(name) {
            if if_not_exists {
                return Ok(false);
            }
            let report = Report::new(format!("the index \"{name}\" already exists"));
            let hint = "CREATE INDEX IF NOT EXISTS keeps it.".to_string();
            return Err(Error::catalog(report.with_hint(hint)));
        }
        tables.insert(name.to_string(), table.clone());
        Ok(true)
    }

    /// Forgets an index; false when there is none and that is no error.
    pub(super) fn drop(&self, name: &str, if_exists: bool) -> Result<bool> {
        let mut tables = self.tables.write();
        if tables.remove(name).is_some() {
            return Ok(true);
        }
        if if_exists {
            return Ok(false);
        }
        let hint = suggest::did_you_mean(name, tables.keys().map(String::as_str));
        let report = Report::new(format!("the index \"{name}\" does not exist"));
        Err(Error::catalog(report.with_hint(hint)))
    }

    /// Forgets the indexes of a table that is dropped.
    pub(super) fn forget(&self, table: &TableName) {
        self.tables.write().retain(|_, of| of != table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once_and_end_with_their_table() {
        let indexes = Indexes::default();
        let table = TableName::bare("t");
        assert!(indexes.create("i", &table, false).unwrap());
        assert!(indexes.create("i", &table, false).is_err());
        assert!(!indexes.create("i", &table, true).unwrap());
        indexes.forget(&table);
        assert!(indexes.drop("i", false).is_err());
        assert!(!indexes.drop("i", true).unwrap());
    }
}
