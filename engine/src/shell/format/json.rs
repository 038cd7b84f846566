//! JSON: one array of objects, or one object a line. Of columns with one name all but the first get a number, as in a table
//! made of the query: an object has each key once.

use thalweg_planner::distinct_names;

use super::*;
use crate::connectors::write::format::write_json_rows;

/// See the module.
pub(super) struct Json {
    lines: bool,
    begun: bool,
    names: Vec<String>,
}

impl Json {
    /// One array.
    pub(super) fn array() -> Self {
        Json { lines: false, begun: false, names: Vec::new() }
    }

    /// One object a line.
    pub(super) fn lines() -> Self {
        Json { lines: true, begun: false, names: Vec::new() }
    }
}

impl ResultFormat for Json {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        self.names = distinct_names(names);
        if !self.lines {
            out.push(b'[');
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let (lines, mut begun) = (self.lines, self.begun);
        let separator = |_: usize, out: &mut Vec<u8>| {
            if std::mem::replace(&mut begun, true) {
                out.extend_from_slice(if lines { b"\n" } else { b",\n" });
            }
        };
        write_json_rows(&names, batch.columns(), batch.num_rows(), separator, out)?;
        self.begun = begun;
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.lines {
            out.push(b']');
        }
        if !self.lines || self.begun {
            out.push(b'\n');
        }
        Ok(())
    }
}
