//! The bytes of a block: one's own, or a part of a buffer that goes back to its pool.

use std::ops::Deref;

use bytes::Bytes;

/// Bytes that are read by all and changed where they are one's own.
#[derive(Debug)]
pub enum BlockBytes {
    /// Bytes that grow.
    Own(Vec<u8>),
    /// Bytes that others may refer to.
    Shared(Bytes),
}

impl BlockBytes {
    /// The bytes, to be changed; shared ones are copied.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        if let BlockBytes::Shared(bytes) = self {
            *self = BlockBytes::Own(bytes.to_vec());
        }
        match self {
            BlockBytes::Own(bytes) => bytes,
            BlockBytes::Shared(_) => unreachable!("shared bytes were copied"),
        }
    }
}

impl Default for BlockBytes {
    fn default() -> Self {
        BlockBytes::Own(Vec::new())
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BlockBytes::Own(bytes) => bytes,
            BlockBytes::Shared(bytes) => bytes,
        }
    }
}
