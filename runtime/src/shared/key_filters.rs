//! The forms of a [`KeyFilter`]: a bitmap over a dense range, the join table itself, and a blocked Bloom filter.
//!
//! A filter is made for a key column of a complete build side, filled in parts as join tables are, and published when
//! all parts are done. Invariant: a key that the build side has always passes. Where NULL equals NULL and the build
//! side has one, no filter is made: scans may drop NULLs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use super::runtime_filter::{KeyFilter, all_but_nulls};
use crate::error::Result;
use crate::memory::{Reservation, SegmentArray};
use crate::rows::{HASH_SEED, NO_ROW, Selected, hash_columns};
use crate::state::{JoinTable, KeyCoder, KeySpan, LookupScratch, NO_CODE};

/// Bits of a bitmap that are worth it for any number of keys.
const SMALL_BITMAP_BITS: u64 = 1 << 16;
/// Bits a key that a bitmap may take before a Bloom filter is smaller and almost as good.
const BITMAP_BITS_PER_KEY: u64 = 64;
/// The largest bitmap made although a Bloom filter would be smaller: 2 MiB.
const BITMAP_BITS_MAX: u64 = 1 << 24;
/// Rows up to which the join table itself, which stays in a near cache, is the filter.
const TABLE_ROWS_MAX: usize = 4096;
/// Bits a key of a Bloom filter.
const BLOOM_BITS_PER_KEY: usize = 16;
/// The largest Bloom filter: 16 MiB.
const BLOOM_WORDS_MAX: usize = 1 << 21;

/// The filter of one key column, being filled or complete.
#[derive(Debug)]
pub struct ColumnFilter {
    key: usize,
    data_type: DataType,
    bounds: Option<(ScalarValue, ScalarValue)>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// No key at all.
    Empty,
    /// A bit for each value of the range.
    Bitmap { coder: KeyCoder, words: SegmentArray<AtomicU64> },
    /// The table, whose only key the column is.
    Table(Arc<JoinTable>),
    /// Four bits of one word for each key.
    Bloom { words: SegmentArray<AtomicU64>, shift: u32 },
}

impl ColumnFilter {
    /// The filter for key column `key` of a table, to be filled by [`Self::fill`]; none where none may be made.
    ///
    /// # Errors
    /// `ResourcesExhausted` when it does not fit the budget.
    pub fn new(
        table: &Arc<JoinTable>,
        key: usize,
        span: &KeySpan,
        reservation: &Reservation,
    ) -> Result<Option<Self>> {
        if span.nulls && table.options().null_equal {
            return Ok(None);
        }
        let data_type = table.store().layout().output_type(key).clone();
        let bounds = bounds(&data_type, span);
        let form = Self::choose(table, &data_type, span, reservation)?;
        Ok(Some(ColumnFilter { key, data_type, bounds, form }))
    }

    fn choose(
        table: &Arc<JoinTable>,
        data_type: &DataType,
        span: &KeySpan,
        reservation: &Reservation,
    ) -> Result<Form> {
        let rows = table.store().len();
        if rows == 0 {
            return Ok(Form::Empty);
        }
        let coder =
            KeyCoder::new(std::slice::from_ref(data_type), std::slice::from_ref(span), false);
        let per_key = BITMAP_BITS_PER_KEY.saturating_mul(rows as u64).max(SMALL_BITMAP_BITS);
        let table_serves = table.options().keys == 1 && rows <= TABLE_ROWS_MAX;
        let bits_max = if table_serves { per_key } else { per_key.max(BITMAP_BITS_MAX) };
        match coder {
            Some(coder) if coder.num_codes() <= bits_max => {
                let len = coder.num_codes().div_ceil(64) as usize;
                Ok(Form::Bitmap { coder, words: SegmentArray::zeroed(reservation, len)? })
            }
            Some(_) | None if table_serves => Ok(Form::Table(table.clone())),
            Some(_) | None => {
                let words = (rows * BLOOM_BITS_PER_KEY / 64).next_power_of_two();
                let words = words.clamp(64, BLOOM_WORDS_MAX);
                let shift = 64 - words.ilog2();
                Ok(Form::Bloom { words: SegmentArray::zeroed(reservation, words)?, shift })
            }
        }
    }

    /// Enters the keys of a part of the table's pages: every `parts`-th word of the filter is the part's own.
    ///
    /// # Errors
    /// What `check`, asked once a page, says.
    pub fn fill(
        &self,
        table: &JoinTable,
        (part, parts): (usize, usize),
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if matches!(self.form, Form::Empty | Form::Table(_)) {
            return Ok(());
        }
        let mut codes = Vec::new();
        for page in 0..table.store().num_pages() {
            check()?;
            let keys = table.page_keys(page, [self.key])?;
            self.enter(&keys, (part, parts), &mut codes)?;
        }
        Ok(())
    }

