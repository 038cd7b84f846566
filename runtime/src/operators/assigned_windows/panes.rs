//! Panes: the rows of each key and window, and what the trigger remembers of them.
//!
//! Rows are kept once, however many panes hold them, with the number of those that do. Invariant: a pane's rows are in
//! the order in which they came into it, unless it sorts them; rows that no pane holds are forgotten by and by.

use std::collections::{BTreeSet, VecDeque};

use arrow::array::{ArrayRef, Int64Array};
use arrow_schema::DataType;

use super::order::TieOrder;
use super::spec::Parts;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::rows::take_array;
use crate::rows::{RowId, RowLayout, RowStore, Selected, unpacked_type};
use crate::state::{KeyedState, read_store, write_store};
use crate::windowing::{After, Firing, NewRows, TimeWindow};

/// Rows, or panes, below which nothing is compacted.
const COMPACT_MIN: usize = 4096;
/// Rows that a pane whose evictor is final holds more than it needs at most.
const EVICT_SLACK: usize = 64;
/// What a row in a pane takes beside the stores: its id and its time.
const ROW_BYTES: usize = 12;
/// What a pane takes beside the stores.
const PANE_BYTES: usize = 160;

/// Rows that leave a pane.
#[derive(Debug)]
pub(super) struct Fired {
    /// Each is held until it has left.
    pub(super) rows: Vec<RowId>,
    pub(super) start: i64,
    /// None where the window is not complete.
    pub(super) end: Option<i64>,
    pub(super) number: i64,
}

#[derive(Debug, Clone, Default)]
struct Pane {
    window: Option<TimeWindow>,
    rows: Vec<RowId>,
    times: Vec<i64>,
    memory: Vec<i64>,
    wake: Option<i64>,
    fired: i64,
    /// Rows that were left when it last evicted early.
    evicted_to: usize,
}

/// See the module.
pub(super) struct Panes {
    parts: Parts,
    ties: TieOrder,
    sorted: bool,
    keys: KeyedState,
    /// By row of `keys`.
    panes: Vec<Pane>,
    store: RowStore,
    /// By row of `store`: how many panes and firings hold it.
    holders: Vec<u32>,
    dead_rows: usize,
    dead_panes: usize,
    wakes: BTreeSet<(i64, RowId)>,
    /// Up to where times have passed.
    passed: i64,
    beside: Reservation,
    pub(super) fired: VecDeque<Fired>,
}

impl Panes {
    /// No panes; types of the rows' columns and of the keys.
    pub(super) fn new(
        parts: Parts,
        (types, key_types): (&[DataType], &[DataType]),
        (ties, sorted): (TieOrder, bool),
        reservation: &Reservation,
    ) -> Result<Self> {
        let types: Vec<DataType> = types.iter().map(unpacked_type).collect();
        let mut all_keys: Vec<DataType> = key_types.iter().map(unpacked_type).collect();
        all_keys.extend([DataType::Int64, DataType::Int64]);
        Ok(Panes {
            parts,
            ties,
            sorted,
            keys: KeyedState::new(&all_keys, &[], reservation.share())?,
            panes: Vec::new(),
            store: RowStore::new(RowLayout::new(&types, &[])?, reservation.share()),
            holders: Vec::new(),
            dead_rows: 0,
            dead_panes: 0,
            wakes: BTreeSet::new(),
            passed: i64::MIN,
            beside: reservation.share(),
            fired: VecDeque::new(),
        })
    }

