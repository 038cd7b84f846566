//! Whole partitions: those that a batch changes are computed anew, and the difference leaves.
//!
//! All rows are kept by partition, each with a number that says when it came. Invariant: the order of a partition's
//! rows follows from their order keys and these numbers alone, so that what is computed before a batch is what was
//! computed after the one before.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow_schema::DataType;

use super::ChangelogWindowSpec;
use super::closing::Closing;
use super::difference::Difference;
use super::heads::{Head, Heads, Place};
use crate::batch::Batch;
use crate::error::Result;
use crate::expr::{CompiledExpr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::untouched::Untouched;
use crate::operators::window::WindowOverRows;
use crate::rows::{NO_ROW, RowId, SortKeyEncoder, SortKeys, take_array, unpack, unpacked_type};
use crate::state::{PairCursor, RowChanges, RowMultiset, RowMultisetOptions};

/// The number beside a row that says when it came.
const CAME: usize = 0;
/// Rows that are looked at together when a head is made.
const SCAN_ROWS: usize = 16 << 10;

/// The rows of all partitions.
pub(super) struct Partitions {
    window: WindowOverRows,
    encoder: Option<SortKeyEncoder>,
    /// The partition keys.
    keys: Vec<CompiledExpr>,
    /// Types of the input's columns, which are the first fields.
    types: Vec<DataType>,
    /// The input's columns that the order keys read.
    order_columns: Vec<usize>,
    /// Keys that are fields of their own, behind the columns.
    key_fields: Vec<usize>,
    functions: bool,
    /// Rows of a partition that come out.
    wanted: usize,
    /// Whether the rows that come out are all that the functions need.
    looks_back: bool,
    batch_rows: usize,

    rows: RowMultiset,
    came: i64,
    heads: Option<Heads>,
    difference: Difference,
    changes: RowChanges,
    transient: Reservation,
}

/// Rows of some partitions, partition by partition.
#[derive(Default)]
struct Listed {
    ids: Vec<RowId>,
    /// The partitions, and which of the rows are theirs.
    partitions: Vec<(RowId, Range<usize>)>,
}

impl Partitions {
    /// Compiles the window.
    pub(super) fn new(spec: &ChangelogWindowSpec, job: &JobContext) -> Result<Self> {
        let window = &spec.window;
        let schema = positional_schema(&window.input);
        let keys = compile_all(&window.partition_by, &schema, &job.functions)?;
        let types: Vec<DataType> = window.input.iter().map(unpacked_type).collect();
        let mut fields = types.clone();
        let mut key_fields = Vec::new();
        for key in &keys {
            key_fields.push(key.as_column().unwrap_or(fields.len()));
            if key.as_column().is_none() {
                fields.push(unpacked_type(key.data_type()));
            }
        }
        let reservation = job.memory.reserve("ChangelogWindow");
        let options = RowMultisetOptions {
            types: &fields,
            keys: &key_fields,
            withdrawn: spec.withdrawn,
            forgetful: job.options.state_ttl_us > 0,
            slots: 1,
            operator: "ChangelogWindow",
        };
        let results = window.functions.iter().map(|f| unpacked_type(&f.result));
        let output: Vec<DataType> = types.iter().cloned().chain(results).collect();
        let over_rows = WindowOverRows::new(window, job)?;
        let mut order_columns: Vec<usize> =
            window.order_by.iter().flat_map(|key| key.expr.columns()).collect();
        order_columns.sort_unstable();
        order_columns.dedup();
        let looks_back = spec.looks_back();
        let rows = RowMultiset::new(&options, &reservation)?;
        Ok(Partitions {
            encoder: over_rows.order_by().encoder(0)?,
            window: over_rows,
            keys,
            types,
            order_columns,
            key_fields,
            functions: !window.functions.is_empty(),
            wanted: spec.rows_kept(),
            looks_back,
            batch_rows: job.options.batch_rows.max(1),
            rows,
            came: 0,
            heads: spec.keep.filter(|_| looks_back).map(|keep| Heads::new(keep.rows)),
            difference: Difference::new(&output, &reservation)?,
            changes: RowChanges::default(),
            transient: reservation,
        })
    }

    /// Rows of all partitions, and bytes of all that is kept.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.transient.total())
    }

    /// Takes a compact batch in; what it changes is to be fetched.
    pub(super) fn apply(
        &mut self,
        batch: &Batch,
        mut untouched: Option<&mut Untouched>,
    ) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut fields = batch.columns().iter().map(unpack).collect::<Result<Vec<_>>>()?;
        for key in self.keys.iter().filter(|key| key.as_column().is_none()) {
            fields.push(unpack(&key.evaluate(batch)?)?);
        }
        let keys: Vec<ArrayRef> = self.key_fields.iter().map(|&i| fields[i].clone()).collect();
        let order = match (&self.heads, &self.encoder) {
            (Some(_), Some(encoder)) => {
                Some(encoder.encode(&self.window.order_by().evaluate(batch)?)?)
            }
            _ => None,
        };
        let (changed, partitions) = self.changed_partitions(&keys, batch, order.as_ref())?;
        self.add_results(&partitions, -1)?;
        self.rows.apply(&fields, batch.num_rows(), batch.kinds(), &mut self.changes)?;
        self.rows.settle(&self.changes.keys);
        self.follow_changes(order.as_ref());
        let mut found = Vec::new();
        let changed_keys = keys
            .iter()
            .map(|key| Ok(take(key, &changed, None)?))
            .collect::<Result<Vec<ArrayRef>>>()?;
        self.rows.find_keys(&changed_keys, changed.len(), &mut found)?;
        self.add_results(&distinct(found), 1)?;
        self.difference.close();
        if let Some(untouched) = &mut untouched {
            untouched.touch(self.changes.keys.iter().copied())?;
        }
        self.compact(untouched)
    }

    /// Makes room where rows have gone.
    fn compact(&mut self, untouched: Option<&mut Untouched>) -> Result<()> {
        let compacted = self.rows.compact()?;
        if let (Some(untouched), Some(moved)) = (untouched, &compacted.keys) {
            untouched.renumber(|key| moved.new_id(key));
        }
        if let Some(heads) = self.heads.as_mut().filter(|_| compacted.happened()) {
            heads.clear();
        }
        Ok(())
    }

    /// Forgets the partitions that nothing has touched for long enough.
    pub(super) fn forget_untouched(&mut self, untouched: &mut Untouched) -> Result<()> {
        let gone = self.rows_of(|rows, id| untouched.is_old(rows.key_of(id)));
        self.forget(&gone, Some(untouched))
    }

    /// Forgets the partitions that are closed, from time to time.
    pub(super) fn forget_closed(
        &mut self,
        closing: &mut Closing,
        untouched: Option<&mut Untouched>,
    ) -> Result<()> {
        if !closing.search.is_due(self.rows.len()) {
            return Ok(());
        }
        let ids = self.rows_of(|_, _| true);
        let times = self.rows.store().gather(self.key_fields[closing.key()], &ids)?;
        let closed = closing.are_closed(&times)?;
        let gone: Vec<RowId> =
            ids.into_iter().zip(closed).filter_map(|(id, closed)| closed.then_some(id)).collect();
        self.forget(&gone, untouched)?;
        closing.search.note(self.rows.len());
        Ok(())
    }

    fn rows_of(&self, wanted: impl Fn(&RowMultiset, RowId) -> bool) -> Vec<RowId> {
        let mut ids = Vec::new();
        self.rows.scan(0, usize::MAX, &mut ids);
        ids.retain(|&id| wanted(&self.rows, id));
        ids
    }

    /// Forgets rows, of partitions as a whole.
    fn forget(&mut self, gone: &[RowId], untouched: Option<&mut Untouched>) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        if let Some(heads) = &mut self.heads {
            gone.iter().for_each(|&id| heads.forget(self.rows.key_of(id)));
        }
        self.rows.remove(gone);
        self.compact(untouched)
    }

    /// The rows of a batch that may change what comes out, and their partitions as far as there are such.
    fn changed_partitions(
        &mut self,
        keys: &[ArrayRef],
        batch: &Batch,
        order: Option<&SortKeys>,
    ) -> Result<(UInt32Array, Vec<RowId>)> {
        let mut found = Vec::new();
        self.rows.find_keys(keys, batch.num_rows(), &mut found)?;
        let rows = 0..batch.num_rows() as u32;
        let (Some(heads), Some(order)) = (&self.heads, order) else {
            return Ok((rows.collect(), distinct(found)));
        };
        let changed: Vec<u32> = rows
            .filter(|&row| heads.may_change(found[row as usize], order.key(row as usize)))
            .collect();
        let partitions = distinct(changed.iter().map(|&row| found[row as usize]).collect());
        Ok((UInt32Array::from(changed), partitions))
    }

    /// Numbers the rows that came, and tells the heads.
    fn follow_changes(&mut self, order: Option<&SortKeys>) {
        let RowChanges { positions, ids, keys, deltas } = &self.changes;
        for i in 0..ids.len() {
            let (id, partition, delta) = (ids[i], keys[i], deltas[i]);
            let count = self.rows.count(id);
            let (is_new, is_gone) = (delta > 0 && count == delta, count == 0);
            if is_new {
                self.rows.set_number(id, CAME, self.came);
                self.came += 1;
            }
            if let (Some(heads), Some(order)) = (&mut self.heads, order) {
                let (key, came) = (order.key(positions[i] as usize), self.rows.number(id, CAME));
                if is_new {
                    heads.insert(partition, id, key, came);
                } else if is_gone {
                    heads.remove(partition, id, key, came);
                }
            }
        }
    }

    /// Adds what comes out of partitions to the difference.
    fn add_results(&mut self, partitions: &[RowId], by: i64) -> Result<()> {
        let listed = self.list(partitions)?;
        if listed.ids.is_empty() {
            return Ok(());
        }
        let order = self.ordered(&listed)?;
        let ids: Vec<RowId> = order.iter().map(|&(at, _)| listed.ids[at as usize]).collect();
        let columns = self.rows.store().gather_all(0..self.types.len(), &ids)?;
        let sorted = Batch::new(columns, ids.len());
        self.transient.try_resize(sorted.data_bytes())?;
        let mut columns = sorted.columns().to_vec();
        if self.functions {
            columns.extend(self.window.evaluate(&sorted)?);
        }
        if !self.looks_back && self.wanted < usize::MAX {
            let first = (0_u32..).zip(&order).filter(|(_, place)| place.1 < self.wanted);
            let first: UInt32Array = first.map(|(row, _)| row).collect();
            columns =
                columns.iter().map(|c| take(c, &first, None)).collect::<Result<Vec<_>, _>>()?;
        }
        let rows = columns.first().map_or(ids.len(), |column| column.len());
        self.difference.add(&Batch::new(columns, rows), by)?;
        self.transient.shrink(usize::MAX);
        Ok(())
    }

    /// The rows of partitions among which those are that come out.
    fn list(&mut self, partitions: &[RowId]) -> Result<Listed> {
        let mut listed = Listed::default();
        for &partition in partitions {
            let start = listed.ids.len();
            if !self.list_head(partition, &mut listed.ids)? {
                let mut cursor = PairCursor::default();
                // Without an order the rows stand as they came, which is how they are listed.
                let max = match self.looks_back && self.encoder.is_none() {
                    true => start.saturating_add(self.wanted),
                    false => usize::MAX,
                };
                let ids = &mut listed.ids;
                self.rows.pairs(&[partition], &mut cursor, max, &mut Vec::new(), ids);
            }
            listed.partitions.push((partition, start..listed.ids.len()));
        }
        Ok(listed)
    }

    /// Lists the head of a partition, if it is to have one.
    fn list_head(&mut self, partition: RowId, ids: &mut Vec<RowId>) -> Result<bool> {
        let (Some(heads), Some(_)) = (&mut self.heads, &self.encoder) else { return Ok(false) };
        let total = self.rows.total(partition);
        if total as usize <= heads.rows_max(total) {
            // A head that nobody looks after could come to have too few rows.
            heads.forget(partition);
            return Ok(false);
        }
        let rows: i64 = match heads.get(partition) {
            Some(head) => head.ids.iter().map(|&id| self.rows.count(id)).sum(),
            None => 0,
        };
        let head_rows = heads.rows(total);
        if (rows as usize) < self.wanted {
            let head = self.make_head(partition, head_rows)?;
            if let Some(heads) = &mut self.heads {
                heads.put(partition, head);
            }
        }
        if let Some(head) = self.heads.as_ref().and_then(|heads| heads.get(partition)) {
            ids.extend_from_slice(&head.ids);
        }
        Ok(true)
    }

    /// The first `wanted` rows of a partition, by a look at all of them.
    fn make_head(&self, partition: RowId, wanted: usize) -> Result<Head> {
        let mut best: Vec<(Place, RowId)> = Vec::new();
        let mut bound: Option<Place> = None;
        let (mut cursor, mut ids, mut positions) = (PairCursor::default(), Vec::new(), Vec::new());
        while !cursor.is_done(1) {
            ids.clear();
            positions.clear();
            self.rows.pairs(&[partition], &mut cursor, SCAN_ROWS, &mut positions, &mut ids);
            let Some(keys) = self.order_keys(&ids)? else { break };
            for (row, &id) in ids.iter().enumerate() {
                let (key, came) = (keys.key(row), self.rows.number(id, CAME));
                let is_behind = |(bound, last): &Place| (key, came) > (&**bound, *last);
                if !bound.as_ref().is_some_and(is_behind) {
                    best.push(((key.into(), came), id));
                }
            }
            if best.len() > wanted {
                best.select_nth_unstable(wanted - 1);
                best.truncate(wanted);
                bound = best.last().map(|last| last.0.clone());
            }
        }
        Ok(Head { ids: best.iter().map(|row| row.1).collect(), bound })
    }

    /// The order keys of some rows; none if there is no order.
    fn order_keys(&self, ids: &[RowId]) -> Result<Option<SortKeys>> {
        let Some(encoder) = &self.encoder else { return Ok(None) };
        let columns = (0..self.types.len())
            .map(|column| match self.order_columns.binary_search(&column) {
                Ok(_) => self.rows.store().gather(column, ids),
                // Nobody reads it.
                Err(_) => Ok(new_null_array(&self.types[column], ids.len())),
            })
            .collect::<Result<Vec<_>>>()?;
        let order = self.window.order_by().evaluate(&Batch::new(columns, ids.len()))?;
        encoder.encode(&order).map(Some)
    }

    /// The listed rows in the order of their partitions, each as often as it is there: its position among the listed
    /// ones, and its place in the partition. Where the first rows are enough there are no others. Heads that have grown
    /// are cut on the way.
    fn ordered(&mut self, listed: &Listed) -> Result<Vec<(u32, usize)>> {
        let keys = self.order_keys(&listed.ids)?;
        let key = |at: u32| keys.as_ref().map_or(&[][..], |keys| keys.key(at as usize));
        let rows = &self.rows;
        let came: Vec<i64> = listed.ids.iter().map(|&id| rows.number(id, CAME)).collect();
        let last = if self.looks_back { self.wanted } else { usize::MAX };
        let mut out = Vec::with_capacity(listed.ids.len());
        let mut order: Vec<u32> = Vec::new();
        for (partition, range) in &listed.partitions {
            order.clear();
            order.extend(range.start as u32..range.end as u32);
            order.sort_unstable_by(|&a, &b| {
                key(a).cmp(key(b)).then_with(|| came[a as usize].cmp(&came[b as usize]))
            });
            let total = rows.total(*partition);
            if let Some(heads) = &mut self.heads
                && order.len() > heads.rows_max(total)
                && heads.get(*partition).is_some()
            {
                let kept = &order[..heads.rows(total)];
                let ids = kept.iter().map(|&at| listed.ids[at as usize]).collect();
                let bound = kept.last().map(|&at| (key(at).into(), came[at as usize]));
                heads.put(*partition, Head { ids, bound });
            }
            let mut place = 0;
            for &at in &order {
                let count = rows.count(listed.ids[at as usize]) as usize;
                let times = count.min(last - place);
                out.extend((place..place + times).map(|place| (at, place)));
                place += times;
                if place == last {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// The next rows that come out.
    pub(super) fn next_output(&mut self) -> Result<Option<Batch>> {
        self.difference.next(self.batch_rows)
    }

    /// Appends everything to a snapshot.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.came.to_le_bytes());
        self.rows.snapshot(out);
    }

    /// Takes over what [`Self::write_to`] wrote.
    pub(super) fn read_from(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.clear();
        self.came = i64::from_le_bytes(take_array(bytes)?);
        self.rows.restore(bytes)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.difference.clear();
        self.came = 0;
        if let Some(heads) = &mut self.heads {
            heads.clear();
        }
    }
}

/// Each partition once, without those that are not there.
fn distinct(mut partitions: Vec<RowId>) -> Vec<RowId> {
    partitions.sort_unstable();
    partitions.dedup();
    partitions.retain(|&partition| partition != NO_ROW);
    partitions
}
