//! Several key columns packed into one word.
//!
//! Fixed-width values lie side by side, floats in canonical form; a string takes its bytes and one byte of its length
//! plus one (0 is NULL). One byte has the NULL bits of the fixed-width columns; a key that is one fixed-width column
//! has no such byte, and its NULLs are the index's business. Invariant: packed words are equal exactly when the keys
//! are. A string too long for its share does not fit, and says so before anything changes.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use crate::error::Result;
use crate::memory::Plain;
use crate::rows::{
    BytesSource, FieldKind, HASH_SEED, RowId, Selected, canonical_f16, canonical_f32,
    canonical_f64, dispatch_bytes, mix, plain_values, short_bytes,
};

/// The least share of a string: its length and three bytes.
const MIN_STRING_BYTES: usize = 4;

/// A word that keys are packed into, and its table entry.
pub(super) trait Word:
    Copy + Eq + Default + std::ops::BitOrAssign + std::fmt::Debug
{
    /// The key, and the row plus one; 0 where there is none.
    type Entry: Plain + Copy;
    fn place(value: u128, shift: u32) -> Self;
    fn hash(self) -> u64;
    fn entry(self, slot: RowId) -> Self::Entry;
    fn key(entry: Self::Entry) -> Self;
    fn slot(entry: Self::Entry) -> RowId;
}

impl Word for u64 {
    type Entry = [u64; 2];

    #[inline]
    fn place(value: u128, shift: u32) -> Self {
        (value as u64) << shift
    }

    #[inline]
    fn hash(self) -> u64 {
        mix(HASH_SEED, self)
    }

    #[inline]
    fn entry(self, slot: RowId) -> [u64; 2] {
        [self, u64::from(slot)]
    }

    #[inline]
    fn key(entry: [u64; 2]) -> Self {
        entry[0]
    }

    #[inline]
    fn slot(entry: [u64; 2]) -> RowId {
        entry[1] as RowId
    }
}

impl Word for u128 {
    type Entry = [u64; 4];

    #[inline]
    fn place(value: u128, shift: u32) -> Self {
        value << shift
    }

    #[inline]
    fn hash(self) -> u64 {
        mix(mix(HASH_SEED, self as u64), (self >> 64) as u64)
    }

    #[inline]
    fn entry(self, slot: RowId) -> [u64; 4] {
        [self as u64, (self >> 64) as u64, u64::from(slot), 0]
    }

    #[inline]
    fn key(entry: [u64; 4]) -> Self {
        u128::from(entry[0]) | u128::from(entry[1]) << 64
    }

    #[inline]
    fn slot(entry: [u64; 4]) -> RowId {
        entry[2] as RowId
    }
}

#[derive(Debug)]
struct PackColumn {
    kind: FieldKind,
    shift: u32,
    /// For strings: the longest that fits.
    max_len: usize,
}

/// How the key columns lie in a word.
#[derive(Debug)]
pub(super) struct PackPlan {
    columns: Vec<PackColumn>,
    /// Where the NULL bits begin; none for a single fixed-width column.
    null_shift: Option<u32>,
}

fn packed_bytes(kind: FieldKind) -> Option<usize> {
    match kind {
        FieldKind::Boolean | FieldKind::Width1 => Some(1),
        FieldKind::Width2 | FieldKind::Float16 => Some(2),
        FieldKind::Width4 | FieldKind::Float32 => Some(4),
        FieldKind::Width8 | FieldKind::Float64 => Some(8),
        FieldKind::Bytes => Some(0),
        FieldKind::Null | FieldKind::Width16 | FieldKind::Width32 | FieldKind::Encoded => None,
    }
}

impl PackPlan {
    /// The plan for columns of the given types in a word of `word_bytes`, if they can fit at all.
    pub(super) fn new(types: &[DataType], word_bytes: usize) -> Option<Self> {
        let kinds: Vec<FieldKind> = types.iter().map(FieldKind::of).collect();
        let widths: Vec<usize> =
            kinds.iter().map(|&kind| packed_bytes(kind)).collect::<Option<_>>()?;
        let strings = kinds.iter().filter(|&&kind| kind == FieldKind::Bytes).count();
        let fixed = kinds.len() - strings;
        let has_null_byte = fixed > 0 && kinds.len() > 1;
        if has_null_byte && fixed > 8 {
            return None;
        }
        let used = widths.iter().sum::<usize>() + usize::from(has_null_byte);
        let share = word_bytes.checked_sub(used)?.checked_div(strings);
        if share.is_some_and(|share| share < MIN_STRING_BYTES) {
            return None;
        }
        let mut end = 0;
        let columns = kinds
            .into_iter()
            .zip(widths)
            .map(|(kind, width)| {
                let bytes = if kind == FieldKind::Bytes { share.unwrap_or(0) } else { width };
                let shift = 8 * end as u32;
                end += bytes;
                PackColumn { kind, shift, max_len: bytes.saturating_sub(1) }
            })
            .collect();
        Some(Self { columns, null_shift: has_null_byte.then_some(8 * end as u32) })
    }

