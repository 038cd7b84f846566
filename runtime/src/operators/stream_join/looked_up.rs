//! What was looked up for rows that may be withdrawn, so that exactly that goes with them.
//!
//! The looked-up side may have changed since. Rows that came are kept with the number of the batch they came in, and so
//! is what they gave. Of equal rows, the one that came first goes first; what equal rows of one batch gave is equal, too,
//! and is shared out among them. Invariant: what a row gave has all of its columns.

use arrow::array::ArrayRef;

use super::spec::{StreamJoinColumn, StreamJoinSpec};
use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::{NO_ROW, RowId, unpack, unpacked_type};
use crate::state::{PairCursor, RowChanges, RowMultiset, RowMultisetOptions};

/// The number beside a row that is that of its batch.
const BATCH: usize = 0;

/// See the module.
pub(super) struct LookedUp {
    /// The rows of the side that looks up.
    came: RowMultiset,
    /// What they gave.
    gave: RowMultiset,
    /// Number of columns of the output.
    width: usize,
    batch: i64,
    changes: RowChanges,
}

impl LookedUp {
    /// The state for a join; none if the side that looks up keeps its rows.
    ///
    /// # Errors
    /// `Internal` if not all of that side's columns come out.
    pub(super) fn of(spec: &StreamJoinSpec, reservation: &Reservation) -> Result<Option<Self>> {
        let Some(lookup) = spec.lookup else { return Ok(None) };
        let own = if lookup == 0 { &spec.right } else { &spec.left };
        let other = if lookup == 0 { &spec.left } else { &spec.right };
        if !own.withdrawn {
            return Ok(None);
        }
        let place = |at: usize| {
            let column = match lookup {
                0 => StreamJoinColumn::Right(at),
                _ => StreamJoinColumn::Left(at),
            };
            spec.output.iter().position(|output| *output == column)
        };
        let places = (0..own.types.len()).map(place).collect::<Option<Vec<usize>>>();
        let places = places.ok_or_else(|| {
            Error::Internal("a lookup of rows that may be withdrawn gives all their columns".into())
        })?;
        let types_of = |column: &StreamJoinColumn| match (column, lookup) {
            (StreamJoinColumn::Left(at), 0) | (StreamJoinColumn::Right(at), 1) => {
                other.types.get(*at)
            }
            (StreamJoinColumn::Left(at) | StreamJoinColumn::Right(at), _) => own.types.get(*at),
            (StreamJoinColumn::Mark, _) => None,
        };
        let output = spec.output.iter().map(|column| types_of(column).map(unpacked_type));
        let output = output.collect::<Option<Vec<_>>>();
        let output = output.ok_or_else(|| Error::Internal("a lookup without a column".into()))?;
        let state = |types: &[_], keys: &[usize]| {
            let options = RowMultisetOptions {
                types,
                keys,
                withdrawn: false,
                forgetful: false,
                slots: 1,
                operator: "StreamJoin",
            };
            RowMultiset::new(&options, reservation)
        };
        let own_types: Vec<_> = own.types.iter().map(unpacked_type).collect();
        let all: Vec<usize> = (0..own_types.len()).collect();
        Ok(Some(LookedUp {
            came: state(&own_types, &all)?,
            gave: state(&output, &places)?,
            width: output.len(),
            batch: 0,
            changes: RowChanges::default(),
        }))
    }

    /// Takes note of the rows of a compact batch that come.
    pub(super) fn add(&mut self, batch: &Batch) -> Result<()> {
        self.batch += 1;
        note(&mut self.came, batch, self.batch, &mut self.changes)
    }

    /// Takes note of what the rows gave that came last.
    pub(super) fn add_given(&mut self, output: &Batch) -> Result<()> {
        note(&mut self.gave, output, self.batch, &mut self.changes)
    }

    /// What rows gave that are withdrawn, to be withdrawn itself.
    ///
    /// # Errors
    /// `Internal` when a row was never there.
    pub(super) fn withdraw(&mut self, batch: &Batch) -> Result<Option<Batch>> {
        let columns = batch.columns().iter().map(unpack).collect::<Result<Vec<ArrayRef>>>()?;
        let mut came_keys = Vec::new();
        self.came.find_keys(&columns, batch.num_rows(), &mut came_keys)?;
        let mut gave_keys = Vec::new();
        self.gave.find_keys(&columns, batch.num_rows(), &mut gave_keys)?;
        let mut gone = Vec::new();
        for (&came, &gave) in came_keys.iter().zip(&gave_keys) {
            let of_key = rows_of(&self.came, came);
            let Some(&first) = of_key.first() else {
                let what = "StreamJoin: a withdrawn row was never there";
                return Err(Error::Internal(what.into()));
            };
            let number = self.came.number(first, BATCH);
            let equal = of_key.iter().filter(|&&id| self.came.number(id, BATCH) == number).count();
            let given = rows_of(&self.gave, gave);
            let given: Vec<RowId> =
                given.into_iter().filter(|&id| self.gave.number(id, BATCH) == number).collect();
            let share = &given[..given.len() / equal];
            gone.extend_from_slice(share);
            // They do not count any more, so that the next equal row takes others.
            self.gave.remove(share);
            self.came.remove(&[first]);
        }
        let output = match gone.is_empty() {
            true => None,
            false => {
                let columns = self.gave.store().gather_all(0..self.width, &gone)?;
                let kinds = vec![RowKind::Delete; gone.len()];
                Some(Batch::new(columns, gone.len()).with_kinds(kinds.into()))
            }
        };
        self.came.compact()?;
        self.gave.compact()?;
        Ok(output)
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.batch.to_le_bytes());
        self.came.snapshot(out);
        self.gave.snapshot(out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.batch = i64::from_le_bytes(crate::rows::take_array(bytes)?);
        self.came.restore(bytes)?;
        self.gave.restore(bytes)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.came.clear();
        self.gave.clear();
    }
}

fn note(
    rows: &mut RowMultiset,
    batch: &Batch,
    number: i64,
    changes: &mut RowChanges,
) -> Result<()> {
    let columns = batch.columns().iter().map(unpack).collect::<Result<Vec<ArrayRef>>>()?;
    rows.apply(&columns, batch.num_rows(), None, changes)?;
    changes.ids.iter().for_each(|&id| rows.set_number(id, BATCH, number));
    Ok(())
}

fn rows_of(rows: &RowMultiset, key: RowId) -> Vec<RowId> {
    let mut ids = Vec::new();
    if key != NO_ROW {
        let mut cursor = PairCursor::default();
        rows.pairs(&[key], &mut cursor, usize::MAX, &mut Vec::new(), &mut ids);
    }
    ids
}

/// The rows of a compact batch that come, and those that go; none of a kind is no batch.
pub(super) fn by_kind(batch: Batch) -> Result<[Option<Batch>; 2]> {
    let Some(kinds) = batch.kinds() else { return Ok([Some(batch), None]) };
    let comes: arrow::array::BooleanArray =
        kinds.iter().map(|&kind| Some(kind == RowKind::Insert)).collect();
    let goes = arrow::compute::not(&comes)?;
    let part = |mask| -> Result<Option<Batch>> {
        let part = batch.filter(mask)?.compact()?;
        let part = Batch::new(part.columns().to_vec(), part.num_rows());
        Ok((part.num_rows() > 0).then_some(part))
    };
    Ok([part(&comes)?, part(&goes)?])
}
