//! Project: computes columns row by row. Keeps nothing.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::expr::{CompiledExpr, Expr, compile_all, positional_schema};
use crate::job::JobContext;

/// What to compute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// One expression an output column.
    pub exprs: Vec<Expr>,
}

/// The running operator.
pub struct Project {
    exprs: Vec<CompiledExpr>,

    input: Option<Batch>,
    ended: bool,
}

impl Project {
    /// Compiles the expressions.
    pub fn new(spec: &ProjectSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.input);
        Ok(Project {
            exprs: compile_all(&spec.exprs, &schema, &job.functions)?,
            input: None,
            ended: false,
        })
    }
}

impl Operator for Project {
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
            StreamElement::End => self.ended = true,
            other => return Err(Error::Internal(format!("project cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        let Some(batch) = self.input.take() else {
            return Ok(if self.ended { Output::Finished } else { Output::NeedInput(PortSet::Any) });
        };
        let batch = batch.compact()?;
        let columns = self.exprs.iter().map(|e| e.evaluate(&batch)).collect::<Result<Vec<_>>>()?;
        Ok(Output::Element(PortId(0), StreamElement::Batch(batch.with_columns(columns))))
    }

    stateless_operator!();

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        Ok(())
    }
}
