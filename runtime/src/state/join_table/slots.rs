//! The geometry of open addressing: how many slots, where a key begins to look, where it goes on.
//!
//! Invariant: a search stays inside the part of the slots it began in, so that parts can be filled at the same time.

use crate::error::{Error, Result};

/// Slots that open addressing has for each row, at least.
const SLOTS_PER_ROW: usize = 2;
const SLOTS_MIN: usize = 64;

/// Slots of power-of-two number, each part of which wraps around in itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    bits: u32,
    part_bits: u32,
}

impl Slots {
    /// Slots for at most `rows` keys in `parts` (a power of two) parts.
    pub(super) fn new(rows: usize, parts: usize) -> Self {
        debug_assert!(parts.is_power_of_two() && parts <= SLOTS_MIN / 2);
        let bits = (rows * SLOTS_PER_ROW).max(SLOTS_MIN).next_power_of_two().ilog2();
        Slots { bits, part_bits: bits - parts.ilog2() }
    }

    /// Number of slots.
    pub(super) fn len(self) -> usize {
        1 << self.bits
    }

    /// The slot that follows, inside the part.
    #[inline]
    pub(super) fn after(self, slot: usize) -> usize {
        let mask = (1 << self.part_bits) - 1;
        slot & !mask | (slot + 1) & mask
    }

    /// The part of a slot.
    #[inline]
    pub(super) fn part_of(self, slot: usize) -> usize {
        slot >> self.part_bits
    }

    /// The first slot to look at for a code.
    #[inline]
    pub(super) fn of_code(self, code: u64) -> usize {
        let product = u128::from(code) * 0x9e37_79b9_7f4a_7c15;
        ((product as u64 ^ (product >> 64) as u64) >> (64 - self.bits)) as usize
    }

    /// The first slot to look at for a hash, whose high half is the salt.
    #[inline]
    pub(super) fn of_hash(self, hash: u64) -> usize {
        hash as usize & ((1 << self.bits) - 1)
    }

    /// Whether a part with `used` slots may take one more; the last one stays empty, so that searches end.
    ///
    /// # Errors
    /// When it may not: at most half of all slots are used, so that hashes would have to collide without end.
    #[inline]
    pub(super) fn check_room(self, used: usize) -> Result<()> {
        if used + 1 < 1 << self.part_bits {
            return Ok(());
        }
        Err(Error::Internal("the keys of a join collide beyond what its table holds".into()))
    }
}
