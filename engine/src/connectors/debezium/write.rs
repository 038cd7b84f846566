//! Changes as they are written.

use arrow::array::{DynComparator, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use thalweg_runtime::element::RowKind;
use thalweg_runtime::{Error, Result};

use crate::connectors::single_file::Objects;

/// Writes one line a change: without kinds all rows are added. A row that is taken away and the next one, of the same
/// key, that is added are one update; without a key there are none.
pub fn write_changes(
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
    objects: &Objects,
    key: Option<&[usize]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let kind = |row: usize| kinds.map_or(RowKind::Insert, |kinds| kinds[row]);
    let same_key = comparators(batch, kinds, key)?;
    let (mut row, rows) = (0, batch.num_rows());
    while row < rows {
        let next = row + 1;
        match kind(row) {
            RowKind::Insert => write_change(objects, None, Some(row), "c", out),
            RowKind::Delete
                if next < rows
                    && kind(next) == RowKind::Insert
                    && same_key
                        .as_ref()
                        .is_some_and(|key| key.iter().all(|c| c(row, next).is_eq())) =>
            {
                write_change(objects, Some(row), Some(next), "u", out);
                row += 1;
            }
            RowKind::Delete => write_change(objects, Some(row), None, "d", out),
            RowKind::Upsert => {
                return Err(Error::Unsupported(
                    "rows that replace unknown ones in debezium_json".into(),
                ));
            }
        }
        row += 1;
    }
    Ok(())
}

/// What compares the keys of rows; `None` where no update can be.
fn comparators(
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
    key: Option<&[usize]>,
) -> Result<Option<Vec<DynComparator>>> {
    let Some(key) = key else { return Ok(None) };
    if !kinds.is_some_and(|kinds| kinds.contains(&RowKind::Delete)) {
        return Ok(None);
    }
    let columns = key.iter().map(|&at| batch.column(at));
    let comparators =
        columns.map(|c| make_comparator(c.as_ref(), c.as_ref(), SortOptions::default()));
    Ok(Some(comparators.collect::<std::result::Result<_, _>>()?))
}

fn write_change(
    objects: &Objects,
    before: Option<usize>,
    after: Option<usize>,
    op: &str,
    out: &mut Vec<u8>,
) {
    let side = |row: Option<usize>, out: &mut Vec<u8>| match row {
        Some(row) => objects.write(row, out),
        None => out.extend_from_slice(b"null"),
    };
    out.extend_from_slice(b"{\"before\":");
    side(before, out);
    out.extend_from_slice(b",\"after\":");
    side(after, out);
    out.extend_from_slice(b",\"op\":\"");
    out.extend_from_slice(op.as_bytes());
    out.extend_from_slice(b"\"}\n");
}
