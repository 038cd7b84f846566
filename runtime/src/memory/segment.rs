//! Segments: owned, page-aligned pieces of managed memory.
//!
//! Invariant: a segment is the sole owner of its bytes, all of them are initialised, and every access is checked
//! against its length. A segment is charged to one holder; [`Segment::charge_to`] moves the charge when pages are
//! handed over whole.

use std::mem::size_of;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;

use super::arena::{Block, Origin};
use super::plain::Plain;
use super::reservation::{Holder, Reservation};

/// An owned piece of managed memory, aligned to 4 KiB.
pub struct Segment {
    pointer: NonNull<u8>,
    len: usize,
    /// None for the empty segment, which owns nothing.
    owner: Option<(Arc<Holder>, Origin)>,
}

// SAFETY: a segment is the sole owner of plain bytes; nothing about them is bound to a thread.
#[expect(unsafe_code, reason = "raw pointers are not Send by themselves")]
unsafe impl Send for Segment {}
// SAFETY: through a shared reference the bytes can only be read.
#[expect(unsafe_code, reason = "raw pointers are not Sync by themselves")]
unsafe impl Sync for Segment {}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Segment {
    pub(super) fn of(holder: Arc<Holder>, block: Block) -> Self {
        let pointer = NonNull::new(block.pointer).expect("a mapping is never at address zero");
        Self { pointer, len: block.bytes, owner: Some((holder, block.origin)) }
    }

    /// The segment of no bytes.
    pub const fn empty() -> Self {
        Self { pointer: NonNull::dangling(), len: 0, owner: None }
    }

    /// Bytes in the segment.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the segment has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the content is known to be zeros because nobody wrote to it before.
    pub(super) fn is_fresh_mapping(&self) -> bool {
        matches!(self.owner, Some((_, Origin::Mapping { fresh: true, .. })))
    }

    /// The bytes.
    #[inline]
    #[expect(unsafe_code, reason = "the bytes are in mapped memory")]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the segment owns `len` initialised bytes at `pointer`; they are not written while borrowed.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    #[inline]
    #[expect(unsafe_code, reason = "the bytes are in mapped memory")]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the segment is the sole owner of `len` initialised bytes at `pointer`, and is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }

    #[inline]
    fn check<T>(&self, offset: usize) {
        // Written so that it cannot overflow; a segment of fewer bytes than T wraps to a failed comparison.
        assert!(
            self.len >= size_of::<T>() && offset <= self.len - size_of::<T>(),
            "access at {offset} beyond a segment of {} bytes",
            self.len
        );
    }

    /// Reads the value at byte `offset`, which need not be aligned.
    #[inline]
    #[expect(unsafe_code, reason = "unaligned read from mapped memory")]
    pub fn read<T: Plain + Copy>(&self, offset: usize) -> T {
        self.check::<T>(offset);
        // SAFETY: the range is inside the segment, initialised, and any bit pattern is a valid `T`.
        unsafe { self.pointer.as_ptr().add(offset).cast::<T>().read_unaligned() }
    }

    /// Writes the value at byte `offset`, which need not be aligned.
    #[inline]
    #[expect(unsafe_code, reason = "unaligned write to mapped memory")]
    pub fn write<T: Plain + Copy>(&mut self, offset: usize, value: T) {
        self.check::<T>(offset);
        // SAFETY: the range is inside the segment, which is borrowed mutably.
        unsafe { self.pointer.as_ptr().add(offset).cast::<T>().write_unaligned(value) }
    }

