//! Ruling files out by their partition values, before any of them is opened.

use arrow::array::UInt64Array;
use thalweg_runtime::source::SourceSpec;

use super::prune::{Bounds, BoundsSource, constant_bounds, may_match_all};
use super::{FileScan, ScanFile};
use crate::connectors::files::partition_value;

/// Whether a file can hold a row for which all filters are true.
pub fn file_may_match(spec: &SourceSpec, scan: &FileScan, file: &ScanFile) -> bool {
    if scan.partition_columns.is_empty() || spec.filters.is_empty() {
        return true;
    }
    may_match_all(&spec.filters, &FileBounds { spec, scan, file }).value(0)
}

/// One container: the file.
struct FileBounds<'a> {
    spec: &'a SourceSpec,
    scan: &'a FileScan,
    file: &'a ScanFile,
}

impl BoundsSource for FileBounds<'_> {
    fn containers(&self) -> usize {
        1
    }

    /// More than any NULL count that is known here, so that a constant NULL alone says "no values".
    fn rows(&self) -> UInt64Array {
        vec![1].into()
    }

    fn bounds(&self, column: usize) -> Option<Bounds> {
        let own = self.spec.schema.fields().len() - self.scan.partition_columns.len();
        let text = self.file.partition.get(column.checked_sub(own)?)?;
        let data_type = self.spec.schema.field(column).data_type();
        let value = partition_value(text.as_deref(), data_type).ok()?;
        constant_bounds(&value, &self.rows())
    }
}
