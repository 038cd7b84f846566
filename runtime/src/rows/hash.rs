//! The hash of key columns, a batch at a time.
//!
//! One multiplication of 64 by 64 to 128 bits a value, folded. Equal values have equal hashes whatever the form of
//! their column: −0.0 and 0.0, all NaNs, the string types, dictionaries. NULL has a hash of its own. Invariant: the
//! hash is the same in one process; it may differ between versions and must not be stored (see
//! [`key_group_hash`](super::key_group_hash)). Bits: 63…48 are the salt of hash tables, 47…40 choose a partition, the
//! low ones a bucket.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::append::plain_values;
use super::bytes::{BytesSource, dispatch_bytes};
use super::canonical::{canonical_f16, canonical_f32, canonical_f64, unpack};
use super::encoded::EncodedCodec;
use super::layout::FieldKind;
use super::page::short_bytes;
use super::selected::Selected;
use crate::error::Result;

/// The seed all stores and exchanges of a process agree on.
pub const HASH_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;
const NULL_VALUE: u64 = 0x2545_f491_4f6c_dd1d;
const STRING_KEY: u64 = 0xa076_1d64_78bd_642f;

/// Mixes a value into a hash.
#[inline]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value) * u128::from(MULTIPLIER);
    // The low half alone would leave low bits that depend on low bits only.
    (product as u64) ^ (product >> 64) as u64
}

