//! Fold: gives the rows that are left of a changelog, once it has ended.
//!
//! All rows are kept as a multiset; what is withdrawn goes. At the end the rows that are left leave as inserts, in the
//! order in which they came, equal rows beside each other. Nothing leaves before the end, so that watermarks and
//! barriers pass without effect. What is kept is charged to a reservation and does not spill.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::job::JobContext;
use crate::rows::unpack;
use crate::state::{PairCursor, RowChanges, RowMultiset, RowMultisetOptions};

/// The changelog to fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoldSpec {
    /// Types of the columns.
    pub types: Vec<DataType>,
}

/// The running operator.
pub struct Fold {
    rows: RowMultiset,
    changes: RowChanges,
    batch_rows: usize,
    input: Option<Batch>,
    emitting: Option<Emitting>,
}

/// How far the rows have left.
struct Emitting {
    cursor: PairCursor,
    /// Rows that are listed, and how often the first of them has left.
    ids: Vec<u32>,
    first: usize,
    done: i64,
}

impl Fold {
    /// An empty one.
    ///
    /// # Errors
    /// `Unsupported` for types that cannot be kept in rows.
    pub fn new(spec: &FoldSpec, job: &JobContext) -> Result<Self> {
        let options = RowMultisetOptions {
            types: &spec.types,
            keys: &[],
            withdrawn: true,
            forgetful: false,
            slots: 0,
            operator: "Fold",
        };
        Ok(Fold {
            rows: RowMultiset::new(&options, &job.memory.reserve("Fold"))?,
            changes: RowChanges::default(),
            batch_rows: job.options.batch_rows.max(1),
            input: None,
            emitting: None,
        })
    }

    fn apply(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let columns = batch.columns().iter().map(unpack).collect::<Result<Vec<_>>>()?;
        self.rows.apply(&columns, batch.num_rows(), batch.kinds(), &mut self.changes)?;
        self.rows.settle(&self.changes.keys);
        self.rows.compact()?;
        Ok(())
    }

    /// The next rows that are left; none when all are out.
    fn next_rows(&mut self) -> Result<Option<Batch>> {
        let Some(emitting) = &mut self.emitting else { return Ok(None) };
        let mut out = Vec::with_capacity(self.batch_rows.min(self.rows.len()));
        while out.len() < self.batch_rows {
            let Some(&id) = emitting.ids.get(emitting.first) else {
                emitting.ids.clear();
                emitting.first = 0;
                if self.rows.is_empty() || emitting.cursor.is_done(1) {
                    break;
                }
                let max = self.batch_rows;
                self.rows.pairs(
                    &[0],
                    &mut emitting.cursor,
                    max,
                    &mut Vec::new(),
                    &mut emitting.ids,
                );
                continue;
            };
            let left = self.rows.count(id) - emitting.done;
            let now = left.min((self.batch_rows - out.len()) as i64);
            out.resize(out.len() + now as usize, id);
            emitting.done += now;
            if now == left {
                emitting.first += 1;
                emitting.done = 0;
            }
        }
        if out.is_empty() {
            return Ok(None);
        }
        let store = self.rows.store();
        let columns = store.gather_all(0..store.layout().num_fields(), &out)?;
        Ok(Some(Batch::new(columns, out.len())))
    }
}

impl Operator for Fold {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => {
                let cursor = PairCursor::default();
                self.emitting = Some(Emitting { cursor, ids: Vec::new(), first: 0, done: 0 });
            }
            other => return Err(Error::Internal(format!("a fold cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take() {
            self.apply(batch)?;
        }
        if self.emitting.is_none() {
            return Ok(Output::NeedInput(PortSet::Any));
        }
        Ok(match self.next_rows()? {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None => Output::Finished,
        })
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let mut bytes = Vec::new();
        self.rows.snapshot(&mut bytes);
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.rows.restore(&mut snapshot.bytes.as_slice())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.rows.clear();
        (self.input, self.emitting) = (None, None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;
    use crate::element::RowKind;
    use crate::operators::OperatorSpec;
    use crate::operators::harness::{Driver, Interruptions, check, context, rows};

    fn changes(rows: &[(i64, char)]) -> Batch {
        let numbers: Int64Array = rows.iter().map(|row| Some(row.0)).collect();
        let text: StringViewArray = rows.iter().map(|row| Some(format!("t{}", row.0))).collect();
        let kind = |row: &(i64, char)| if row.1 == '+' { RowKind::Insert } else { RowKind::Delete };
        Batch::new(vec![Arc::new(numbers) as ArrayRef, Arc::new(text)], rows.len())
            .with_kinds(rows.iter().map(kind).collect())
    }

    fn spec() -> OperatorSpec {
        OperatorSpec::Fold(FoldSpec { types: vec![DataType::Int64, DataType::Utf8View] })
    }

    #[test]
    fn what_is_left_comes_in_the_order_of_arrival() {
        let input = vec![
            changes(&[(3, '+'), (1, '+'), (2, '+'), (1, '+')]),
            changes(&[(3, '-'), (4, '+'), (4, '-')]),
            changes(&[(3, '+'), (1, '-'), (2, '+'), (2, '+')]),
        ];
        let expected = ["1|t1", "2|t2", "2|t2", "2|t2", "3|t3"];
        assert_eq!(check(&spec(), vec![input.clone()]), expected);
        for batch_rows in 1..7 {
            let mut driver =
                Driver::new(&spec(), &context(batch_rows), Interruptions::EveryBatch).unwrap();
            let out = driver.run_batches(vec![input.clone()]).unwrap();
            assert!(out.iter().all(|b| b.num_rows() <= batch_rows && b.kinds().is_none()));
            assert_eq!(rows(&out), expected);
        }
        assert!(check(&spec(), vec![vec![]]).is_empty());
    }

    #[test]
    fn a_row_that_was_never_there_is_an_error() {
        let mut driver = Driver::new(&spec(), &context(8), Interruptions::None).unwrap();
        let error = driver.run_batches(vec![vec![changes(&[(3, '-')])]]).unwrap_err();
        assert!(error.to_string().contains("Fold: a withdrawn row was never there"), "{error}");
    }
}
