//! Union: passes several inputs of the same types on, in arrival order. Which inputs have ended is its
//! whole state.

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

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        Ok(StateSnapshot { bytes: (self.open_inputs as u64).to_le_bytes().to_vec() })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let bytes = snapshot.bytes.try_into();
        let open = bytes.map_err(|_| Error::Internal("a wrong snapshot of a union".into()))?;
        self.open_inputs = u64::from_le_bytes(open) as usize;
        Ok(())
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.input = None;
        Ok(())
    }
}
