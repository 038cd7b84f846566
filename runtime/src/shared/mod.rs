//! What subtasks of a job share inside one process: builds that many fill and many probe, runtime filters.

mod build;
mod event;
pub mod key_filters;
mod registry;
pub mod runtime_filter;

pub use build::{SharedBuild, WorkQueue};
pub use event::Event;
pub use registry::SharedRegistry;
