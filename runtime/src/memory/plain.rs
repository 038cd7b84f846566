//! The types that may be read from and written to raw memory.
//!
//! Invariant: every bit pattern of a [`Plain`] type is a valid value, and it owns nothing. The trait is sealed, so
//! that no type outside this file can break that.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use arrow::datatypes::i256;

mod sealed {
    /// Keeps [`super::Plain`] from being implemented elsewhere.
    pub trait Sealed {}
}

/// A type whose every bit pattern is valid and that owns nothing: integers, floats, atomics of them, and arrays.
pub trait Plain: sealed::Sealed + Sized + Send + Sync + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        impl sealed::Sealed for $t {}
        impl Plain for $t {}
    )* };
}

plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, i256, f32, f64);
plain!(AtomicU8, AtomicU32, AtomicU64);
plain!([u64; 2], [u64; 4], [u32; 2], [u32; 4]);