    fn enter(
        &self,
        keys: &[ArrayRef],
        (part, parts): (usize, usize),
        codes: &mut Vec<u64>,
    ) -> Result<()> {
        match &self.form {
            Form::Empty | Form::Table(_) => {}
            Form::Bitmap { coder, words } => {
                coder.encode(keys, codes)?;
                let (start, end) = part_range(words.len(), part, parts);
                let words = &words[start..end];
                for &code in codes.iter().filter(|&&code| code != NO_CODE) {
                    if let Some(word) = words.get((code as usize / 64).wrapping_sub(start)) {
                        set(word, 1 << (code % 64));
                    }
                }
            }
            Form::Bloom { words, shift } => {
                hash_columns(keys, Selected::All(keys[0].len()), HASH_SEED, codes)?;
                let (start, end) = part_range(words.len(), part, parts);
                let words = &words[start..end];
                for &hash in codes.iter() {
                    let (index, bits) = bloom_place(hash, *shift);
                    if let Some(word) = words.get(index.wrapping_sub(start)) {
                        set(word, bits);
                    }
                }
            }
        }
        Ok(())
    }
}

fn part_range(len: usize, part: usize, parts: usize) -> (usize, usize) {
    (len * part / parts, len * (part + 1) / parts)
}

#[inline]
fn set(word: &AtomicU64, bits: u64) {
    word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
}

/// The word of a hash, by its high bits, and the four bits in it, by its low ones.
#[inline]
fn bloom_place(hash: u64, shift: u32) -> (usize, u64) {
    let bit = |n: u32| 1_u64 << (hash >> (6 * n) & 63);
    ((hash >> shift) as usize, bit(0) | bit(1) | bit(2) | bit(3))
}

/// Least and greatest key as values of the type; none for types without codes.
fn bounds(data_type: &DataType, span: &KeySpan) -> Option<(ScalarValue, ScalarValue)> {
    let (min, max) = span.range?;
    Some((scalar(data_type, min)?, scalar(data_type, max)?))
}

/// The value of an integer-like type with this number underneath.
fn scalar(data_type: &DataType, value: i128) -> Option<ScalarValue> {
    use DataType as T;
    let wide = ScalarValue::Decimal128(Some(value), 38, 0);
    let integer = match data_type {
        T::Decimal128(precision, scale) => {
            return Some(ScalarValue::Decimal128(Some(value), *precision, *scale));
        }
        T::Decimal64(precision, scale) => {
            return Some(ScalarValue::Decimal64(
                Some(i64::try_from(value).ok()?),
                *precision,
                *scale,
            ));
        }
        T::Decimal32(precision, scale) => {
            return Some(ScalarValue::Decimal32(
                Some(i32::try_from(value).ok()?),
                *precision,
                *scale,
            ));
        }
        T::Date32 | T::Time32(_) | T::Interval(_) => T::Int32,
        T::Date64 | T::Time64(_) | T::Timestamp(_, _) | T::Duration(_) => T::Int64,
        integer => integer.clone(),
    };
    let array = cast(&wide.to_array().ok()?, &integer).ok()?;
    let array = cast(&array, data_type).ok()?;
    ScalarValue::try_from_array(&array, 0).ok().filter(|value| !value.is_null())
}

impl KeyFilter for ColumnFilter {
    fn bounds(&self) -> Option<(ScalarValue, ScalarValue)> {
        self.bounds.clone()
    }

    fn is_empty(&self) -> bool {
        matches!(self.form, Form::Empty)
    }

    fn may_match(&self, keys: &ArrayRef) -> Result<BooleanArray> {
        let nulls = keys.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let bits = match &self.form {
            Form::Empty => BooleanBuffer::new_unset(keys.len()),
            // A filter for another type than the scan's says nothing.
            _ if !keys.data_type().equals_datatype(&self.data_type) => {
                return Ok(all_but_nulls(keys));
            }
            Form::Bitmap { coder, words } => {
                let mut codes = Vec::new();
                coder.encode(std::slice::from_ref(keys), &mut codes)?;
                let last = words.len() as u64 * 64;
                BooleanBuffer::collect_bool(codes.len(), |i| {
                    let code = codes[i];
                    code < last
                        && words[code as usize / 64].load(Ordering::Relaxed) >> (code % 64) & 1 != 0
                })
            }
            Form::Table(table) => {
                let mut found = Vec::new();
                table.lookup(
                    std::slice::from_ref(keys),
                    &mut LookupScratch::default(),
                    &mut found,
                )?;
                BooleanBuffer::collect_bool(found.len(), |i| found[i] != NO_ROW)
            }
            Form::Bloom { words, shift } => {
                let mut hashes = Vec::new();
                hash_columns(
                    std::slice::from_ref(keys),
                    Selected::All(keys.len()),
                    HASH_SEED,
                    &mut hashes,
                )?;
                BooleanBuffer::collect_bool(hashes.len(), |i| {
                    let (index, bits) = bloom_place(hashes[i], *shift);
                    words[index].load(Ordering::Relaxed) & bits == bits
                })
            }
        };
        Ok(BooleanArray::new(without_nulls(bits, nulls.as_ref()), None))
    }
}

