//! Something that happens once, and that tasks wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// Set once; wakes everyone who waited.
#[derive(Debug, Default)]
pub struct Event {
    set: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Event {
    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Lets it happen. Writes before this call are seen by whoever finds it set.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.wakers.lock().drain(..).for_each(Waker::wake);
    }

    /// True if it has happened; otherwise `waker` will be woken when it does.
    pub fn is_set_or_wake(&self, waker: &Waker) -> bool {
        if self.is_set() {
            return true;
        }
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|w| w.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(wakers);
        self.is_set()
    }
}
