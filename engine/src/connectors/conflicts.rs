//! A sink before another one: of the rows that have the same key one alone is there.
//!
//! It keeps the rows of each key that are alive in the order in which they came. DO NOTHING shows the first of them, DO
//! UPDATE the last, and DO ERROR fails on a second one. When the row that is shown goes, another takes its place. What
//! leaves are deletes and inserts of whole rows, at most one of each for a key in a batch, and none where nothing changes.
//! Refused: rows that replace others which nobody names.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use arrow::row::{OwnedRow, RowConverter, SortField};
use serde::{Deserialize, Serialize};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::element::{CheckpointId, RowKind};
use thalweg_runtime::memory::Reservation;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::{Error, Result};

/// The sink's registered name.
pub const CONFLICT_SINK: &str = "conflicts";

/// What the sink gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictSpec {
    /// The columns of the key, by position.
    pub key: Vec<usize>,
    /// `error`, `nothing` or `update`.
    pub action: String,
    /// The table's name, for messages.
    pub table: String,
    /// The sink behind it.
    pub sink: String,
    /// What that one gets.
    pub options: serde_json::Value,
}

/// Which row of a key is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    First,
    Last,
    Only,
}

/// Makes the writers.
#[derive(Debug, Default)]
pub struct ConflictSink;

impl SinkConnector for ConflictSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let spec: ConflictSpec = serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of a sink: {e}")))?;
        let shown = match spec.action.as_str() {
            "nothing" => Shown::First,
            "update" => Shown::Last,
            _ => Shown::Only,
        };
        Ok(Box::new(ConflictWriter {
            inner: cx.job.sink(&spec.sink)?.writer(&spec.options, cx)?,
            rows: ConflictRows { key: spec.key, shown, table: spec.table, kept: None },
            charge: cx.job.memory.reserve("rows of the same key"),
            ready: None,
        }))
    }
}

struct ConflictWriter {
    inner: Box<dyn SinkWriter>,
    rows: ConflictRows,
    charge: Reservation,
    /// What the sink behind has not taken.
    ready: Option<Batch>,
}

impl ConflictWriter {
    /// Hands on what is ready; gives what the sink behind says, once it is nothing but readiness.
    fn hand_on(&mut self, cx: &mut OperatorContext<'_>) -> Result<Option<SinkPoll>> {
        let Some(batch) = self.ready.take() else { return Ok(None) };
        match self.inner.write(batch, cx)? {
            SinkPoll::Ready => Ok(None),
            SinkPoll::Closed => Ok(Some(SinkPoll::Closed)),
            SinkPoll::Full(batch) => {
                self.ready = Some(batch.clone());
                Ok(Some(SinkPoll::Full(batch)))
            }
        }
    }
}

impl SinkWriter for ConflictWriter {
    fn write(&mut self, batch: Batch, cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        match self.hand_on(cx)? {
            None => {}
            Some(SinkPoll::Full(_)) => return Ok(SinkPoll::Full(batch)),
            Some(other) => return Ok(other),
        }
        self.ready = self.rows.take(&batch)?;
        self.charge.try_resize(self.rows.bytes())?;
        match self.hand_on(cx)? {
            Some(SinkPoll::Closed) => Ok(SinkPoll::Closed),
            // The batch itself was taken.
            _ => Ok(SinkPoll::Ready),
        }
    }

