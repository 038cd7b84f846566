//! Plans SQL text against a stub catalog and looks at what comes out.

mod smoke;
mod stub;
mod suites;
