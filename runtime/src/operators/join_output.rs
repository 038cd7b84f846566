//! From pairs of row numbers to the output columns of a join.
//!
//! Only the columns that are wanted are touched: build columns are gathered late, probe columns are passed through
//! where all rows come out in order, sliced where consecutive rows do, and taken otherwise. Invariant: a pair's
//! build row may be [`NO_ROW`] only where the caller says so, and yields NULLs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow_schema::DataType;

use super::join_kind::JoinColumn;
use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, Expr, FunctionRegistry, compile, positional_schema};
use crate::rows::{NO_ROW, RowId, unpacked_type};

/// Rows that an output batch may have however wide they are.
const BATCH_ROWS_MIN: usize = 64;

/// The rows of a build side, by column.
pub(crate) trait BuildColumns {
    /// Build column `column` of the rows `ids`; `nullable` says whether [`NO_ROW`] may be among them.
    fn gather(&self, column: usize, ids: &[RowId], nullable: bool) -> Result<ArrayRef>;

    /// The references to the rows `ids`, [`NO_ROW`] included, where there are such.
    fn references(&self, _ids: &[RowId]) -> Result<ArrayRef> {
        Err(Error::Internal("a join without late columns emits references".into()))
    }
}

/// Pairs of probe and build rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinPairs<'a> {
    /// Positions in the probe batch.
    pub(crate) rows: &'a [u32],
    /// Build rows.
    pub(crate) ids: &'a [RowId],
    /// Whether [`NO_ROW`] may be among the build rows.
    pub(crate) nullable: bool,
}

/// Which columns a join emits.
#[derive(Debug, Clone)]
pub(crate) struct JoinOutput {
    columns: Vec<JoinColumn>,
    types: Vec<DataType>,
}

