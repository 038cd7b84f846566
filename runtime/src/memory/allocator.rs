//! A global allocator wrapper that counts the bytes of the heap.
//!
//! Threads count privately and settle with the process-wide counter every 64 KiB, so that counting costs an
//! addition and a comparison. Invariant: the total is exact up to 64 KiB a thread. It refuses nothing: limits are
//! the [`MemoryManager`](super::MemoryManager)'s business.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// How many bytes a thread counts privately before it settles.
const SETTLE_BYTES: isize = 64 * 1024;

static HEAP_BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    // Neither lazily initialised nor dropped: it may be used from within an allocator, at any time.
    static UNSETTLED: Cell<isize> = const { Cell::new(0) };
}

/// Bytes allocated on the heap now. Zero unless a [`CountingAllocator`] is the global allocator.
pub fn heap_bytes() -> usize {
    usize::try_from(HEAP_BYTES.load(Ordering::Relaxed)).unwrap_or(0)
}

fn count(delta: isize) {
    let settled = UNSETTLED.try_with(|cell| {
        let sum = cell.get() + delta;
        if sum.abs() < SETTLE_BYTES {
            cell.set(sum);
        } else {
            cell.set(0);
            HEAP_BYTES.fetch_add(sum, Ordering::Relaxed);
        }
    });
    if settled.is_err() {
        HEAP_BYTES.fetch_add(delta, Ordering::Relaxed);
    }
}

/// Wraps an allocator and counts what it hands out; [`heap_bytes`] tells the sum.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator<A>(A);

impl<A> CountingAllocator<A> {
    /// Counts the allocations of `inner`.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

// SAFETY: every call is passed on unchanged to the wrapped allocator, which fulfils the contract; counting neither
// allocates nor unwinds.
#[expect(unsafe_code, reason = "a global allocator is an unsafe trait")]
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        let pointer = unsafe { self.0.alloc(layout) };
        if !pointer.is_null() {
            count(layout.size() as isize);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            count(layout.size() as isize);
        }
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `realloc`.
        let moved = unsafe { self.0.realloc(pointer, layout, new_size) };
        if !moved.is_null() {
            count(new_size as isize - layout.size() as isize);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "calls an allocator by hand")]
    fn counts_what_it_hands_out() {
        let allocator = CountingAllocator::new(System);
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let before = heap_bytes();
        // SAFETY: the layout is not empty, and the block is freed once with the layout it has then.
        unsafe {
            let block = allocator.alloc(layout);
            assert!(heap_bytes() + SETTLE_BYTES as usize >= before + (1 << 20));
            let block = allocator.realloc(block, layout, 2 << 20);
            assert!(heap_bytes() + SETTLE_BYTES as usize >= before + (2 << 20));
            allocator.dealloc(block, Layout::from_size_align(2 << 20, 8).unwrap());
        }
        assert!(heap_bytes() <= before + SETTLE_BYTES as usize);
    }
}
