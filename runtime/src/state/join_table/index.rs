//! From keys to the first row of each key's chain.
//!
//! Three forms, chosen when the build side is complete: an array over all codes where the codes are dense, open
//! addressing on codes where they are not, and open addressing on salted hashes for all other keys. Invariant: a slot
//! belongs to one key. Slots are split into parts; each part is filled by one thread with plain stores, which is why
//! there is no locked instruction here, and nobody reads before all parts are complete.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::key_code::{KeyCoder, KeySpan, NO_CODE};
use super::salted::Salted;
use super::slots::Slots;
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{NO_ROW, RowId, RowStore};

/// Codes for which an array is used however few rows there are.
const DIRECT_CODES_MIN: u64 = 1 << 16;
/// Codes a row up to which an array takes no more memory than open addressing.
const DIRECT_CODES_PER_ROW: u64 = 16;

/// How many rows ahead a slot is asked for, where a loop must wait for each.
pub(super) const LOOKAHEAD: usize = 16;

/// Room that lookups and inserts use, kept from batch to batch.
#[derive(Debug, Default)]
pub struct LookupScratch {
    /// Codes or hashes.
    pub(super) codes: Vec<u64>,
    /// Rows that are not decided, with the slots they look at next.
    pub(super) pending: Vec<(u32, u32)>,
    /// Pairs to compare, and those found equal.
    pub(super) rows: Vec<u32>,
    pub(super) ids: Vec<RowId>,
    pub(super) matches: Vec<u32>,
}

/// What one thread fills: a part of the slots.
#[derive(Debug)]
pub(super) struct Filling {
    /// Which part.
    pub(super) part: usize,
    /// Slots used in it.
    pub(super) used: usize,
    /// Whether some key had more than one row.
    pub(super) duplicates: bool,
}

/// Rows to insert.
pub(super) struct NewRows<'a> {
    /// Where they are.
    pub(super) store: &'a RowStore,
    /// Their keys.
    pub(super) keys: &'a [ArrayRef],
    /// The id of the first.
    pub(super) first: RowId,
    /// For each row, by id, the next one with the same key plus one; 0 at the end.
    pub(super) chains: &'a [AtomicU32],
}

impl NewRows<'_> {
    /// Puts a row before the chain that begins with `head` (plus one, 0 for none).
    #[inline]
    pub(super) fn link(&self, row: usize, head: u32, filling: &mut Filling) -> u32 {
        let id = self.first + row as u32;
        if head != 0 {
            self.chains[id as usize].store(head, Ordering::Relaxed);
            filling.duplicates = true;
        }
        id + 1
    }
}

/// The slots of a join table.
#[derive(Debug)]
pub(super) enum Index {
    /// By code, the first row plus one; the last element stands for keys without rows.
    Direct { coder: KeyCoder, parts: usize, heads: SegmentArray<AtomicU32> },
    /// In each slot a code plus one, then the first row plus one.
    Coded { coder: KeyCoder, slots: Slots, pairs: SegmentArray<AtomicU64> },
    /// By hash.
    Salted(Salted),
}

impl Index {
    /// An empty index for `rows` rows, to be filled in `parts` parts.
    pub(super) fn new(
        types: &[DataType],
        spans: &[KeySpan],
        null_equal: bool,
        (rows, parts): (usize, usize),
        reservation: &Reservation,
    ) -> Result<Self> {
        let Some(coder) = KeyCoder::new(types, spans, null_equal) else {
            return Ok(Index::Salted(Salted::new(
                types.len(),
                null_equal,
                (rows, parts),
                reservation,
            )?));
        };
        let direct = DIRECT_CODES_MIN.max(DIRECT_CODES_PER_ROW.saturating_mul(rows as u64));
        if coder.num_codes() <= direct {
            let heads = SegmentArray::zeroed(reservation, coder.num_codes() as usize + 1)?;
            return Ok(Index::Direct { coder, parts, heads });
        }
        let slots = Slots::new(rows, parts);
        let pairs = SegmentArray::zeroed(reservation, 2 * slots.len())?;
        Ok(Index::Coded { coder, slots, pairs })
    }

    /// Inserts those of the rows that belong to the part being filled. Rows whose key equals nothing stay out.
    pub(super) fn insert(
        &self,
        rows: &NewRows<'_>,
        filling: &mut Filling,
        scratch: &mut LookupScratch,
    ) -> Result<()> {
        match self {
            Index::Direct { coder, parts, heads } => {
                coder.encode(rows.keys, &mut scratch.codes)?;
                insert_direct(heads, *parts, &scratch.codes, rows, filling);
                Ok(())
            }
            Index::Coded { coder, slots, pairs } => {
                coder.encode(rows.keys, &mut scratch.codes)?;
                insert_coded(pairs, *slots, &scratch.codes, rows, filling)
            }
            Index::Salted(salted) => salted.insert(rows, filling, scratch),
        }
    }

