//! Carried: what growing frames and numbers of rows know of rows that are not there any more.
//!
//! Where rows leave in the window's order, a function whose frames begin with their partition needs one state of the
//! rows that every later row sees, not the rows. Rows are forgotten from the front of their partition, and no sooner
//! than they are in the frames of all rows that are still to leave. Invariant: a state is that of the forgotten rows
//! alone, except for accumulators of the library, which count the rows that they have taken in.

mod value;

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};

use self::value::ValueCodec;
use super::accumulator::{AccumulatorFunction, Running};
use super::frame::Frames;
use super::function::{CompiledFunction, CompiledFunctions, Kind};
use super::navigation::{Navigation, Seen};
use super::pieces::Chunk;
use super::ranking::Ranking;
use super::sums::{Sums, scale};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::operators::contract::{StateSnapshot, restore_batches};
use crate::rows::{RowId, Selected, StateSlot, take_array, take_bytes};
use crate::state::KeyedState;

/// What is known before the partitions of a chunk.
#[derive(Debug)]
pub(super) struct Before<'a, T> {
    /// The partition of each frame.
    pub partitions: &'a [usize],
    /// What is known, by partition.
    pub known: &'a T,
}

impl<T> Clone for Before<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Before<'_, T> {}

/// What becomes of the rows of a partition; positions count from the first of its rows that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The rows that leave.
    pub leaving: Range<usize>,
    /// How many rows are forgotten after that.
    pub forgotten: usize,
}

/// The same over a chunk.
#[derive(Debug)]
pub(super) struct PartitionPass {
    /// The partition's id.
    pub partition: RowId,
    /// How many of its rows were forgotten before.
    pub before: u64,
    /// Its rows in the chunk.
    pub rows: Range<usize>,
    /// Those that leave.
    pub leaving: Range<usize>,
    /// How many are forgotten after that.
    pub forgotten: usize,
}

/// The state of a partition that is its number of forgotten rows, and that of its groups of equal rows.
const ROWS: usize = 0;
const GROUPS: usize = 1;

