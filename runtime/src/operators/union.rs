//! Union: passes several inputs of the same types on, in arrival order. Keeps nothing.

use serde::{Deserialize, Serialize};

use super::prelude::*;

/// How many inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnionSpec {
    /// Number of input ports.
    pub inputs: usize,
}

/// The running operator.
pub struct Union {
    open_inputs: usize,

    input: Option<StreamElement>,
}

impl Union {
    /// All inputs are open.
    pub fn new(spec: &UnionSpec) -> Self {
        Union { open_inputs: spec.inputs, input: None }
    }
}

impl Operator for Union {
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
            StreamElement::End => self.open_inputs -= 1,
            data => self.input = Some(data),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        Ok(match self.input.take() {
            Some(element) => Output::Element(PortId(0), element),
            None if self.open_inputs == 0 => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    stateless_operator!();

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        Ok(())
    }
}
