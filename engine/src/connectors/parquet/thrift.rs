//! Structs in Thrift's compact protocol, skimmed for some of their fields.
//!
//! What is damaged gives `None`; nothing here allocates, so that a damaged length costs nothing.

/// Structs and lists inside each other beyond this depth are not looked into.
pub(super) const DEPTH_MAX: usize = 12;

/// Kinds of fields on the wire.
const BOOLEANS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const INTEGERS: [u8; 3] = [4, I32, 6];
/// An integer of 32 bits.
pub(super) const I32: u8 = 5;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
/// A struct.
pub(super) const STRUCT: u8 = 12;

/// A place in the bytes of a struct.
pub(super) struct CompactReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> CompactReader<'a> {
    /// At the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        CompactReader { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

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

    /// An integer that is not negative.
    pub(super) fn count(&mut self) -> Option<u64> {
        u64::try_from(self.integer()?).ok()
    }

    /// Moves to the next field of a struct and tells its kind; `Some(None)` at the struct's end.
    pub(super) fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
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
    pub(super) fn first_count(&mut self) -> Option<u64> {
        let (mut field, mut count) = (0, None);
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (1, I32) => count = Some(self.count()?),
                _ => self.skip(kind, DEPTH_MAX)?,
            }
        }
        count
    }

    /// Skips a value of a kind, with as many structs and lists inside each other as `depth` says.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
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
