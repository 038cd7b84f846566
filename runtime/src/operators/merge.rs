//! Merge: several ordered inputs become one ordered output.
//!
//! Each port has at most one batch under way; when it is used up, exactly that port is asked for the next one, so
//! no other producer is drained meanwhile. A loser tree over the heads' keys decides; rows that are equal come
//! from the lower port first. Output rows are gathered from the batches they came in once enough are there.
//! A watermark passes without effect: the output is in key order, not in time order.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::contract::restore_batches;
use super::prelude::*;
use super::sort::buffer::gather;
use super::sort::loser_tree::LoserTree;
use super::sort_key_spec::{SortKeyColumns, SortKeySpec, inserts_only};
use crate::expr::positional_schema;
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::rows::{SortKeyEncoder, SortKeys};

/// What the inputs are ordered by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeSpec {
    /// Types of each input's columns, which are the output's.
    pub input: Vec<DataType>,
    /// The keys that every input is ordered by.
    pub keys: Vec<SortKeySpec>,
    /// Number of input ports.
    pub inputs: usize,
    /// Only the first rows, if set.
    pub fetch: Option<u64>,
}

/// The running operator.
pub struct Merge {
    types: Vec<DataType>,
    keys: SortKeyColumns,
    encoder: Option<SortKeyEncoder>,
    batch_rows: usize,
    left: Option<u64>,

    reservation: Reservation,
    ports: Vec<Port>,
    /// Batches that chosen rows lie in, and their places: batch and row.
    sources: Vec<Batch>,
    chosen: Vec<(usize, usize)>,
    tree: Option<LoserTree>,
}

/// One input.
#[derive(Default)]
struct Port {
    head: Option<Head>,
    ended: bool,
}

/// The batch a port has under way.
struct Head {
    batch: Batch,
    keys: Option<SortKeys>,
    row: usize,
    prefix: u128,
    /// Where the batch stands among the sources, once a row of it was chosen.
    source: Option<usize>,
}

impl Head {
    fn new(batch: Batch, keys: Option<SortKeys>) -> Self {
        let prefix = keys.as_ref().map_or(0, |k| k.prefix(0));
        Head { batch, keys, row: 0, prefix, source: None }
    }

    /// Moves to the next row; false if there is none.
    fn advance(&mut self) -> bool {
        self.row += 1;
        if self.row == self.batch.num_rows() {
            return false;
        }
        self.prefix = self.keys.as_ref().map_or(0, |k| k.prefix(self.row));
        true
    }

    fn key(&self) -> &[u8] {
        self.keys.as_ref().map_or(&[], |k| k.key(self.row))
    }
}

/// Whether port `a` gives its row before port `b`.
fn before(ports: &[Port], a: usize, b: usize) -> bool {
    match (&ports[a].head, &ports[b].head) {
        (Some(x), Some(y)) => {
            let order = x.prefix.cmp(&y.prefix).then_with(|| x.key().cmp(y.key()));
            order.then(a.cmp(&b)).is_lt()
        }
        (Some(_), None) => true,
        (None, _) => false,
    }
}

impl Merge {
    /// Compiles the keys.
    pub fn new(spec: &MergeSpec, job: &JobContext) -> Result<Self> {
        let keys =
            SortKeyColumns::new(&spec.keys, &positional_schema(&spec.input), &job.functions)?;
        let encoder = keys.encoder(0)?;
        Ok(Merge {
            types: spec.input.clone(),
            keys,
            encoder,
            batch_rows: job.options.batch_rows,
            left: spec.fetch,
            reservation: job.memory.reserve("Merge"),
            ports: (0..spec.inputs).map(|_| Port::default()).collect(),
            sources: Vec::new(),
            chosen: Vec::new(),
            tree: None,
        })
    }

    /// A port that must bring something before the next row is known.
    fn dry_port(&self) -> Option<usize> {
        self.ports.iter().position(|port| port.head.is_none() && !port.ended)
    }

    fn take(&mut self, port: usize, batch: Batch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let columns = self.keys.evaluate(&batch)?;
        let keys = self.encoder.as_ref().map(|e| e.encode(&columns)).transpose()?;
        self.ports[port].head = Some(Head::new(batch, keys));
        self.charge()
    }

    /// Makes the charge what the heads and sources hold.
    fn charge(&mut self) -> Result<()> {
        let heads = self.ports.iter().filter_map(|p| p.head.as_ref());
        let bytes: usize = heads
            .map(|h| h.batch.data_bytes() + h.keys.as_ref().map_or(0, SortKeys::memory_bytes))
            .chain(self.sources.iter().map(Batch::data_bytes))
            .sum();
        self.reservation.try_resize(bytes)
    }

    /// Rows that may still be chosen for the batch under way.
    fn room(&self) -> usize {
        let left = self.left.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        (self.batch_rows - self.chosen.len()).min(left)
    }

