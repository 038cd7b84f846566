//! The batch in hand: it is in the state of its side already, and is matched with the other side as that is.
//!
//! The work goes through phases, each of which lists rows to be emitted, about an output batch at a time. Invariant:
//! what is emitted turns the join of the inputs before the batch into that after it; a row that is withdrawn was there
//! before the batch.

use arrow::array::{Array, ArrayRef, BooleanArray};

use super::listed::{Cut, Entries, Listed};
use super::shape::{Alone, MATCHES, MATCHES_BEFORE, Shape};
use super::states::{Arrived, Regime, States, rows_of};
use crate::batch::Batch;
use crate::element::RowKind;
use crate::error::Result;
use crate::operators::OperatorContext;
use crate::operators::join_output::{BuildColumns, JoinPairs, NoRows};
use crate::rows::{NO_ROW, RowId, RowStore};
use crate::state::{PairCursor, RowChanges};

/// What comes next.
#[derive(Debug)]
enum Phase {
    /// Rows of the other side whose key got its first match, or lost its last one: their keys, and which it is.
    Transitions { keys: Vec<RowId>, matched: Vec<bool>, cursor: PairCursor },
    /// All rows of the other side are looked at, since the list of a NOT IN became another kind of list.
    Regimes { before: Regime, next: RowId },
    /// Pairs of rows of the batch and rows of the other side.
    Pairs { cursor: PairCursor },
    /// Rows of the batch alone.
    Own,
    /// Rows of the other side whose number of matches changed: those from `next` on are still to be looked at.
    Touched { next: usize },
    /// Nothing.
    Done,
}

/// The batch in hand.
pub(super) struct Work {
    side: usize,
    fields: Batch,
    changes: RowChanges,
    /// The other side's key for each row.
    other_keys: Vec<RowId>,
    /// By row, how many matches it has; for tracked sides.
    matches: Vec<i64>,
    /// Rows of the other side whose number of matches changed.
    touched: Vec<RowId>,
    /// Rows of the tracked side that need not be kept any more.
    settled: Vec<RowId>,
    phase: Phase,
    listed: Listed,
    cut: Cut,
    passed: Vec<u32>,
    rows_max: usize,
}

impl Work {
    /// Begins with the rows that have arrived; `before` is the regime before they did.
    pub(super) fn begin(
        shape: &Shape,
        states: &mut States,
        (side, arrived): (usize, Arrived),
        before: Regime,
        batch_rows: usize,
    ) -> Result<Self> {
        let Arrived { fields, changes, .. } = arrived;
        let rows = fields.num_rows();
        let other = 1 - side;
        let mut other_keys = Vec::new();
        if rows > 0 {
            let keys = shape.sides[side].keys_of(&fields);
            states.rows[other].find_keys(&keys, rows, &mut other_keys)?;
        }
        let row_bytes = states.rows[other].store().layout().row_bytes();
        let mut work = Work {
            side,
            matches: if shape.tracked[side] { vec![0; rows] } else { Vec::new() },
            fields,
            changes,
            other_keys,
            touched: Vec::new(),
            settled: Vec::new(),
            phase: Phase::Pairs { cursor: PairCursor::default() },
            listed: Listed::default(),
            cut: Cut::default(),
            passed: Vec::new(),
            rows_max: shape.outputs[side].rows_max(batch_rows, row_bytes),
        };
        if shape.tracked[other] && !shape.by_row {
            work.phase = match shape.null_aware && states.regime() != before {
                true => Phase::Regimes { before, next: 0 },
                false if shape.null_aware && before != Regime::Open => Phase::Done,
                false => work.transitions(states),
            };
        }
        Ok(work)
    }

    /// The keys that got their first row in this batch, or lost their last one.
    fn transitions(&self, states: &mut States) -> Phase {
        let own = &mut states.rows[self.side];
        let (mut keys, mut matched) = (Vec::new(), Vec::new());
        for (&key, &other) in self.changes.keys.iter().zip(&self.other_keys) {
            let (before, now) = (own.previous(key), own.total(key));
            if (before == 0) != (now == 0) {
                // A key that several rows share is looked at once.
                own.settle(&[key]);
                keys.push(other);
                matched.push(now != 0);
            }
        }
        Phase::Transitions { keys, matched, cursor: PairCursor::default() }
    }

