//! The dataflow runtime: a [`graph::JobGraph`] becomes running [`task`]s.
//!
//! One set of operators serves bounded and unbounded inputs. The runtime sees no SQL, no logical and no
//! physical plan: its input is plain serialisable data, its expressions are [`expr::Expr`] over column
//! positions. Nothing outside [`mod@env`] touches a clock, a file, a thread or a source of randomness.

pub mod aggregates;
pub mod batch;
pub mod element;
pub mod env;
pub mod error;
pub mod exchange;
pub mod expr;
pub mod graph;
pub mod job;
pub mod memory;
pub mod operators;
pub mod rows;
pub mod shared;
pub mod sink;
pub mod source;
pub mod state;
pub mod task;
pub mod windowing;

pub use batch::Batch;
pub use error::{Error, Result};