    /// Rows that are held, and bytes of all that is kept.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.store.len() - self.dead_rows, self.store.reservation().total())
    }

    /// Keeps rows; each is held once by the caller.
    pub(super) fn append(&mut self, columns: &[ArrayRef]) -> Result<Vec<RowId>> {
        let rows = columns.first().map_or(0, |column| column.len());
        let ids: Vec<RowId> = self.store.append(columns, Selected::All(rows))?.collect();
        self.holders.resize(self.store.id_bound(), 0);
        ids.iter().for_each(|&id| self.holders[id as usize] = 1);
        Ok(ids)
    }

    /// The columns of rows.
    pub(super) fn gather(&self, ids: &[RowId]) -> Result<Vec<ArrayRef>> {
        self.store.gather_all(0..self.store.layout().num_fields(), ids)
    }

    /// Holds rows no longer.
    pub(super) fn release(&mut self, ids: &[RowId]) {
        for &id in ids {
            let holders = &mut self.holders[id as usize];
            *holders -= 1;
            self.dead_rows += usize::from(*holders == 0);
        }
    }

    /// Takes rows into their panes: for each the position among `ids` and the window, by ascending positions. `keys`,
    /// `times` and `arguments` are those of the rows `ids`.
    pub(super) fn take(
        &mut self,
        assigned: &[(usize, TimeWindow)],
        ids: &[RowId],
        times: &[i64],
        (keys, arguments): (&[ArrayRef], &[ArrayRef]),
    ) -> Result<()> {
        let places: arrow::array::UInt32Array =
            assigned.iter().map(|(row, _)| *row as u32).collect();
        let mut columns: Vec<ArrayRef> = keys
            .iter()
            .map(|key| Ok(arrow::compute::take(key, &places, None)?))
            .collect::<Result<_>>()?;
        let bound = |of: fn(&TimeWindow) -> i64| -> ArrayRef {
            std::sync::Arc::new(Int64Array::from_iter_values(assigned.iter().map(|(_, w)| of(w))))
        };
        columns.extend([bound(|window| window.start), bound(|window| window.end)]);
        let (mut found, mut new) = (Vec::new(), Vec::new());
        let rows = Selected::All(assigned.len());
        self.keys.lookup_or_insert(&columns, None, rows, &mut found, &mut new)?;
        self.panes.resize(self.keys.store().id_bound(), Pane::default());
        let mut order: Vec<u32> = (0..assigned.len() as u32).collect();
        order.sort_by_key(|&at| found[at as usize]);
        for run in order.chunk_by(|a, b| found[*a as usize] == found[*b as usize]) {
            let pane = found[run[0] as usize];
            let rows: Vec<usize> = run.iter().map(|&at| assigned[at as usize].0).collect();
            self.panes[pane as usize].window = Some(assigned[run[0] as usize].1);
            let places: arrow::array::UInt32Array = rows.iter().map(|&row| row as u32).collect();
            let arguments = arguments
                .iter()
                .map(|column| Ok(arrow::compute::take(column, &places, None)?))
                .collect::<Result<Vec<_>>>()?;
            let held = self.panes[pane as usize].rows.len();
            for row in rows {
                self.holders[ids[row] as usize] += 1;
                self.panes[pane as usize].rows.push(ids[row]);
                self.panes[pane as usize].times.push(times[row]);
            }
            self.ask_on_rows(pane, held, &arguments)?;
            self.evict_early(pane)?;
            self.set_wake(pane);
        }
        Ok(())
    }

    /// Asks the trigger about the rows of a pane from `seen` on, for as long as it fires.
    fn ask_on_rows(&mut self, id: RowId, mut seen: usize, arguments: &[ArrayRef]) -> Result<()> {
        let parts = self.parts.clone();
        let mut asked = 0;
        loop {
            let pane = &mut self.panes[id as usize];
            let Some(window) = pane.window else { return Ok(()) };
            let left = pane.rows.len() - seen;
            let arguments: Vec<ArrayRef> =
                arguments.iter().map(|column| column.slice(asked, left)).collect();
            let rows = NewRows { held: seen, times: &pane.times[seen..], arguments: &arguments };
            let Some(firing) = parts.trigger.on_rows(window, rows, &mut pane.memory) else {
                return Ok(());
            };
            let fits = firing.rows > 0 && firing.rows <= pane.rows.len() && firing.rows >= seen;
            if !fits || (firing.after == After::Keep && firing.rows == seen) {
                return Err(Error::Internal("a trigger fires for rows that are not new".into()));
            }
            asked += firing.rows - seen;
            let Firing { rows, after, end } = firing;
            seen = self.fire(id, rows, after, Some(end))?;
        }
    }

    /// Lets the first rows of a pane leave. Gives how many of them are left in it.
    fn fire(&mut self, id: RowId, rows: usize, after: After, end: Option<i64>) -> Result<usize> {
        if self.sorted {
            self.sort(id)?;
        }
        let kept = match &self.parts.evictor {
            Some(evictor) => evictor.kept(&self.panes[id as usize].times[..rows]),
            None => 0..rows,
        };
        let kept = kept.start.min(rows)..kept.end.min(rows);
        let pane = &mut self.panes[id as usize];
        let Some(window) = pane.window else { return Ok(0) };
        let leaving: Vec<RowId> = pane.rows[kept.clone()].to_vec();
        leaving.iter().for_each(|&row| self.holders[row as usize] += 1);
        if !leaving.is_empty() {
            pane.fired += 1;
            let (start, end) = match window == TimeWindow::GLOBAL {
                true => (pane.times[kept.start], end),
                false => (window.start, Some(window.end)),
            };
            if self.parts.trigger.is_timely() && end.is_some_and(|end| end <= self.passed) {
                return Err(Error::user(format!(
                    "the trigger {:?} fires for a window whose end has passed",
                    self.parts.trigger
                )));
            }
            self.fired.push_back(Fired { rows: leaving, start, end, number: pane.fired });
        }
        match after {
            After::Keep => {
                self.forget(id, kept.end..rows);
                self.forget(id, 0..kept.start);
                Ok(kept.len())
            }
            After::Purge => {
                self.forget(id, 0..rows);
                self.panes[id as usize].memory.clear();
                Ok(0)
            }
        }
    }

    fn forget(&mut self, id: RowId, rows: std::ops::Range<usize>) {
        let pane = &mut self.panes[id as usize];
        pane.times.drain(rows.clone());
        let forgotten: Vec<RowId> = pane.rows.drain(rows).collect();
        self.release(&forgotten);
    }

    fn sort(&mut self, id: RowId) -> Result<()> {
        let columns = self.gather(&self.panes[id as usize].rows)?;
        let pane = &mut self.panes[id as usize];
        let order = self.ties.order(&pane.times, &columns)?;
        pane.rows = order.iter().map(|&at| pane.rows[at as usize]).collect();
        pane.times = order.iter().map(|&at| pane.times[at as usize]).collect();
        Ok(())
    }

    /// Forgets rows of a pane that will never leave, once they are many.
    fn evict_early(&mut self, id: RowId) -> Result<()> {
        let Some(evictor) = self.parts.evictor.clone().filter(|evictor| evictor.is_final()) else {
            return Ok(());
        };
        let pane = &self.panes[id as usize];
        if pane.rows.len() < 2 * pane.evicted_to + EVICT_SLACK {
            return Ok(());
        }
        if self.sorted {
            self.sort(id)?;
        }
        let kept = evictor.kept(&self.panes[id as usize].times);
        self.forget(id, 0..kept.start);
        self.panes[id as usize].evicted_to = kept.len();
        Ok(())
    }

    fn set_wake(&mut self, id: RowId) {
        let pane = &mut self.panes[id as usize];
        let Some(window) = pane.window else { return };
        let wake = match pane.rows.is_empty() {
            true => None,
            false => self.parts.trigger.wakes_at(window, &pane.memory),
        };
        if wake != pane.wake {
            pane.wake.map(|at| self.wakes.remove(&(at, id)));
            wake.map(|at| self.wakes.insert((at, id)));
            pane.wake = wake;
        }
    }

    /// Asks the triggers that wanted to be asked up to a time, as no earlier row follows.
    pub(super) fn pass(&mut self, time: i64) -> Result<()> {
        while let Some(&(at, id)) = self.wakes.first().filter(|(at, _)| *at <= time) {
            self.wakes.remove(&(at, id));
            let pane = &mut self.panes[id as usize];
            pane.wake = None;
            let Some(window) = pane.window else { continue };
            if let Some(after) = self.parts.trigger.on_time(window, time, &mut pane.memory) {
                let rows = pane.rows.len();
                self.fire(id, rows, after, Some(time))?;
            }
            if window.end <= time {
                self.close(id);
                continue;
            }
            self.set_wake(id);
            if self.panes[id as usize].wake.is_some_and(|wake| wake <= time) {
                return Err(Error::Internal("a trigger wants to be asked about the past".into()));
            }
        }
        self.passed = self.passed.max(time);
        Ok(())
    }

    /// Forgets a pane whose window is complete.
    fn close(&mut self, id: RowId) {
        let rows = self.panes[id as usize].rows.len();
        self.forget(id, 0..rows);
        let pane = &mut self.panes[id as usize];
        pane.wake.take().map(|at| self.wakes.remove(&(at, id)));
        *pane = Pane::default();
        self.dead_panes += 1;
    }

    /// Lets leave what still does, as no row follows.
    pub(super) fn end(&mut self) -> Result<()> {
        let open = |(id, pane): (usize, &Pane)| {
            let window = pane.window.filter(|_| !pane.rows.is_empty())?;
            self.parts.trigger.on_end(window, &pane.memory).then_some((window, id as RowId))
        };
        let mut firing: Vec<_> = self.panes.iter().enumerate().filter_map(open).collect();
        firing.sort_unstable();
        for (_, id) in firing {
            let rows = self.panes[id as usize].rows.len();
            self.fire(id, rows, After::Purge, None)?;
        }
        Ok(())
    }

    /// Gives memory back where most rows or panes are forgotten; nothing is about to leave. Rows that the caller holds
    /// have other numbers then.
    pub(super) fn compact(&mut self, held: &mut [(i64, RowId)], always: bool) -> Result<()> {
        let rows = self.store.len();
        if self.dead_rows > 0 && (always || (rows >= COMPACT_MIN && self.dead_rows * 2 > rows)) {
            let kept: Vec<RowId> =
                self.store.ids().filter(|&id| self.holders[id as usize] > 0).collect();
            let mut moved = vec![0; self.store.id_bound()];
            let mut copy =
                RowStore::new(self.store.layout().clone(), self.store.reservation().share());
            let ids: Vec<RowId> = copy.append_rows(&self.store, &kept)?.collect();
            kept.iter().zip(&ids).for_each(|(&old, &new)| moved[old as usize] = new);
            let mut holders = vec![0; copy.id_bound()];
            kept.iter().zip(&ids).for_each(|(&old, &new)| {
                holders[new as usize] = self.holders[old as usize];
            });
            let renumber = |id: &mut RowId| *id = moved[*id as usize];
            self.panes.iter_mut().flat_map(|pane| &mut pane.rows).for_each(renumber);
            held.iter_mut().map(|(_, id)| id).for_each(renumber);
            (self.store, self.holders, self.dead_rows) = (copy, holders, 0);
        }
        let panes = self.panes.len();
        if self.dead_panes > 0 && (always || (panes >= COMPACT_MIN && self.dead_panes * 2 > panes))
        {
            let live = |id: &RowId| self.panes[*id as usize].window.is_some();
            let kept: Vec<RowId> = self.keys.ids().filter(live).collect();
            self.keys.keep_only(&kept)?;
            let panes: Vec<Pane> =
                kept.iter().map(|&id| std::mem::take(&mut self.panes[id as usize])).collect();
            self.panes = vec![Pane::default(); self.keys.store().id_bound()];
            self.wakes.clear();
            let ids: Vec<RowId> = self.keys.ids().collect();
            for (id, pane) in ids.into_iter().zip(panes) {
                pane.wake.map(|at| self.wakes.insert((at, id)));
                self.panes[id as usize] = pane;
            }
            self.dead_panes = 0;
        }
        self.charge(held.len())
    }

    /// Accounts for what is kept beside the stores.
    fn charge(&mut self, held: usize) -> Result<()> {
        let rows = self.store.len();
        self.beside.try_resize((rows + held) * ROW_BYTES + self.panes.len() * PANE_BYTES)
    }

    /// Appends everything to a snapshot; nothing is about to leave.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend(self.passed.to_le_bytes());
        write_store(&self.store, out);
        write_numbers(self.holders.iter().map(|&holders| i64::from(holders)), out);
        self.keys.snapshot(out);
        for pane in &self.panes {
            let window = pane.window.unwrap_or(TimeWindow { start: 0, end: i64::MIN });
            let known = [window.start, window.end, pane.fired, pane.evicted_to as i64];
            write_numbers(known.into_iter(), out);
            write_numbers(pane.rows.iter().map(|&row| i64::from(row)), out);
            write_numbers(pane.times.iter().copied(), out);
            write_numbers(pane.memory.iter().copied(), out);
        }
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.passed = i64::from_le_bytes(take_array(bytes)?);
        read_store(&mut self.store, bytes)?;
        self.holders = read_numbers(bytes)?.into_iter().map(|holders| holders as u32).collect();
        self.dead_rows = self.store.ids().filter(|&id| self.holders[id as usize] == 0).count();
        self.keys.restore(bytes)?;
        self.panes = vec![Pane::default(); self.keys.store().id_bound()];
        for id in 0..self.panes.len() {
            let known = read_numbers(bytes)?;
            let [start, end, fired, evicted_to] = known.as_slice() else {
                return Err(Error::Internal("a snapshot of other windows".into()));
            };
            let window = TimeWindow { start: *start, end: *end };
            let pane = &mut self.panes[id];
            pane.window = (*end > i64::MIN).then_some(window);
            (pane.fired, pane.evicted_to) = (*fired, *evicted_to as usize);
            pane.rows = read_numbers(bytes)?.into_iter().map(|row| row as RowId).collect();
            pane.times = read_numbers(bytes)?;
            pane.memory = read_numbers(bytes)?;
            self.set_wake(id as RowId);
        }
        self.dead_panes =
            self.keys.ids().filter(|&id| self.panes[id as usize].window.is_none()).count();
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.store.clear();
        self.panes.clear();
        self.holders.clear();
        self.wakes.clear();
        self.fired.clear();
    }
}

/// Appends numbers with how many they are.
pub(super) fn write_numbers(numbers: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
    let place = out.len();
    out.extend(0_u64.to_le_bytes());
    let mut count = 0_u64;
    for number in numbers {
        out.extend(number.to_le_bytes());
        count += 1;
    }
    out[place..place + 8].copy_from_slice(&count.to_le_bytes());
}

/// Reads what [`write_numbers`] wrote.
pub(super) fn read_numbers(bytes: &mut &[u8]) -> Result<Vec<i64>> {
    let count = u64::from_le_bytes(take_array(bytes)?);
    (0..count).map(|_| Ok(i64::from_le_bytes(take_array(bytes)?))).collect()
}
