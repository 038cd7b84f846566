//! Rows of groups as columns: kept in arrival order, handed out as one list of structs a group.
//!
//! Invariant: rows of one group keep the order in which they arrived.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Fields};

use super::arguments::take_all;
use crate::error::{Error, Result};
use crate::rows::RowId;

/// Columns of equal length with the group of each row.
#[derive(Debug, Clone)]
pub(crate) struct GroupedRows {
    pub(crate) groups: Vec<RowId>,
    pub(crate) columns: Vec<ArrayRef>,
}

/// Rows sorted by group: those of group `g` are `offsets[g] .. offsets[g + 1]`.
#[derive(Debug)]
pub(crate) struct SortedRows {
    pub(crate) offsets: Vec<usize>,
    pub(crate) columns: Vec<ArrayRef>,
}

impl GroupedRows {
    /// The rows sorted by group, for groups below `total`.
    pub(crate) fn sort(&self, total: usize) -> Result<SortedRows> {
        let mut offsets = vec![0; total + 1];
        for &group in &self.groups {
            offsets[group as usize + 1] += 1;
        }
        for group in 0..total {
            offsets[group + 1] += offsets[group];
        }
        let mut next = offsets.clone();
        let mut order = vec![0_u32; self.groups.len()];
        for (row, &group) in self.groups.iter().enumerate() {
            let place = &mut next[group as usize];
            order[*place] = row as u32;
            *place += 1;
        }
        Ok(SortedRows { offsets, columns: take_all(&self.columns, &UInt32Array::from(order))? })
    }
}

impl SortedRows {
    /// One list of structs for each of the groups.
    pub(crate) fn lists(&self, fields: &Fields, groups: Range<RowId>) -> Result<ArrayRef> {
        let ends = &self.offsets[groups.start as usize..=groups.end as usize];
        let (start, end) = (ends[0], ends[ends.len() - 1]);
        if i32::try_from(end - start).is_err() {
            return Err(Error::ResourcesExhausted {
                message: "the rows of a few groups do not fit one column of lists".into(),
            });
        }
        let columns = self.columns.iter().map(|c| c.slice(start, end - start)).collect();
        let rows = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets: ScalarBuffer<i32> = ends.iter().map(|&at| (at - start) as i32).collect();
        let item = Field::new_list_field(DataType::Struct(fields.clone()), true);
        let list =
            ListArray::try_new(Arc::new(item), OffsetBuffer::new(offsets), Arc::new(rows), None)?;
        Ok(Arc::new(list))
    }
}

/// The type of [`SortedRows::lists`] for columns of some types, and its fields.
pub(crate) fn list_type(types: &[DataType]) -> (DataType, Fields) {
    let fields: Fields = types
        .iter()
        .enumerate()
        .map(|(i, data_type)| Field::new(format!("c{i}"), data_type.clone(), true))
        .collect();
    let item = Field::new_list_field(DataType::Struct(fields.clone()), true);
    (DataType::List(Arc::new(item)), fields)
}

/// The rows in a column of lists of structs; list `i` is of group `groups[i]`.
pub(crate) fn flatten(lists: &ArrayRef, groups: &[RowId]) -> Result<GroupedRows> {
    let lists = lists.as_list_opt::<i32>().ok_or_else(|| {
        Error::Internal(format!("rows of groups in a column of type {}", lists.data_type()))
    })?;
    let offsets = lists.value_offsets();
    let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    let mut ids = Vec::with_capacity(end - start);
    for (row, &group) in groups.iter().enumerate() {
        ids.resize(ids.len() + (offsets[row + 1] - offsets[row]) as usize, group);
    }
    let rows = lists.values().as_struct();
    let columns = rows.columns().iter().map(|c| c.slice(start, end - start)).collect();
    Ok(GroupedRows { groups: ids, columns })
}

/// Rows that arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct KeptRows {
    pieces: Vec<GroupedRows>,
    bytes: usize,
}

impl KeptRows {
    /// Keeps rows; strings are copied, so that the batch they came in can go.
    pub(crate) fn push(&mut self, groups: Vec<RowId>, columns: &[ArrayRef]) {
        let columns: Vec<ArrayRef> = columns.iter().map(own_strings).collect();
        self.bytes += columns.iter().map(|c| c.get_array_memory_size()).sum::<usize>()
            + groups.len() * size_of::<RowId>();
        self.pieces.push(GroupedRows { groups, columns });
    }

    /// All rows, joined into one piece; none if there are none.
    pub(crate) fn joined(&mut self) -> Result<Option<&GroupedRows>> {
        if self.pieces.len() > 1 {
            let groups =
                self.pieces.iter().flat_map(|piece| piece.groups.iter().copied()).collect();
            let columns = (0..self.pieces[0].columns.len())
                .map(|i| {
                    let parts: Vec<&dyn Array> =
                        self.pieces.iter().map(|piece| piece.columns[i].as_ref()).collect();
                    Ok(concat(&parts)?)
                })
                .collect::<Result<Vec<_>>>()?;
            self.pieces = vec![GroupedRows { groups, columns }];
        }
        Ok(self.pieces.first())
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }

    /// Bytes of the kept columns.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

fn own_strings(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column.clone(),
    }
}
