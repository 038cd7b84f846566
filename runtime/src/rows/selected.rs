//! Which rows of a batch take part.
//!
//! Invariant: positions are below the length of the columns; results "by selected row" follow the selection's order.

use std::ops::Range;

/// The rows of columns that take part: all, or those listed.
#[derive(Debug, Clone, Copy)]
pub enum Selected<'a> {
    /// All rows; the columns have this length.
    All(usize),
    /// The rows at these positions.
    Rows(&'a [u32]),
}

impl<'a> Selected<'a> {
    /// The selection if there is one, else all `rows` rows.
    pub fn new(rows: usize, selection: Option<&'a [u32]>) -> Self {
        selection.map_or(Self::All(rows), Self::Rows)
    }

    /// Number of selected rows.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::All(rows) => *rows,
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Whether no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position in the columns of selected row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> u32 {
        match self {
            Self::All(_) => i as u32,
            Self::Rows(rows) => rows[i],
        }
    }

    /// The selected rows of a range.
    pub(crate) fn part(&self, range: Range<usize>) -> Part<'a> {
        match self {
            Self::All(_) => Part::Range(range),
            Self::Rows(rows) => Part::Rows(&rows[range]),
        }
    }
}

/// Consecutive selected rows.
#[derive(Debug, Clone)]
pub(crate) enum Part<'a> {
    /// Consecutive rows of the columns.
    Range(Range<usize>),
    /// Rows at these positions.
    Rows(&'a [u32]),
}

impl Part<'_> {
    /// Calls `f` with the number in the part and the position in the columns of each row.
    #[inline]
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        match self {
            Self::Range(range) => range.clone().enumerate().for_each(|(n, row)| f(n, row)),
            Self::Rows(rows) => rows.iter().enumerate().for_each(|(n, &row)| f(n, row as usize)),
        }
    }

    /// As [`Self::for_each`] with a function that may fail.
    #[inline]
    pub(crate) fn try_for_each<E>(
        &self,
        mut f: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Range(range) => range.clone().enumerate().try_for_each(|(n, row)| f(n, row)),
            Self::Rows(rows) => {
                rows.iter().enumerate().try_for_each(|(n, &row)| f(n, row as usize))
            }
        }
    }
}
