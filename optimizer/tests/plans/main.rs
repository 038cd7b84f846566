//! Plans SQL over tables with given statistics and looks at the physical plans.

mod catalog;
mod orders;
mod properties;
mod shapes;
mod suites;
