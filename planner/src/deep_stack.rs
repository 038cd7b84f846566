//! Runs recursive work on a thread with a stack that no accepted statement exhausts.
//!
//! Parsing, planning and rewriting recurse along expressions and plans. The parser refuses what is nested too deeply;
//! what it accepts fits the stack here, also in builds without optimisation.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use crate::error::{PlannerError, Result};

/// Reserved, not committed: only pages that are touched cost memory.
const STACK_BYTES: usize = 512 << 20;

thread_local! {
    static DEEP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with a deep stack, on this thread when it already has one; a panic inside becomes an error.
///
/// Callers that walk plans recursively themselves (lowering, physical optimisation) should run inside it too.
pub fn with_deep_stack<R: Send>(work: impl FnOnce() -> R + Send) -> Result<R> {
    if DEEP.get() {
        return Ok(work());
    }
    thread::scope(|scope| {
        let run = || {
            DEEP.set(true);
            catch_unwind(AssertUnwindSafe(work))
        };
        let thread = thread::Builder::new()
            .name("planner".to_string())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, run);
        let thread = thread.map_err(|e| {
            PlannerError::internal(format!("cannot start the planner's thread: {e}"))
        })?;
        let outcome = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        outcome.map_err(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(panic.downcast_ref::<&str>().copied());
            PlannerError::internal("the planner failed on this statement")
                .with_detail(text.unwrap_or("No reason was given.").to_string())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let error = with_deep_stack(|| {
            if true {
                panic!("broken")
            }
        })
        .unwrap_err();
        assert_eq!(error.detail.as_deref(), Some("broken"));
    }

    #[test]
    fn inside_it_is_the_same_thread() {
        let same = with_deep_stack(|| {
            let id = thread::current().id();
            with_deep_stack(|| thread::current().id() == id).unwrap()
        });
        assert!(same.unwrap());
    }
}
