//! The head of a page, as far as estimates need it: its kind, its sizes and a dictionary's number of values.
//!
//! Heads are structs in Thrift's compact protocol. What is damaged gives `None`; nothing here is trusted for reading.

/// Nested structs beyond this depth are not looked into.
const DEPTH_MAX: usize = 8;

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

/// Kinds of fields on the wire.
const BOOLEANS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const INTEGERS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
const STRUCT: u8 = 12;

/// Numbers of the fields of a page's head.
const UNCOMPRESSED: i64 = 2;
const COMPRESSED: i64 = 3;
const DATA: i64 = 5;
const DICTIONARY: i64 = 7;
const DATA_V2: i64 = 8;

/// Reads a head from the first bytes of a page.
pub fn parse(bytes: &[u8]) -> Option<PageHeader> {
    let mut reader = Reader { bytes, at: 0 };
    let mut header = PageHeader::default();
    let mut field = 0;
    while let Some(kind) = reader.field(&mut field)? {
        match (field, kind) {
            (UNCOMPRESSED, 5) => header.uncompressed_bytes = reader.count()?,
            (COMPRESSED, 5) => header.compressed_bytes = reader.count()?,
            (DATA | DATA_V2, STRUCT) => header.data_values = Some(reader.first_count()?),
            (DICTIONARY, STRUCT) => header.dictionary_values = Some(reader.first_count()?),
            _ => reader.skip(kind, DEPTH_MAX)?,
        }
    }
    header.header_bytes = reader.at as u64;
    Some(header)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn count(&mut self) -> Option<u64> {
        u64::try_from(self.integer()?).ok()
    }

    /// Moves to the next field of a struct and tells its kind; `Some(None)` at the struct's end.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *number = match head >> 4 {
            0 => self.integer()?,
            delta => number.checked_add(i64::from(delta))?,
        };
        Some(Some(head & 0x0f))
    }

    /// Reads a struct whose first field is a count, and skips the rest of it.
    fn first_count(&mut self) -> Option<u64> {
        let (mut field, mut count) = (0, None);
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (1, 5) => count = Some(self.count()?),
                _ => self.skip(kind, DEPTH_MAX)?,
            }
        }
        count
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            k if BOOLEANS.contains(&k) => {}
            BYTE => self.advance(1)?,
            k if INTEGERS.contains(&k) => drop(self.varint()?),
            DOUBLE => self.advance(8)?,
            BINARY => {
                let length = self.varint()?;
                self.advance(length)?;
            }
            k if LISTS.contains(&k) => self.skip_list(depth)?,
            STRUCT => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.varint()?,
            length => u64::from(length),
        };
        for _ in 0..length {
            // A boolean in a list takes a byte, unlike one in a struct.
            match head & 0x0f {
                kind if BOOLEANS.contains(&kind) => self.advance(1)?,
                kind => self.skip(kind, depth)?,
            }
        }
        Some(())
    }

    fn advance(&mut self, bytes: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        (at <= self.bytes.len()).then(|| self.at = at)
    }
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
