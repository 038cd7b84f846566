//! A page: the fixed parts of up to 2^k rows, and the heap their views point into.
//!
//! A view is 16 bytes as in Arrow: length, then up to 12 bytes inline; or 4 bytes of prefix, the number of the heap
//! segment and the offset in it. Invariant: views of a page point into segments of the same page only, which is why a
//! page can change its store, go to a file and come back as it is.

use super::layout::RowLayout;
use crate::error::{Error, Result};
use crate::memory::{Reservation, Segment};

/// Bytes of a page's first heap segment; each further one is twice as large, up to the largest.
const MIN_HEAP_BYTES: usize = 4 << 10;
const MAX_HEAP_BYTES: usize = 256 << 10;
/// Rows that a store's first page starts with.
const MIN_PAGE_ROWS: usize = 64;
/// Bytes that a view holds by itself.
pub(crate) const INLINE_BYTES: usize = 12;

/// Rows and the heap of their variable parts.
#[derive(Debug)]
pub struct RowPage {
    pub(crate) rows: Segment,
    pub(crate) len: u32,
    pub(crate) pins: u32,
    pub(crate) heap: Vec<Segment>,
    /// Bytes used in the last heap segment.
    pub(crate) heap_used: usize,
    /// Columns (the 64th stands for all further ones) that may have NULLs.
    pub(crate) null_columns: u64,
}

/// The bit for a column in [`RowPage::null_columns`].
#[inline]
pub(crate) fn null_column_bit(column: usize) -> u64 {
    1 << column.min(63)
}

/// The view of a string that is longer than a view holds.
#[inline]
pub(crate) fn long_view(bytes: &[u8], segment: u32, offset: u32) -> u128 {
    let prefix = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    u128::from(bytes.len() as u32)
        | u128::from(prefix) << 32
        | u128::from(segment) << 64
        | u128::from(offset) << 96
}

/// The view of a string of at most 12 bytes.
#[inline]
pub(crate) fn inline_view(bytes: &[u8]) -> u128 {
    debug_assert!(bytes.len() <= INLINE_BYTES);
    u128::from(bytes.len() as u32) | short_bytes(bytes) << 32
}

/// Up to 16 bytes as a number, the first byte lowest, without a call to copy them.
#[inline]
pub(crate) fn short_bytes(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    let word4 =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let word8 = |at: usize| u64::from(word4(at)) | u64::from(word4(at + 4)) << 32;
    if len >= 8 {
        // Two loads that may overlap; the second is shifted to begin at byte 8.
        let tail = if len == 8 { 0 } else { word8(len - 8) >> (8 * (16 - len)) };
        u128::from(word8(0)) | u128::from(tail) << 64
    } else if len >= 4 {
        let tail = if len == 4 { 0 } else { word4(len - 4) >> (8 * (8 - len)) };
        u128::from(word4(0)) | u128::from(tail) << 32
    } else {
        let mut value = 0;
        for (i, &byte) in bytes.iter().enumerate() {
            value |= u128::from(byte) << (8 * i);
        }
        value
    }
}

impl RowPage {
    /// An empty page with room for `rows` rows.
    pub(crate) fn with_room(
        layout: &RowLayout,
        reservation: &Reservation,
        rows: usize,
    ) -> Result<Self> {
        let rows = rows.clamp(MIN_PAGE_ROWS, layout.rows_per_page().max(MIN_PAGE_ROWS));
        let rows = rows.min(layout.rows_per_page());
        let rows = reservation.allocate(rows * layout.row_bytes())?;
        Ok(Self { rows, len: 0, pins: 0, heap: Vec::new(), heap_used: 0, null_columns: 0 })
    }

    /// A page that holds nothing and stands where a page was taken away.
    pub(crate) fn vacant() -> Self {
        Self {
            rows: Segment::empty(),
            len: 0,
            pins: 0,
            heap: Vec::new(),
            heap_used: 0,
            null_columns: 0,
        }
    }

    /// Rows in the page.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the page has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of managed memory the page takes.
    pub fn memory_bytes(&self) -> usize {
        self.rows.len() + self.heap.iter().map(Segment::len).sum::<usize>()
    }

    /// Rows that fit without growing.
    pub(crate) fn capacity(&self, layout: &RowLayout) -> usize {
        (self.rows.len() / layout.row_bytes()).min(layout.rows_per_page())
    }

