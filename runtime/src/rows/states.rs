//! Access to the aggregate states inside rows.
//!
//! A state is addressed by the row's id and a byte offset from [`RowLayout::states`]; every access is checked
//! against the page. Invariant: states of rows that are not in the store are never touched.

use super::layout::{RowId, RowLayout};
use super::page::RowPage;
use crate::error::Result;
use crate::memory::{Plain, Reservation};

/// Read and write access to the states of a store's rows.
#[derive(Debug)]
pub struct StatesMut<'a> {
    layout: &'a RowLayout,
    reservation: &'a Reservation,
    pages: &'a mut [RowPage],
    shift: u32,
    mask: u32,
    row_bytes: usize,
}

impl<'a> StatesMut<'a> {
    pub(crate) fn new(
        layout: &'a RowLayout,
        reservation: &'a Reservation,
        pages: &'a mut [RowPage],
    ) -> Self {
        let shift = layout.page_shift();
        let (mask, row_bytes) = ((1 << shift) - 1, layout.row_bytes());
        Self { layout, reservation, pages, shift, mask, row_bytes }
    }

    /// The shape of the rows.
    pub fn layout(&self) -> &RowLayout {
        self.layout
    }

    #[inline]
    fn at(&self, id: RowId, offset: usize) -> (usize, usize) {
        ((id >> self.shift) as usize, (id & self.mask) as usize * self.row_bytes + offset)
    }

    /// The value at `offset` of row `id`.
    #[inline]
    pub fn read<T: Plain + Copy>(&self, id: RowId, offset: usize) -> T {
        let (page, at) = self.at(id, offset);
        self.pages[page].rows.read(at)
    }

    /// Sets the value at `offset` of row `id`.
    #[inline]
    pub fn write<T: Plain + Copy>(&mut self, id: RowId, offset: usize, value: T) {
        let (page, at) = self.at(id, offset);
        self.pages[page].rows.write(at, value);
    }

    /// Replaces the value at `offset` of row `id` by a function of it.
    #[inline]
    pub fn update<T: Plain + Copy>(&mut self, id: RowId, offset: usize, f: impl FnOnce(T) -> T) {
        let (page, at) = self.at(id, offset);
        let rows = &mut self.pages[page].rows;
        rows.write(at, f(rows.read(at)));
    }

    /// Updates the value at `offset` of each of `ids`, in order, by a function of its number in `ids` and the value.
    #[inline]
    pub fn update_each<T: Plain + Copy>(
        &mut self,
        ids: &[RowId],
        offset: usize,
        mut f: impl FnMut(usize, T) -> T,
    ) {
        for (i, &id) in ids.iter().enumerate() {
            self.update(id, offset, |value| f(i, value));
        }
    }

    /// The `bytes` bytes at `offset` of row `id`.
    #[inline]
    pub fn slice(&self, id: RowId, offset: usize, bytes: usize) -> &[u8] {
        let (page, at) = self.at(id, offset);
        &self.pages[page].rows.as_slice()[at..at + bytes]
    }

    /// The `bytes` bytes at `offset` of row `id`, to be written.
    #[inline]
    pub fn slice_mut(&mut self, id: RowId, offset: usize, bytes: usize) -> &mut [u8] {
        let (page, at) = self.at(id, offset);
        &mut self.pages[page].rows.as_mut_slice()[at..at + bytes]
    }

    /// The byte string of a slot made by [`StateSlot::byte_string`](super::StateSlot::byte_string).
    #[inline]
    pub fn bytes(&self, id: RowId, offset: usize) -> &[u8] {
        let (page, at) = self.at(id, offset);
        self.pages[page].bytes_at(at)
    }

    /// Replaces a byte string; it takes the old one's place where it fits there, else new room in the page's heap.
    ///
    /// # Errors
    /// `ResourcesExhausted`; the old string stays then.
    pub fn set_bytes(&mut self, id: RowId, offset: usize, bytes: &[u8]) -> Result<()> {
        let (page, at) = self.at(id, offset);
        self.pages[page].replace_bytes(at, bytes, self.reservation)
    }

    /// Copies all states of a row of another store's page to row `id`.
    ///
    /// # Errors
    /// `ResourcesExhausted` when byte strings do not fit.
    pub fn copy_states(&mut self, id: RowId, source: &PageStates<'_>, row: usize) -> Result<()> {
        let (start, bytes) = self.layout.state_range();
        let (page, at) = self.at(id, 0);
        let from = row * self.row_bytes + start;
        self.pages[page].rows.as_mut_slice()[at + start..at + start + bytes]
            .copy_from_slice(&source.page.rows.as_slice()[from..from + bytes]);
        for slot in self.layout.states().iter().filter(|slot| slot.bytes) {
            // The copied view points into the other page's heap: it is forgotten before the string is stored.
            self.pages[page].rows.write(at + slot.offset, 0_u128);
            let string = source.bytes(row, slot.offset);
            self.pages[page].replace_bytes(at + slot.offset, string, self.reservation)?;
        }
        Ok(())
    }
}

/// Read access to the states of one page.
#[derive(Debug, Clone, Copy)]
pub struct PageStates<'a> {
    page: &'a RowPage,
    row_bytes: usize,
}

impl<'a> PageStates<'a> {
    /// The states of `page`, whose rows have the given layout.
    pub fn new(layout: &RowLayout, page: &'a RowPage) -> Self {
        Self { page, row_bytes: layout.row_bytes() }
    }

    /// The value at `offset` of row `row` of the page.
    #[inline]
    pub fn read<T: Plain + Copy>(&self, row: usize, offset: usize) -> T {
        self.page.rows.read(row * self.row_bytes + offset)
    }

    /// The `bytes` bytes at `offset` of row `row`.
    #[inline]
    pub fn slice(&self, row: usize, offset: usize, bytes: usize) -> &'a [u8] {
        let at = row * self.row_bytes + offset;
        &self.page.rows.as_slice()[at..at + bytes]
    }

    /// The byte string of a slot.
    #[inline]
    pub fn bytes(&self, row: usize, offset: usize) -> &'a [u8] {
        self.page.bytes_at(row * self.row_bytes + offset)
    }
}
