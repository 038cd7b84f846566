//! What a panic inside a task means.
//!
//! Arrow's builders panic where the values of a batch outgrow their 32-bit offsets. That is no bug but too much data
//! in one batch: it becomes an error of the user's, and nothing else is printed about it. Every other panic is a bug,
//! is reported as the process reports panics, and becomes an internal error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::error::{Error, Result};

static HOOKED: Once = Once::new();

/// The work's result; a panic is an error.
pub(super) fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    HOOKED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !is_overflow(text(panic.payload())) {
                report(panic);
            }
        }));
    });
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(error(panic.as_ref())))
}

fn error(panic: &(dyn Any + Send)) -> Error {
    let text = text(panic);
    if is_overflow(text) {
        return Error::User {
            message: "the texts or lists of one batch have more than 2 GB".into(),
            detail: None,
            hint: Some("SET batch_size to fewer rows, or make the values shorter".into()),
        };
    }
    Error::Internal(format!("a task panicked: {}", text.unwrap_or("no message")))
}

fn text(panic: &(dyn Any + Send)) -> Option<&str> {
    let fixed = panic.downcast_ref::<&str>().copied();
    fixed.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// Whether the message is one of Arrow's for offsets that do not fit.
fn is_overflow(text: Option<&str>) -> bool {
    let known = ["offset overflow", "byte array offset overflow", "list offset overflow"];
    text.is_some_and(|text| known.iter().any(|known| text.contains(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_that_overflow_are_an_error_of_the_user() {
        let failed = contained::<()>(|| panic!("{}", "byte array offset overflow")).unwrap_err();
        assert!(matches!(failed, Error::User { .. }), "{failed}");
        let failed = contained::<()>(|| panic!("another")).unwrap_err();
        assert_eq!(failed, Error::Internal("a task panicked: another".into()));
        assert_eq!(contained(|| Ok(1)), Ok(1));
    }
}
