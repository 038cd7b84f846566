//! INSERT statements, one a row, with literals that our own parser reads back as the same values.

use super::literal::Literals;
use super::*;

/// See the module.
pub(super) struct Insert {
    table: String,
    head: String,
}

impl Insert {
    pub(super) fn new(table: &str) -> Self {
        Insert { table: quoted_path(table), head: String::new() }
    }
}

impl ResultFormat for Insert {
    fn begin(&mut self, schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        let names: Vec<String> = schema.fields().iter().map(|f| quoted_name(f.name())).collect();
        self.head = format!("INSERT INTO {} ({}) VALUES (", self.table, names.join(", "));
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns = batch.columns().iter().map(Literals::new).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            out.extend_from_slice(self.head.as_bytes());
            for (column, literals) in columns.iter().enumerate() {
                if column > 0 {
                    out.extend_from_slice(b", ");
                }
                literals.write(row, out);
            }
            out.extend_from_slice(b");\n");
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// A table's name as the user wrote it, each of its parts in double quotes; parts that are quoted already keep theirs.
fn quoted_path(name: &str) -> String {
    let (mut parts, mut rest) = (Vec::new(), name);
    loop {
        let end = match rest.strip_prefix('"').and_then(quoted_end) {
            Some(inner) => inner + 1,
            None => rest.find('.').unwrap_or(rest.len()),
        };
        let (part, behind) = rest.split_at(end);
        let quoted = part.len() > 1 && part.starts_with('"') && part.ends_with('"');
        parts.push(if quoted { part.to_string() } else { quoted_name(part) });
        match behind.strip_prefix('.') {
            Some(next) => rest = next,
            None => return parts.join("."),
        }
    }
}

/// Where a quoted part ends, its last quote included, when a point or the end of the name follows.
fn quoted_end(inner: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += inner[at..].find('"')? + 1;
        match inner.as_bytes().get(at) {
            Some(b'"') => at += 1,
            None | Some(b'.') => return Some(at),
            Some(_) => return None,
        }
    }
}

/// A name in double quotes, so that it may be any.
fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
