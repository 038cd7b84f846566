//! Packs the leading sort keys of all rows into 64 bits that compare as the keys do.
//!
//! The ranges of the keys are known once all rows are there, so that few bits hold most keys: numbers are stored
//! as their distance from the least one, strings without their common prefix. Keys are packed until one does not
//! fit; from that one on, equal bits leave the order open and the full keys decide. Invariant: where two packed
//! values differ, they differ as the rows do.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use arrow_schema::SortOptions;

use super::ordinal::{Ordinal, has_ordinals, ordinal_range, with_natives};
use crate::error::Result;
use crate::rows::{BytesSource, dispatch_bytes};

/// What is known of one key over all rows.
#[derive(Debug)]
pub(super) struct KeyRange {
    options: SortOptions,
    kind: Kind,
    nulls: bool,
}

#[derive(Debug)]
enum Kind {
    /// Values that map to whole numbers in order; empty while `min > max`.
    Ordinal { min: i128, max: i128 },
    /// Strings: what all begin with, the longest, and whether one has a zero byte.
    Bytes { prefix: Option<Vec<u8>>, len_max: usize, zeros: bool },
    /// Values that are only compared in full.
    Opaque,
}

impl KeyRange {
    /// Nothing is known of a key of this type yet.
    pub fn new(data_type: &DataType, options: SortOptions) -> Self {
        let kind = match data_type {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Kind::Bytes { prefix: None, len_max: 0, zeros: false },
            DataType::Boolean | DataType::Null => Kind::Ordinal { min: i128::MAX, max: i128::MIN },
            other if has_ordinals(other) => Kind::Ordinal { min: i128::MAX, max: i128::MIN },
            _ => Kind::Opaque,
        };
        KeyRange { options, kind, nulls: false }
    }

    /// Takes the canonical values of a batch into account.
    pub fn add(&mut self, array: &ArrayRef) -> Result<()> {
        self.nulls |= array.logical_null_count() > 0;
        match &mut self.kind {
            Kind::Ordinal { min, max } => {
                let (low, high) = ordinal_range(array);
                *min = low.min(*min);
                *max = high.max(*max);
            }
            Kind::Bytes { prefix, len_max, zeros } => dispatch_bytes!(array, source => {
                bytes_range(&source, array, prefix, len_max, zeros);
                Ok(())
            })?,
            Kind::Opaque => {}
        }
        Ok(())
    }
}

/// How each key enters the 64 bits.
#[derive(Debug)]
pub(super) struct Packing {
    fields: Vec<PackedKey>,
    /// The first key whose order the packed bits do not decide; none if they decide all.
    pub undecided: Option<usize>,
}

#[derive(Debug)]
struct PackedKey {
    key: usize,
    descending: bool,
    /// Bits of the value, after `dropped` low ones were cut off.
    bits: u32,
    dropped: u32,
    /// The NULL's marker and the value's, if there are NULLs.
    null_bit: Option<bool>,
    source: PackedSource,
}

#[derive(Debug)]
enum PackedSource {
    Ordinal { min: i128, range: u64 },
    Bytes { skip: usize },
}

impl Packing {
    /// Packs as many keys as fit.
    pub fn new(ranges: &[KeyRange]) -> Self {
        let mut left = u64::BITS;
        let mut fields = Vec::new();
        for (key, range) in ranges.iter().enumerate() {
            if range.nulls && left == 0 {
                return Packing { fields, undecided: Some(key) };
            }
            let room = left - u32::from(range.nulls);
            let Some((source, width, complete)) = range.source() else {
                return Packing { fields, undecided: Some(key) };
            };
            let bits = width.min(room);
            fields.push(PackedKey {
                key,
                descending: range.options.descending,
                bits,
                dropped: width - bits,
                null_bit: range.nulls.then_some(!range.options.nulls_first),
                source,
            });
            left = room - bits;
            if bits < width || !complete {
                return Packing { fields, undecided: Some(key) };
            }
        }
        Packing { fields, undecided: None }
    }

    /// The packed values of a batch's key columns.
    pub fn pack(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
        let mut packed = vec![0_u64; rows];
        for field in &self.fields {
            field.append(&mut packed, &columns[field.key])?;
        }
        Ok(packed)
    }
}

