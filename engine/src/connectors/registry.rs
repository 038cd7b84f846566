//! Connectors by the names that users give them: from the definition of a table to the table.
//!
//! Each connector takes what it knows of a definition and refuses the rest; nothing is dropped in silence.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Constraints;
use thalweg_planner::suggest;

use super::{
    blackhole, datagen, filesystem, memory, nexmark, print, single_file, socket, stdin, stdout,
};
use crate::catalog::Table;
use crate::error::{Error, Report, Result};

/// The names that stand behind `connector`.
const NAMES: [&str; 10] = [
    blackhole::CONNECTOR,
    datagen::CONNECTOR,
    filesystem::CONNECTOR,
    memory::CONNECTOR,
    nexmark::CONNECTOR,
    print::CONNECTOR,
    single_file::CONNECTOR,
    socket::CONNECTOR,
    stdin::CONNECTOR,
    stdout::CONNECTOR,
];

/// The option that names the table of records which cannot be read.
pub(crate) const DEAD_LETTERS: &str = "dead-letter.table";

/// Which tables have a connector.
pub(crate) const HOW_TO_NAME_ONE: &str = "A table over files has WITH ('connector' = 'filesystem', 'path' = '…'); a table \
                                          in memory has no WITH.";

/// What a user has said about a table.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// Its name, for messages.
    pub name: String,
    /// The option `connector`.
    pub connector: String,
    /// The option `format`.
    pub format: Option<String>,
    /// The option `path` and what stands behind LOCATION.
    pub locations: Vec<String>,
    /// The columns that are stored; `None` when they are to be found out.
    pub schema: Option<SchemaRef>,
    /// Declared keys, by positions among the columns that are stored.
    pub constraints: Constraints,
    /// All other options, in the order written.
    pub options: Vec<(String, String)>,
    /// Columns that are encoded in paths.
    pub partition_columns: Vec<String>,
    /// The number of the table in memory that takes records which cannot be read.
    pub dead_letters: Option<u64>,
}

impl TableDefinition {
    /// The columns, for connectors that cannot find them out.
    pub fn columns(&self, connector: &str) -> Result<SchemaRef> {
        self.schema.clone().filter(|schema| !schema.fields().is_empty()).ok_or_else(|| {
            let report = Report::new(format!(
                "the columns of \"{}\" must be declared: \"{connector}\" cannot find them out",
                self.name
            ));
            Error::catalog(report.with_hint("CREATE TABLE t (a BIGINT, …) WITH (…)".to_string()))
        })
    }

    /// Refuses what only concerns connectors that read bytes.
    pub fn refuse_format(&self, connector: &str) -> Result<()> {
        if self.format.is_some() {
            return Err(no_such(connector, "format"));
        }
        self.refuse_files(connector)
    }

    /// Refuses what only concerns files.
    pub fn refuse_files(&self, connector: &str) -> Result<()> {
        if !self.locations.is_empty() {
            return Err(no_such(connector, "path"));
        }
        if !self.partition_columns.is_empty() {
            let report = Report::new(format!("\"{connector}\" has no folders to partition by"));
            return Err(Error::catalog(report));
        }
        Ok(())
    }
}

/// The table of a definition. Blocks when files are looked at.
pub fn create(definition: TableDefinition) -> Result<Arc<dyn Table>> {
    let name = definition.connector.to_ascii_lowercase();
    let reads_text = [filesystem::CONNECTOR, single_file::CONNECTOR, socket::CONNECTOR];
    let reads_text = reads_text.contains(&name.as_str()) || name == stdin::CONNECTOR;
    if definition.dead_letters.is_some() && !reads_text && NAMES.contains(&name.as_str()) {
        return Err(no_such(&name, DEAD_LETTERS));
    }
    Ok(match name.as_str() {
        blackhole::CONNECTOR => Arc::new(blackhole::table(definition)?),
        datagen::CONNECTOR => Arc::new(datagen::table(definition)?),
        filesystem::CONNECTOR => filesystem::table(definition)?,
        nexmark::CONNECTOR => Arc::new(nexmark::table(definition)?),
        print::CONNECTOR => Arc::new(print::table(definition)?),
        single_file::CONNECTOR => single_file::table(definition)?,
        socket::CONNECTOR => Arc::new(socket::table(definition)?),
        stdin::CONNECTOR => Arc::new(stdin::table(definition)?),
        stdout::CONNECTOR => Arc::new(stdout::table(definition)?),
        _ => return Err(no_connector(&definition.connector)),
    })
}

fn no_connector(name: &str) -> Error {
    let hint = suggest::did_you_mean(name, NAMES).unwrap_or_else(|| HOW_TO_NAME_ONE.to_string());
    let report = Report::new(format!("there is no connector \"{name}\""))
        .with_detail(format!("The connectors are: {}.", NAMES.join(", ")));
    Error::Unsupported(Box::new(report.with_hint(hint)))
}

fn no_such(connector: &str, option: &str) -> Error {
    let report = Report::new(format!("the connector \"{connector}\" has no option \"{option}\""));
    Error::catalog(report)
}
