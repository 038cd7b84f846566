//! Keyed state and join tables over paged rows.
//!
//! [`KeyedState`] maps keys to rows with states; aggregates, DISTINCT, windows and streaming state use it.
//! [`JoinTable`] is the multi-map that join builds are probed through, [`RowMultiset`] the rows of a changelog by key.
//! All work on batches: hash, probe, compare column by column. Invariant: NULL is a key like any other in
//! [`KeyedState`]; in a join table it matches nothing unless the join says so. None knows what its states or payload
//! mean.

mod compact;
mod direct_index;
mod hashed_index;
mod index;
mod int_key;
mod join_table;
mod keyed;
#[cfg(test)]
mod keyed_tests;
mod merge;
mod pack;
mod packed_index;
mod row_multiset;
mod snapshot;

pub use join_table::{JoinTable, JoinTableOptions, KeySpan, LookupScratch};
pub(crate) use join_table::{KeyCoder, NO_CODE};
pub use keyed::KeyedState;
pub use merge::Matches;
pub use row_multiset::{
    Compacted, MovedRows, PairCursor, RowChanges, RowMultiset, RowMultisetOptions,
};
pub(crate) use snapshot::{read_store, write_store};
