//! Assert single row: what a scalar subquery yields where one value is wanted.
//!
//! No row becomes one row of NULLs, one row passes, and more are the user's error. Keeps the one row, if it has come;
//! emits at the end alone. Runs in one subtask.

use arrow::array::new_null_array;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::contract::restore_batches;
use super::prelude::*;

/// What passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssertSingleRowSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
}

/// The running operator.
pub struct AssertSingleRow {
    input: Vec<DataType>,

    row: Option<Batch>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Gathering,
    Ended,
    Done,
}

impl AssertSingleRow {
    /// No row has come.
    pub fn new(spec: &AssertSingleRowSpec) -> Self {
        AssertSingleRow { input: spec.input.clone(), row: None, phase: Phase::Gathering }
    }

    fn keep(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        match batch.num_rows() + usize::from(self.row.is_some()) {
            0 => {}
            1 if batch.num_rows() == 0 => {}
            1 => self.row = Some(batch),
            _ => {
                return Err(Error::User {
                    message: "more than one row returned by a subquery used as an expression"
                        .into(),
                    detail: None,
                    hint: Some("aggregate the subquery, or add LIMIT 1".into()),
                });
            }
        }
        Ok(())
    }
}

impl Operator for AssertSingleRow {
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
            StreamElement::Batch(batch) => self.keep(batch)?,
            StreamElement::End => self.phase = Phase::Ended,
            other => {
                return Err(Error::Internal(format!("a single row cannot be {other:?}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        match self.phase {
            Phase::Gathering => Ok(Output::NeedInput(PortSet::Any)),
            Phase::Ended => {
                self.phase = Phase::Done;
                let nulls =
                    || Batch::new(self.input.iter().map(|t| new_null_array(t, 1)).collect(), 1);
                let row = self.row.take().unwrap_or_else(nulls);
                Ok(Output::Element(PortId(0), StreamElement::Batch(row)))
            }
            Phase::Done => Ok(Output::Finished),
        }
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
        StateSnapshot::of_batches(self.row.as_slice(), &self.input)
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        restore_batches(&snapshot)?.into_iter().try_for_each(|batch| self.keep(batch))
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.row = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::super::OperatorSpec;
    use super::super::harness::{batch, check, run};
    use super::*;

    fn rows(values: &[i64]) -> Batch {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        batch(vec![column])
    }

    #[test]
    fn none_one_and_many() {
        let spec =
            OperatorSpec::AssertSingleRow(AssertSingleRowSpec { input: vec![DataType::Int64] });
        assert_eq!(check(&spec, vec![vec![]]), ["∅"]);
        assert_eq!(check(&spec, vec![vec![rows(&[]), rows(&[7]), rows(&[])]]), ["7"]);
        for many in [vec![rows(&[1, 2])], vec![rows(&[1]), rows(&[1])]] {
            let error = run(&spec, vec![many]).unwrap_err();
            assert!(error.to_string().starts_with("more than one row returned by a subquery"));
        }
    }
}
