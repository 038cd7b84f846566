//! Unnest: makes rows of list elements and columns of struct fields.
//!
//! Lists that are unnested together stand side by side, padded with NULL to the longest in the row. Deeper lists
//! are taken apart in stages, outermost first; a list that is less deep joins at its own stage, so that its
//! elements repeat with the elements of the deeper ones:
//! ```text
//! depth 2: [[1,2],[3]]  --stage 2-->  [1,2] | [3]  --stage 1-->  1, 2 | 3
//! depth 1: [7]          ------------  [7]   | [7]  --stage 1-->  7, ∅ | 7
//! ```
//! Each stage hands on at most a batch and remembers the row and the element it stands at, however long a list is.
//! Nothing is kept when input is needed, so there is nothing to snapshot.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{is_null, nullif, take};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::job::JobContext;

/// Where an output column comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnnestColumnSpec {
    /// A column of the input, repeated.
    Forward(usize),
    /// The elements of a list, taken apart `depth` times.
    List {
        /// The input's column.
        input: usize,
        /// How many list types are taken off; at least 1.
        depth: usize,
    },
    /// A field of a struct, repeated.
    StructField {
        /// The input's column.
        input: usize,
        /// The field's position.
        field: usize,
    },
}

/// What to take apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnnestSpec {
    /// Types of the input's columns.
    pub input: Vec<DataType>,
    /// The output's columns.
    pub columns: Vec<UnnestColumnSpec>,
    /// A NULL list gives one row with NULL, not none. An empty list always gives none.
    pub preserve_nulls: bool,
}

/// The running operator.
pub struct Unnest {
    spec: UnnestSpec,
    batch_rows: usize,

    /// From the deepest lists to those of depth 1.
    stages: Vec<Stage>,
    input: Option<Batch>,
    /// The batch under way, whose columns are in the first stage.
    current: Option<Batch>,
    ended: bool,
}

/// One round of taking lists apart.
#[derive(Debug, Default)]
struct Stage {
    /// For each output column, whether its list is taken apart here; otherwise it is repeated.
    unnests: Vec<bool>,
    chunk: Option<Chunk>,
}

/// The rows that a stage works on.
#[derive(Debug)]
struct Chunk {
    /// One column for each output column.
    columns: Vec<ArrayRef>,
    /// The input row of each row, for what rides along.
    origins: UInt32Array,
    lists: Vec<Option<List>>,
    row: usize,
    element: usize,
}

/// A list column as positions of elements.
#[derive(Debug)]
struct List {
    values: ArrayRef,
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl List {
    fn new(array: &ArrayRef) -> Result<Self> {
        let (values, offsets): (ArrayRef, Vec<usize>) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (list.values().clone(), list.value_offsets().iter().map(|&o| o as usize).collect())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (list.values().clone(), list.value_offsets().iter().map(|&o| o as usize).collect())
            }
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let size = *size as usize;
                let first = list.value_offset(0).max(0) as usize;
                (list.values().clone(), (0..=list.len()).map(|row| first + row * size).collect())
            }
            other => return Err(Error::Unsupported(format!("unnest of {other}"))),
        };
        Ok(List { values, offsets, nulls: array.nulls().cloned() })
    }

    /// Elements in a row; none if the list is NULL.
    fn len(&self, row: usize) -> Option<usize> {
        let valid = self.nulls.as_ref().is_none_or(|n| n.is_valid(row));
        valid.then(|| self.offsets[row + 1] - self.offsets[row])
    }
}

impl Chunk {
    fn new(columns: Vec<ArrayRef>, origins: UInt32Array, unnests: &[bool]) -> Result<Self> {
        let lists = columns
            .iter()
            .zip(unnests)
            .map(|(column, &unnest)| unnest.then(|| List::new(column)).transpose())
            .collect::<Result<_>>()?;
        Ok(Chunk { columns, origins, lists, row: 0, element: 0 })
    }

    /// The rows that a row becomes.
    fn length(&self, row: usize, preserve_nulls: bool) -> usize {
        let of_null = usize::from(preserve_nulls);
        let lengths = self.lists.iter().flatten().map(|list| list.len(row).unwrap_or(of_null));
        lengths.max().unwrap_or(1)
    }