/// What one function carries.
#[derive(Debug)]
enum Carry {
    /// Nothing: it looks at rows that are there.
    Nothing,
    /// The number of rows that were before.
    Rows,
    /// The number of groups of equal rows that were before.
    Groups,
    /// A sum and a count, in slots.
    Sum { total: usize, count: usize },
    /// A value in a slot, and how many there were.
    Value { count: usize, value: usize, codec: ValueCodec },
    /// Accumulators of the library by partition, for each part of the function.
    Accumulators(Vec<Vec<Running>>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Carried {
    partitions: KeyedState,
    carries: Vec<Carry>,
    /// The partitions of the chunk at hand.
    found: Vec<RowId>,
    /// Charged for accumulators.
    beside: Reservation,
    /// Bytes of the partitions when replaced values were last dropped.
    compact_bytes: usize,
}

/// Bytes below which no room is looked for.
const COMPACT_BYTES_MIN: usize = 1 << 20;

impl Carried {
    /// Nothing yet; none if no function carries anything.
    ///
    /// # Errors
    /// `Unsupported` for values that cannot be kept.
    pub(super) fn of(
        functions: &CompiledFunctions,
        key_types: &[DataType],
        reservation: &Reservation,
    ) -> Result<Option<Self>> {
        let mut slots = vec![StateSlot::new(8, 8), StateSlot::new(8, 8)];
        let carries = functions
            .each()
            .map(|(function, expands)| carry_of(function, expands, &mut slots))
            .collect::<Result<Vec<_>>>()?;
        if carries.iter().all(|carry| matches!(carry, Carry::Nothing)) {
            return Ok(None);
        }
        Ok(Some(Carried {
            partitions: KeyedState::new(key_types, &slots, reservation.share())?,
            carries,
            found: Vec::new(),
            beside: reservation.share(),
            compact_bytes: 0,
        }))
    }

    /// Whether rows are numbered, so that groups of equal rows are forgotten as a whole.
    pub(crate) fn numbers(&self) -> bool {
        self.carries.iter().any(|carry| matches!(carry, Carry::Rows | Carry::Groups))
    }

    /// Finds the partitions of the chunk that is evaluated next, one row of keys for each, in order.
    pub(crate) fn find(&mut self, keys: &[ArrayRef], partitions: usize) -> Result<()> {
        let all = Selected::All(partitions);
        self.partitions.lookup_or_insert(keys, None, all, &mut self.found, &mut Vec::new())?;
        Ok(())
    }

    /// The partitions that [`Self::find`] found.
    pub(crate) fn found(&self) -> &[RowId] {
        &self.found
    }

    /// The keys of some partitions.
    pub(crate) fn keys(&self, partitions: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.partitions.gather_keys(partitions)
    }

    /// How many partitions there are.
    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Forgets all partitions but some; `ids[i]` gets the id `i`.
    pub(crate) fn keep_only(&mut self, ids: &[RowId]) -> Result<()> {
        self.partitions.keep_only(ids)?;
        for carry in &mut self.carries {
            let Carry::Accumulators(parts) = carry else { continue };
            for running in parts {
                let mut at = 0_u32;
                let mut kept = ids.iter().copied().peekable();
                running.retain(|_| {
                    let stays = kept.next_if_eq(&at).is_some();
                    at += 1;
                    stays
                });
            }
        }
        Ok(())
    }

    /// What becomes of the partitions that were found, over a chunk with their rows.
    pub(super) fn step<'a>(
        &'a mut self,
        chunk: &'a Chunk,
        progress: &[Progress],
    ) -> Result<Step<'a>> {
        let ranges: Vec<Range<usize>> = chunk.partition_ranges().collect();
        if ranges.len() != progress.len() || ranges.len() != self.found.len() {
            return Err(Error::Internal(
                "a window whose partitions are not those of its rows".into(),
            ));
        }
        let rows_at = self.partitions.layout().states()[ROWS].offset;
        let states = self.partitions.states_mut();
        let passes: Vec<PartitionPass> = ranges
            .iter()
            .zip(progress)
            .zip(&self.found)
            .map(|((rows, progress), &partition)| PartitionPass {
                partition,
                before: states.read(partition, rows_at),
                rows: rows.clone(),
                leaving: rows.start + progress.leaving.start..rows.start + progress.leaving.end,
                forgotten: progress.forgotten,
            })
            .collect();
        let forgotten = passes.iter().map(|pass| pass.rows.start..pass.rows.start + pass.forgotten);
        Ok(Step {
            forgotten: Frames::of_ranges(forgotten, chunk.rows),
            row_partitions: (0..ranges.len())
                .flat_map(|at| repeat_n(at, ranges[at].len()))
                .collect(),
            numbers: (0..ranges.len()).collect(),
            carried: self,
            chunk,
            passes,
        })
    }

    /// Makes room where values have been replaced by longer ones.
    fn compact(&mut self) -> Result<()> {
        let bytes = self.partitions.memory_bytes();
        let has_strings = self.carries.iter().any(|carry| matches!(carry, Carry::Value { .. }));
        if !has_strings || bytes < COMPACT_BYTES_MIN.max(2 * self.compact_bytes) {
            return Ok(());
        }
        let ids: Vec<RowId> = self.partitions.ids().collect();
        self.partitions.keep_only(&ids)?;
        self.compact_bytes = self.partitions.memory_bytes();
        Ok(())
    }

