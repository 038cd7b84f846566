//! The traits and types between a task and its operators.

use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::OperatorContext;
use crate::batch::Batch;
use crate::element::{CheckpointId, StreamElement, Superstep, Watermark};
use crate::error::Result;
use crate::expr::positional_schema;

/// An input or output of an operator, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortId(pub u16);

/// Ports an operator can take input from; at most 64 for a named set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortSet {
    /// Whatever port has something.
    Any,
    /// This one alone.
    Only(PortId),
}

impl PortSet {
    /// Whether the set holds a port.
    pub fn contains(self, port: PortId) -> bool {
        match self {
            PortSet::Any => true,
            PortSet::Only(only) => only == port,
        }
    }
}

/// Why an operator cannot go on although it wants no input. Before it returns one, the operator has
/// registered the task's waker with whatever it waits for, and has looked once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// Memory that another holder must give back.
    Memory,
    /// Reads or writes of spill files.
    SpillIo,
    /// Reads or writes of a source or sink.
    Io,
    /// A shared build that others fill, by its id.
    SharedBuild(u32),
    /// An asynchronous function call.
    AsyncCall,
}

/// What a step came to.
#[derive(Debug)]
pub enum Output {
    /// Rows for the operator's output port: `Batch` or `Pages` (control events are the task's business).
    Element(PortId, StreamElement),
    /// The operator has nothing to do until one of these ports brings something.
    NeedInput(PortSet),
    /// The operator waits; the task is woken through its waker.
    Wait(WaitReason),
    /// Nothing more will come out, whatever comes in.
    Finished,
}

/// Which clock a timer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeDomain {
    /// Watermarks.
    EventTime,
    /// The environment's clock.
    ProcessingTime,
}

/// A frozen view of an operator's state, ready to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSnapshot {
    /// The operator's own encoding; empty for an operator without state.
    pub bytes: Vec<u8>,
}

impl StateSnapshot {
    /// Rows kept between steps, as an Arrow IPC stream. The types give the schema when there is no row.
    pub fn of_batches(batches: &[Batch], types: &[DataType]) -> Result<Self> {
        if batches.is_empty() {
            return Ok(StateSnapshot::default());
        }
        let schema = positional_schema(types);
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        for batch in batches {
            writer.write(&batch.clone().compact()?.to_record_batch(schema.clone())?)?;
        }
        writer.finish()?;
        Ok(StateSnapshot { bytes: writer.into_inner()? })
    }
}

/// The batches that [`StateSnapshot::of_batches`] wrote.
pub fn restore_batches(snapshot: &StateSnapshot) -> Result<Vec<Batch>> {
    if snapshot.bytes.is_empty() {
        return Ok(Vec::new());
    }
    StreamReader::try_new(snapshot.bytes.as_slice(), None)?.map(|b| Ok(b?.into())).collect()
}

/// How much an operator keeps for rows that may come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateSize {
    /// Rows, or groups.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A vertex's unit of work. Calls come from one thread at a time.
///
/// `push` is called only after `step` returned [`Output::NeedInput`] with that port, once for each such
/// answer, and with `Batch`, `Pages` or `End` alone. Control events come through their own methods, also
/// only while the operator needs input, and the task forwards them when `step` next asks for input: what an
/// operator emits because of a watermark leaves before the watermark does.
pub trait Operator: Send {
    /// Called once before anything else, on the task's thread.
    fn open(&mut self, cx: &mut OperatorContext<'_>) -> Result<()>;
    /// Takes one element of a port; heavy work is left to `step`.
    fn push(
        &mut self,
        port: PortId,
        element: StreamElement,
        cx: &mut OperatorContext<'_>,
    ) -> Result<()>;
    /// Does at most a batch of work.
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<Output>;
    /// Event time came to `watermark`, the minimum over the inputs.
    fn on_watermark(&mut self, watermark: Watermark, cx: &mut OperatorContext<'_>) -> Result<()>;
    /// A timer that the operator had set is due (microseconds of the domain's clock).
    fn on_timer(
        &mut self,
        domain: TimeDomain,
        time_us: i64,
        cx: &mut OperatorContext<'_>,
    ) -> Result<()>;
    /// A barrier came on all inputs: what was gathered for the sake of larger batches leaves before it.
    fn on_barrier(&mut self, id: CheckpointId, cx: &mut OperatorContext<'_>) -> Result<()>;
    /// All inputs have ended this superstep.
    fn on_superstep(&mut self, superstep: Superstep, cx: &mut OperatorContext<'_>) -> Result<()>;
    /// Gives back about `bytes` of memory if it can; answers how much it gave.
    fn revoke(&mut self, bytes: usize, cx: &mut OperatorContext<'_>) -> Result<usize>;
    /// A frozen view of the state at a barrier.
    fn snapshot(&mut self, id: CheckpointId, cx: &mut OperatorContext<'_>)
    -> Result<StateSnapshot>;
    /// Takes over a state that `snapshot` gave; called after `open` and before any input.
    fn restore(&mut self, snapshot: StateSnapshot, cx: &mut OperatorContext<'_>) -> Result<()>;
    /// The checkpoint is durable.
    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()>;
    /// The checkpoint will never be complete.
    fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()>;
    /// How much is kept at this moment, as far as that is known without a look at each row; asked from time to time, for
    /// those who watch. Nothing depends on it, so that an operator without state may leave it out.
    fn state_size(&self) -> StateSize {
        StateSize::default()
    }
    /// Called once at the end, also after an error; lets go of everything.
    fn close(&mut self, cx: &mut OperatorContext<'_>) -> Result<()>;
}

/// Spells out the part of the contract that is empty for an operator without timers and supersteps of its own, which
/// gathers nothing that a barrier must let go, has nothing to revoke and does not care what becomes of a checkpoint.
#[macro_export]
macro_rules! untimed_operator {
    () => {
        fn on_timer(
            &mut self,
            _domain: $crate::operators::TimeDomain,
            _time_us: i64,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<()> {
            Ok(())
        }
        fn on_barrier(
            &mut self,
            _id: $crate::element::CheckpointId,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<()> {
            Ok(())
        }
        fn on_superstep(
            &mut self,
            _superstep: $crate::element::Superstep,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<()> {
            Ok(())
        }
        fn revoke(
            &mut self,
            _bytes: usize,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<usize> {
            Ok(0)
        }
        fn checkpoint_complete(
            &mut self,
            _id: $crate::element::CheckpointId,
        ) -> $crate::Result<()> {
            Ok(())
        }
        fn checkpoint_aborted(&mut self, _id: $crate::element::CheckpointId) -> $crate::Result<()> {
            Ok(())
        }
    };
}
pub use untimed_operator;

/// Spells out the part of the contract that is empty for an operator which keeps nothing between batches: besides what
/// [`untimed_operator!`] does, watermarks pass and the snapshot is empty.
#[macro_export]
macro_rules! stateless_operator {
    () => {
        fn on_watermark(
            &mut self,
            _watermark: $crate::element::Watermark,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<()> {
            Ok(())
        }
        fn snapshot(
            &mut self,
            _id: $crate::element::CheckpointId,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<$crate::operators::StateSnapshot> {
            Ok($crate::operators::StateSnapshot::default())
        }
        fn restore(
            &mut self,
            _snapshot: $crate::operators::StateSnapshot,
            _cx: &mut $crate::operators::OperatorContext<'_>,
        ) -> $crate::Result<()> {
            Ok(())
        }
        $crate::untimed_operator!();
    };
}
pub use stateless_operator;
