//! Windows that rows make, as relations and plans have them.

use thalweg_planner::RowWindowKind;

use crate::physical::ColumnId;
use crate::streaming::Closing;

/// Which windows rows make, of which columns.
#[derive(Debug, Clone, PartialEq)]
pub struct RowWindowsSpec {
    /// Which windows.
    pub kind: RowWindowKind,
    /// Rows of one value of these have windows of their own; of rows that are kept, the keys of their groups.
    pub keys: Vec<ColumnId>,
    /// The time of rows.
    pub time: ColumnId,
    /// The value or condition that windows are made by, if they are.
    pub argument: Option<ColumnId>,
    /// Whether rows go into windows as they come, not in the order of their times.
    pub by_arrival: bool,
    /// Start, end and number of windows; none where rows are kept.
    pub outputs: Vec<ColumnId>,
    /// What no later time is below, or of rows that are kept, no later key; none where it takes the end to know.
    pub closing: Option<Closing>,
}

impl RowWindowsSpec {
    /// The columns that are looked at.
    pub fn read(&self) -> impl Iterator<Item = ColumnId> + '_ {
        self.keys.iter().copied().chain([self.time]).chain(self.argument)
    }
}
