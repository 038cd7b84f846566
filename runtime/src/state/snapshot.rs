//! Keyed state as bytes, and back.
//!
//! The bytes name the layout they were written with. Invariant: restored state has the same keys, states and row ids;
//! bytes of another layout or version are refused with both named.

use super::keyed::KeyedState;
use crate::error::{Error, Result};
use crate::rows::{RowPage, RowStore, take_array, take_bytes};

/// The first bytes of a snapshot: a mark and the version of its form.
const HEADER: [u8; 8] = *b"TWSTATE1";

impl KeyedState {
    /// Appends all keys and states to `out`.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        write_store(&self.store, out);
    }

    /// Replaces the content by that of a snapshot at the front of `bytes`, which moves on behind it.
    ///
    /// # Errors
    /// `ResourcesExhausted`; `Internal` for bytes that are no snapshot of state with these keys and states. The
    /// state is empty then.
    pub fn restore(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        read_store(&mut self.store, bytes)?;
        self.stale = true;
        self.refresh()
    }
}

/// Appends the rows of a store to `out`.
pub(crate) fn write_store(store: &RowStore, out: &mut Vec<u8>) {
    let layout = store.layout();
    let description = layout.describe();
    out.extend_from_slice(&HEADER);
    out.extend_from_slice(&(description.len() as u32).to_le_bytes());
    out.extend_from_slice(description.as_bytes());
    out.extend_from_slice(&(store.num_pages() as u32).to_le_bytes());
    store.pages().iter().for_each(|page| page.write_to(layout, out));
}

/// Fills an empty store with the rows that [`write_store`] wrote at the front of `bytes`.
///
/// # Errors
/// As [`KeyedState::restore`].
pub(crate) fn read_store(store: &mut RowStore, bytes: &mut &[u8]) -> Result<()> {
    let layout = store.layout().clone();
    if take_array::<8>(bytes)? != HEADER {
        return Err(Error::Internal("the bytes are not a snapshot of keyed state".into()));
    }
    let length = u32::from_le_bytes(take_array(bytes)?) as usize;
    let found = take_bytes(bytes, length)?;
    let expected = layout.describe();
    if found != expected.as_bytes() {
        let found = String::from_utf8_lossy(found);
        return Err(Error::Internal(format!(
            "a snapshot of rows {found} does not fit state of rows {expected}"
        )));
    }
    let count = u32::from_le_bytes(take_array(bytes)?);
    for _ in 0..count {
        let page = RowPage::read_from(&layout, store.reservation(), bytes)?;
        store.append_pages(vec![page])?;
    }
    Ok(())
}
