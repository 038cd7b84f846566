//! Pages on their way from one task to another.
//!
//! Invariant: the rows of one [`Pages`] belong to one radix partition and were taken whole from one store. They go to
//! one consumer; a clone exists only while an element is looked at, and taking the pages of a shared one is refused.

use std::sync::Arc;

use super::layout::RowLayout;
use super::page::RowPage;
use crate::batch::Batch;
use crate::error::{Error, Result};

/// Rows in binary form, handed over whole.
#[derive(Debug, Clone)]
pub struct Pages {
    layout: Arc<RowLayout>,
    partition: u32,
    pane: Option<PanePages>,
    /// Rows of the input among those that the pages stand for, which may turn out to be late.
    doubtful: Vec<Batch>,
    pages: Arc<Vec<RowPage>>,
}

/// Of what pane pages are, where groups close one pane after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PanePages {
    /// The value of the closing key in all rows, which is not a column of theirs.
    pub key: Option<i64>,
    /// Rows of the input that the pages stand for, as far as no other pages were given them.
    pub rows: u64,
}

impl Pages {
    /// The pages of a partition, whose rows have the given layout.
    pub fn new(layout: Arc<RowLayout>, partition: u32, pages: Vec<RowPage>) -> Self {
        Self { layout, partition, pane: None, doubtful: Vec::new(), pages: Arc::new(pages) }
    }

    /// The same pages, of a pane.
    pub fn of_pane(self, pane: PanePages) -> Self {
        Self { pane: Some(pane), ..self }
    }

    /// The same pages with rows of the input that they stand for, should these be late.
    pub fn with_doubtful(self, doubtful: Vec<Batch>) -> Self {
        Self { doubtful, ..self }
    }

    /// Takes the rows of the input that came along.
    pub fn take_doubtful(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.doubtful)
    }

    /// The pane, if there are such.
    pub fn pane(&self) -> Option<PanePages> {
        self.pane
    }

    /// The shape of the rows.
    pub fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// The radix partition that the rows belong to.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Rows in all pages.
    pub fn num_rows(&self) -> usize {
        self.pages.iter().map(RowPage::len).sum()
    }

    /// Bytes of managed memory that the pages take.
    pub fn memory_bytes(&self) -> usize {
        self.pages.iter().map(RowPage::memory_bytes).sum()
    }

    /// The pages themselves.
    ///
    /// # Errors
    /// `Internal` while a clone exists: pages have one owner.
    pub fn into_pages(self) -> Result<Vec<RowPage>> {
        Arc::try_unwrap(self.pages)
            .map_err(|_| Error::Internal("row pages were handed to two consumers".into()))
    }
}
