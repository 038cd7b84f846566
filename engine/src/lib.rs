//! Thalweg: SQL and tables over files and streams, on one dataflow runtime.
//!
//! The only crate that knows planner, optimizer and runtime. A [`Session`] is the way in:
//!
//! ```
//! use futures::executor::block_on;
//! use thalweg::Session;
//!
//! let session = Session::builder().threads(2).build()?;
//! let frame = block_on(session.sql("SELECT count(*) AS n FROM generate_series(1, 10)"))?;
//! let batches = block_on(frame.collect())?;
//! assert_eq!(batches[0].num_rows(), 1);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! Any executor will do: queries run on threads of their own. `engine/examples` has whole programs.

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