    /// The NULLs that words cannot tell: those of a single fixed-width column.
    pub(super) fn outside_nulls(&self, keys: &[ArrayRef]) -> Option<NullBuffer> {
        let single = self.null_shift.is_none() && self.columns[0].kind != FieldKind::Bytes;
        let nulls = if single { keys[0].nulls().cloned() } else { None };
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    /// Packs the selected keys into `words`; false when one does not fit.
    pub(super) fn pack<W: Word>(
        &self,
        keys: &[ArrayRef],
        rows: Selected<'_>,
        words: &mut Vec<W>,
    ) -> Result<bool> {
        words.clear();
        words.resize(rows.len(), W::default());
        let mut null_bit = self.null_shift;
        for (column, key) in self.columns.iter().zip(keys) {
            let fits = if column.kind == FieldKind::Bytes {
                dispatch_bytes!(key, source => {
                    Ok(pack_strings(column, &source, key.nulls(), rows, words))
                })?
            } else {
                pack_fixed(column, key, null_bit, rows, words);
                null_bit = null_bit.map(|bit| bit + 1);
                true
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn pack_fixed<W: Word>(
    column: &PackColumn,
    key: &ArrayRef,
    null_bit: Option<u32>,
    rows: Selected<'_>,
    words: &mut [W],
) {
    let nulls = key.nulls().filter(|nulls| nulls.null_count() > 0);
    macro_rules! pack {
        ($native:ty, $bits:expr) => {{
            let values: &[$native] = &plain_values(key.as_ref());
            let bits = $bits;
            pack_values(column.shift, nulls, null_bit, rows, words, |row| bits(values[row]))
        }};
    }
    match column.kind {
        FieldKind::Boolean => {
            let values = key.as_boolean().values();
            let value = |row| u64::from(values.value(row));
            pack_values(column.shift, nulls, null_bit, rows, words, value);
        }
        FieldKind::Width1 => pack!(u8, u64::from),
        FieldKind::Width2 => pack!(u16, u64::from),
        FieldKind::Width4 => pack!(u32, u64::from),
        FieldKind::Width8 => pack!(u64, |v: u64| v),
        FieldKind::Float16 => pack!(u16, |v| u64::from(canonical_f16(v))),
        FieldKind::Float32 => pack!(u32, |v| u64::from(canonical_f32(f32::from_bits(v)))),
        FieldKind::Float64 => pack!(u64, |v| canonical_f64(f64::from_bits(v))),
        FieldKind::Null
        | FieldKind::Width16
        | FieldKind::Width32
        | FieldKind::Bytes
        | FieldKind::Encoded => unreachable!("a plan has none of them"),
    }
}

#[inline]
fn pack_values<W: Word>(
    shift: u32,
    nulls: Option<&NullBuffer>,
    null_bit: Option<u32>,
    rows: Selected<'_>,
    words: &mut [W],
    value: impl Fn(usize) -> u64,
) {
    let place = |row: usize| W::place(u128::from(value(row)), shift);
    match (nulls, rows) {
        (None, Selected::All(_)) => {
            words.iter_mut().enumerate().for_each(|(row, word)| *word |= place(row));
        }
        (None, Selected::Rows(rows)) => {
            words.iter_mut().zip(rows).for_each(|(word, &row)| *word |= place(row as usize));
        }
        (Some(nulls), rows) => {
            for (i, word) in words.iter_mut().enumerate() {
                let row = rows.row(i) as usize;
                if nulls.is_valid(row) {
                    *word |= place(row);
                } else if let Some(bit) = null_bit {
                    *word |= W::place(1, bit);
                }
            }
        }
    }
}

/// Packs strings; false as soon as one is too long.
fn pack_strings<W: Word>(
    column: &PackColumn,
    source: &impl BytesSource,
    nulls: Option<&NullBuffer>,
    rows: Selected<'_>,
    words: &mut [W],
) -> bool {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let mut fits = true;
    match (nulls, rows) {
        (None, Selected::All(_)) => {
            for (row, word) in words.iter_mut().enumerate() {
                fits &= pack_string(column, source, row, word);
            }
        }
        (None, Selected::Rows(rows)) => {
            for (&row, word) in rows.iter().zip(words) {
                fits &= pack_string(column, source, row as usize, word);
            }
        }
        (Some(nulls), rows) => {
            for (i, word) in words.iter_mut().enumerate() {
                let row = rows.row(i) as usize;
                if nulls.is_valid(row) {
                    fits &= pack_string(column, source, row, word);
                }
            }
        }
    }
    fits
}

/// Packs one string; whether it fits.
#[inline(always)]
fn pack_string<W: Word>(
    column: &PackColumn,
    source: &impl BytesSource,
    row: usize,
    word: &mut W,
) -> bool {
    let (bytes, len) = match source.inline(row) {
        Some(view) => (view >> 32, view as u32 as usize),
        None => long_string(source.bytes(row)),
    };
    *word |= W::place(bytes, column.shift);
    *word |= W::place(len as u128 + 1, column.shift + 8 * column.max_len as u32);
    len <= column.max_len
}

/// A string that is longer than a view holds; only words of 16 bytes have room for some of them.
#[cold]
fn long_string(bytes: &[u8]) -> (u128, usize) {
    (if bytes.len() <= 16 { short_bytes(bytes) } else { 0 }, bytes.len())
}
