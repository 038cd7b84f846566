//! The connector "stdin": records from standard input as they come in.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use thalweg_runtime::job::JobContext;
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::metadata::MetadataKey;
use super::registry::TableDefinition;
use super::streaming::feed::ByteOrigin;
use super::streaming::text::{self, TextFormat};
use super::streaming::{ConnectorOptions, ConnectorTable};
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "stdin";

/// Who reads standard input now: two readers would take each other's lines.
static READER: LazyLock<Mutex<Weak<()>>> = LazyLock::new(Mutex::default);

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_files(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let text = TextFormat::new(
        definition.format.as_deref(),
        &schema,
        &mut options,
        definition.dead_letters,
    )?;
    options.finish()?;
    let value = serde_json::to_value(&text)
        .map_err(|e| error::Error::internal(format!("the options of standard input: {e}")))?;
    let table = ConnectorTable::unbounded(CONNECTOR, value, schema, definition.constraints);
    Ok(table.withdrawing(text.withdraws()).knowing(MetadataKey::OF_TEXT))
}

/// Reads standard input.
#[derive(Debug, Default)]
pub struct StdinConnector;

impl SourceConnector for StdinConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let text: TextFormat = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of standard input: {e}")))?;
        Ok(text::open(spec, Arc::new(Stdin::claim()?), text, job))
    }
}

struct Stdin {
    _claim: Arc<()>,
}

impl Stdin {
    fn claim() -> Result<Self> {
        let mut reader = READER.lock();
        if reader.strong_count() > 0 {
            return Err(Error::User {
                message: "standard input is being read already".into(),
                detail: None,
                hint: Some("a query can read it once, and only one query at a time".into()),
            });
        }
        let claim = Arc::new(());
        *reader = Arc::downgrade(&claim);
        Ok(Stdin { _claim: claim })
    }
}

impl ByteOrigin for Stdin {
    fn name(&self) -> String {
        "standard input".into()
    }

    fn open(&self) -> io::Result<File> {
        Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reader_at_a_time() {
        let first = Stdin::claim().unwrap();
        assert!(Stdin::claim().is_err());
        drop(first);
        Stdin::claim().unwrap();
    }
}
