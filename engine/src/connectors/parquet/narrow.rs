//! Ruling out more of a row group than its statistics do: by bloom filters as a whole, by page indexes in part.
//!
//! Both must be read first, on an I/O thread. A file's page indexes are read once; when they do not rule out much,
//! the scan stops asking for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::CastOptions;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type as PhysicalType;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use thalweg_runtime::env::IoTask;
use thalweg_runtime::expr::{Expr, cast_column};
use thalweg_runtime::{Error, Result};

use super::meta::{ParquetMeta, PositionedFile, guarded};
use super::source::{SharedScan, Split};
use super::statistics::{has_order, rows_of};
use crate::connectors::scan::ColumnSource;
use crate::connectors::scan::prune::{Bounds, BoundsSource, may_match, required_values};

/// Page indexes of more bytes are not read.
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// Row groups after which page indexes must have ruled out a tenth of the rows.
const TRIAL_GROUPS: u64 = 3;

/// What is left of a row group.
#[derive(Debug, Default)]
pub struct Narrowed {
    /// No row of it matches.
    pub empty: bool,
    /// The footer with page indexes, if they were read.
    pub meta: Option<Arc<ParquetMeta>>,
    /// The rows in pages that may match; `None` for all.
    pub selection: Option<RowSelection>,
}

/// Starts looking at bloom filters and page indexes, if there are any that could help.
pub fn narrow(shared: &Arc<SharedScan>, split: &Split) -> Option<IoTask<Narrowed>> {
    let blooms = bloom_tests(shared, split);
    let pages = page_tests(shared, split);
    if blooms.is_empty() && pages.is_empty() {
        return None;
    }
    let (there, split) = (shared.clone(), split.clone());
    Some(IoTask::spawn(&shared.job.env, move || look(&there, &split, &blooms, &pages)))
}

/// A leaf column and values of which one must be in it.
type BloomTest = (usize, Vec<ScalarValue>);

fn bloom_tests(shared: &SharedScan, split: &Split) -> Vec<BloomTest> {
    let group = split.plan.meta.metadata().row_group(split.group);
    let tests = shared.spec.filters.iter().filter_map(required_values);
    tests
        .filter_map(|(column, values)| {
            let (_, leaf) = leaf_of(shared, split, column, true)?;
            group.column(leaf).bloom_filter_offset()?;
            Some((leaf, values))
        })
        .collect()
}

/// A predicate over one column, and that column's leaf.
type PageTest = (Expr, usize, usize);

fn page_tests(shared: &SharedScan, split: &Split) -> Vec<PageTest> {
    let (groups, seen, dropped) = shared.page_trials();
    if groups >= TRIAL_GROUPS && dropped * 10 < seen {
        return Vec::new();
    }
    let metadata = split.plan.meta.metadata();
    let index_bytes: i64 = metadata
        .row_groups()
        .iter()
        .flat_map(|g| g.columns())
        .map(|c| {
            i64::from(c.column_index_length().unwrap_or(0))
                + i64::from(c.offset_index_length().unwrap_or(0))
        })
        .sum();
    if index_bytes == 0 || u64::try_from(index_bytes).is_ok_and(|b| b > INDEX_BYTES_MAX) {
        return Vec::new();
    }
    let filters = shared.spec.filters.iter();
    filters
        .filter_map(|filter| {
            let columns = filter.columns();
            let [column] = columns[..] else { return None };
            let (_, leaf) = leaf_of(shared, split, column, false)?;
            metadata.row_group(split.group).column(leaf).column_index_offset()?;
            Some((filter.clone(), column, leaf))
        })
        .collect()
}

/// Root and leaf of a table column; with `same_type` only if the file has it in the table's type.
fn leaf_of(
    shared: &SharedScan,
    split: &Split,
    column: usize,
    same_type: bool,
) -> Option<(usize, usize)> {
    let place = shared.layout.place(column);
    let ColumnSource::File(root) = split.plan.sources[place] else { return None };
    let file_type = split.plan.meta.reader.schema().field(root).data_type();
    if same_type && file_type != shared.layout.schema.field(place).data_type() {
        return None;
    }
    Some((root, split.plan.meta.leaf_of(root)?))
}

