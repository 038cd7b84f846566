//! Copying rows from one store to another of an equal layout, without going through columns.
//!
//! Invariant: the fixed parts are copied as they are, and views are redirected to copies in the new page's heap.

use std::ops::Range;

use super::layout::RowId;
use super::page::INLINE_BYTES;
use super::store::RowStore;
use crate::error::Result;

impl RowStore {
    /// Appends the rows `ids` of `source`, states and hash included; returns their new ids.
    ///
    /// # Errors
    /// `ResourcesExhausted`; nothing is appended then.
    pub fn append_rows(&mut self, source: &RowStore, ids: &[RowId]) -> Result<Range<RowId>> {
        debug_assert!(self.layout.is_compatible(&source.layout), "rows of one layout");
        let first = self.next_id();
        match self.copy_rows(source, ids) {
            Ok(()) => Ok(first..first + ids.len() as RowId),
            Err(error) => {
                self.truncate(first);
                Err(error)
            }
        }
    }

    fn copy_rows(&mut self, source: &RowStore, ids: &[RowId]) -> Result<()> {
        let layout = self.layout.clone();
        let row_bytes = layout.row_bytes();
        let views: Vec<usize> = layout.view_offsets().collect();
        let mut done = 0;
        while done < ids.len() {
            let (page_index, room) = self.page_with_room(ids.len() - done)?;
            let page = &mut self.pages[page_index];
            let mut at = page.len() * row_bytes;
            for &id in &ids[done..done + room] {
                let (from_page, from_row) = layout.locate(id);
                let (from_page, from) = (&source.pages[from_page], from_row * row_bytes);
                page.rows.as_mut_slice()[at..at + row_bytes]
                    .copy_from_slice(&from_page.rows.as_slice()[from..from + row_bytes]);
                for &offset in &views {
                    let view: u128 = from_page.rows.read(from + offset);
                    if view as u32 as usize > INLINE_BYTES {
                        let view =
                            page.store_bytes(from_page.long_bytes(view), &self.reservation)?;
                        page.rows.write(at + offset, view);
                    }
                }
                at += row_bytes;
            }
            page.len += room as u32;
            page.null_columns |= source.null_columns;
            self.null_columns |= source.null_columns;
            self.rows += room;
            done += room;
        }
        Ok(())
    }
}
