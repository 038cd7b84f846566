//! Values: literal rows, computed once. Has no input; what it has not yet emitted is its state.

use arrow::array::ArrayRef;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::batch::concat;
use crate::expr::{Expr, compile, positional_schema};
use crate::job::JobContext;

/// The rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValuesSpec {
    /// Types of the columns.
    pub types: Vec<DataType>,
    /// Constant expressions, row by row; a row has one for each type.
    pub rows: Vec<Vec<Expr>>,
}

/// The running operator.
pub struct Values {
    batch: Option<Batch>,
}

impl Values {
    /// Evaluates the rows.
    pub fn new(spec: &ValuesSpec, job: &JobContext) -> Result<Self> {
        let empty = Batch::new(Vec::new(), 1);
        let schema = positional_schema(&[]);
        let rows = spec
            .rows
            .iter()
            .map(|row| {
                let columns = row
                    .iter()
                    .zip(&spec.types)
                    .map(|(expr, data_type)| {
                        let cast = Expr::Cast {
                            expr: Box::new(expr.clone()),
                            to: data_type.clone(),
                            fallible: false,
                        };
                        compile(&cast, &schema, &job.functions)?.evaluate(&empty)
                    })
                    .collect::<Result<Vec<ArrayRef>>>()?;
                Ok(Batch::new(columns, 1))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Values { batch: if rows.is_empty() { None } else { Some(concat(&rows)?) } })
    }
}

impl Operator for Values {
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()> {
        if cx.subtask != 0 {
            self.batch = None;
        }
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        Err(Error::Internal(format!("values has no input, but got {element:?}")))
    }

    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output> {
        let Some(batch) = self.batch.take() else { return Ok(Output::Finished) };
        let most = cx.job.options.batch_rows;
        if batch.num_rows() > most {
            self.batch = Some(batch.slice(most, batch.num_rows() - most));
            return Ok(Output::Element(PortId(0), StreamElement::Batch(batch.slice(0, most))));
        }
        Ok(Output::Element(PortId(0), StreamElement::Batch(batch)))
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
        let left = self.batch.as_ref().map_or(0, Batch::num_rows) as u64;
        Ok(StateSnapshot { bytes: left.to_le_bytes().to_vec() })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let bytes = snapshot.bytes.try_into();
        let left =
            u64::from_le_bytes(bytes.map_err(|_| Error::Internal("a wrong snapshot".into()))?);
        self.batch = self.batch.take().and_then(|b| {
            let left = (left as usize).min(b.num_rows());
            (left > 0).then(|| b.slice(b.num_rows() - left, left))
        });
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.batch = None;
        Ok(())
    }
}
