//! Thalweg: SQL and tables over files and streams, on one dataflow runtime.
//!
//! The only crate that knows planner, optimizer and runtime. A [`Session`] is the way in.

pub mod api;
pub mod catalog;
pub mod connectors;
pub mod error;
pub mod lower;
pub mod session;
pub mod settings;
pub mod shell;

pub use error::{Error, Result};
pub use session::{CancellationToken, Frame, FrameStream, Session, SessionBuilder};
