//! Runs recursive work on a thread with a stack that no accepted statement exhausts.
//!
//! Parsing, planning and rewriting recurse along expressions and plans. The parser refuses what is nested too deeply;
//! what it accepts fits the stack here, also in builds without optimisation.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::{PlannerError, Result};

/// Tried in this order. Reserved, not committed: only pages that are touched cost memory; but where a limit on address
/// space forbids the large one, a smaller one serves all but extreme statements.
const STACK_BYTES: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

thread_local! {
    static DEEP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with a deep stack, on this thread when it already has one; a panic inside becomes an error.
///
/// Callers that walk plans recursively themselves (lowering, physical optimisation) should run inside it too. A program
/// that does nothing but run statements should run wholly inside it: a new thread's stack costs as much as planning a
/// small query.
pub fn with_deep_stack<R: Send>(work: impl FnOnce() -> R + Send) -> Result<R> {
    if DEEP.get() {
        return catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(panic.as_ref()));
    }
    let slot = Mutex::new(Some(work));
    let run = || {
        DEEP.set(true);
        let work = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map(|work| catch_unwind(AssertUnwindSafe(work)))
    };
    thread::scope(|scope| {
        let spawn = |bytes| {
            thread::Builder::new()
                .name("planner".to_string())
                .stack_size(bytes)
                .spawn_scoped(scope, run)
        };
        let thread = STACK_BYTES.into_iter().find_map(|bytes| spawn(bytes).ok());
        let thread =
            thread.ok_or_else(|| PlannerError::internal("cannot start the planner's thread"))?;
        match thread.join().unwrap_or_else(|panic| resume_unwind(panic)) {
            Some(Ok(result)) => Ok(result),
            Some(Err(panic)) => Err(panicked(panic.as_ref())),
            None => Err(PlannerError::internal("the planner's work was done twice")),
        }
    })
}

fn panicked(panic: &(dyn Any + Send)) -> PlannerError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("No reason was given.");
    PlannerError::internal("the planner failed on this statement").with_detail(text.to_string())
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
        .expect_err("it fails");
        assert_eq!(error.detail.as_deref(), Some("broken"));
    }

    #[test]
    fn inside_it_is_the_same_thread() {
        let same = with_deep_stack(|| {
            let id = thread::current().id();
            with_deep_stack(|| thread::current().id() == id).expect("it works")
        });
        assert!(same.expect("it works"));
    }
}