    /// Tells the processor that the bytes at `offset` will be looked at soon. Any offset is fine.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        prefetch(self.pointer.as_ptr().wrapping_add(offset));
    }

    /// Writes `values` at `offset`, `offset + stride`, and so on, checking the range once.
    #[inline]
    #[expect(unsafe_code, reason = "unaligned writes to mapped memory")]
    pub fn write_strided<T: Plain + Copy>(
        &mut self,
        offset: usize,
        stride: usize,
        values: impl ExactSizeIterator<Item = T>,
    ) {
        let count = values.len();
        if count == 0 {
            return;
        }
        let last = (count - 1).checked_mul(stride).and_then(|bytes| bytes.checked_add(offset));
        self.check::<T>(last.expect("a page is far smaller than the address space"));
        let mut position = offset;
        // `take` bounds the writes even if the iterator lies about its length.
        for value in values.take(count) {
            // SAFETY: `position` is at most the last offset checked above; the segment is borrowed mutably.
            unsafe { self.pointer.as_ptr().add(position).cast::<T>().write_unaligned(value) }
            position += stride;
        }
    }

    /// Reads `count` values from `offset`, `offset + stride`, and so on, checking the range once.
    #[inline]
    #[expect(unsafe_code, reason = "unaligned reads from mapped memory")]
    pub fn read_strided<T: Plain + Copy>(
        &self,
        offset: usize,
        stride: usize,
        count: usize,
    ) -> impl ExactSizeIterator<Item = T> + '_ {
        if count > 0 {
            let last = (count - 1).checked_mul(stride).and_then(|bytes| bytes.checked_add(offset));
            self.check::<T>(last.expect("a page is far smaller than the address space"));
        }
        (0..count).map(move |i| {
            // SAFETY: `i` is below `count`, so that the offset is at most the last one checked above.
            unsafe { self.pointer.as_ptr().add(offset + i * stride).cast::<T>().read_unaligned() }
        })
    }

    /// Moves the charge for this segment to the holder of `reservation`, which shares one budget with the holder so
    /// far: a segment goes back to the arenas it was cut from.
    pub fn charge_to(&mut self, reservation: &Reservation) {
        let Some((holder, _)) = &mut self.owner else {
            return;
        };
        if reservation.holds(holder) {
            return;
        }
        let target = reservation.holder();
        assert!(
            Arc::ptr_eq(holder.manager(), target.manager()),
            "a segment goes back to the arenas it was cut from"
        );
        holder.subtract(self.len);
        target.add(self.len);
        *holder = Arc::clone(target);
    }

    /// The first `len` bytes as an Arrow buffer that keeps the segment (and its charge) alive.
    #[expect(unsafe_code, reason = "Arrow takes foreign memory by pointer")]
    pub fn into_buffer(self, len: usize) -> Buffer {
        assert!(len <= self.len, "a buffer of {len} bytes in a segment of {}", self.len);
        let pointer = self.pointer;
        // SAFETY: the bytes are initialised and valid while the owner passed along lives; nobody writes to them
        // any more, since the segment is consumed.
        unsafe { Buffer::from_custom_allocation(pointer, len, Arc::new(AssertUnwindSafe(self))) }
    }

    /// The start of the bytes, for views inside this module.
    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }
}

/// Asks the processor to bring an address near, where there is an instruction for it.
#[inline]
#[expect(unsafe_code, reason = "the instruction takes a pointer")]
pub(super) fn prefetch(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program sees and ignores addresses that are not mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some((holder, origin)) = self.owner.take() {
            let block = Block { pointer: self.pointer.as_ptr(), bytes: self.len, origin };
            holder.manager().free(&holder, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryManager;
    use super::*;

    #[test]
    fn values_come_back_unaligned_and_strided() {
        let manager = MemoryManager::new(1 << 20);
        let mut segment = manager.reserve("r").allocate(4096).unwrap();
        segment.write(3, 0x0102_0304_0506_0708_u64);
        assert_eq!(segment.read::<u64>(3), 0x0102_0304_0506_0708);
        segment.write_strided(1, 17, (0..100_u32).map(|v| u64::from(v * v)));
        assert_eq!(segment.read::<u64>(1 + 17 * 99), 99 * 99);
        let values: Vec<u64> = segment.read_strided(1, 17, 100).collect();
        assert_eq!(values[50], 2500);
    }

    #[test]
    #[should_panic(expected = "beyond a segment")]
    fn reading_beyond_the_end_panics() {
        let manager = MemoryManager::new(1 << 20);
        let segment = manager.reserve("r").allocate(4096).unwrap();
        segment.read::<u64>(4089);
    }

    #[test]
    #[should_panic(expected = "beyond a segment")]
    fn the_empty_segment_has_nothing_to_read() {
        Segment::empty().read::<u8>(0);
    }

    #[test]
    #[should_panic(expected = "beyond a segment")]
    fn strided_writes_are_checked_as_a_whole() {
        let manager = MemoryManager::new(1 << 20);
        let mut segment = manager.reserve("r").allocate(4096).unwrap();
        segment.write_strided(0, 8, (0..513_u32).map(u64::from));
    }

    #[test]
    fn the_charge_moves_and_the_buffer_keeps_it() {
        let manager = MemoryManager::new(1 << 20);
        let (from, to) = (manager.reserve("from"), manager.reserve("to"));
        let mut segment = from.allocate(10_000).unwrap();
        segment.as_mut_slice()[..3].copy_from_slice(b"abc");
        segment.charge_to(&to);
        assert_eq!((from.total(), to.total()), (0, 12_288));
        let buffer = segment.into_buffer(3);
        assert_eq!(buffer.as_slice(), b"abc");
        assert_eq!(manager.used(), 12_288);
        drop(buffer);
        assert_eq!(manager.used(), 0);
    }
}
