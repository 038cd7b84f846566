//! Continuous queries with known output, in the layout of Arroyo's SQL tests: each query reads files of a folder of
//! inputs, writes one file, and what it writes is compared with the file of the same name in a folder of golden outputs.
//!
//! Lines are compared without regard to their order; changelogs in Debezium's form are compared by the rows that are
//! left when all their changes are applied. Nothing here knows the engine: [`Runs`] says how a text of SQL is run.

mod case;
mod compare;
mod folder;
mod replay;
mod run;

pub use case::{Case, Expectation};
pub use compare::difference;
pub use folder::Suite;
pub use run::{InProcess, Outcome, Runs, Shell, check};