    /// The next batch of the output; none when the work is done.
    pub(super) fn next(
        &mut self,
        shape: &Shape,
        states: &mut States,
        cx: &OperatorContext<'_>,
    ) -> Result<Option<Batch>> {
        loop {
            if self.listed.next(self.rows_max, &mut self.cut) {
                return self.emit(shape, states).map(Some);
            }
            cx.check_cancelled()?;
            match self.phase {
                Phase::Transitions { .. } => self.list_transitions(shape, states),
                Phase::Regimes { .. } => self.list_regimes(shape, states)?,
                Phase::Pairs { .. } => self.list_pairs(shape, states)?,
                Phase::Own => self.list_own(shape, states),
                Phase::Touched { .. } => self.list_touched(shape, states),
                Phase::Done => return Ok(None),
            }
        }
    }

    /// Lets go of the batch.
    pub(super) fn finish(self, shape: &Shape, states: &mut States) -> Result<()> {
        states.rows[self.side].settle(&self.changes.keys);
        if !self.settled.is_empty() {
            let tracked = if shape.tracked[self.side] { self.side } else { 1 - self.side };
            states.rows[tracked].remove(&self.settled);
            states.compact(tracked)?;
        }
        if shape.lookup == Some(1 - self.side) {
            states.rows[self.side].remove(&self.changes.ids);
        }
        states.compact(self.side)
    }

    fn list_transitions(&mut self, shape: &Shape, states: &States) {
        let Phase::Transitions { keys, matched, cursor } = &mut self.phase else { return };
        if cursor.is_done(keys.len()) {
            self.phase = Phase::Pairs { cursor: PairCursor::default() };
            return;
        }
        let other = &states.rows[1 - self.side];
        self.cut.rows.clear();
        self.cut.ids.clear();
        other.pairs(keys, cursor, self.rows_max, &mut self.cut.rows, &mut self.cut.ids);
        if shape.settled_by_match {
            self.settled.extend_from_slice(&self.cut.ids);
        }
        self.listed.begin(Entries::Other);
        for (&at, &id) in self.cut.rows.iter().zip(&self.cut.ids) {
            list_transition(&mut self.listed, shape, matched[at as usize], id, other.count(id));
        }
    }

    /// Looks at the next rows of the other side before and after the batch.
    fn list_regimes(&mut self, shape: &Shape, states: &mut States) -> Result<()> {
        let Phase::Regimes { before, next } = &mut self.phase else { return Ok(()) };
        let (before, after) = (*before, states.regime());
        let [own, other] = sides_mut(&mut states.rows, self.side);
        let ids = &mut self.cut.ids;
        ids.clear();
        *next = other.scan(*next, self.rows_max, ids);
        if ids.is_empty() {
            self.phase = Phase::Done;
            return Ok(());
        }
        let key = other.store().gather(shape.sides[1 - self.side].key_fields[0], ids)?;
        let mut found = Vec::new();
        own.find_keys(std::slice::from_ref(&key), ids.len(), &mut found)?;
        let nulls = key.logical_nulls();
        self.listed.begin(Entries::Other);
        for (row, (&id, &key)) in ids.iter().zip(&found).enumerate() {
            let known = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let comes_out = |regime: Regime, rows: &dyn Fn(RowId) -> i64| match regime {
                Regime::Empty => true,
                Regime::Open => known && (key == NO_ROW || rows(key) == 0),
                Regime::Shut => false,
            };
            let was_out = comes_out(before, &|key| own.previous(key));
            let is_out = comes_out(after, &|key| own.total(key));
            if was_out != is_out {
                self.listed.push(Listed::code(was_out, false), id, other.count(id));
            }
        }
        Ok(())
    }