impl KeyRange {
    /// Where a packed value comes from, the bits it takes, and whether they hold all of it.
    fn source(&self) -> Option<(PackedSource, u32, bool)> {
        match &self.kind {
            Kind::Ordinal { min, max } if min > max => {
                Some((PackedSource::Ordinal { min: 0, range: 0 }, 0, true))
            }
            Kind::Ordinal { min, max } => {
                let range = u64::try_from(max.checked_sub(*min)?).ok()?;
                let width = u64::BITS - range.leading_zeros();
                Some((PackedSource::Ordinal { min: *min, range }, width, true))
            }
            Kind::Bytes { prefix, len_max, zeros } => {
                let skip = prefix.as_ref().map_or(0, Vec::len);
                let rest = len_max - skip;
                let width = 8 * rest.min(8) as u32;
                Some((PackedSource::Bytes { skip }, width, rest <= 8 && !zeros))
            }
            Kind::Opaque => None,
        }
    }
}

impl PackedKey {
    fn append(&self, packed: &mut [u64], array: &ArrayRef) -> Result<()> {
        match self.source {
            PackedSource::Ordinal { min, range } => {
                let (flip, dropped) = (self.descending, self.dropped);
                let code = |ordinal: i128| {
                    let distance = ordinal.wrapping_sub(min) as u64;
                    drop_low(if flip { range.wrapping_sub(distance) } else { distance }, dropped)
                };
                use DataType::*;
                if let Boolean = array.data_type() {
                    let values = array.as_boolean().values();
                    self.merge(packed, array, values.iter().map(|v| code(i128::from(v))));
                    return Ok(());
                }
                with_natives!(
                    array,
                    values => self.merge(packed, array, values.iter().map(|v| code(v.ordinal()))),
                    self.merge(packed, array, std::iter::repeat_n(0, array.len()))
                );
                Ok(())
            }
            PackedSource::Bytes { skip } => dispatch_bytes!(array, source => {
                let flip = if self.descending { u64::MAX } else { 0 };
                let width = self.bits + self.dropped;
                let code = |i: usize| match width {
                    0 => 0,
                    width => drop_low((leading_u64(source.bytes(i), skip) ^ flip) >> (64 - width), self.dropped),
                };
                self.merge(packed, array, (0..array.len()).map(code));
                Ok(())
            }),
        }
    }

    /// Shifts one field of every row in; `codes` may be anything for NULLs.
    fn merge(&self, packed: &mut [u64], array: &ArrayRef, codes: impl Iterator<Item = u64>) {
        let shift = |value: u64, bits: u32| if bits >= u64::BITS { 0 } else { value << bits };
        let bits = self.bits;
        let Some(null_marker) = self.null_bit else {
            packed.iter_mut().zip(codes).for_each(|(row, code)| *row = shift(*row, bits) | code);
            return;
        };
        let valid_bit = shift(u64::from(!null_marker), bits);
        let null_bit = shift(u64::from(null_marker), bits);
        let nulls = array.logical_nulls().unwrap_or_else(|| NullBuffer::new_valid(array.len()));
        for ((row, code), valid) in packed.iter_mut().zip(codes).zip(nulls.iter()) {
            let field = if valid { valid_bit | code } else { null_bit };
            *row = shift(*row, bits + 1) | field;
        }
    }
}

/// The bits above the `dropped` low ones; all of them may be dropped, when no room is left for the key.
#[inline]
fn drop_low(value: u64, dropped: u32) -> u64 {
    value.checked_shr(dropped).unwrap_or(0)
}

/// Up to eight bytes from `skip` on, filled with zeros at the end.
#[inline]
fn leading_u64(bytes: &[u8], skip: usize) -> u64 {
    let tail = bytes.get(skip..).unwrap_or_default();
    match tail.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..tail.len()].copy_from_slice(tail);
            u64::from_be_bytes(chunk)
        }
    }
}

fn bytes_range(
    source: &impl BytesSource,
    array: &ArrayRef,
    prefix: &mut Option<Vec<u8>>,
    len_max: &mut usize,
    zeros: &mut bool,
) {
    let nulls = array.logical_nulls();
    for i in 0..array.len() {
        if nulls.as_ref().is_some_and(|n| n.is_null(i)) {
            continue;
        }
        let bytes = source.bytes(i);
        *len_max = bytes.len().max(*len_max);
        let common = match prefix {
            Some(prefix) => {
                let same = prefix.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                prefix.truncate(same);
                same
            }
            None => {
                *prefix = Some(bytes.to_vec());
                bytes.len()
            }
        };
        // Zeros matter only where the whole rest could be packed; the prefix may still shrink, so look at all.
        if !*zeros && bytes.len() - common <= 16 {
            *zeros = bytes.contains(&0);
        }
    }
}
