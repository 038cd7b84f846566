//! Paged binary rows: what joins, aggregates, sorts, windows and state keep.
//!
//! A row is a fixed part (values, 16-byte views of strings, NULL bits, aggregate state) in a page of rows, and a
//! variable part in the page's own heap. References into the heap are relative to the page, so that pages are
//! handed over, written out and read back without conversion. Everything works on Arrow columns, a batch at a
//! time; there is no access by row and type. Invariant: all pages are charged to the store's reservation.
//!
//! The module knows no keys, joins or aggregates (see [`state`](crate::state)), and never orders rows by itself.

mod append;
pub(crate) mod bytes;
mod canonical;
mod compare;
mod copy;
mod encoded;
mod gather;
mod hash;
mod key_group_hash;
mod layout;
mod page;
mod page_codec;
mod pages;
mod partition;
mod selected;
mod sort_key;
mod states;
mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
pub(crate) mod test_data;

pub(crate) use append::plain_values;
pub(crate) use bytes::{BytesSource, dispatch_bytes};
pub(crate) use canonical::{canonical_f16, canonical_f32, canonical_f64, unpack};
pub use canonical::{canonical_key, unpacked_type};
pub use compare::Pairs;
pub(crate) use hash::mix;
pub use hash::{HASH_SEED, hash_columns};
pub use key_group_hash::{KEY_GROUP_HASH_VERSION, key_group_hash};
pub(crate) use layout::FieldKind;
pub use layout::{NO_ROW, RowId, RowLayout, StateField, StateSlot};
pub use page::RowPage;
pub(crate) use page::short_bytes;
pub(crate) use page_codec::{take_array, take_bytes};
pub use pages::{Pages, PanePages};
pub use partition::{PartitionedRows, partition_of};
pub use selected::Selected;
pub use sort_key::{SortColumn, SortKeyEncoder, SortKeys, key_prefix};
pub use states::{PageStates, StatesMut};
pub use store::RowStore;