    /// The next rows, at most `rows_max`: columns and origins. None when all are out.
    fn next(
        &mut self,
        rows_max: usize,
        preserve_nulls: bool,
    ) -> Result<Option<(Vec<ArrayRef>, UInt32Array)>> {
        // Source row and element of each output row.
        let mut places: Vec<(u32, usize)> = Vec::new();
        while places.len() < rows_max && self.row < self.origins.len() {
            let length = self.length(self.row, preserve_nulls);
            let until = length.min(self.element + rows_max - places.len());
            places.extend((self.element..until).map(|element| (self.row as u32, element)));
            if until == length {
                (self.row, self.element) = (self.row + 1, 0);
            } else {
                self.element = until;
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let rows = UInt32Array::from_iter_values(places.iter().map(|(row, _)| *row));
        let columns = self
            .columns
            .iter()
            .zip(&self.lists)
            .map(|(column, list)| match list {
                None => Ok(take(column, &rows, None)?),
                Some(list) => {
                    let elements: UInt64Array = places
                        .iter()
                        .map(|&(row, element)| {
                            let row = row as usize;
                            let inside = list.len(row).is_some_and(|len| element < len);
                            inside.then(|| (list.offsets[row] + element) as u64)
                        })
                        .collect();
                    Ok(take(&list.values, &elements, None)?)
                }
            })
            .collect::<Result<_>>()?;
        let origins = take(&self.origins, &rows, None)?.as_primitive().clone();
        Ok(Some((columns, origins)))
    }
}

impl Unnest {
    /// The stages follow from the depths.
    pub fn new(spec: &UnnestSpec, job: &JobContext) -> Result<Self> {
        let depth_of = |column: &UnnestColumnSpec| match column {
            UnnestColumnSpec::List { depth, .. } => *depth,
            UnnestColumnSpec::Forward(_) | UnnestColumnSpec::StructField { .. } => 0,
        };
        let deepest = spec.columns.iter().map(depth_of).max().unwrap_or(0);
        let stages = (1..=deepest)
            .rev()
            .map(|level| Stage {
                unnests: spec.columns.iter().map(|c| depth_of(c) >= level).collect(),
                chunk: None,
            })
            .collect();
        Ok(Unnest {
            spec: spec.clone(),
            batch_rows: job.options.batch_rows,
            stages,
            input: None,
            current: None,
            ended: false,
        })
    }

    /// Takes the columns of a batch into the first stage, or through if there is none.
    fn start(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let batch = batch.compact()?;
        let columns = self
            .spec
            .columns
            .iter()
            .map(|column| match column {
                UnnestColumnSpec::Forward(input) | UnnestColumnSpec::List { input, .. } => {
                    Ok(batch.column(*input).clone())
                }
                UnnestColumnSpec::StructField { input, field } => {
                    struct_field(batch.column(*input), *field)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let Some(first) = self.stages.first_mut() else {
            return Ok(Some(batch.with_columns(columns)));
        };
        let origins = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
        first.chunk = Some(Chunk::new(columns, origins, &first.unnests)?);
        self.current = Some(batch);
        Ok(None)
    }

    /// The next rows after stage `stage`.
    fn pull(&mut self, stage: usize) -> Result<Option<(Vec<ArrayRef>, UInt32Array)>> {
        let (rows_max, preserve_nulls) = (self.batch_rows, self.spec.preserve_nulls);
        loop {
            if let Some(chunk) = &mut self.stages[stage].chunk {
                if let Some(rows) = chunk.next(rows_max, preserve_nulls)? {
                    return Ok(Some(rows));
                }
                self.stages[stage].chunk = None;
            }
            if stage == 0 {
                return Ok(None);
            }
            let Some((columns, origins)) = self.pull(stage - 1)? else { return Ok(None) };
            let unnests = &self.stages[stage].unnests;
            self.stages[stage].chunk = Some(Chunk::new(columns, origins, unnests)?);
        }
    }

    /// The next rows of the batch under way.
    fn next(&mut self) -> Result<Option<Batch>> {
        let Some(current) = self.current.clone() else { return Ok(None) };
        let Some((columns, origins)) = self.pull(self.stages.len() - 1)? else {
            self.current = None;
            return Ok(None);
        };
        let mut batch = Batch::new(columns, origins.len());
        batch.ingest_time_us = current.ingest_time_us;
        if let Some(kinds) = current.kinds() {
            batch =
                batch.with_kinds(origins.values().iter().map(|&row| kinds[row as usize]).collect());
        }
        Ok(Some(batch))
    }
}

/// A field of a struct; NULL where the struct is.
fn struct_field(column: &ArrayRef, field: usize) -> Result<ArrayRef> {
    let rows = column
        .as_struct_opt()
        .ok_or_else(|| Error::Internal(format!("a field of {}", column.data_type())))?;
    let child = rows.column(field);
    Ok(if rows.null_count() == 0 { child.clone() } else { nullif(child, &is_null(rows)?)? })
}

impl Operator for Unnest {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        _port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.input = Some(batch),
            StreamElement::End => self.ended = true,
            other => return Err(Error::Internal(format!("an unnest cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        if let Some(batch) = self.input.take()
            && let Some(whole) = self.start(batch)?
        {
            return Ok(Output::Element(PortId(0), StreamElement::Batch(whole)));
        }
        Ok(match self.next()? {
            Some(batch) => Output::Element(PortId(0), StreamElement::Batch(batch)),
            None if self.ended => Output::Finished,
            None => Output::NeedInput(PortSet::Any),
        })
    }

    stateless_operator!();

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        (self.input, self.current) = (None, None);
        self.stages.iter_mut().for_each(|stage| stage.chunk = None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, ListArray, ListBuilder, PrimitiveBuilder, StructArray};
    use arrow::datatypes::{Field, Int32Type};

    use super::*;
    use crate::operators::OperatorSpec;
    use crate::operators::harness::{Driver, Interruptions, batch, check, context, rows};

    fn list(rows: &[Option<&[i32]>]) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            rows.iter()
                .map(|row| row.map(|values| values.iter().copied().map(Some).collect::<Vec<_>>())),
        ))
    }

    fn spec(input: &Batch, columns: Vec<UnnestColumnSpec>, preserve_nulls: bool) -> OperatorSpec {
        let input = input.columns().iter().map(|c| c.data_type().clone()).collect();
        OperatorSpec::Unnest(UnnestSpec { input, columns, preserve_nulls })
    }

    use UnnestColumnSpec::{Forward, List as Lists, StructField};

    #[test]
    fn lists_stand_side_by_side() {
        let input = batch(vec![
            Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
            list(&[Some(&[10, 11]), Some(&[]), None, Some(&[40])]),
            list(&[Some(&[7]), Some(&[8, 9]), None, Some(&[])]),
        ]);
        let columns = vec![Forward(0), Lists { input: 1, depth: 1 }, Lists { input: 2, depth: 1 }];
        let dropped = check(&spec(&input, columns.clone(), false), vec![vec![input.clone()]]);
        assert_eq!(dropped, ["1|10|7", "1|11|∅", "2|∅|8", "2|∅|9", "4|40|∅"]);
        let kept = check(&spec(&input, columns, true), vec![vec![input]]);
        assert_eq!(kept, ["1|10|7", "1|11|∅", "2|∅|8", "2|∅|9", "3|∅|∅", "4|40|∅"]);
    }

    #[test]
    fn deeper_lists_come_apart_in_stages() {
        let mut outer = ListBuilder::new(ListBuilder::new(PrimitiveBuilder::<Int32Type>::new()));
        for inner in [vec![1, 2], vec![3]] {
            outer.values().values().append_slice(&inner);
            outer.values().append(true);
        }
        outer.append(true);
        let nested: ArrayRef = Arc::new(outer.finish());
        let input = batch(vec![nested, list(&[Some(&[7])])]);
        let columns = vec![Lists { input: 0, depth: 2 }, Lists { input: 1, depth: 1 }];
        let out = check(&spec(&input, columns, false), vec![vec![input]]);
        assert_eq!(out, ["1|7", "2|∅", "3|7"]);
    }

    #[test]
    fn long_lists_leave_in_batches() {
        let values: Vec<i32> = (0..1000).collect();
        let input = batch(vec![list(&[Some(&values), Some(&[-1])])]);
        let spec = spec(&input, vec![Lists { input: 0, depth: 1 }], false);
        let mut driver = Driver::new(&spec, &context(64), Interruptions::EveryBatch).unwrap();
        let out = driver.run_batches(vec![vec![input]]).unwrap();
        assert!(out.iter().all(|b| b.num_rows() <= 64));
        let expected: Vec<String> = values.iter().chain(&[-1]).map(|v| v.to_string()).collect();
        assert_eq!(rows(&out), expected);
    }

    #[test]
    fn struct_fields_become_columns() {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let field = Arc::new(Field::new("a", DataType::Int64, true));
        let nulls = NullBuffer::from(vec![true, false]);
        let value: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![a], Some(nulls)));
        let input = batch(vec![value]);
        let out = check(
            &spec(&input, vec![StructField { input: 0, field: 0 }], false),
            vec![vec![input]],
        );
        assert_eq!(out, ["1", "∅"]);
    }
}
