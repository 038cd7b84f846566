//! Whether a file's columns are encrypted although its footer is not.
//!
//! The decoder is built without decryption and passes over the fields that tell; it would take ciphertext for pages.

use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use super::thrift::{CompactReader, DEPTH_MAX};

/// Bytes behind the footer: its length and the magic number.
const TAIL_BYTES: u64 = 8;

/// The number of the footer's field that names an encryption algorithm.
const ENCRYPTION_ALGORITHM: i64 = 8;

/// Whether the footer of a file names an encryption algorithm. A footer that cannot be followed names none.
pub(super) fn has_encrypted_columns(source: &impl ChunkReader) -> Result<bool, ParquetError> {
    let Some(tail_at) = source.len().checked_sub(TAIL_BYTES) else { return Ok(false) };
    let tail = source.get_bytes(tail_at, TAIL_BYTES as usize)?;
    let Some(length) = tail.first_chunk().map(|&bytes| u32::from_le_bytes(bytes)) else {
        return Ok(false);
    };
    let Some(footer_at) = tail_at.checked_sub(u64::from(length)) else { return Ok(false) };
    let footer = source.get_bytes(footer_at, length as usize)?;
    Ok(names_encryption(&footer).unwrap_or(false))
}

fn names_encryption(footer: &[u8]) -> Option<bool> {
    let mut reader = CompactReader::new(footer);
    let mut field = 0;
    while let Some(kind) = reader.field(&mut field)? {
        if field == ENCRYPTION_ALGORITHM {
            return Some(true);
        }
        reader.skip(kind, DEPTH_MAX)?;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::names_encryption;

    #[test]
    fn the_field_behind_others_is_found() {
        // A number (field 1), a text (field 6), then an empty struct as field 8.
        assert_eq!(names_encryption(&[0x15, 2, 0x58, 2, b'x', b'y', 0x2c, 0, 0]), Some(true));
        assert_eq!(names_encryption(&[0x15, 2, 0x58, 2, b'x', b'y', 0]), Some(false));
        assert_eq!(names_encryption(&[0x15, 2, 0x58, 90, b'x']), None);
    }
}
