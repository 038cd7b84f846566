//! What travels on a channel, in order: data and control events.

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::rows::Pages;

/// What a row does to the result it belongs to. Inside the engine only inserts, deletes and upserts travel;
/// `-U/+U` pairs are made at sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RowKind {
    /// The row is added.
    Insert,
    /// The row is taken away.
    Delete,
    /// The row replaces the one of its key.
    Upsert,
}

/// "No row with an earlier event time follows", in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Watermark(pub i64);

/// The number of a checkpoint; a barrier with it cuts every stream of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

/// The end of a superstep of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Superstep {
    /// Which superstep ended, from 0.
    pub number: u64,
    /// True for the last one: nothing follows but `End`.
    pub last: bool,
}

/// An event of a stream partition. Elements keep their order; only an unaligned barrier may overtake.
#[derive(Debug, Clone)]
pub enum StreamElement {
    /// Rows as columns.
    Batch(Batch),
    /// Rows in binary form, handed over whole.
    Pages(Pages),
    /// Event time has come this far.
    Watermark(Watermark),
    /// The sender has nothing to say about event time until `Active`.
    Idle,
    /// The sender speaks again.
    Active,
    /// A checkpoint cuts the stream here.
    Barrier(CheckpointId),
    /// A superstep of an iteration ends here.
    Superstep(Superstep),
    /// Nothing follows.
    End,
}

impl StreamElement {
    /// Bytes that the element occupies in a buffer.
    pub fn memory_bytes(&self) -> usize {
        match self {
            StreamElement::Batch(batch) => batch.data_bytes(),
            StreamElement::Pages(pages) => pages.memory_bytes(),
            StreamElement::Watermark(_)
            | StreamElement::Idle
            | StreamElement::Active
            | StreamElement::Barrier(_)
            | StreamElement::Superstep(_)
            | StreamElement::End => 0,
        }
    }
}