    /// Makes room for `rows` rows in all, at most a full page.
    pub(crate) fn grow(
        &mut self,
        layout: &RowLayout,
        reservation: &Reservation,
        rows: usize,
    ) -> Result<()> {
        let capacity = self.capacity(layout);
        if rows <= capacity {
            return Ok(());
        }
        let rows = rows.max(capacity * 2).min(layout.rows_per_page());
        let mut larger = reservation.allocate(rows * layout.row_bytes())?;
        let used = self.len() * layout.row_bytes();
        larger.as_mut_slice()[..used].copy_from_slice(&self.rows.as_slice()[..used]);
        self.rows = larger;
        Ok(())
    }

    /// Puts a string into the heap unless a view holds it, and returns its view.
    pub(crate) fn store_bytes(&mut self, bytes: &[u8], reservation: &Reservation) -> Result<u128> {
        if bytes.len() <= INLINE_BYTES {
            return Ok(inline_view(bytes));
        }
        let (segment, offset) = self.heap_room(bytes.len(), reservation)?;
        self.heap[segment].as_mut_slice()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(long_view(bytes, segment as u32, offset as u32))
    }

    /// Takes `bytes` bytes of the heap; returns the segment and the offset in it.
    fn heap_room(&mut self, bytes: usize, reservation: &Reservation) -> Result<(usize, usize)> {
        if u32::try_from(bytes).is_err() {
            return Err(Error::user("a value of more than 4 GB cannot be kept in a row"));
        }
        let fits = self.heap.last().is_some_and(|segment| segment.len() - self.heap_used >= bytes);
        if !fits {
            let next = self.heap.last().map_or(MIN_HEAP_BYTES, |segment| segment.len() * 2);
            let next = next.min(MAX_HEAP_BYTES).max(bytes);
            self.heap.push(reservation.allocate(next)?);
            self.heap_used = 0;
        }
        let offset = self.heap_used;
        self.heap_used += bytes;
        Ok((self.heap.len() - 1, offset))
    }

    /// The bytes of the view at byte `offset` of the rows.
    #[inline]
    pub(crate) fn bytes_at(&self, offset: usize) -> &[u8] {
        let view: u128 = self.rows.read(offset);
        let len = view as u32 as usize;
        if len <= INLINE_BYTES {
            &self.rows.as_slice()[offset + 4..offset + 4 + len]
        } else {
            self.long_bytes(view)
        }
    }

    /// The bytes of a view that points into the heap.
    #[inline]
    pub(crate) fn long_bytes(&self, view: u128) -> &[u8] {
        let (len, segment, offset) =
            (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        &self.heap[segment].as_slice()[offset..offset + len]
    }

    /// Brings the heap bytes near that the view at byte `offset` points to.
    #[inline]
    pub(crate) fn prefetch_bytes(&self, offset: usize) {
        let view: u128 = self.rows.read(offset);
        if view as u32 as usize > INLINE_BYTES
            && let Some(heap) = self.heap.get((view >> 64) as u32 as usize)
        {
            heap.prefetch((view >> 96) as u32 as usize);
        }
    }

    /// Replaces the string of the view at byte `offset`, in its old place if it fits there.
    pub(crate) fn replace_bytes(
        &mut self,
        offset: usize,
        bytes: &[u8],
        reservation: &Reservation,
    ) -> Result<()> {
        let old: u128 = self.rows.read(offset);
        let old_len = old as u32 as usize;
        let view = if bytes.len() > INLINE_BYTES && bytes.len() <= old_len {
            let (segment, at) = ((old >> 64) as u32, (old >> 96) as u32);
            let range = at as usize..at as usize + bytes.len();
            self.heap[segment as usize].as_mut_slice()[range].copy_from_slice(bytes);
            long_view(bytes, segment, at)
        } else {
            self.store_bytes(bytes, reservation)?
        };
        self.rows.write(offset, view);
        Ok(())
    }

    /// Moves the charge of the page to the holder of `reservation`.
    pub fn charge_to(&mut self, reservation: &Reservation) {
        self.rows.charge_to(reservation);
        self.heap.iter_mut().for_each(|segment| segment.charge_to(reservation));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bytes_reads_every_length() {
        let text = b"abcdefghijklmnop";
        for len in 0..=16 {
            let mut padded = [0_u8; 16];
            padded[..len].copy_from_slice(&text[..len]);
            assert_eq!(short_bytes(&text[..len]), u128::from_le_bytes(padded), "{len}");
        }
    }
}
