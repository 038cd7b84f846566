//! JSON: one array of objects, or one object a line. Columns of one name stay separate pairs.

use super::cell::Cells;
use super::*;

/// See the module.
pub(super) struct Json {
    lines: bool,
    keys: Vec<Vec<u8>>,
    rows: usize,
    text: String,
}

impl Json {
    /// One array.
    pub(super) fn array() -> Self {
        Json { lines: false, keys: Vec::new(), rows: 0, text: String::new() }
    }

    /// One object a line.
    pub(super) fn lines() -> Self {
        Json { lines: true, ..Json::array() }
    }
}

impl ResultFormat for Json {
    fn begin(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<()> {
        self.keys = schema.fields().iter().map(|f| format!("{}:", serde_json::Value::from(f.name().as_str())).into_bytes()).collect();
        if !self.lines {
            out.push(b'[');
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch)?;
        for row in 0..batch.num_rows() {
            if self.rows > 0 {
                out.extend_from_slice(if self.lines { b"\n" } else { b",\n" });
            }
            self.rows += 1;
            out.push(b'{');
            for (column, key) in self.keys.iter().enumerate() {
                if column > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(key);
                self.text.clear();
                if !cells.append(row, column, &mut self.text)? {
                    self.text.push_str("null");
                }
                out.extend_from_slice(self.text.as_bytes());
            }
            out.push(b'}');
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.lines {
            out.push(b']');
        }
        if !self.lines || self.rows > 0 {
            out.push(b'\n');
        }
        Ok(())
    }
}