impl JoinOutput {
    /// The given columns of sides with these types.
    pub(crate) fn new(
        columns: &[JoinColumn],
        probe: &[DataType],
        build: &[DataType],
    ) -> Result<Self> {
        let types = columns
            .iter()
            .map(|column| match column {
                JoinColumn::Probe(i) => probe.get(*i).cloned(),
                JoinColumn::Build(i) => build.get(*i).map(unpacked_type),
                JoinColumn::BuildReference => Some(DataType::UInt32),
                JoinColumn::Mark => Some(DataType::Boolean),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::Internal("a join emits a column it does not have".into()))?;
        Ok(JoinOutput { columns: columns.to_vec(), types })
    }

    /// Types of the output's columns.
    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Rows that an output batch may have, by the width of its columns; `build_row_bytes` is the mean size of a
    /// build row with its strings.
    pub(crate) fn rows_max(&self, batch_rows: usize, build_row_bytes: usize) -> usize {
        let mut width = 0;
        for (column, data_type) in self.columns.iter().zip(&self.types) {
            width += match (data_type.primitive_width(), column) {
                (Some(bytes), _) => bytes,
                (None, JoinColumn::Build(_)) => build_row_bytes.max(16),
                (None, JoinColumn::Probe(_) | JoinColumn::BuildReference | JoinColumn::Mark) => 16,
            };
        }
        // A little more than the bound is better than a split into a large and a small batch.
        if batch_rows.saturating_mul(width) <= 2 * BATCH_BYTES_MAX {
            return batch_rows.max(1);
        }
        batch_rows.min((BATCH_BYTES_MAX / width).max(BATCH_ROWS_MIN)).max(1)
    }

    /// The batch of some pairs.
    pub(crate) fn pairs(
        &self,
        probe: &Batch,
        pairs: JoinPairs<'_>,
        build: &dyn BuildColumns,
    ) -> Result<Batch> {
        let picked = Picked::new(pairs.rows, probe.num_rows());
        let columns = self
            .columns
            .iter()
            .map(|column| match column {
                JoinColumn::Probe(i) => picked.column(probe.column(*i)),
                JoinColumn::Build(i) => build.gather(*i, pairs.ids, pairs.nullable),
                JoinColumn::BuildReference => build.references(pairs.ids),
                JoinColumn::Mark => Err(no_mark()),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(picked.finish(probe, columns))
    }

    /// The batch of some probe rows alone.
    pub(crate) fn probe_rows(&self, probe: &Batch, rows: &[u32]) -> Result<Batch> {
        let picked = Picked::new(rows, probe.num_rows());
        let columns = self
            .columns
            .iter()
            .map(|column| match column {
                JoinColumn::Probe(i) => picked.column(probe.column(*i)),
                JoinColumn::Build(_) | JoinColumn::BuildReference => Err(no_build()),
                JoinColumn::Mark => Err(no_mark()),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(picked.finish(probe, columns))
    }

    /// The batch of all probe rows with their marks.
    pub(crate) fn marked_probe_rows(&self, probe: &Batch, mark: BooleanArray) -> Result<Batch> {
        let mark: ArrayRef = Arc::new(mark);
        let columns = self
            .columns
            .iter()
            .map(|column| match column {
                JoinColumn::Probe(i) => Ok(probe.column(*i).clone()),
                JoinColumn::Build(_) | JoinColumn::BuildReference => Err(no_build()),
                JoinColumn::Mark => Ok(mark.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(probe.with_columns(columns))
    }

    /// The batch of some build rows; probe columns are NULL.
    pub(crate) fn build_rows(
        &self,
        build: &dyn BuildColumns,
        ids: &[RowId],
        mark: Option<BooleanArray>,
    ) -> Result<Batch> {
        let mark = mark.map(|mark| Arc::new(mark) as ArrayRef);
        let columns = self
            .columns
            .iter()
            .zip(&self.types)
            .map(|(column, data_type)| match column {
                JoinColumn::Probe(_) => Ok(new_null_array(data_type, ids.len())),
                JoinColumn::Build(i) => build.gather(*i, ids, false),
                JoinColumn::BuildReference => build.references(ids),
                JoinColumn::Mark => mark.clone().ok_or_else(no_mark),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Batch::new(columns, ids.len()))
    }
}

fn no_mark() -> Error {
    Error::Internal("a join without marks emits a mark".into())
}

fn no_build() -> Error {
    Error::Internal("a join that emits probe rows alone emits a build column".into())
}

/// Rows of a probe batch, in the cheapest form.
pub(crate) enum Picked {
    /// All, in order.
    All,
    /// Consecutive ones.
    Range(usize, usize),
    /// Any, also repeated.
    Rows(UInt32Array),
}

impl Picked {
    /// `rows` of a batch of `total`.
    pub(crate) fn new(rows: &[u32], total: usize) -> Self {
        let first = rows.first().copied().unwrap_or(0);
        let consecutive = rows.last().is_none_or(|&last| {
            (last.wrapping_sub(first)) as usize + 1 == rows.len()
                && rows.iter().zip(first..).all(|(&row, expected)| row == expected)
        });
        match (consecutive, rows.len()) {
            (true, len) if len == total => Picked::All,
            (true, len) => Picked::Range(first as usize, len),
            (false, _) => Picked::Rows(UInt32Array::from(rows.to_vec())),
        }
    }

    /// The picked rows of a column.
    pub(crate) fn column(&self, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Picked::All => column.clone(),
            Picked::Range(start, len) => column.slice(*start, *len),
            Picked::Rows(rows) => take(column, rows, None)?,
        })
    }

    /// A batch of columns made of the picked rows of `probe`, with their kinds.
    pub(crate) fn finish(&self, probe: &Batch, columns: Vec<ArrayRef>) -> Batch {
        let (rows, kinds) = match (self, probe.kinds()) {
            (Picked::All, kinds) => (probe.num_rows(), kinds.map(Arc::from)),
            (Picked::Range(start, len), kinds) => {
                (*len, kinds.map(|kinds| Arc::from(&kinds[*start..start + len])))
            }
            (Picked::Rows(rows), kinds) => (
                rows.len(),
                kinds.map(|kinds| rows.values().iter().map(|&row| kinds[row as usize]).collect()),
            ),
        };
        let mut batch = Batch::new(columns, rows);
        batch.ingest_time_us = probe.ingest_time_us;
        match kinds {
            Some(kinds) => batch.with_kinds(kinds),
            None => batch,
        }
    }
}

/// The residual condition of a join, over the columns it reads alone.
#[derive(Debug)]
pub(crate) struct JoinFilter {
    expr: CompiledExpr,
    input: JoinOutput,
}

impl JoinFilter {
    /// Compiles a condition over the probe side's columns, then the build side's.
    pub(crate) fn new(
        filter: &Expr,
        probe: &[DataType],
        build: &[DataType],
        functions: &FunctionRegistry,
    ) -> Result<Self> {
        let positions = filter.columns();
        let columns: Vec<JoinColumn> = positions
            .iter()
            .map(|&i| match i.checked_sub(probe.len()) {
                None => JoinColumn::Probe(i),
                Some(i) => JoinColumn::Build(i),
            })
            .collect();
        let input = JoinOutput::new(&columns, probe, build)?;
        let dense = filter.clone().map_columns(&mut |i| {
            positions.binary_search(&i).expect("an expression lists all its columns")
        });
        let expr = compile(&dense, &positional_schema(input.types()), functions)?;
        Ok(JoinFilter { expr, input })
    }

    /// Positions of the pairs for which the condition is true, in order; `passed` is overwritten.
    pub(crate) fn passing(
        &self,
        probe: &Batch,
        pairs: JoinPairs<'_>,
        build: &dyn BuildColumns,
        passed: &mut Vec<u32>,
    ) -> Result<()> {
        passed.clear();
        if pairs.rows.is_empty() {
            return Ok(());
        }
        let mask = self.expr.evaluate_predicate(&self.input.pairs(probe, pairs, build)?)?;
        let true_bits = match mask.nulls() {
            Some(nulls) => mask.values() & nulls.inner(),
            None => mask.values().clone(),
        };
        passed.extend(true_bits.set_indices_u32());
        Ok(())
    }
}

/// The rows of one build batch.
pub(crate) struct BatchColumns<'a>(pub(crate) &'a Batch);

impl BuildColumns for BatchColumns<'_> {
    fn gather(&self, column: usize, ids: &[RowId], nullable: bool) -> Result<ArrayRef> {
        let column = self.0.column(column);
        if !nullable {
            return Picked::new(ids, column.len()).column(column);
        }
        let ids = UInt32Array::from_iter(ids.iter().map(|&id| (id != NO_ROW).then_some(id)));
        Ok(take(column, &ids, None)?)
    }
}

/// No build row at all: every gather is of rows that are not there.
pub(crate) struct NoRows<'a>(pub(crate) &'a [DataType]);

impl BuildColumns for NoRows<'_> {
    fn gather(&self, column: usize, ids: &[RowId], _nullable: bool) -> Result<ArrayRef> {
        Ok(new_null_array(&self.0[column], ids.len()))
    }
}
