//! Buffers for fetched and unpacked bytes, used again and again by all scans of the process.
//!
//! A new buffer of a megabyte costs more than what is written to it: the system clears its pages when they are first
//! touched, and the allocator gives them back. A buffer that was used before has neither cost. Invariant: the bytes of
//! a buffer are initialised up to its capacity as the pool sees it, so that taking one clears nothing; a buffer comes
//! back when nothing refers to its bytes any more, and the pool keeps a bounded number of bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes that wait for their next use at most.
const FREE_BYTES_MAX: usize = 16 << 20;
/// The fraction of the memory limit that waits for its next use at most.
const FREE_DIVISOR: usize = 64;
/// Smaller buffers are the allocator's affair.
const POOLED_BYTES_MIN: usize = 32 << 10;
/// A buffer serves what fills at least one in this many of its bytes.
const WASTE_MAX: usize = 4;

/// The buffers that wait.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    free_bytes_max: AtomicUsize,
}

static PROCESS: LazyLock<Arc<BufferPool>> = LazyLock::new(|| BufferPool::new(usize::MAX));

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// The process's pool.
    pub fn process() -> Arc<Self> {
        PROCESS.clone()
    }

    /// From now on keeps no more than a memory limit, in bytes, allows.
    pub fn keep_within(&self, memory_limit: usize) {
        let bytes = free_bytes_max(memory_limit);
        self.free_bytes_max.store(bytes, Ordering::Relaxed);
        self.free.lock().shrink_to(bytes);
    }

    fn new(memory_limit: usize) -> Arc<Self> {
        let free_bytes_max = free_bytes_max(memory_limit).into();
        Arc::new(BufferPool { free: Mutex::default(), free_bytes_max })
    }

    /// A buffer of `length` bytes with whatever they were left as.
    pub fn take(self: &Arc<Self>, length: usize) -> PooledBuffer {
        if length < POOLED_BYTES_MIN {
            return PooledBuffer { bytes: vec![0; length], length, pool: self.clone() };
        }
        let used = {
            let mut free = self.free.lock();
            let fits = |b: &&Vec<u8>| b.len() >= length && b.len() / WASTE_MAX <= length;
            let best = free.buffers.iter().filter(fits).map(Vec::len).min();
            // Of equals the one that was used last is the likeliest to be in a cache.
            let place = best.and_then(|l| free.buffers.iter().rposition(|b| b.len() == l));
            place.map(|place| {
                let buffer = free.buffers.remove(place);
                free.bytes -= buffer.len();
                buffer
            })
        };
        let bytes = used.unwrap_or_else(|| vec![0; length]);
        PooledBuffer { bytes, length, pool: self.clone() }
    }

    fn give(&self, buffer: Vec<u8>) {
        let bytes_max = self.free_bytes_max.load(Ordering::Relaxed);
        if (POOLED_BYTES_MIN..=bytes_max).contains(&buffer.len()) {
            let mut free = self.free.lock();
            free.bytes += buffer.len();
            free.buffers.push(buffer);
            free.shrink_to(bytes_max);
        }
    }
}

impl Free {
    /// Lets go of the buffers that have waited longest.
    fn shrink_to(&mut self, bytes_max: usize) {
        let mut surplus = self.bytes.saturating_sub(bytes_max);
        let dropped = self.buffers.iter().take_while(|b| {
            let drop = surplus > 0;
            surplus = surplus.saturating_sub(b.len());
            drop
        });
        let dropped = dropped.count();
        self.bytes -= self.buffers.drain(..dropped).map(|b| b.len()).sum::<usize>();
    }
}

fn free_bytes_max(memory_limit: usize) -> usize {
    FREE_BYTES_MAX.min(memory_limit / FREE_DIVISOR)
}

/// Bytes that go back to their pool.
#[derive(Debug)]
pub struct PooledBuffer {
    bytes: Vec<u8>,
    length: usize,
    pool: Arc<BufferPool>,
}

impl PooledBuffer {
    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// The bytes, to be shared.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1 << 10;

    fn filled(pool: &Arc<BufferPool>, length: usize, byte: u8) -> Bytes {
        let mut buffer = pool.take(length);
        buffer.bytes_mut().fill(byte);
        buffer.freeze()
    }

    #[test]
    fn a_buffer_is_used_again_once_nothing_refers_to_it() {
        let pool = BufferPool::new(usize::MAX);
        let first = filled(&pool, 100 * KB, 1);
        let (part, address) = (first.slice(10..20), first.as_ptr());
        drop(first);
        let second = filled(&pool, 100 * KB, 2);
        assert_ne!(second.as_ptr(), address, "a part of the first is still in use");
        assert_eq!(part.as_ref(), [1; 10]);
        drop(part);
        let third = filled(&pool, 90 * KB, 3);
        assert_eq!((third.as_ptr(), third.len()), (address, 90 * KB));
        assert_eq!(second.as_ref(), vec![2; 100 * KB]);
    }

    #[test]
    fn little_is_kept_and_much_is_not_used_for_little() {
        let pool = BufferPool::new(64 * 1000 * KB);
        drop([filled(&pool, 600 * KB, 1), filled(&pool, 600 * KB, 2)]);
        assert_eq!(pool.free.lock().bytes, 600 * KB);
        assert_eq!(pool.take(100 * KB).bytes.len(), 100 * KB);
        assert_eq!(pool.free.lock().bytes, 700 * KB);
        drop(filled(&pool, 900 * KB, 3));
        let left: Vec<usize> = pool.free.lock().buffers.iter().map(Vec::len).collect();
        assert_eq!(left, [100 * KB, 900 * KB], "those that waited longest went first");
    }
}