fn look(
    shared: &SharedScan,
    split: &Split,
    blooms: &[BloomTest],
    pages: &[PageTest],
) -> Result<Narrowed> {
    let file = &shared.scan.files[split.plan.index];
    let opened = shared.job.env.open_file(&file.path);
    let opened = opened.map_err(|e| Error::io(format!("cannot open \"{}\"", file.name), &e))?;
    let source = PositionedFile::new(opened);
    for (leaf, values) in blooms {
        let column = split.plan.meta.metadata().row_group(split.group).column(*leaf);
        let bloom = guarded(&file.name, || Sbbf::read_from_column_chunk(column, &source));
        // A filter that cannot be read rules nothing out.
        if let Ok(Some(bloom)) = bloom {
            let physical = column.column_type();
            if !values.iter().any(|v| may_contain(&bloom, physical, v)) {
                return Ok(Narrowed { empty: true, ..Narrowed::default() });
            }
        }
    }
    if pages.is_empty() {
        return Ok(Narrowed::default());
    }
    let meta = shared.with_page_index(split)?;
    let rows = rows_of(meta.metadata().row_group(split.group)) as usize;
    // Indexes that contradict the footer are left alone.
    let selection =
        guarded(&file.name, || select_pages(shared, &meta, split.group, pages)).ok().flatten();
    let kept = selection.as_ref().map_or(rows, RowSelection::row_count);
    shared.page_trial(rows, rows - kept.min(rows));
    Ok(Narrowed {
        empty: kept == 0,
        selection: selection.filter(|_| kept < rows),
        meta: Some(meta),
    })
}

fn may_contain(bloom: &Sbbf, physical: PhysicalType, value: &ScalarValue) -> bool {
    match (physical, value) {
        (_, value) if value.is_null() => false,
        (PhysicalType::INT32, ScalarValue::Int8(Some(v))) => bloom.check(&i32::from(*v)),
        (PhysicalType::INT32, ScalarValue::Int16(Some(v))) => bloom.check(&i32::from(*v)),
        (PhysicalType::INT32, ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v))) => {
            bloom.check(v)
        }
        (
            PhysicalType::INT64,
            ScalarValue::Int64(Some(v)) | ScalarValue::TimestampMicrosecond(Some(v), _),
        ) => bloom.check(v),
        (
            PhysicalType::BYTE_ARRAY,
            ScalarValue::Utf8(Some(v))
            | ScalarValue::Utf8View(Some(v))
            | ScalarValue::LargeUtf8(Some(v)),
        ) => bloom.check(v.as_bytes()),
        _ => true,
    }
}

/// The rows in pages that may match all tests; `None` if the indexes do not tell.
fn select_pages(
    shared: &SharedScan,
    meta: &ParquetMeta,
    group: usize,
    tests: &[PageTest],
) -> Result<Option<RowSelection>, ParquetError> {
    let rows = rows_of(meta.metadata().row_group(group)) as usize;
    let mut selection: Option<RowSelection> = None;
    for (filter, column, leaf) in tests {
        let to = shared.spec.schema.field(*column).data_type();
        let Some(pages) = PageBounds::new(meta, group, *column, *leaf, to)? else { continue };
        let matching = may_match(filter, &pages);
        let mut at = 0;
        let ranges: Vec<std::ops::Range<usize>> = pages
            .rows
            .values()
            .iter()
            .enumerate()
            .filter_map(|(page, &page_rows)| {
                let range = at..at + page_rows as usize;
                at = range.end;
                matching.value(page).then_some(range)
            })
            .collect();
        if at != rows {
            continue;
        }
        let found = RowSelection::from_consecutive_ranges(ranges.into_iter(), rows);
        selection = Some(match selection {
            Some(known) => known.intersection(&found),
            None => found,
        });
    }
    Ok(selection)
}

/// Bounds of the pages of one column in one row group.
struct PageBounds {
    column: usize,
    rows: UInt64Array,
    bounds: Bounds,
}

impl PageBounds {
    fn new(
        meta: &ParquetMeta,
        group: usize,
        column: usize,
        leaf: usize,
        to: &DataType,
    ) -> Result<Option<Self>, ParquetError> {
        let metadata = meta.metadata();
        let (Some(columns), Some(offsets)) = (metadata.column_index(), metadata.offset_index())
        else {
            return Ok(None);
        };
        let schema = meta.reader.parquet_schema();
        let root = schema.get_column_root_idx(leaf);
        if !has_order(schema.column(leaf).physical_type()) || meta.intervals.contains(&root) {
            return Ok(None);
        }
        let field = meta.reader.schema().field(root);
        let converter = StatisticsConverter::from_column_index(leaf, field, schema)?;
        let Some(rows) =
            converter.data_page_row_counts(offsets, metadata.row_groups(), [&group])?
        else {
            return Ok(None);
        };
        let cast = |array: ArrayRef| cast_column(&array, to, &CastOptions::default());
        let bounds = Bounds {
            min: cast(converter.data_page_mins(columns, offsets, [&group])?)?,
            max: cast(converter.data_page_maxes(columns, offsets, [&group])?)?,
            nulls: converter.data_page_null_counts(columns, offsets, [&group])?,
        };
        let pages = rows.len();
        let complete =
            bounds.min.len() == pages && bounds.max.len() == pages && bounds.nulls.len() == pages;
        Ok(complete.then_some(PageBounds { column, rows, bounds }))
    }
}

