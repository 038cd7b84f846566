//! The store: pages of rows of one layout.
//!
//! Row ids are `page << k | row`. Rows are appended at the end; the ids of one append are contiguous. Pages that were
//! taken over from another store keep their fill, so that ids may have gaps between appends: use the ranges of
//! [`RowStore::page_ids`]. Invariant: an append that fails leaves the rows as they were. The store never spills by
//! itself: [`RowStore::evict`] and [`RowStore::restore`] are for its owner.

use std::ops::Range;
use std::sync::Arc;

use super::layout::{RowId, RowLayout};
use super::page::{RowPage, null_column_bit};
use super::states::{PageStates, StatesMut};
use crate::error::{Error, Result};
use crate::memory::Reservation;

/// Pages of rows of one layout, charged to one reservation.
#[derive(Debug)]
pub struct RowStore {
    pub(crate) layout: Arc<RowLayout>,
    pub(crate) reservation: Reservation,
    pub(crate) pages: Vec<RowPage>,
    pub(crate) null_columns: u64,
    pub(crate) rows: usize,
}

impl RowStore {
    /// An empty store.
    pub fn new(layout: Arc<RowLayout>, reservation: Reservation) -> Self {
        Self { layout, reservation, pages: Vec::new(), null_columns: 0, rows: 0 }
    }

    /// The shape of the rows.
    pub fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// The reservation that pages are charged to.
    pub fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Rows in the store.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether the store has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of managed memory that the pages take.
    pub fn memory_bytes(&self) -> usize {
        self.pages.iter().map(RowPage::memory_bytes).sum()
    }

    /// Whether the fixed parts take about `bytes` or more; unlike [`Self::memory_bytes`], told without a walk.
    pub(crate) fn memory_bytes_at_least(&self, bytes: usize) -> bool {
        self.rows * self.layout.row_bytes() >= bytes
    }

    /// Number of pages; ids are below `num_pages << k`.
    pub fn num_pages(&self) -> usize {
        self.pages.len()
    }

    /// One more than the largest id a row of the present pages can have: the length of an array over all ids.
    pub fn id_bound(&self) -> usize {
        self.pages.len() << self.layout.page_shift()
    }

    /// The id that the next appended row gets.
    pub fn next_id(&self) -> RowId {
        let full = self.layout.rows_per_page();
        match self.pages.last() {
            Some(page) if page.len() < full => self.page_start(self.pages.len() - 1) + page.len,
            Some(_) | None => self.page_start(self.pages.len()),
        }
    }

    pub(crate) fn page_start(&self, page: usize) -> RowId {
        (page << self.layout.page_shift()) as RowId
    }

    /// The ids of the rows in a page.
    pub fn page_ids(&self, page: usize) -> Range<RowId> {
        let start = self.page_start(page);
        start..start + self.pages[page].len
    }

