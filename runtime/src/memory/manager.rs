//! The memory budget of a process or session, and its holders.
//!
//! A grow that does not fit fails at once with an error that names the largest holders, and asks the largest
//! revocable holder to give memory back. Invariant: the sum of what holders have never exceeds the limit, and
//! what the heap meter reports beyond the charged heap counts against the limit too. The manager never blocks.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;

use super::arena::{Block, Pool, block_bytes};
use super::reservation::{Holder, Reservation};
use crate::error::{Error, Result};

/// How many holders an error names.
const NAMED_HOLDERS: usize = 3;

/// Free memory is kept for the next taker up to this fraction of the limit, and up to this many bytes.
const WARM_DIVISOR: usize = 8;
const MAX_WARM_BYTES: usize = 256 << 20;

/// What the manager knows about its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes that holders have.
    pub used: usize,
    /// Bytes of the heap that no holder was charged for.
    pub unaccounted: usize,
    /// The budget in bytes.
    pub limit: usize,
    /// Bytes that revocable holders were asked for and have not given back yet.
    pub revoking: usize,
}

/// One memory budget in bytes, and the arenas that segments are cut from.
pub struct MemoryManager {
    limit: AtomicUsize,
    used: AtomicUsize,
    mapped: AtomicUsize,
    /// Free memory that the pool keeps for the next taker.
    warm: AtomicUsize,
    peak: AtomicUsize,
    heap_meter: Option<fn() -> usize>,
    pool: Mutex<Pool>,
    holders: Mutex<Vec<Weak<Holder>>>,
    waiters: Mutex<Vec<Waker>>,
    has_waiters: AtomicBool,
    grows: AtomicU64,
    refuse_at: AtomicU64,
}

impl std::fmt::Debug for MemoryManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryManager").field("pressure", &self.pressure()).finish_non_exhaustive()
    }
}