    /// Chooses rows until the batch is full, a port runs dry or nothing is left.
    fn choose(&mut self) {
        let inputs = self.ports.len();
        let ports = &self.ports;
        let tree =
            self.tree.get_or_insert_with(|| LoserTree::new(inputs, |a, b| before(ports, a, b)));
        let left = self.left.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let mut room = (self.batch_rows - self.chosen.len()).min(left);
        let chosen_before = self.chosen.len();
        while room > 0 {
            let winner = tree.winner();
            let Some(head) = &mut self.ports[winner].head else { break };
            let source = *head.source.get_or_insert_with(|| {
                self.sources.push(head.batch.clone());
                self.sources.len() - 1
            });
            self.chosen.push((source, head.row));
            room -= 1;
            if !head.advance() {
                let port = &mut self.ports[winner];
                port.head = None;
                if !port.ended {
                    // The tree is built again once the port has brought something.
                    self.tree = None;
                    break;
                }
            }
            tree.replay(|a, b| before(&self.ports, a, b));
        }
        if let Some(left) = &mut self.left {
            *left -= (self.chosen.len() - chosen_before) as u64;
        }
    }

    /// The rest of the last open input, without a copy.
    fn pass_on(&mut self) -> Option<Batch> {
        let mut open = self.ports.iter_mut().filter(|p| p.head.is_some() || !p.ended);
        let (Some(port), None) = (open.next(), open.next()) else { return None };
        let head = port.head.take()?;
        self.tree = None;
        let rows = head.batch.num_rows() - head.row;
        let rows = self.left.map_or(rows, |l| rows.min(usize::try_from(l).unwrap_or(usize::MAX)));
        if let Some(left) = &mut self.left {
            *left -= rows as u64;
        }
        (rows > 0).then(|| head.batch.slice(head.row, rows))
    }

    /// The chosen rows as a batch.
    fn flush(&mut self) -> Result<Option<Batch>> {
        if self.chosen.is_empty() {
            return Ok(None);
        }
        let batch = gather(&self.sources, &self.chosen)?;
        self.chosen.clear();
        self.sources.clear();
        for head in self.ports.iter_mut().filter_map(|p| p.head.as_mut()) {
            head.source = None;
        }
        self.charge()?;
        Ok(Some(batch))
    }
}

fn emit(batch: Batch) -> Result<Output> {
    Ok(Output::Element(PortId(0), StreamElement::Batch(batch)))
}

impl Operator for Merge {
    fn open(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    fn push(
        &mut self,
        port: PortId,
        element: StreamElement,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<()> {
        let port = usize::from(port.0);
        match element {
            StreamElement::Batch(batch) => self.take(port, inserts_only(batch, "merge")?)?,
            StreamElement::End => self.ports[port].ended = true,
            other => return Err(Error::Internal(format!("a merge cannot take {other:?}"))),
        }
        Ok(())
    }

    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<Output> {
        loop {
            if self.room() == 0 {
                return match self.flush()? {
                    Some(batch) => emit(batch),
                    None => Ok(Output::Finished),
                };
            }
            if let Some(port) = self.dry_port() {
                return Ok(Output::NeedInput(PortSet::Only(PortId(port as u16))));
            }
            let open = self.ports.iter().filter(|p| p.head.is_some()).count();
            if open <= 1 {
                if let Some(batch) = self.flush()? {
                    return emit(batch);
                }
                return match self.pass_on() {
                    Some(batch) => emit(batch),
                    None => Ok(Output::Finished),
                };
            }
            self.choose();
        }
    }

    fn on_watermark(&mut self, _watermark: Watermark, _cx: &mut OperatorContext<'_>) -> Result<()> {
        Ok(())
    }

    untimed_operator!();

    /// What is left of each port's batch, and the chosen rows, as sections of their own.
    fn snapshot(
        &mut self,
        _id: CheckpointId,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<StateSnapshot> {
        let chosen = match self.chosen.as_slice() {
            [] => Vec::new(),
            chosen => vec![gather(&self.sources, chosen)?],
        };
        let mut saved = Saved {
            left: self.left,
            chosen: StateSnapshot::of_batches(&chosen, &self.types)?.bytes,
            ports: Vec::new(),
        };
        for port in &self.ports {
            let rest = port.head.as_ref().map(|h| h.batch.slice(h.row, h.batch.num_rows() - h.row));
            let rest = StateSnapshot::of_batches(rest.as_slice(), &self.types)?.bytes;
            saved.ports.push((port.ended, rest));
        }
        let bytes = serde_json::to_vec(&saved).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(StateSnapshot { bytes })
    }

    fn restore(&mut self, snapshot: StateSnapshot, _cx: &mut OperatorContext<'_>) -> Result<()> {
        let saved: Saved =
            serde_json::from_slice(&snapshot.bytes).map_err(|e| Error::Internal(e.to_string()))?;
        self.left = saved.left;
        self.sources = restore_batches(&StateSnapshot { bytes: saved.chosen })?;
        self.chosen = self
            .sources
            .first()
            .map_or(Vec::new(), |b| (0..b.num_rows()).map(|row| (0, row)).collect());
        for (i, (ended, rest)) in saved.ports.into_iter().enumerate() {
            self.ports[i].ended = ended;
            for batch in restore_batches(&StateSnapshot { bytes: rest })? {
                self.take(i, batch)?;
            }
        }
        self.charge()
    }

    fn close(&mut self, _cx: &mut OperatorContext<'_>) -> Result<()> {
        self.ports.iter_mut().for_each(|port| port.head = None);
        self.sources.clear();
        self.chosen.clear();
        self.tree = None;
        self.reservation.shrink(usize::MAX);
        Ok(())
    }
}

/// The snapshot of a merge. The batches are Arrow IPC streams.
#[derive(Serialize, Deserialize)]
struct Saved {
    left: Option<u64>,
    chosen: Vec<u8>,
    ports: Vec<(bool, Vec<u8>)>,
}
