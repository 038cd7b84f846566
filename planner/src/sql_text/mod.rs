//! Types, literals and messages in the words of SQL instead of those of the libraries below.
//!
//! What users read — DESCRIBE, errors, plans — names types as they would write them. Nothing here decides anything: texts
//! that are not understood stay as they are.

mod literals;
mod messages;
mod types;

pub use literals::{sql_literal, with_sql_literals};
pub use messages::with_sql_types;
pub use types::sql_type_name;