    fn commit(&mut self, id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<bool> {
        match self.hand_on(cx)? {
            Some(SinkPoll::Full(_)) => Ok(false),
            _ => self.inner.commit(id, cx),
        }
    }

    fn finish(&mut self, cx: &mut OperatorContext<'_>) -> Result<bool> {
        match self.hand_on(cx)? {
            Some(SinkPoll::Full(_)) => Ok(false),
            _ => self.inner.finish(cx),
        }
    }
}

/// The rows that are alive.
struct ConflictRows {
    key: Vec<usize>,
    shown: Shown,
    table: String,
    kept: Option<Kept>,
}

/// Rows by their keys, in the row form of Arrow.
struct Kept {
    keys: RowConverter,
    rows: RowConverter,
    schema: Schema,
    alive: HashMap<OwnedRow, Vec<OwnedRow>>,
    bytes: usize,
}

impl ConflictRows {
    fn bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes)
    }

    /// Takes a batch; gives what changes in what is shown.
    fn take(&mut self, batch: &Batch) -> Result<Option<Batch>> {
        let kept = match &mut self.kept {
            Some(kept) => kept,
            none => none.insert(Kept::of(batch.columns(), &self.key)?),
        };
        let columns: Vec<ArrayRef> = self.key.iter().map(|&at| batch.column(at).clone()).collect();
        let keys = kept.keys.convert_columns(&columns)?;
        let rows = kept.rows.convert_columns(batch.columns())?;
        // What was shown of each key before, in the order in which they are touched.
        let mut touched: BTreeMap<OwnedRow, (usize, Option<OwnedRow>)> = BTreeMap::new();
        for at in 0..batch.num_rows() {
            let (key, row) = (keys.row(at).owned(), rows.row(at).owned());
            let alive = kept.alive.entry(key.clone()).or_default();
            let shown = self.shown;
            touched.entry(key).or_insert_with(|| (at, of(shown, alive).cloned()));
            let size = row.as_ref().len() + std::mem::size_of::<OwnedRow>();
            match batch.kinds().map_or(RowKind::Insert, |kinds| kinds[at]) {
                RowKind::Insert => {
                    kept.bytes += size;
                    alive.push(row);
                }
                RowKind::Delete => {
                    if let Some(place) = alive.iter().rposition(|other| *other == row) {
                        kept.bytes -= size;
                        alive.remove(place);
                    }
                }
                RowKind::Upsert => {
                    return Err(Error::Internal("a row that replaces an unknown one".into()));
                }
            }
        }
        let mut touched: Vec<_> = touched.into_iter().collect();
        touched.sort_by_key(|(_, (at, _))| *at);
        let (mut told, mut kinds) = (Vec::new(), Vec::new());
        for (key, (_, before)) in touched {
            let alive = kept.alive.get(&key).map(Vec::as_slice).unwrap_or_default();
            if self.shown == Shown::Only && alive.len() > 1 {
                return Err(twice(&self.table, kept, &key)?);
            }
            let after = of(self.shown, alive).cloned();
            if alive.is_empty() {
                kept.alive.remove(&key);
            }
            if before != after {
                told.extend(before.into_iter().inspect(|_| kinds.push(RowKind::Delete)));
                told.extend(after.into_iter().inspect(|_| kinds.push(RowKind::Insert)));
            }
        }
        if told.is_empty() {
            return Ok(None);
        }
        let columns = kept.rows.convert_rows(told.iter().map(OwnedRow::row))?;
        let mut out = Batch::new(columns, told.len());
        out.ingest_time_us = batch.ingest_time_us;
        Ok(Some(match kinds.contains(&RowKind::Delete) {
            true => out.with_kinds(kinds.into()),
            false => out,
        }))
    }
}

impl Kept {
    fn of(columns: &[ArrayRef], key: &[usize]) -> Result<Self> {
        let field = |column: &ArrayRef| SortField::new(column.data_type().clone());
        let keys = key.iter().map(|&at| field(&columns[at])).collect();
        let schema =
            key.iter().map(|at| Field::new(at.to_string(), columns[*at].data_type().clone(), true));
        Ok(Kept {
            keys: RowConverter::new(keys)?,
            rows: RowConverter::new(columns.iter().map(field).collect())?,
            schema: Schema::new(schema.collect::<Vec<_>>()),
            alive: HashMap::new(),
            bytes: 0,
        })
    }
}

