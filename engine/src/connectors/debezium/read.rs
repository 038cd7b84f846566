//! Changes as they are read: each is one row or two, with what becomes of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use thalweg_runtime::element::RowKind;
use thalweg_runtime::{Error, Result};

/// A column that no row has, where no column of the table is read.
const NONE: &str = "\u{1}none";

/// The columns in which the decoder gives changes of rows with these columns.
pub fn schema(row: &Schema) -> SchemaRef {
    let fields = match row.fields().is_empty() {
        true => Fields::from(vec![Field::new(NONE, DataType::Utf8, true)]),
        false => row.fields().clone(),
    };
    let side = |name: &str| Field::new(name, DataType::Struct(fields.clone()), true);
    let change = vec![side("before"), side("after"), Field::new("op", DataType::Utf8, true)];
    let payload = Field::new("payload", DataType::Struct(change.clone().into()), true);
    Arc::new(Schema::new([change, vec![payload]].concat()))
}

/// The parts of changes.
struct Parts<'a> {
    before: &'a StructArray,
    after: &'a StructArray,
    op: &'a StringArray,
}

/// Rows, in their order.
pub struct Changes {
    /// Their columns.
    pub columns: Vec<ArrayRef>,
    /// What becomes of each.
    pub kinds: Arc<[RowKind]>,
    /// The number of the change that each comes from.
    pub origins: Vec<usize>,
}

/// The rows of changes. `columns` are those of [`schema`]; `file` is named in errors. A change that says too little is
/// told to `bad` by its number, and left out if that goes well.
pub fn changes(
    columns: &[ArrayRef],
    file: &str,
    bad: &mut dyn FnMut(usize, Error) -> Result<()>,
) -> Result<Changes> {
    let [before, after, op, payload] = columns else {
        return Err(Error::Internal("changes without their four columns".into()));
    };
    let payload = payload.as_struct();
    let plain = parts(before, after, op);
    let wrapped = parts(payload.column(0), payload.column(1), payload.column(2));
    // Where a row lies: in which of the sides below, and at which place.
    let sides = [plain.before, plain.after, wrapped.before, wrapped.after];
    let (mut places, mut kinds) = (Vec::with_capacity(op.len()), Vec::with_capacity(op.len()));
    let mut origins = Vec::with_capacity(op.len());
    for row in 0..op.len() {
        let (first, change) = match payload.is_valid(row) {
            true => (2, &wrapped),
            false => (0, &plain),
        };
        let wrong = |what: &str| bad_change(change, row, what, file);
        let (removes, adds) = match change.op.is_valid(row).then(|| change.op.value(row)) {
            Some("c" | "r") => (false, true),
            Some("u") => (true, true),
            Some("d") => (true, false),
            _ => {
                bad(row, wrong("has no op c, r, u or d"))?;
                continue;
            }
        };
        let lacks = match (removes, adds) {
            (true, _) if change.before.is_null(row) => Some("has no row \"before\" it"),
            (_, true) if change.after.is_null(row) => Some("has no row \"after\" it"),
            _ => None,
        };
        if let Some(lacks) = lacks {
            bad(row, wrong(lacks))?;
            continue;
        }
        if removes {
            places.push((first, row));
            kinds.push(RowKind::Delete);
            origins.push(row);
        }
        if adds {
            places.push((first + 1, row));
            kinds.push(RowKind::Insert);
            origins.push(row);
        }
    }
    let columns = (0..plain.before.num_columns()).map(|column| {
        let values: Vec<&dyn Array> =
            sides.iter().map(|side| side.column(column).as_ref()).collect();
        interleave(&values, &places)
    });
    let columns = columns.collect::<std::result::Result<_, _>>()?;
    Ok(Changes { columns, kinds: kinds.into(), origins })
}

fn parts<'a>(before: &'a ArrayRef, after: &'a ArrayRef, op: &'a ArrayRef) -> Parts<'a> {
    Parts { before: before.as_struct(), after: after.as_struct(), op: op.as_string() }
}

fn bad_change(change: &Parts<'_>, row: usize, what: &str, file: &str) -> Error {
    let op = match change.op.is_valid(row) {
        true => format!("\"{}\"", change.op.value(row)),
        false => "null".to_string(),
    };
    Error::User {
        message: format!("a change in \"{file}\" {what}"),
        detail: Some(format!("its op is {op}")),
        hint: Some("rows before a change need REPLICA IDENTITY FULL in PostgreSQL".into()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int64Type;
    use arrow::json::ReaderBuilder;

    use super::*;

    fn read(text: &str) -> Result<Changes> {
        let row = Schema::new(vec![Field::new("k", DataType::Int64, true)]);
        let mut decoder = ReaderBuilder::new(schema(&row)).build_decoder().unwrap();
        decoder.decode(text.as_bytes()).unwrap();
        changes(decoder.flush().unwrap().unwrap().columns(), "f", &mut |_, error| Err(error))
    }

    #[test]
    fn a_change_is_a_row_or_two() {
        let text = r#"{"before":null,"after":{"k":1},"op":"c","ts_ms":5}
            {"payload":{"before":{"k":1},"after":{"k":2},"op":"u"},"schema":{}}
            {"before":null,"after":{"k":null},"op":"r"}
            {"before":{"k":2},"op":"d"}"#;
        let Changes { columns, kinds, origins } = read(text).unwrap();
        let values: Vec<Option<i64>> = columns[0].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(values, [Some(1), Some(1), Some(2), None, Some(2)]);
        use RowKind::{Delete, Insert};
        assert_eq!(kinds.as_ref(), [Insert, Delete, Insert, Insert, Delete]);
        assert_eq!(origins, [0, 1, 1, 2, 3]);
    }

    #[test]
    fn changes_that_say_too_little_are_errors() {
        for (text, part) in [
            (r#"{"after":{"k":1}}"#, "no op"),
            (r#"{"after":{"k":1},"op":"t"}"#, "no op"),
            (r#"{"after":{"k":1},"op":"u"}"#, "\"before\""),
            (r#"{"before":{"k":1},"op":"c"}"#, "\"after\""),
        ] {
            let Err(error) = read(text) else { panic!("{text}") };
            let error = error.to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn changes_are_counted_without_columns() {
        let mut decoder = ReaderBuilder::new(schema(&Schema::empty())).build_decoder().unwrap();
        decoder.decode(br#"{"after":{"k":1},"op":"c"}"#).unwrap();
        let batch = decoder.flush().unwrap().unwrap();
        let read = changes(batch.columns(), "f", &mut |_, error| Err(error)).unwrap();
        assert_eq!(read.kinds.len(), 1);
    }
}
