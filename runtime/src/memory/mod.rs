//! Managed memory: one budget, cut into segments.
//!
//! The [`MemoryManager`] holds one budget in bytes. Operators hold [`Reservation`]s of it and get [`Segment`]s cut
//! from mapped arenas, so that freed memory really goes back to the system. Under pressure the largest *revocable*
//! holder is asked to give memory back; it sees the request at its next step.
//!
//! Invariant: every mapped byte that is in use is charged to exactly one holder. All `unsafe` code of this crate
//! lives in this module, behind safe, bounds-checked accessors. The module refuses to block: a grow that does not
//! fit fails at once, and the caller decides whether to wait, to spill or to give up.

mod allocator;
mod arena;
mod array;
mod byte_places;
mod manager;
mod plain;
mod reservation;
mod segment;
mod trusted;

pub use allocator::{CountingAllocator, heap_bytes};
pub use array::SegmentArray;
pub use byte_places::{LANES, bit_places, byte_places};
pub use manager::{MemoryManager, Pressure};
pub use plain::Plain;
pub use reservation::Reservation;
pub use segment::Segment;
pub(crate) use trusted::{
    TrustedOffsets, TrustedViews, trusted_binary_views, trusted_offset_bytes, trusted_string_views,
};