    fn charge(&mut self) -> Result<()> {
        let parts = self.carries.iter().filter_map(|carry| match carry {
            Carry::Accumulators(parts) => Some(parts),
            Carry::Nothing
            | Carry::Rows
            | Carry::Groups
            | Carry::Sum { .. }
            | Carry::Value { .. } => None,
        });
        let bytes = parts.flatten().flatten().map(Running::memory_bytes).sum();
        self.beside.try_resize(bytes)
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(
        &mut self,
        functions: &CompiledFunctions,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.partitions.snapshot(out);
        for ((function, _), carry) in functions.each().zip(&mut self.carries) {
            let Carry::Accumulators(parts) = carry else { continue };
            for (part, running) in parts_of(function).into_iter().zip(parts) {
                let columns = part.states(running)?;
                let batch = Batch::new(columns, running.len());
                let bytes = StateSnapshot::of_batches(&[batch], &part.state_types()?)?.bytes;
                out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                out.extend_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(
        &mut self,
        functions: &CompiledFunctions,
        bytes: &mut &[u8],
    ) -> Result<()> {
        self.clear();
        self.partitions.restore(bytes)?;
        for ((function, _), carry) in functions.each().zip(&mut self.carries) {
            let Carry::Accumulators(parts) = carry else { continue };
            for (part, running) in parts_of(function).into_iter().zip(parts) {
                let len = u64::from_le_bytes(take_array(bytes)?) as usize;
                let snapshot = StateSnapshot { bytes: take_bytes(bytes, len)?.to_vec() };
                for batch in restore_batches(&snapshot)? {
                    for at in 0..batch.num_rows() {
                        running.push(part.of_state(batch.columns(), at)?);
                    }
                }
            }
        }
        self.charge()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.partitions.clear();
        self.found.clear();
        for carry in &mut self.carries {
            if let Carry::Accumulators(parts) = carry {
                parts.iter_mut().for_each(Vec::clear);
            }
        }
        self.beside.shrink(usize::MAX);
    }
}

/// What a function carries, with the slots that it takes.
fn carry_of(
    function: &CompiledFunction,
    expands: bool,
    slots: &mut Vec<StateSlot>,
) -> Result<Carry> {
    let mut slot = |slot: StateSlot| {
        slots.push(slot);
        slots.len() - 1
    };
    Ok(match &function.kind {
        Kind::Ranking(Ranking::RowNumber | Ranking::Rank) => Carry::Rows,
        Kind::Ranking(Ranking::DenseRank) => Carry::Groups,
        Kind::Ranking(Ranking::PercentRank | Ranking::CumeDist | Ranking::Ntile)
        | Kind::Session(_) => Carry::Nothing,
        Kind::Navigation(navigation) if !navigation.uses_frame() => Carry::Nothing,
        _ if !expands => Carry::Nothing,
        Kind::Navigation(_) | Kind::Extreme(_) => Carry::Value {
            count: slot(StateSlot::new(8, 8)),
            value: slot(StateSlot::byte_string()),
            codec: ValueCodec::new(&function.arg_types[0])?,
        },
        Kind::Sum(_) => {
            Carry::Sum { total: slot(StateSlot::new(16, 16)), count: slot(StateSlot::new(8, 8)) }
        }
        Kind::DecimalMean(_) | Kind::Accumulator(_) => {
            Carry::Accumulators(parts_of(function).iter().map(|_| Vec::new()).collect())
        }
    })
}

/// The library's aggregates that a function is made of.
fn parts_of(function: &CompiledFunction) -> Vec<&AccumulatorFunction> {
    match &function.kind {
        Kind::DecimalMean(mean) => mean.parts().to_vec(),
        Kind::Accumulator(function) => vec![function],
        Kind::Ranking(_)
        | Kind::Navigation(_)
        | Kind::Session(_)
        | Kind::Sum(_)
        | Kind::Extreme(_) => Vec::new(),
    }
}

/// One chunk: its functions are evaluated, then what is forgotten goes into what is carried.
pub(super) struct Step<'a> {
    carried: &'a mut Carried,
    chunk: &'a Chunk,
    passes: Vec<PartitionPass>,
    /// For each partition the rows that are forgotten.
    forgotten: Frames,
    /// The partition of each row.
    row_partitions: Vec<usize>,
    /// The partition of each of the frames of what is forgotten.
    numbers: Vec<usize>,
}

impl Step<'_> {
    fn offset(&self, slot: usize) -> usize {
        self.carried.partitions.layout().states()[slot].offset
    }

    /// The values of a function that goes on from what is carried, which takes what is forgotten in; none of a function
    /// that needs the rows alone.
    pub(super) fn evaluate(
        &mut self,
        at: usize,
        function: &CompiledFunction,
        frames: Option<&Frames>,
    ) -> Result<Option<ArrayRef>> {
        let mut carry = std::mem::replace(&mut self.carried.carries[at], Carry::Nothing);
        let frames =
            || frames.ok_or_else(|| Error::Internal("a function without its frames".into()));
        let values = match &mut carry {
            Carry::Nothing | Carry::Rows | Carry::Groups => None,
            Carry::Sum { total, count } => Some(self.sum((*total, *count), function, frames()?)?),
            Carry::Value { count, value, codec } => {
                Some(self.value((*count, *value), codec, function, frames()?)?)
            }
            Carry::Accumulators(parts) => Some(self.accumulate(parts, function, frames()?)?),
        };
        self.carried.carries[at] = carry;
        Ok(values)
    }

    /// Numbers of rows or groups, which begin behind those that are forgotten; others stay as they are.
    pub(super) fn count_on(&mut self, at: usize, values: ArrayRef) -> Result<ArrayRef> {
        let slot = match &self.carried.carries[at] {
            Carry::Rows => self.offset(ROWS),
            Carry::Groups => self.offset(GROUPS),
            Carry::Nothing | Carry::Sum { .. } | Carry::Value { .. } | Carry::Accumulators(_) => {
                return Ok(values);
            }
        };
        let numbers = values
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| Error::Internal("the number of a row that is no number".into()))?;
        let states = self.carried.partitions.states_mut();
        let before = self
            .passes
            .iter()
            .flat_map(|pass| repeat_n(states.read::<u64>(pass.partition, slot), pass.rows.len()));
        let counted = numbers.values().iter().zip(before).map(|(number, before)| number + before);
        Ok(Arc::new(UInt64Array::from_iter_values(counted)))
    }

    /// Takes note of the rows and groups that are forgotten.
    pub(super) fn finish(self) -> Result<()> {
        let (rows, groups) = (self.offset(ROWS), self.offset(GROUPS));
        let mut peers = self.chunk.peers.iter().peekable();
        let mut states = self.carried.partitions.states_mut();
        for pass in &self.passes {
            let end = pass.rows.start + pass.forgotten;
            let mut begun = 0_u64;
            while peers.next_if(|&&start| start < end).is_some() {
                begun += 1;
            }
            while peers.next_if(|&&start| start < pass.rows.end).is_some() {}
            states.update(pass.partition, rows, |before: u64| before + pass.forgotten as u64);
            states.update(pass.partition, groups, |before: u64| before + begun);
        }
        self.carried.compact()?;
        self.carried.charge()
    }

    fn sum(
        &mut self,
        (total, count): (usize, usize),
        function: &CompiledFunction,
        frames: &Frames,
    ) -> Result<ArrayRef> {
        let Kind::Sum(sum) = &function.kind else { return Err(mistaken()) };
        let (total, count) = (self.offset(total), self.offset(count));
        let (args, filter) =
            (&self.chunk.columns[function.args.clone()], function.filter(self.chunk));
        let mut states = self.carried.partitions.states_mut();
        let partitions = || self.passes.iter().map(|pass| pass.partition);
        let counts = partitions().map(|id| states.read::<i64>(id, count));
        let totals = partitions().map(|id| states.read::<i128>(id, total));
        let known = match sum.is_of_doubles(&function.arg_types) {
            true => Sums::Doubles(totals.map(double_of).zip(counts).collect()),
            false => Sums::Exact(totals.zip(counts).collect()),
        };
        let before = |partitions| Some(Before { partitions, known: &known });
        let sums = sum.sums(frames, args, filter, true, before(&self.row_partitions))?;
        let next = sum.sums(&self.forgotten, args, filter, true, before(&self.numbers))?;
        let mut put = |id: RowId, sum: i128, values: i64| {
            states.write(id, total, sum);
            states.write(id, count, values);
        };
        match next {
            Sums::Counts(next) => partitions().zip(next).for_each(|(id, n)| put(id, 0, n)),
            Sums::Exact(next) => partitions().zip(next).for_each(|(id, (sum, n))| put(id, sum, n)),
            Sums::Doubles(next) => {
                let next = next.into_iter().map(|(sum, n)| (i128::from(sum.to_bits()), n));
                partitions().zip(next).for_each(|(id, (sum, n))| put(id, sum, n));
            }
        }
        let scale = function.arg_types.first().map_or(0, scale);
        sum.results(sums, scale, &function.result)
    }

    fn value(
        &mut self,
        (count, value): (usize, usize),
        codec: &ValueCodec,
        function: &CompiledFunction,
        frames: &Frames,
    ) -> Result<ArrayRef> {
        let (count, value) = (self.offset(count), self.offset(value));
        let (args, filter) =
            (&self.chunk.columns[function.args.clone()], function.filter(self.chunk));
        let values = args.first().ok_or_else(mistaken)?;
        let mut states = self.carried.partitions.states_mut();
        let ids: Vec<RowId> = self.passes.iter().map(|pass| pass.partition).collect();
        let counts: Vec<i64> = ids.iter().map(|&id| states.read(id, count)).collect();
        let known = codec.read(&states, value, &ids, values.data_type())?;
        let [rows, partitions] = [self.row_partitions.as_slice(), self.numbers.as_slice()];
        let (result, next) = match &function.kind {
            Kind::Extreme(extreme) => {
                let evaluate = |frames: &Frames, partitions| {
                    let before = Some(Before { partitions, known: &known });
                    extreme.evaluate(frames, values, filter, before)
                };
                (evaluate(frames, rows)?, evaluate(&self.forgotten, partitions)?)
            }
            Kind::Navigation(navigation) => {
                let seen = Seen { counts: counts.clone(), values: known };
                let evaluate = |frames: &Frames, partitions| {
                    let before = Some(Before { partitions, known: &seen });
                    navigation.in_frame(frames, args, function.ignore_nulls, before)
                };
                (evaluate(frames, rows)?, evaluate(&self.forgotten, partitions)?)
            }
            Kind::Ranking(_)
            | Kind::Session(_)
            | Kind::Sum(_)
            | Kind::DecimalMean(_)
            | Kind::Accumulator(_) => return Err(mistaken()),
        };
        codec.write(&mut states, value, &ids, &next)?;
        let more = Navigation::counts(&self.forgotten, values, function.ignore_nulls);
        for ((&id, before), more) in ids.iter().zip(counts).zip(more) {
            states.write(id, count, before + more);
        }
        Ok(result)
    }

    fn accumulate(
        &mut self,
        parts: &mut [Vec<Running>],
        function: &CompiledFunction,
        frames: &Frames,
    ) -> Result<ArrayRef> {
        let (args, filter) =
            (&self.chunk.columns[function.args.clone()], function.filter(self.chunk));
        for (part, running) in parts_of(function).into_iter().zip(parts.iter_mut()) {
            while running.len() < self.carried.partitions.len() {
                running.push(part.running()?);
            }
        }
        let passes = &self.passes;
        match &function.kind {
            Kind::DecimalMean(mean) => {
                mean.of_parts(args, &function.result, |at, part, values, data_type| {
                    let running = &mut parts[at];
                    part.evaluate_running(frames, values, filter, passes, running, data_type)
                })
            }
            Kind::Accumulator(part) => {
                let running = parts.first_mut().ok_or_else(mistaken)?;
                part.evaluate_running(frames, args, filter, passes, running, &function.result)
            }
            Kind::Ranking(_)
            | Kind::Navigation(_)
            | Kind::Session(_)
            | Kind::Sum(_)
            | Kind::Extreme(_) => Err(mistaken()),
        }
    }
}

/// A double in a slot for sums.
fn double_of(slot: i128) -> f64 {
    f64::from_bits(slot as u64)
}

fn mistaken() -> Error {
    Error::Internal("a function that carries what another does".into())
}