    /// The ids of all rows, in order.
    pub fn ids(&self) -> impl Iterator<Item = RowId> + '_ {
        (0..self.pages.len()).flat_map(|page| self.page_ids(page))
    }

    /// Whether a column may have NULLs.
    pub fn may_have_nulls(&self, column: usize) -> bool {
        self.null_columns & null_column_bit(column) != 0
    }

    /// The page to append to, with room for at least one row and at most `rows`; returns its number and the room.
    pub(crate) fn page_with_room(&mut self, rows: usize) -> Result<(usize, usize)> {
        let full = self.layout.rows_per_page();
        if self.pages.last().is_none_or(|page| page.len() >= full) {
            if (self.pages.len() + 1) << self.layout.page_shift() > RowId::MAX as usize {
                return Err(Error::ResourcesExhausted {
                    message: format!(
                        "\"{}\" holds more than 4 billion rows (raise threads to spread them)",
                        self.reservation.name()
                    ),
                });
            }
            // Only a store that has filled a page starts with full ones.
            let room = if self.pages.is_empty() { rows } else { full };
            self.pages.push(RowPage::with_room(&self.layout, &self.reservation, room)?);
        }
        let index = self.pages.len() - 1;
        let page = &mut self.pages[index];
        let wanted = (page.len() + rows).min(full);
        page.grow(&self.layout, &self.reservation, wanted)?;
        Ok((index, wanted - page.len()))
    }

    /// Takes the rows back that were appended since `next_id()` was `id`.
    pub(crate) fn truncate(&mut self, id: RowId) {
        let (page, row) = self.layout.locate(id);
        self.pages.truncate(page + usize::from(row > 0));
        if row > 0 {
            self.pages[page].len = row as u32;
        }
        self.rows = self.pages.iter().map(RowPage::len).sum();
    }

    /// Hands over all pages; the store is empty afterwards.
    pub fn take_pages(&mut self) -> Vec<RowPage> {
        self.rows = 0;
        self.null_columns = 0;
        std::mem::take(&mut self.pages)
    }

    /// Takes over whole pages of rows of an equal layout and charges them to this store; returns their page numbers.
    ///
    /// # Errors
    /// `ResourcesExhausted` when ids run out.
    pub fn append_pages(&mut self, pages: Vec<RowPage>) -> Result<Range<usize>> {
        let first = self.pages.len();
        if (first + pages.len()) << self.layout.page_shift() > RowId::MAX as usize {
            return Err(Error::ResourcesExhausted {
                message: format!("\"{}\" holds more than 4 billion rows", self.reservation.name()),
            });
        }
        for mut page in pages {
            if page.is_empty() {
                continue;
            }
            page.charge_to(&self.reservation);
            self.rows += page.len();
            self.null_columns |= page.null_columns;
            self.pages.push(page);
        }
        Ok(first..self.pages.len())
    }

    /// Forgets all rows and returns their memory.
    pub fn clear(&mut self) {
        drop(self.take_pages());
    }

    /// Keeps a page in memory until [`Self::unpin`] was called as often.
    pub fn pin(&mut self, page: usize) {
        self.pages[page].pins += 1;
    }

    /// Takes back one [`Self::pin`].
    pub fn unpin(&mut self, page: usize) {
        let pins = &mut self.pages[page].pins;
        *pins = pins.checked_sub(1).expect("a page is unpinned once for each pin");
    }

    /// Whether a page must stay in memory.
    pub fn is_pinned(&self, page: usize) -> bool {
        self.pages[page].pins > 0
    }

    /// Whether a page is in memory.
    pub fn is_resident(&self, page: usize) -> bool {
        !self.pages[page].rows.is_empty()
    }

    /// Takes an unpinned page out of the store, to be written elsewhere; its ids stay reserved and must not be used
    /// before [`Self::restore`].
    pub fn evict(&mut self, page: usize) -> Option<RowPage> {
        if self.is_pinned(page) || !self.is_resident(page) {
            return None;
        }
        let out = std::mem::replace(&mut self.pages[page], RowPage::vacant());
        self.pages[page].len = out.len;
        self.pages[page].null_columns = out.null_columns;
        Some(out)
    }

    /// Puts a page back where [`Self::evict`] took it from.
    pub fn restore(&mut self, page: usize, mut content: RowPage) {
        debug_assert!(!self.is_resident(page), "only an evicted page comes back");
        content.charge_to(&self.reservation);
        self.pages[page] = content;
    }

    /// The pages, in the order of their ids.
    pub(crate) fn pages(&self) -> &[RowPage] {
        &self.pages
    }

    /// Read access to the states of a page.
    pub fn page_states(&self, page: usize) -> PageStates<'_> {
        PageStates::new(&self.layout, &self.pages[page])
    }

    /// Access to the states of all rows.
    pub fn states_mut(&mut self) -> StatesMut<'_> {
        StatesMut::new(&self.layout, &self.reservation, &mut self.pages)
    }

    /// Writes the hash of each of `ids`; the layout has room for it.
    pub fn write_hashes(&mut self, ids: impl Iterator<Item = (RowId, u64)>) {
        let (offset, row_bytes) = (self.layout.hash_offset(), self.layout.row_bytes());
        for (id, hash) in ids {
            let (page, row) = self.layout.locate(id);
            self.pages[page].rows.write(row * row_bytes + offset, hash);
        }
    }

    /// Tells the processor that a row will be looked at soon.
    #[inline]
    pub fn prefetch(&self, id: RowId) {
        let (page, row) = self.layout.locate(id);
        if let Some(page) = self.pages.get(page) {
            page.rows.prefetch(row * self.layout.row_bytes());
        }
    }

    /// The stored hash of a row.
    #[inline]
    pub fn read_hash(&self, id: RowId) -> u64 {
        let (page, row) = self.layout.locate(id);
        self.pages[page].rows.read(row * self.layout.row_bytes() + self.layout.hash_offset())
    }
}
