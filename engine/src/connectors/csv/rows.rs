//! Columns of the records that were found: of all of them, or first those that a filter looks at and then the others, of
//! the rows that it let pass.
//!
//! A row with a value that cannot be read is rejected and left out. Invariant: a field that nobody asks for is not read,
//! be it of a column that is not wanted or of a row that a filter drops; so it cannot be bad either.

use std::collections::BTreeSet;

use arrow::array::{ArrayRef, BooleanBufferBuilder, new_null_array};
use arrow::buffer::BooleanBuffer;
use thalweg_runtime::Result;

use super::error::bad_value;
use super::parse::{ColumnFields, Rows};
use super::records::{CsvRecords, Origin};
use crate::connectors::scan::{Wanted, apply_mask, constant};
use crate::connectors::text::Block;

impl CsvRecords {
    /// All columns of the records that can be read, and their number.
    pub(super) fn all_columns(
        &mut self,
        block: &Block,
        file: &str,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let mut bad = BTreeSet::new();
        let mut columns = Vec::with_capacity(self.columns.len());
        for place in 0..self.columns.len() {
            columns.push(self.column(block, file, place, Rows::All, &mut bad)?);
        }
        let mut chosen = None;
        let rows = self.leave_out(&mut columns, &mut chosen, &bad)?;
        self.chosen = chosen;
        Ok((columns, rows))
    }

    /// The delivered columns of the records that pass a filter and can be read, and their number.
    pub(super) fn wanted_columns(
        &mut self,
        block: &Block,
        file: &str,
        wanted: Wanted<'_>,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let records = self.found.len();
        let mut bad = BTreeSet::new();
        let mut made: Vec<Option<ArrayRef>> = vec![None; self.columns.len()];
        for place in wanted.filter.places() {
            made[place] = Some(self.column(block, file, place, Rows::All, &mut bad)?);
        }
        let column = |place: usize| made[place].clone().expect("a filter asks for its columns");
        let passing = wanted.filter.mask(records, &column)?;
        let mask = without(passing, records, wanted.skip, &bad);
        let mut chosen = mask.as_ref().map(numbers);
        if let Some(mask) = &mask {
            let mut looked_at: Vec<&mut ArrayRef> = made.iter_mut().flatten().collect();
            let mut columns: Vec<ArrayRef> = looked_at.iter().map(|c| (**c).clone()).collect();
            apply_mask(&mut columns, mask)?;
            looked_at.iter_mut().zip(columns).for_each(|(place, column)| **place = column);
        }
        bad.clear();
        let mut columns = Vec::with_capacity(wanted.output.len());
        for &place in wanted.output {
            if made[place].is_none() {
                let rows = chosen.as_deref().map_or(Rows::All, Rows::Chosen);
                made[place] = Some(self.column(block, file, place, rows, &mut bad)?);
            }
            columns.extend(made[place].clone());
        }
        let rows = self.leave_out(&mut columns, &mut chosen, &bad)?;
        self.chosen = chosen;
        Ok((columns, rows))
    }

    /// One column of some records. Records that cannot be read are rejected, once, and added to the `bad` ones.
    fn column(
        &mut self,
        block: &Block,
        file: &str,
        place: usize,
        rows: Rows<'_>,
        bad: &mut BTreeSet<usize>,
    ) -> Result<ArrayRef> {
        let count = match rows {
            Rows::All => self.found.len(),
            Rows::Chosen(rows) => rows.len(),
        };
        let column = &self.columns[place];
        let index = match &column.origin {
            Origin::Constant(value) if value.is_null() => {
                return Ok(new_null_array(&column.data_type, count));
            }
            Origin::Constant(value) => return constant(value, count),
            Origin::Field(index) => *index,
        };
        let fields = ColumnFields {
            bytes: &block.bytes,
            records: &self.found,
            rows,
            index,
            structure: self.structure,
            null: self.null.as_deref(),
            guessed: self.guessed,
        };
        let (array, bad_rows) = fields.parse(&column.data_type)?;
        for row in bad_rows {
            let record = match rows {
                Rows::All => row.0,
                Rows::Chosen(rows) => rows[row.0] as usize,
            };
            if !bad.insert(record) {
                continue;
            }
            let (start, end) = self.found.field(record, index);
            let value = self.structure.shown(&block.bytes[start..end]);
            self.rejects.reject(block, self.found.place(record), || {
                let line = block.line_of(start);
                bad_value(file, line, index, &column.name, value, &column.data_type)
            })?;
        }
        Ok(array)
    }

    /// Takes bad records out of the columns of the chosen ones; the answer is how many are left.
    fn leave_out(
        &self,
        columns: &mut [ArrayRef],
        chosen: &mut Option<Vec<u32>>,
        bad: &BTreeSet<usize>,
    ) -> Result<usize> {
        let all = self.found.len();
        if !bad.is_empty() {
            let before = chosen.take().unwrap_or_else(|| (0..all as u32).collect());
            let stays = |record: &u32| !bad.contains(&(*record as usize));
            apply_mask(columns, &before.iter().map(stays).collect())?;
            *chosen = Some(before.into_iter().filter(|record| stays(record)).collect());
        }
        Ok(chosen.as_ref().map_or(all, Vec::len))
    }
}

/// The rows of a mask without the first ones and without some others; `None` is all of them.
fn without(
    mask: Option<BooleanBuffer>,
    rows: usize,
    skip: usize,
    others: &BTreeSet<usize>,
) -> Option<BooleanBuffer> {
    if skip == 0 && others.is_empty() {
        return mask;
    }
    let mut stays = BooleanBufferBuilder::new(rows);
    stays.append_n(skip.min(rows), false);
    stays.append_n(rows - skip.min(rows), true);
    others.iter().for_each(|&row| stays.set_bit(row, false));
    let stays = stays.finish();
    Some(match mask {
        Some(mask) => &mask & &stays,
        None => stays,
    })
}

fn numbers(mask: &BooleanBuffer) -> Vec<u32> {
    let mut numbers = Vec::with_capacity(mask.count_set_bits());
    numbers.extend(mask.set_indices_u32());
    numbers
}
