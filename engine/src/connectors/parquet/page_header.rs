//! The head of a page, as far as estimates need it: its kind, its sizes and a dictionary's number of values.
//!
//! Heads are structs in Thrift's compact protocol. What is damaged gives `None`; nothing here is trusted for reading.

use super::thrift::{CompactReader, DEPTH_MAX, I32, STRUCT};

/// What the head of a page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageHeader {
    /// Bytes of the head itself.
    pub header_bytes: u64,
    /// Bytes of the page behind it in the file.
    pub compressed_bytes: u64,
    /// Bytes of the page when it is unpacked.
    pub uncompressed_bytes: u64,
    /// The values, if the page is a dictionary.
    pub dictionary_values: Option<u64>,
    /// The rows or values, NULLs included, if it is a data page.
    pub data_values: Option<u64>,
}

/// Numbers of the fields of a page's head.
const UNCOMPRESSED: i64 = 2;
const COMPRESSED: i64 = 3;
const DATA: i64 = 5;
const DICTIONARY: i64 = 7;
const DATA_V2: i64 = 8;

/// Reads a head from the first bytes of a page.
pub fn parse(bytes: &[u8]) -> Option<PageHeader> {
    let mut reader = CompactReader::new(bytes);
    let mut header = PageHeader::default();
    let mut field = 0;
    while let Some(kind) = reader.field(&mut field)? {
        match (field, kind) {
            (UNCOMPRESSED, I32) => header.uncompressed_bytes = reader.count()?,
            (COMPRESSED, I32) => header.compressed_bytes = reader.count()?,
            (DATA | DATA_V2, STRUCT) => header.data_values = Some(reader.first_count()?),
            (DICTIONARY, STRUCT) => header.dictionary_values = Some(reader.first_count()?),
            _ => reader.skip(kind, DEPTH_MAX)?,
        }
    }
    header.header_bytes = reader.position() as u64;
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind 2 (dictionary), 40 bytes unpacked, 30 packed, a checksum, and a struct of 7 values.
    const DICTIONARY_PAGE: [u8; 17] =
        [0x15, 4, 0x15, 80, 0x15, 60, 0x15, 2, 0x3c, 0x15, 14, 0x15, 0, 0x12, 0x00, 0x00, 0xff];

    #[test]
    fn a_dictionary_page_tells_its_values() {
        let header = parse(&DICTIONARY_PAGE).unwrap();
        assert_eq!(header.dictionary_values, Some(7));
        assert_eq!((header.uncompressed_bytes, header.compressed_bytes), (40, 30));
        assert_eq!(header.header_bytes, 16);
    }

    #[test]
    fn a_head_that_is_cut_off_or_damaged_is_none() {
        for end in 0..16 {
            assert_eq!(parse(&DICTIONARY_PAGE[..end]), None, "{end}");
        }
        for seed in 0..2_000_u32 {
            let noise: Vec<u8> = (0..32_u32)
                .map(|i| (seed.wrapping_mul(2_654_435_761).rotate_left(i) ^ i) as u8)
                .collect();
            let _ = parse(&noise);
        }
    }
}