fn of(shown: Shown, alive: &[OwnedRow]) -> Option<&OwnedRow> {
    match shown {
        Shown::First | Shown::Only => alive.first(),
        Shown::Last => alive.last(),
    }
}

fn twice(table: &str, kept: &Kept, key: &OwnedRow) -> Result<Error> {
    let columns = kept.keys.convert_rows([key.row()])?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(kept.schema.clone().into(), columns, &options)?;
    let value = |column: &ArrayRef| {
        arrow::util::display::array_value_to_string(column, 0).unwrap_or_default()
    };
    let values: Vec<String> = row.columns().iter().map(value).collect();
    Ok(Error::User {
        message: format!("two rows for the table \"{table}\" have the same primary key"),
        detail: Some(format!("The key is ({}).", values.join(", "))),
        hint: Some("ON CONFLICT DO UPDATE or DO NOTHING says which of them counts".into()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;
    use RowKind::{Delete, Insert};

    fn rows(shown: Shown) -> ConflictRows {
        ConflictRows { key: vec![0], shown, table: "t".into(), kept: None }
    }

    fn batch(rows: &[(RowKind, i64, i64)]) -> Batch {
        let column = |of: fn(&(RowKind, i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let kinds: Vec<RowKind> = rows.iter().map(|row| row.0).collect();
        let batch = Batch::new(vec![column(|row| row.1), column(|row| row.2)], rows.len());
        batch.with_kinds(kinds.into())
    }

    fn told(rows: &mut ConflictRows, changes: &[(RowKind, i64, i64)]) -> Vec<(RowKind, i64, i64)> {
        let Some(out) = rows.take(&batch(changes)).unwrap() else { return Vec::new() };
        let value =
            |column: usize, at: usize| out.column(column).as_primitive::<Int64Type>().value(at);
        let kind = |at: usize| out.kinds().map_or(Insert, |kinds| kinds[at]);
        (0..out.num_rows()).map(|at| (kind(at), value(0, at), value(1, at))).collect()
    }

    #[test]
    fn the_last_row_is_shown_and_the_one_before_comes_back() {
        let mut last = rows(Shown::Last);
        assert_eq!(told(&mut last, &[(Insert, 1, 10), (Insert, 1, 11)]), [(Insert, 1, 11)]);
        assert_eq!(told(&mut last, &[(Insert, 1, 12)]), [(Delete, 1, 11), (Insert, 1, 12)]);
        assert_eq!(told(&mut last, &[(Delete, 1, 12)]), [(Delete, 1, 12), (Insert, 1, 11)]);
        assert_eq!(told(&mut last, &[(Delete, 1, 10)]), []);
        assert_eq!(told(&mut last, &[(Delete, 1, 11)]), [(Delete, 1, 11)]);
        assert_eq!(last.bytes(), 0);
    }

    #[test]
    fn the_first_row_stays() {
        let mut first = rows(Shown::First);
        assert_eq!(told(&mut first, &[(Insert, 1, 10), (Insert, 1, 11)]), [(Insert, 1, 10)]);
        assert_eq!(told(&mut first, &[(Insert, 1, 12), (Insert, 2, 5)]), [(Insert, 2, 5)]);
        assert_eq!(told(&mut first, &[(Delete, 1, 10)]), [(Delete, 1, 10), (Insert, 1, 11)]);
    }

    #[test]
    fn a_second_row_is_an_error_unless_the_first_goes_with_it() {
        let mut only = rows(Shown::Only);
        assert_eq!(told(&mut only, &[(Insert, 1, 10)]), [(Insert, 1, 10)]);
        let moved = [(Insert, 1, 11), (Delete, 1, 10)];
        assert_eq!(told(&mut only, &moved), [(Delete, 1, 10), (Insert, 1, 11)]);
        let error = only.take(&batch(&[(Insert, 1, 12)])).unwrap_err().to_string();
        assert!(error.contains("same primary key"), "{error}");
    }
}
