//! Running decoders of other crates on bytes that nobody vouches for.
//!
//! Some decoders panic on damaged files instead of returning an error. Such a panic says that the file's contents
//! contradict each other, so it becomes a value here, and nothing is printed about it. Panics of our own code must
//! not be run under this: they are bugs and stay visible.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// How many decoders run on this thread, one inside another.
    static DECODING: Cell<usize> = const { Cell::new(0) };
}

static HOOKED: Once = Once::new();

/// The work's result, or `None` if it panicked. What it had in hand then is dropped.
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    HOOKED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if DECODING.get() == 0 {
                report(panic);
            }
        }));
    });
    DECODING.set(DECODING.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    DECODING.set(DECODING.get() - 1);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn a_panic_is_a_value() {
        assert_eq!(contained(|| 1), Some(1));
        assert_eq!(contained(|| contained(|| -> i32 { panic!("damaged") })), Some(None));
    }
}
