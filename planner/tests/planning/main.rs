//! Plans SQL text against a stub catalog and looks at what comes out.

mod decimals;
mod errors;
mod group_windows;
mod limits;
mod names;
mod queries;
mod sharing;
mod statements;
mod stub;
mod subqueries;
mod suites;
mod table_columns;
mod windows;
