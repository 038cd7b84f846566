//! A holder's share of the memory budget.
//!
//! A [`Reservation`] is a handle; [`Reservation::share`] makes another handle of the same holder, so that the
//! stores of one operator appear as one holder in errors and in EXPLAIN ANALYZE. Invariant: a handle returns what it
//! was charged for when it is dropped, a segment when *it* is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::manager::MemoryManager;
use super::segment::Segment;
use crate::error::Result;

/// What one holder has, over all its handles and segments.
pub(super) struct Holder {
    manager: Arc<MemoryManager>,
    name: String,
    revocable: bool,
    size: AtomicUsize,
    peak: AtomicUsize,
    revoke: AtomicUsize,
}

impl Holder {
    pub(super) fn new(manager: Arc<MemoryManager>, name: String, revocable: bool) -> Arc<Self> {
        Arc::new(Self {
            manager,
            name,
            revocable,
            size: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            revoke: AtomicUsize::new(0),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_revocable(&self) -> bool {
        self.revocable
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn manager(&self) -> &Arc<MemoryManager> {
        &self.manager
    }

    pub(super) fn add(&self, bytes: usize) {
        let size = self.size.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(size, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.size.fetch_sub(bytes, Ordering::Relaxed);
        if self.revoke.load(Ordering::Relaxed) != 0 {
            // Whatever a holder returns counts as an answer to the request.
            let rest = |asked: usize| Some(asked.saturating_sub(bytes));
            let answered = self.revoke.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
            debug_assert!(answered.is_ok(), "the update always yields a value");
        }
    }

    pub(super) fn request_revoke(&self, bytes: usize) {
        self.revoke.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(super) fn revoke_requested(&self) -> usize {
        self.revoke.load(Ordering::Relaxed)
    }
}

/// A share of the memory budget that returns its bytes when it is dropped.
pub struct Reservation {
    holder: Arc<Holder>,
    charged: usize,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("name", &self.holder.name)
            .field("charged", &self.charged)
            .field("total", &self.holder.size())
            .finish()
    }
}

impl Reservation {
    pub(super) fn of(holder: Arc<Holder>) -> Self {
        Self { holder, charged: 0 }
    }

    /// Another handle, with nothing yet, of the same holder.
    pub fn share(&self) -> Self {
        Self::of(Arc::clone(&self.holder))
    }

    /// The holder's name.
    pub fn name(&self) -> &str {
        &self.holder.name
    }

    /// Whether the holder can give memory back when asked.
    pub fn is_revocable(&self) -> bool {
        self.holder.revocable
    }

    /// Bytes this handle was charged for; segments and other handles are not among them.
    pub fn size(&self) -> usize {
        self.charged
    }

    /// Bytes the holder has: all its handles and segments.
    pub fn total(&self) -> usize {
        self.holder.size()
    }

    /// The most bytes the holder had at once.
    pub fn peak(&self) -> usize {
        self.holder.peak.load(Ordering::Relaxed)
    }

    /// Bytes the holder was asked to give back and has not yet; 0 when none. Its operator looks at every step.
    pub fn revoke_requested(&self) -> usize {
        self.holder.revoke_requested()
    }

    /// Asks this holder to give `bytes` back, as the manager does under pressure.
    pub fn request_revoke(&self, bytes: usize) {
        self.holder.request_revoke(bytes);
    }

    /// Declares the request to give memory back as answered, when there is nothing (more) to give.
    pub fn dismiss_revoke(&self) {
        self.holder.revoke.store(0, Ordering::Relaxed);
    }

    /// The manager this is a share of.
    pub fn manager(&self) -> &Arc<MemoryManager> {
        self.holder.manager()
    }

    /// Charges `bytes` more.
    ///
    /// # Errors
    /// `ResourcesExhausted` when they do not fit; nothing is charged then.
    pub fn try_grow(&mut self, bytes: usize) -> Result<()> {
        self.holder.manager.charge(&self.holder, bytes)?;
        self.charged += bytes;
        Ok(())
    }

    /// Makes this handle's charge exactly `bytes`.
    ///
    /// # Errors
    /// `ResourcesExhausted` when the growth does not fit; the charge stays as it was then.
    pub fn try_resize(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.charged {
            self.try_grow(bytes - self.charged)
        } else {
            self.shrink(self.charged - bytes);
            Ok(())
        }
    }

    /// Returns `bytes` of this handle's charge; more than it has counts as all of it.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.charged);
        self.charged -= bytes;
        self.holder.manager.release(&self.holder, bytes);
    }

    /// Cuts a segment of at least `bytes` (at least one). Its content is unspecified.
    ///
    /// # Errors
    /// `ResourcesExhausted` when it does not fit the budget or the system has no memory.
    pub fn allocate(&self, bytes: usize) -> Result<Segment> {
        let block = self.holder.manager.allocate(&self.holder, bytes)?;
        Ok(Segment::of(Arc::clone(&self.holder), block))
    }

    /// Whether this is a handle of the same holder as `segment`'s.
    pub(super) fn holds(&self, holder: &Arc<Holder>) -> bool {
        Arc::ptr_eq(&self.holder, holder)
    }

    pub(super) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.charged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_holder_add_up() {
        let manager = MemoryManager::new(1 << 20);
        let mut first = manager.reserve("sort");
        let mut second = first.share();
        first.try_grow(100).unwrap();
        second.try_resize(50).unwrap();
        let segment = second.allocate(5000).unwrap();
        assert_eq!((first.size(), second.size(), first.total()), (100, 50, 150 + 8192));
        drop(second);
        drop(segment);
        assert_eq!((first.total(), first.peak(), manager.used()), (100, 150 + 8192, 100));
        first.try_resize(30).unwrap();
        assert_eq!(manager.used(), 30);
        first.shrink(1000);
        assert_eq!(manager.used(), 0);
    }

    #[test]
    fn a_request_can_be_dismissed() {
        let manager = MemoryManager::new(1 << 20);
        let reservation = manager.reserve_revocable("join");
        reservation.request_revoke(10);
        assert_eq!(reservation.revoke_requested(), 10);
        reservation.dismiss_revoke();
        assert_eq!(reservation.revoke_requested(), 0);
    }
}
