//! Fixed-length typed arrays in managed memory: hash table buckets, links and flags.
//!
//! Invariant: the array owns its segment, the segment is long and aligned enough for all elements, and elements
//! start as zeros. Arrays of atomics are how several threads fill one table.

use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ops::{Deref, DerefMut};

use super::plain::Plain;
use super::reservation::Reservation;
use super::segment::{Segment, prefetch};
use crate::error::Result;

/// An array of `T` in managed memory that starts as zeros.
#[derive(Debug)]
pub struct SegmentArray<T> {
    segment: Segment,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Plain> SegmentArray<T> {
    /// An array of `len` zeros.
    ///
    /// # Errors
    /// `ResourcesExhausted` when it does not fit the budget.
    pub fn zeroed(reservation: &Reservation, len: usize) -> Result<Self> {
        const { assert!(align_of::<T>() <= 4096, "segments are aligned to 4 KiB") };
        let bytes =
            len.checked_mul(size_of::<T>()).expect("an array is smaller than the address space");
        let mut segment =
            if bytes == 0 { Segment::empty() } else { reservation.allocate(bytes)? };
        if !segment.is_fresh_mapping() {
            segment.as_mut_slice()[..bytes].fill(0);
        }
        Ok(Self { segment, len, element: PhantomData })
    }

    /// Bytes of managed memory the array takes.
    pub fn bytes(&self) -> usize {
        self.segment.len()
    }

    /// Tells the processor that element `index` will be looked at soon. Any index is fine.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        prefetch(self.start().wrapping_add(index).cast_const().cast());
    }

    /// The type's own dangling pointer for the empty array, else the segment's start.
    fn start(&self) -> *mut T {
        if self.len == 0 {
            std::ptr::NonNull::dangling().as_ptr()
        } else {
            self.segment.pointer().as_ptr().cast()
        }
    }
}

impl<T: Plain> Deref for SegmentArray<T> {
    type Target = [T];

    #[inline]
    #[expect(unsafe_code, reason = "the elements are in mapped memory")]
    fn deref(&self) -> &[T] {
        // SAFETY: the segment holds `len` initialised elements of a type for which any bit pattern is valid, at an
        // address aligned to 4 KiB, and writes through shared references only happen when `T` is atomic.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl<T: Plain> DerefMut for SegmentArray<T> {
    #[inline]
    #[expect(unsafe_code, reason = "the elements are in mapped memory")]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the array is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::MemoryManager;
    use super::*;

    #[test]
    fn starts_as_zeros_even_in_used_memory() {
        let manager = MemoryManager::new(64 << 20);
        let reservation = manager.reserve("table");
        for len in [0, 1, 1000, 300_000] {
            for _ in 0..3 {
                let mut array = SegmentArray::<u64>::zeroed(&reservation, len).unwrap();
                assert_eq!(array.len(), len);
                assert!(array.iter().all(|&v| v == 0));
                array.fill(u64::MAX);
            }
        }
        assert_eq!(manager.used(), 0);
    }

    #[test]
    fn threads_share_an_array_of_atomics() {
        let manager = MemoryManager::new(1 << 20);
        let array = SegmentArray::<AtomicU64>::zeroed(&manager.reserve("t"), 16).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..1600 {
                        array[i % 16].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(array.iter().all(|v| v.load(Ordering::Relaxed) == 400));
    }
}
