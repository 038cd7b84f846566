//! SQL test suites, oracles and random queries.
//!
//! [`slt`] runs sqllogictest files of several dialects against the engine; [`generate`] makes random queries and
//! compares their results under different settings; [`golden`] runs continuous queries whose output is known; [`replay`]
//! looks at what queries keep. Nothing here is used by the engine.

pub mod engine;
pub mod generate;
pub mod golden;
pub mod replay;
pub mod slt;