impl BoundsSource for PageBounds {
    fn containers(&self) -> usize {
        self.rows.len()
    }

    fn rows(&self) -> UInt64Array {
        self.rows.clone()
    }

    fn bounds(&self, column: usize) -> Option<Bounds> {
        (column == self.column).then(|| self.bounds.clone())
    }
}

impl SharedScan {
    /// A file's footer with page indexes, read if it is not there. Blocks.
    fn with_page_index(&self, split: &Split) -> Result<Arc<ParquetMeta>> {
        if let Some(meta) = self.indexed.lock().get(&split.plan.index) {
            return Ok(meta.clone());
        }
        let file = &self.scan.files[split.plan.index];
        let meta = split.plan.meta.load_page_index(&*self.job.env, &file.path, &file.name)?;
        Ok(self.indexed.lock().entry(split.plan.index).or_insert_with(|| Arc::new(meta)).clone())
    }

    fn page_trials(&self) -> (u64, u64, u64) {
        let load = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed);
        (load(&self.page_groups), load(&self.page_rows_seen), load(&self.page_rows_dropped))
    }

    fn page_trial(&self, seen: usize, dropped: usize) {
        self.page_groups.fetch_add(1, Ordering::Relaxed);
        self.page_rows_seen.fetch_add(seen as u64, Ordering::Relaxed);
        self.page_rows_dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    use thalweg_runtime::expr::BinaryOperator;
    use thalweg_runtime::source::SourceSpec;

    use super::super::source::NextSplit;
    use super::*;
    use crate::connectors::files::FileCache;
    use crate::connectors::scan::FileScan;
    use crate::connectors::testing::{job, spec};
    use crate::connectors::{FileOptions, FileTable};

    fn narrowed(column: usize, value: ScalarValue) -> Narrowed {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let batch = RecordBatch::try_from_iter(vec![
            ("x", Arc::new(Int64Array::from_iter_values(0..1_000)) as _),
            (
                "s",
                Arc::new((0..1_000).map(|i| Some(format!("s{}", i * 2))).collect::<StringArray>())
                    as _,
            ),
        ])
        .unwrap();
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .set_bloom_filter_enabled(true)
            .build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let table =
            FileTable::discover(&[path.display().to_string()], None, &FileOptions::default())
                .unwrap();
        let filter = Expr::Binary {
            op: BinaryOperator::Eq,
            left: Box::new(Expr::Column(column)),
            right: Box::new(Expr::literal(value)),
        };
        let spec = SourceSpec { filters: vec![filter], ..spec(&table) };
        let scan = FileScan::from_options(&spec.options).unwrap();
        let shared = SharedScan::new(&spec, scan, &job());
        let NextSplit::Load(file) = shared.next_split(Waker::noop()) else {
            panic!("a file to load")
        };
        let info = &shared.scan.files[file];
        let meta = FileCache::process().parquet(&info.path, info.size, info.mtime_ns).unwrap();
        shared.add_file(file, meta).unwrap();
        let NextSplit::Split(split) = shared.next_split(Waker::noop()) else {
            panic!("a row group")
        };
        look(&shared, &split, &bloom_tests(&shared, &split), &page_tests(&shared, &split)).unwrap()
    }

    #[test]
    fn pages_are_ruled_out() {
        let left = narrowed(0, ScalarValue::Int64(Some(555)));
        assert!(!left.empty);
        assert_eq!(left.selection.unwrap().row_count(), 100);
    }

    #[test]
    fn bloom_filters_rule_out_what_bounds_cannot() {
        assert!(narrowed(1, ScalarValue::Utf8View(Some("s101".into()))).empty);
        assert!(!narrowed(1, ScalarValue::Utf8View(Some("s102".into()))).empty);
    }
}
