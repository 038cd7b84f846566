//! The hash that outlives a process: key groups of state and checkpoints.
//!
//! XXH3 over a canonical encoding of each value, chained by column. Invariant: for one
//! [`KEY_GROUP_HASH_VERSION`], a key has the same hash in every process, on every machine and for every form of its
//! column; state written under another version is refused by whoever restores it. It is slower than
//! [`hash_columns`](super::hash_columns), which hash tables use.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::i256;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::append::plain_values;
use super::bytes::{BytesSource, dispatch_bytes};
use super::canonical::{canonical_f16, canonical_f32, canonical_f64, unpack};
use super::encoded::EncodedCodec;
use super::layout::FieldKind;
use super::selected::Selected;
use crate::error::Result;

/// Rises whenever any key would get another hash.
pub const KEY_GROUP_HASH_VERSION: u32 = 1;

/// What a NULL is hashed as: one byte that no value of one byte is hashed as, since those follow a marker.
const NULL_BYTES: [u8; 1] = [0];

/// Writes the stable hash of every selected row of the key columns to `hashes`, by selected row.
///
/// # Errors
/// `Unsupported` for types that cannot be keys.
pub fn key_group_hash(
    columns: &[ArrayRef],
    rows: Selected<'_>,
    hashes: &mut Vec<u64>,
) -> Result<()> {
    hashes.clear();
    hashes.resize(rows.len(), u64::from(KEY_GROUP_HASH_VERSION));
    columns.iter().try_for_each(|column| hash_column(&unpack(column)?, rows, hashes))
}

fn hash_column(column: &ArrayRef, rows: Selected<'_>, hashes: &mut [u64]) -> Result<()> {
    let nulls = column.logical_nulls();
    let mut each = |hash_value: &dyn Fn(usize, u64) -> u64| {
        for (i, hash) in hashes.iter_mut().enumerate() {
            let row = rows.row(i) as usize;
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            *hash =
                if null { xxh3_64_with_seed(&NULL_BYTES, *hash) } else { hash_value(row, *hash) };
        }
    };
    macro_rules! plain {
        ($native:ty, $encode:expr) => {{
            let values = plain_values::<$native>(column.as_ref());
            let encode = $encode;
            each(&|row, hash| xxh3_64_with_seed(&marked(&encode(values[row])), hash));
        }};
    }
    match FieldKind::of(column.data_type()) {
        FieldKind::Null => each(&|_, hash| xxh3_64_with_seed(&NULL_BYTES, hash)),
        FieldKind::Boolean => {
            let values = column.as_boolean().values();
            each(&|row, hash| xxh3_64_with_seed(&[1, u8::from(values.value(row))], hash));
        }
        FieldKind::Width1 => plain!(u8, u8::to_le_bytes),
        FieldKind::Width2 => plain!(u16, u16::to_le_bytes),
        FieldKind::Width4 => plain!(u32, u32::to_le_bytes),
        FieldKind::Width8 => plain!(u64, u64::to_le_bytes),
        FieldKind::Width16 => plain!(u128, u128::to_le_bytes),
        FieldKind::Width32 => plain!(i256, i256::to_le_bytes),
        FieldKind::Float16 => plain!(u16, |v| canonical_f16(v).to_le_bytes()),
        FieldKind::Float32 => plain!(u32, |v| canonical_f32(f32::from_bits(v)).to_le_bytes()),
        FieldKind::Float64 => plain!(u64, |v| canonical_f64(f64::from_bits(v)).to_le_bytes()),
        FieldKind::Bytes => dispatch_bytes!(column, source => {
            // A string is hashed after its length, so that it is no other value.
            each(&|row, hash| {
                let bytes = source.bytes(row);
                xxh3_64_with_seed(bytes, hash ^ (bytes.len() as u64 + 1).rotate_left(32))
            });
            Ok(())
        })?,
        FieldKind::Encoded => {
            let encoded = EncodedCodec::new(column.data_type())?.encode_canonical(column)?;
            each(&|row, hash| xxh3_64_with_seed(encoded.row(row).data(), hash));
        }
    }
    Ok(())
}

/// The bytes after a marker; the widest value has 32 bytes, the rest stays zero.
fn marked<const N: usize>(bytes: &[u8; N]) -> [u8; 33] {
    let mut marked = [0; 33];
    marked[0] = 1;
    marked[1..=N].copy_from_slice(bytes);
    marked
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, LargeStringArray, StringArray, StringViewArray};

    use super::*;

    fn hash(column: ArrayRef) -> Vec<u64> {
        let mut hashes = Vec::new();
        key_group_hash(std::slice::from_ref(&column), Selected::All(column.len()), &mut hashes)
            .unwrap();
        hashes
    }

    #[test]
    fn hashes_are_what_they_were() {
        // Constants on purpose: state written yesterday is found by these hashes.
        assert_eq!(hash(Arc::new(Int64Array::from(vec![Some(1), None]))), STORED_INT64);
        assert_eq!(hash(Arc::new(StringArray::from(vec!["", "thalweg"]))), STORED_UTF8);
    }

    const STORED_INT64: [u64; 2] = [14_915_213_557_971_092_251, 6_821_477_855_185_008_432];
    const STORED_UTF8: [u64; 2] = [12_850_217_643_569_851_082, 763_585_587_690_501_662];

    #[test]
    fn the_form_of_a_column_does_not_matter() {
        let texts = vec![Some("a"), None, Some("a string beyond twelve bytes"), Some("")];
        let small = hash(Arc::new(StringArray::from(texts.clone())));
        assert_eq!(small, hash(Arc::new(LargeStringArray::from(texts.clone()))));
        assert_eq!(small, hash(Arc::new(StringViewArray::from(texts))));
        let zeros = hash(Arc::new(Float64Array::from(vec![0.0, -0.0])));
        assert_eq!(zeros[0], zeros[1]);
    }
}