impl MemoryManager {
    /// A budget of `limit` bytes that counts what its holders have.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::build(limit, None)
    }

    /// A budget of `limit` bytes that also counts the heap: `meter` tells its bytes, as
    /// [`heap_bytes`](super::heap_bytes) does.
    pub fn with_heap_meter(limit: usize, meter: fn() -> usize) -> Arc<Self> {
        Self::build(limit, Some(meter))
    }

    /// A budget that never refuses.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    fn build(limit: usize, heap_meter: Option<fn() -> usize>) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            warm: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            heap_meter,
            pool: Mutex::new(Pool::new((limit / WARM_DIVISOR).min(MAX_WARM_BYTES))),
            holders: Mutex::default(),
            waiters: Mutex::default(),
            has_waiters: AtomicBool::new(false),
            grows: AtomicU64::new(0),
            refuse_at: AtomicU64::new(u64::MAX),
        })
    }

    /// A holder with nothing yet, named for errors and EXPLAIN ANALYZE.
    pub fn reserve(self: &Arc<Self>, name: impl Into<String>) -> Reservation {
        self.register(name.into(), false)
    }

    /// A holder that can give memory back when asked through [`Reservation::revoke_requested`].
    pub fn reserve_revocable(self: &Arc<Self>, name: impl Into<String>) -> Reservation {
        self.register(name.into(), true)
    }

    fn register(self: &Arc<Self>, name: String, revocable: bool) -> Reservation {
        let holder = Holder::new(Arc::clone(self), name, revocable);
        let mut holders = self.holders.lock();
        // Dead entries are dropped whenever they could make the list grow.
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
        }
        holders.push(Arc::downgrade(&holder));
        Reservation::of(holder)
    }

    /// The budget in bytes.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the budget. What is held already stays held, even above the new limit.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Bytes that holders have now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that holders had at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// The load now.
    pub fn pressure(&self) -> Pressure {
        let revoking = self.live_holders().iter().map(|holder| holder.revoke_requested()).sum();
        Pressure {
            used: self.used(),
            unaccounted: self.unaccounted(),
            limit: self.limit(),
            revoking,
        }
    }

    /// Wakes `waker` once, at the next return of memory. A caller registers first and then tries again.
    pub fn wake_on_release(&self, waker: &Waker) {
        self.waiters.lock().push(waker.clone());
        self.has_waiters.store(true, Ordering::SeqCst);
    }

    /// Refuses the `k`-th grow from now (0 is the next one), once: a fault for tests.
    pub fn refuse_grow(&self, k: u64) {
        self.refuse_at.store(self.grows.load(Ordering::SeqCst) + k, Ordering::SeqCst);
    }

    /// How many grows were asked for; tests use it to refuse each of them in turn.
    pub fn grows(&self) -> u64 {
        self.grows.load(Ordering::SeqCst)
    }

    /// Bytes of the heap beyond what holders were charged for.
    fn unaccounted(&self) -> usize {
        self.unaccounted_beyond(0)
    }

    /// The same if holders were charged for `heap` bytes more.
    fn unaccounted_beyond(&self, heap: usize) -> usize {
        let Some(meter) = self.heap_meter else {
            return 0;
        };
        let charged_heap = self.used().saturating_sub(self.mapped.load(Ordering::Relaxed));
        meter().saturating_sub(charged_heap + heap)
    }

    /// Charges `bytes` of the heap to `holder`, or fails without charging anything.
    pub(super) fn charge(&self, holder: &Arc<Holder>, bytes: usize) -> Result<()> {
        // What is charged now was most likely metered before.
        self.charge_beside(holder, bytes, self.unaccounted_beyond(bytes))
    }

    /// Charges `bytes` that must fit beside `unaccounted` others.
    fn charge_beside(&self, holder: &Arc<Holder>, bytes: usize, unaccounted: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let grow = self.grows.fetch_add(1, Ordering::Relaxed);
        let refused = grow == self.refuse_at.load(Ordering::Relaxed);
        let budget = self.limit().saturating_sub(unaccounted);
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= budget);
        let charged =
            !refused && self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if !charged {
            let (asked, limit) = (size_text(bytes), size_text(self.limit()));
            let name = holder.name();
            let asking = format!("\"{name}\" asked for {asked} more, the limit is {limit}");
            return Err(self.exhausted(asking, bytes));
        }
        let used = self.used();
        self.peak.fetch_max(used, Ordering::Relaxed);
        holder.add(bytes);
        if used.saturating_add(unaccounted + self.warm.load(Ordering::Relaxed)) > self.limit() {
            self.trim();
        }
        Ok(())
    }

    /// Fails if the heap has outgrown the budget without anybody asking: a value that `working` built, say.
    pub fn check_heap(&self, working: &str) -> Result<()> {
        if self.heap_meter.is_none() {
            return Ok(());
        }
        let (held, limit) = (self.used().saturating_add(self.unaccounted()), self.limit());
        if held <= limit {
            return Ok(());
        }
        let (in_use, allowed) = (size_text(held), size_text(limit));
        let what =
            format!("{in_use} are in use after a step of \"{working}\", the limit is {allowed}");
        Err(self.exhausted(what, held - limit))
    }

    /// Returns `bytes` that `holder` was charged for.
    pub(super) fn release(&self, holder: &Holder, bytes: usize) {
        if bytes == 0 {
            return;
        }
        holder.subtract(bytes);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.wake_waiters();
    }

    fn wake_waiters(&self) {
        if self.has_waiters.load(Ordering::SeqCst) {
            let waiters = {
                let mut waiters = self.waiters.lock();
                self.has_waiters.store(false, Ordering::SeqCst);
                std::mem::take(&mut *waiters)
            };
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    /// Charges and hands out a block of at least `bytes`.
    pub(super) fn allocate(&self, holder: &Arc<Holder>, bytes: usize) -> Result<Block> {
        let charged = block_bytes(bytes);
        self.charge_beside(holder, charged, self.unaccounted())?;
        self.mapped.fetch_add(charged, Ordering::Relaxed);
        let mut pool = self.pool.lock();
        let block = pool.allocate(bytes);
        self.warm.store(pool.warm_bytes(), Ordering::Relaxed);
        drop(pool);
        block.map_err(|error| {
            self.mapped.fetch_sub(charged, Ordering::Relaxed);
            self.release(holder, charged);
            Error::ResourcesExhausted {
                message: format!(
                    "the system has no {} for \"{}\": {error}",
                    size_text(charged),
                    holder.name()
                ),
            }
        })
    }

    /// Takes back a block that [`Self::allocate`] handed out to `holder`.
    pub(super) fn free(&self, holder: &Holder, block: Block) {
        let bytes = block.bytes;
        let mut pool = self.pool.lock();
        pool.release(block.pointer, block.origin);
        self.warm.store(pool.warm_bytes(), Ordering::Relaxed);
        drop(pool);
        self.mapped.fetch_sub(bytes, Ordering::Relaxed);
        self.release(holder, bytes);
    }

    /// Gives free memory that was kept for the next taker back to the system.
    pub fn trim(&self) {
        let mut pool = self.pool.lock();
        pool.trim();
        self.warm.store(0, Ordering::Relaxed);
    }

    fn live_holders(&self) -> Vec<Arc<Holder>> {
        self.holders.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks the largest revocable holder for `bytes`, and builds the error that names the largest holders.
    fn exhausted(&self, what: String, bytes: usize) -> Error {
        let mut holders = self.live_holders();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.size()));
        if let Some(victim) =
            holders.iter().find(|holder| holder.is_revocable() && holder.size() > 0)
        {
            victim.request_revoke(bytes);
        }
        let named: Vec<String> = holders
            .iter()
            .take(NAMED_HOLDERS)
            .filter(|holder| holder.size() > 0)
            .map(|holder| format!("\"{}\" holds {}", holder.name(), size_text(holder.size())))
            .collect();
        let named = if named.is_empty() { "nothing is held".to_string() } else { named.join(", ") };
        let unaccounted = match self.unaccounted() {
            0 => String::new(),
            bytes => format!(", {} of the heap are held by no operator", size_text(bytes)),
        };
        Error::ResourcesExhausted {
            message: format!(
                "out of memory: {what}; {named}{unaccounted} (raise memory_limit to allow more)"
            ),
        }
    }
}