    /// The first row of each key's chain, or [`NO_ROW`].
    pub(super) fn lookup(
        &self,
        store: &RowStore,
        keys: &[ArrayRef],
        scratch: &mut LookupScratch,
        found: &mut Vec<RowId>,
    ) -> Result<()> {
        found.clear();
        match self {
            Index::Direct { coder, heads, .. } => {
                coder.encode(keys, &mut scratch.codes)?;
                let last = heads.len() as u64 - 1;
                found.extend(scratch.codes.iter().map(|&code| {
                    heads[code.min(last) as usize].load(Ordering::Relaxed).wrapping_sub(1)
                }));
                Ok(())
            }
            Index::Coded { coder, slots, pairs } => {
                coder.encode(keys, &mut scratch.codes)?;
                lookup_coded(pairs, *slots, scratch, found);
                Ok(())
            }
            Index::Salted(salted) => salted.lookup(store, keys, scratch, found),
        }
    }
}

fn insert_direct(
    heads: &[AtomicU32],
    parts: usize,
    codes: &[u64],
    rows: &NewRows<'_>,
    filling: &mut Filling,
) {
    // The last element is nobody's.
    let len = heads.len() - 1;
    let bound = |part: usize| (len as u128 * part as u128 / parts as u128) as usize;
    let (start, end) = (bound(filling.part), bound(filling.part + 1));
    let heads = &heads[start..end];
    for (row, &code) in codes.iter().enumerate() {
        if let Some(slot) = heads.get((code as usize).wrapping_sub(start)) {
            let head = rows.link(row, slot.load(Ordering::Relaxed), filling);
            slot.store(head, Ordering::Relaxed);
        }
    }
}

fn insert_coded(
    pairs: &SegmentArray<AtomicU64>,
    slots: Slots,
    codes: &[u64],
    rows: &NewRows<'_>,
    filling: &mut Filling,
) -> Result<()> {
    for (row, &code) in codes.iter().enumerate() {
        if let Some(&code) = codes.get(row + LOOKAHEAD) {
            pairs.prefetch(2 * slots.of_code(code));
        }
        let mut slot = slots.of_code(code);
        if code == NO_CODE || slots.part_of(slot) != filling.part {
            continue;
        }
        loop {
            match pairs[2 * slot].load(Ordering::Relaxed) {
                0 => {
                    slots.check_room(filling.used)?;
                    filling.used += 1;
                    pairs[2 * slot].store(code + 1, Ordering::Relaxed);
                    break;
                }
                taken if taken == code + 1 => break,
                _ => slot = slots.after(slot),
            }
        }
        let head = &pairs[2 * slot + 1];
        let first = rows.link(row, head.load(Ordering::Relaxed) as u32, filling);
        head.store(u64::from(first), Ordering::Relaxed);
    }
    Ok(())
}

fn lookup_coded(
    pairs: &[AtomicU64],
    slots: Slots,
    scratch: &mut LookupScratch,
    found: &mut Vec<RowId>,
) {
    let (codes, pending) = (&scratch.codes, &mut scratch.pending);
    // The first pass has no branch that depends on a load, so that many loads are under way at a time.
    pending.clear();
    pending.resize(codes.len(), (0, 0));
    let mut undecided = 0;
    found.extend(codes.iter().enumerate().map(|(row, &code)| {
        let slot = slots.of_code(code);
        let wanted = code.wrapping_add(1);
        let key = pairs[2 * slot].load(Ordering::Relaxed);
        let head = pairs[2 * slot + 1].load(Ordering::Relaxed) as u32;
        pending[undecided] = (row as u32, slot as u32);
        undecided += usize::from(key != wanted && key != 0 && wanted != 0);
        if key == wanted { head.wrapping_sub(1) } else { NO_ROW }
    }));
    for &(row, slot) in &pending[..undecided] {
        let wanted = codes[row as usize] + 1;
        let mut slot = slots.after(slot as usize);
        found[row as usize] = loop {
            match pairs[2 * slot].load(Ordering::Relaxed) {
                0 => break NO_ROW,
                key if key == wanted => {
                    break pairs[2 * slot + 1].load(Ordering::Relaxed) as u32 - 1;
                }
                _ => slot = slots.after(slot),
            }
        };
    }
}