    /// Lists pairs, leaves out those the filter does not pass, and counts matches.
    fn list_pairs(&mut self, shape: &Shape, states: &mut States) -> Result<()> {
        let Phase::Pairs { cursor } = &mut self.phase else { return Ok(()) };
        if !shape.lists_pairs() || cursor.is_done(self.other_keys.len()) {
            self.phase = Phase::Own;
            return Ok(());
        }
        let listed = &mut self.listed;
        listed.begin(Entries::Pairs);
        let other = &mut states.rows[1 - self.side];
        let (rows, ids) = (&mut listed.rows, &mut listed.ids);
        other.pairs(&self.other_keys, cursor, self.rows_max, rows, ids);
        if let Some(filter) = &shape.filters[self.side] {
            let pairs = JoinPairs { rows: &listed.rows, ids: &listed.ids, nullable: false };
            filter.passing(&self.fields, pairs, &Kept(other.store()), &mut self.passed)?;
            listed.keep(&self.passed);
        }
        if shape.by_row && shape.tracked[self.side] {
            for (&row, &id) in listed.rows.iter().zip(&listed.ids) {
                self.matches[row as usize] += other.count(id);
            }
        }
        if shape.by_row && shape.tracked[1 - self.side] {
            for (&row, &id) in listed.rows.iter().zip(&listed.ids) {
                let matches = other.number(id, MATCHES);
                if matches == other.number(id, MATCHES_BEFORE) {
                    self.touched.push(id);
                }
                other.set_number(id, MATCHES, matches + self.changes.deltas[row as usize]);
            }
        }
        if shape.pairs {
            let deltas = &self.changes.deltas;
            listed.count(|row, id| deltas[row as usize].abs() * other.count(id));
        } else {
            listed.begin(Entries::Pairs);
        }
        Ok(())
    }

    /// Lists the rows of the batch that come out alone.
    fn list_own(&mut self, shape: &Shape, states: &mut States) {
        self.phase = Phase::Touched { next: 0 };
        if !shape.tracked[self.side] {
            return;
        }
        if shape.by_row {
            let own = &mut states.rows[self.side];
            for (&id, &matches) in self.changes.ids.iter().zip(&self.matches) {
                own.set_number(id, MATCHES, matches);
                own.set_number(id, MATCHES_BEFORE, matches);
            }
        } else {
            self.count_by_key(shape, states);
        }
        self.listed.begin(Entries::Own);
        for (row, (&matches, &delta)) in self.matches.iter().zip(&self.changes.deltas).enumerate() {
            let matched = matches > 0;
            if matched && shape.settled_by_match {
                self.settled.push(self.changes.ids[row]);
            }
            if shape.alone.wants(matched) && (matched || !shape.deferred) {
                self.listed.push(row as u32, u32::from(matched), delta.abs());
            }
        }
    }

    /// The matches of the batch's rows, as the rows of their keys on the other side tell.
    fn count_by_key(&mut self, shape: &Shape, states: &States) {
        let other = &states.rows[1 - self.side];
        let rows = |key: RowId| if key == NO_ROW { 0 } else { other.total(key) };
        if !shape.null_aware {
            let keys = self.other_keys.iter();
            self.matches.iter_mut().zip(keys).for_each(|(matches, &key)| *matches = rows(key));
            return;
        }
        let nulls = self.fields.column(shape.sides[self.side].key_fields[0]).logical_nulls();
        let regime = states.regime();
        for (row, (matches, &key)) in self.matches.iter_mut().zip(&self.other_keys).enumerate() {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            *matches = match regime {
                Regime::Empty => 0,
                Regime::Open if !is_null => rows(key),
                Regime::Open | Regime::Shut => 1,
            };
        }
    }

