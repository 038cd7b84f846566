//! Pages as bytes: for snapshots, and for spilling.
//!
//! Little-endian: rows, fill of the last heap segment, NULL columns, number of heap segments; then the fixed parts,
//! then each heap segment after its length. Invariant: a page reads back equal, with the same ids and views. What
//! does not parse is an error, never a panic.

use super::layout::RowLayout;
use super::page::{INLINE_BYTES, RowPage};
use crate::error::{Error, Result};
use crate::memory::{Reservation, Segment};

impl RowPage {
    /// Appends the page to `out`.
    pub fn write_to(&self, layout: &RowLayout, out: &mut Vec<u8>) {
        let fixed = self.len() * layout.row_bytes();
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&(self.heap_used as u64).to_le_bytes());
        out.extend_from_slice(&self.null_columns.to_le_bytes());
        out.extend_from_slice(&(self.heap.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.rows.as_slice()[..fixed]);
        for (i, segment) in self.heap.iter().enumerate() {
            let used = if i + 1 == self.heap.len() { self.heap_used } else { segment.len() };
            out.extend_from_slice(&(used as u64).to_le_bytes());
            out.extend_from_slice(&segment.as_slice()[..used]);
        }
    }

    /// Reads a page from the front of `bytes`, which moves on behind it.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` when the bytes are not a page of this layout.
    pub fn read_from(
        layout: &RowLayout,
        reservation: &Reservation,
        bytes: &mut &[u8],
    ) -> Result<Self> {
        let len = u32::from_le_bytes(take_array(bytes)?);
        let heap_used = u64::from_le_bytes(take_array(bytes)?) as usize;
        let null_columns = u64::from_le_bytes(take_array(bytes)?);
        let segments = u32::from_le_bytes(take_array(bytes)?);
        if len as usize > layout.rows_per_page() {
            return Err(broken());
        }
        let mut page = RowPage::with_room(layout, reservation, len as usize)?;
        let fixed = take_bytes(bytes, len as usize * layout.row_bytes())?;
        page.rows.as_mut_slice()[..fixed.len()].copy_from_slice(fixed);
        for _ in 0..segments {
            let used = u64::from_le_bytes(take_array(bytes)?) as usize;
            let content = take_bytes(bytes, used)?;
            let mut segment: Segment = reservation.allocate(used.max(1))?;
            segment.as_mut_slice()[..used].copy_from_slice(content);
            page.heap.push(segment);
        }
        page.len = len;
        page.heap_used = heap_used;
        page.null_columns = null_columns;
        page.check_views(layout)?;
        Ok(page)
    }

    /// Refuses views that point outside the heap.
    fn check_views(&self, layout: &RowLayout) -> Result<()> {
        if self.heap.last().map_or(0, Segment::len) < self.heap_used {
            return Err(broken());
        }
        for offset in layout.view_offsets() {
            for view in self.rows.read_strided::<u128>(offset, layout.row_bytes(), self.len()) {
                let (len, segment, at) = (
                    view as u32 as usize,
                    (view >> 64) as u32 as usize,
                    (view >> 96) as u32 as usize,
                );
                let inside = len <= INLINE_BYTES
                    || self.heap.get(segment).is_some_and(|heap| at + len <= heap.len());
                if !inside {
                    return Err(broken());
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count).ok_or_else(broken)?;
    *bytes = rest;
    Ok(front)
}

pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let mut array = [0; N];
    array.copy_from_slice(take_bytes(bytes, N)?);
    Ok(array)
}

fn broken() -> Error {
    Error::Internal("the bytes are not a page of these rows".into())
}