/// The hash of a string mixed into a hash.
#[inline]
fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let len = bytes.len();
    if len <= 16 {
        return mix_short(hash, short_bytes(bytes), len);
    }
    let word = |at: usize| {
        let mut word = [0_u8; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let fold = |hash: u64, at: usize| {
        let product = u128::from(word(at) ^ hash) * u128::from(word(at + 8) ^ STRING_KEY);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = hash ^ len as u64;
    let mut at = 0;
    while at + 16 < len {
        state = fold(state, at);
        at += 16;
    }
    // The last 16 bytes, which may overlap those before.
    mix(hash.rotate_left(23), fold(state, len - 16))
}

/// The hash of a string of at most 16 bytes.
#[inline]
fn mix_short(hash: u64, bytes: u128, len: usize) -> u64 {
    let (low, high) = (bytes as u64, (bytes >> 64) as u64);
    let tail =
        high.wrapping_mul(STRING_KEY).rotate_left(29) ^ (len as u64).wrapping_mul(MULTIPLIER);
    mix(hash, low ^ tail)
}

/// Writes the hash of every selected row of the key columns to `hashes[row]`; `hashes` gets the columns' length,
/// and rows that are not selected have no meaning there. Without columns all hashes are the seed.
///
/// # Errors
/// `Unsupported` for types that cannot be keys.
pub fn hash_columns(
    columns: &[ArrayRef],
    rows: Selected<'_>,
    seed: u64,
    hashes: &mut Vec<u64>,
) -> Result<()> {
    let len = columns.first().map_or_else(|| rows_bound(rows), |column| column.len());
    hashes.clear();
    hashes.resize(len, seed);
    let Selected::Rows(selected) = rows else {
        return columns.iter().try_for_each(|column| hash_column(column, rows, hashes));
    };
    // A selection may list a row twice: hashes are mixed by selected row, and put into their places at last.
    let mut mixed = vec![seed; selected.len()];
    columns.iter().try_for_each(|column| hash_column(column, rows, &mut mixed))?;
    for (&row, hash) in selected.iter().zip(mixed) {
        hashes[row as usize] = hash;
    }
    Ok(())
}

fn rows_bound(rows: Selected<'_>) -> usize {
    match rows {
        Selected::All(rows) => rows,
        Selected::Rows(rows) => rows.iter().max().map_or(0, |&row| row as usize + 1),
    }
}

fn hash_column(column: &ArrayRef, rows: Selected<'_>, hashes: &mut [u64]) -> Result<()> {
    if let DataType::Dictionary(_, _) = column.data_type() {
        return hash_column(&unpack(column)?, rows, hashes);
    }
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let cx = Target { rows, nulls: nulls.as_ref() };
    match FieldKind::of(column.data_type()) {
        FieldKind::Null => cx.apply(hashes, |hash, _| mix(hash, NULL_VALUE)),
        FieldKind::Boolean => {
            let values = column.as_boolean().values();
            cx.apply(hashes, |hash, row| mix(hash, u64::from(values.value(row))));
        }
        FieldKind::Width1 => cx.plain::<u8>(column, hashes, |hash, v| mix(hash, u64::from(v))),
        FieldKind::Width2 => cx.plain::<u16>(column, hashes, |hash, v| mix(hash, u64::from(v))),
        FieldKind::Width4 => cx.plain::<u32>(column, hashes, |hash, v| mix(hash, u64::from(v))),
        FieldKind::Width8 => cx.plain::<u64>(column, hashes, mix),
        FieldKind::Width16 => cx.plain::<u128>(column, hashes, mix_wide),
        FieldKind::Width32 => cx.plain::<i256>(column, hashes, |hash, v| {
            let (low, high) = v.to_parts();
            mix_wide(mix_wide(hash, low), high as u128)
        }),
        FieldKind::Float16 => {
            cx.plain::<u16>(column, hashes, |hash, v| mix(hash, u64::from(canonical_f16(v))));
        }
        FieldKind::Float32 => cx.plain::<u32>(column, hashes, |hash, v| {
            mix(hash, u64::from(canonical_f32(f32::from_bits(v))))
        }),
        FieldKind::Float64 => {
            cx.plain::<u64>(column, hashes, |hash, v| mix(hash, canonical_f64(f64::from_bits(v))));
        }
        FieldKind::Bytes => dispatch_bytes!(column, source => {
            cx.bytes(&source, hashes);
            Ok(())
        })?,
        FieldKind::Encoded => {
            let column = unpack(column)?;
            let encoded = EncodedCodec::new(column.data_type())?.encode_canonical(&column)?;
            cx.apply(hashes, |hash, row| mix_bytes(hash, encoded.row(row).data()));
        }
    }
    Ok(())
}

#[inline]
fn mix_wide(hash: u64, value: u128) -> u64 {
    mix(mix(hash, value as u64), (value >> 64) as u64)
}

/// The rows to hash, by selected row, and which rows are NULL.
struct Target<'a> {
    rows: Selected<'a>,
    nulls: Option<&'a NullBuffer>,
}

impl Target<'_> {
    #[inline]
    fn apply(&self, hashes: &mut [u64], f: impl Fn(u64, usize) -> u64) {
        match (self.rows, self.nulls) {
            (Selected::All(_), None) => {
                hashes.iter_mut().enumerate().for_each(|(row, hash)| *hash = f(*hash, row));
            }
            (Selected::All(_), Some(nulls)) => {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    *hash = if nulls.is_null(row) { mix(*hash, NULL_VALUE) } else { f(*hash, row) };
                }
            }
            (Selected::Rows(rows), nulls) => {
                for (hash, &row) in hashes.iter_mut().zip(rows) {
                    let row = row as usize;
                    let null = nulls.is_some_and(|nulls| nulls.is_null(row));
                    *hash = if null { mix(*hash, NULL_VALUE) } else { f(*hash, row) };
                }
            }
        }
    }

    #[inline]
    fn plain<T: ArrowNativeType>(
        &self,
        column: &ArrayRef,
        hashes: &mut [u64],
        f: impl Fn(u64, T) -> u64,
    ) {
        let values: &[T] = &plain_values(column.as_ref());
        if let (Selected::All(_), None) = (self.rows, self.nulls) {
            hashes.iter_mut().zip(values).for_each(|(hash, &value)| *hash = f(*hash, value));
        } else {
            self.apply(hashes, |hash, row| f(hash, values[row]));
        }
    }

    #[inline]
    fn bytes(&self, source: &impl BytesSource, hashes: &mut [u64]) {
        self.apply(hashes, |hash, row| match source.inline(row) {
            Some(view) => mix_short(hash, view >> 32, view as u32 as usize),
            None => mix_bytes(hash, source.bytes(row)),
        });
    }
}