    /// Lists the rows of the other side that got their first match, or lost their last one.
    fn list_touched(&mut self, shape: &Shape, states: &mut States) {
        let Phase::Touched { next } = &mut self.phase else { return };
        let other = &mut states.rows[1 - self.side];
        self.listed.begin(Entries::Other);
        while let Some(&id) = self.touched.get(*next) {
            if self.listed.rows.len() >= self.rows_max {
                return;
            }
            *next += 1;
            let (before, now) = (other.number(id, MATCHES_BEFORE), other.number(id, MATCHES));
            other.set_number(id, MATCHES_BEFORE, now);
            if (before == 0) != (now == 0) {
                list_transition(&mut self.listed, shape, now != 0, id, other.count(id));
            }
        }
        self.phase = Phase::Done;
    }

    fn emit(&self, shape: &Shape, states: &States) -> Result<Batch> {
        let output = &shape.outputs[self.side];
        let other = Kept(states.rows[1 - self.side].store());
        let (rows, ids) = (self.cut.rows.as_slice(), self.cut.ids.as_slice());
        match self.listed.entries {
            Entries::Pairs => {
                output.pairs(&self.fields, JoinPairs { rows, ids, nullable: false }, &other)
            }
            Entries::Own => own_alone(shape, self.side, &self.fields, rows, ids),
            Entries::Other => other_alone(shape, self.side, &other, rows, ids),
        }
    }
}

/// The states of a side and of the other one.
fn sides_mut<T>(sides: &mut [T; 2], side: usize) -> [&mut T; 2] {
    let [left, right] = sides;
    if side == 0 { [left, right] } else { [right, left] }
}

/// What a row emits that got its first match or lost its last one.
fn list_transition(listed: &mut Listed, shape: &Shape, matched: bool, id: RowId, count: i64) {
    match shape.alone {
        // What is deferred was never emitted, and a match that has come never goes.
        Alone::Outer | Alone::Anti if shape.deferred => {}
        Alone::Outer | Alone::Anti => listed.push(Listed::code(matched, false), id, count),
        Alone::Semi => listed.push(Listed::code(!matched, false), id, count),
        Alone::Mark => {
            if !shape.deferred {
                listed.push(Listed::code(true, !matched), id, count);
            }
            listed.push(Listed::code(false, matched), id, count);
        }
    }
}

/// The output for some rows of a batch alone; `matched` has 1 for those with a match.
pub(super) fn own_alone(
    shape: &Shape,
    side: usize,
    fields: &Batch,
    rows: &[u32],
    matched: &[u32],
) -> Result<Batch> {
    let output = &shape.outputs[side];
    match shape.alone {
        Alone::Outer => {
            let ids = vec![NO_ROW; rows.len()];
            let pairs = JoinPairs { rows, ids: &ids, nullable: true };
            output.pairs(fields, pairs, &NoRows(&shape.sides[1 - side].types))
        }
        Alone::Semi | Alone::Anti => output.probe_rows(fields, rows),
        Alone::Mark => {
            let mark: BooleanArray = matched.iter().map(|&matched| Some(matched == 1)).collect();
            output.marked_probe_rows(&rows_of(fields, rows)?, mark)
        }
    }
}

/// The output for rows of the other side than `side` alone, by their codes.
pub(super) fn other_alone(
    shape: &Shape,
    side: usize,
    other: &Kept<'_>,
    codes: &[u32],
    ids: &[RowId],
) -> Result<Batch> {
    let mark = (shape.alone == Alone::Mark)
        .then(|| codes.iter().map(|&code| Some(Listed::is_marked(code))).collect());
    let batch = shape.outputs[side].build_rows(other, ids, mark)?;
    if !codes.iter().any(|&code| Listed::is_deleted(code)) {
        return Ok(batch);
    }
    let kind = |&code| if Listed::is_deleted(code) { RowKind::Delete } else { RowKind::Insert };
    Ok(batch.with_kinds(codes.iter().map(kind).collect()))
}

/// The kept rows of a side.
pub(super) struct Kept<'a>(pub(super) &'a RowStore);

impl BuildColumns for Kept<'_> {
    fn gather(&self, column: usize, ids: &[RowId], nullable: bool) -> Result<ArrayRef> {
        if nullable { self.0.gather_nullable(column, ids) } else { self.0.gather(column, ids) }
    }
}