/// Bytes as people read them.
fn size_text(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_that_outgrows_the_budget_is_noticed() {
        let manager = MemoryManager::with_heap_meter(1 << 20, || 600 << 10);
        manager.check_heap("Project").unwrap();
        manager.set_limit(500 << 10);
        let message = manager.check_heap("Project").unwrap_err().to_string();
        assert!(message.contains("600.0 KB are in use after a step of \"Project\""), "{message}");
        assert!(message.contains("600.0 KB of the heap are held by no operator"), "{message}");
    }

    #[test]
    fn over_budget_names_the_biggest_holders() {
        let manager = MemoryManager::new(10 << 20);
        let mut held: Vec<Reservation> =
            ["a", "b", "c", "d"].iter().map(|name| manager.reserve(*name)).collect();
        for (i, reservation) in held.iter_mut().enumerate() {
            reservation.try_grow((i + 1) << 20).unwrap();
        }
        assert_eq!(manager.used(), 10 << 20);
        let message = held[0].try_grow(4096).unwrap_err().to_string();
        for part in [
            "\"a\" asked for 4.0 KB",
            "limit is 10.0 MB",
            "\"d\" holds 4.0 MB",
            "\"b\"",
            "memory_limit",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("\"a\" holds"), "{message}");
        drop(held);
        assert_eq!((manager.used(), manager.peak()), (0, 10 << 20));
    }

    #[test]
    fn the_heap_beyond_what_is_charged_counts() {
        let manager = MemoryManager::with_heap_meter(1 << 20, || 600 << 10);
        let mut heap = manager.reserve("heap");
        let mapped = manager.reserve("mapped");
        heap.try_grow(500 << 10).unwrap();
        assert_eq!(manager.pressure().unaccounted, 100 << 10);
        assert!(mapped.allocate(512 << 10).is_err());
        let segment = mapped.allocate(256 << 10).unwrap();
        assert_eq!(manager.pressure().unaccounted, 100 << 10);
        drop(segment);
    }

    #[test]
    fn kept_memory_goes_back_before_the_limit_is_passed() {
        let manager = MemoryManager::new(64 << 20);
        let mut reservation = manager.reserve("r");
        drop(reservation.allocate(6 << 20).unwrap());
        assert_eq!(manager.warm.load(Ordering::Relaxed), 6 << 20);
        reservation.try_grow(57 << 20).unwrap();
        assert_eq!(manager.warm.load(Ordering::Relaxed), 6 << 20);
        reservation.try_grow(2 << 20).unwrap();
        assert_eq!(manager.warm.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_largest_revocable_holder_is_asked() {
        let manager = MemoryManager::new(8 << 20);
        let mut small = manager.reserve_revocable("small");
        let mut large = manager.reserve_revocable("large");
        let mut fixed = manager.reserve("fixed");
        small.try_grow(1 << 20).unwrap();
        large.try_grow(2 << 20).unwrap();
        fixed.try_grow(5 << 20).unwrap();
        assert!(small.try_grow(1 << 20).is_err());
        assert_eq!((small.revoke_requested(), large.revoke_requested()), (0, 1 << 20));
        assert_eq!(manager.pressure().revoking, 1 << 20);
        large.shrink(2 << 20);
        assert_eq!(large.revoke_requested(), 0, "giving it back answers the request");
        small.try_grow(1 << 20).unwrap();
    }

    #[test]
    fn the_chosen_grow_is_refused_once() {
        let manager = MemoryManager::unlimited();
        let mut reservation = manager.reserve("r");
        manager.refuse_grow(2);
        let results: Vec<bool> = (0..5).map(|_| reservation.try_grow(1).is_ok()).collect();
        assert_eq!(results, [true, true, false, true, true]);
    }

    #[test]
    fn a_release_wakes_who_waits() {
        use std::sync::atomic::AtomicUsize;
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let manager = MemoryManager::unlimited();
        let mut reservation = manager.reserve("r");
        reservation.try_grow(10).unwrap();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        manager.wake_on_release(&Waker::from(Arc::clone(&count)));
        reservation.shrink(1);
        reservation.shrink(1);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
