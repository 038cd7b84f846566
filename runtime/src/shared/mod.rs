//! What subtasks of a job share inside one process: builds that many fill and many probe, runtime filters.

mod event;
mod registry;
pub mod runtime_filter;

pub use event::Event;
pub use registry::SharedRegistry;
