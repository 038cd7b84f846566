//! Plans SQL over tables with given statistics and looks at the physical plans.

mod buffer_timeouts;
mod catalog;
mod estimates;
mod hints;
mod late_keys;
mod orders;
mod outer_joins;
mod properties;
mod shapes;
mod suites;