/// The bits of rows that are not NULL.
fn without_nulls(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        Some(nulls) => &bits & nulls.inner(),
        None => bits,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, StringViewArray};

    use super::*;
    use crate::memory::MemoryManager;
    use crate::rows::{RowLayout, RowStore};
    use crate::state::JoinTableOptions;

    fn filter(keys: ArrayRef, null_equal: bool) -> Option<ColumnFilter> {
        let reservation = MemoryManager::unlimited().reserve("join");
        let layout = RowLayout::new(&[keys.data_type().clone()], &[]).unwrap();
        let mut store = RowStore::new(layout, reservation.share());
        store.append(std::slice::from_ref(&keys), Selected::All(keys.len())).unwrap();
        let mut span = KeySpan::default();
        span.observe(&keys);
        let options = JoinTableOptions { keys: 1, null_equal, tracks_matches: false, threads: 1 };
        let table = JoinTable::new(store, &[span], options, &reservation).unwrap();
        table.fill(0, || Ok(())).unwrap();
        let table = Arc::new(table);
        let filter = ColumnFilter::new(&table, 0, &span, &reservation).unwrap()?;
        for part in 0..3 {
            filter.fill(&table, (part, 3), || Ok(())).unwrap();
        }
        Some(filter)
    }

    fn passing(filter: &ColumnFilter, keys: &ArrayRef) -> usize {
        let mask = filter.may_match(keys).unwrap();
        assert_eq!(mask.null_count(), 0);
        mask.true_count()
    }

    #[test]
    fn bitmaps_are_exact() {
        let keys: ArrayRef =
            Arc::new((0..1000).map(|v| (v % 10 > 0).then_some(v * 3)).collect::<Date32Array>());
        let filter = filter(keys.clone(), false).unwrap();
        assert!(matches!(filter.form, Form::Bitmap { .. }));
        assert_eq!(
            filter.bounds(),
            Some((ScalarValue::Date32(Some(3)), ScalarValue::Date32(Some(2997))))
        );
        assert_eq!(passing(&filter, &keys), 900);
        let all: ArrayRef = Arc::new((-5000..5000).map(Some).collect::<Date32Array>());
        assert_eq!(passing(&filter, &all), 900);
        let other: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(passing(&filter, &other), 1, "another type passes but for NULLs");
    }

    #[test]
    fn few_keys_of_any_type_are_exact() {
        let keys: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a long string it is")]));
        let strings = filter(keys, false).unwrap();
        assert!(matches!(strings.form, Form::Table(_)));
        let probe: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("b"), None, Some("a long string it is")]));
        assert_eq!(passing(&strings, &probe), 1);
        assert_eq!(strings.bounds(), None);
        let sparse: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, 7, i64::MAX]));
        let integers = filter(sparse.clone(), false).unwrap();
        assert_eq!(passing(&integers, &sparse), 3);
    }

    #[test]
    fn bloom_filters_pass_every_key_and_few_others() {
        let stretch = 1_i64 << 32;
        let keys: ArrayRef =
            Arc::new((0..20_000).map(|v| Some(v * stretch)).collect::<Int64Array>());
        let filter = filter(keys.clone(), false).unwrap();
        assert!(matches!(filter.form, Form::Bloom { .. }));
        assert_eq!(passing(&filter, &keys), 20_000);
        let others: ArrayRef =
            Arc::new((0..20_000).map(|v| Some(v * stretch + 1)).collect::<Int64Array>());
        let passed = passing(&filter, &others);
        assert!(passed < 1000, "{passed} of 20,000 strangers pass");
    }

    #[test]
    fn no_key_and_equal_nulls() {
        let nothing: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        let empty = filter(nothing, false).unwrap();
        assert!(empty.is_empty() && empty.bounds().is_none());
        let probe: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(passing(&empty, &probe), 0);
        assert!(filter(probe, true).is_none());
    }
}
