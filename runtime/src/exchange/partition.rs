//! The producer's end of an edge: decides where an element goes and waits where there is no room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::buffer::OutputBuffer;
use super::partitioner::HashPartitioner;
use super::queue::{InputQueue, Offer};
use crate::batch::Batch;
use crate::element::StreamElement;
use crate::error::Result;
use crate::graph::EdgeRole;
use crate::operators::PortId;
use crate::rows::Pages;

/// A consumer subtask as one producer subtask sees it.
#[derive(Clone)]
pub struct Target {
    /// Its queue.
    pub queue: Arc<InputQueue>,
    /// The port there.
    pub port: PortId,
    /// This producer's channel of that port.
    pub channel: usize,
}

/// How one producer subtask ships.
pub enum Shipping {
    /// To the only target.
    Single,
    /// To all targets.
    Broadcast,
    /// Whole batches in turn.
    Rebalance {
        /// The next target.
        next: usize,
    },
    /// By the hash of keys. Pages carry their partition.
    Hash(HashPartitioner),
}

/// Whether an edge that sends whole batches waits for more rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathering {
    /// Batches are sent as they come. Edges by hash gather all the same, since they cut batches into small ones.
    AsTheyCome,
    /// Small batches wait in a buffer until it is full or is flushed.
    Buffers {
        /// Rows of a large batch.
        rows: usize,
    },
}

/// One out edge of one producer subtask.
pub struct ResultPartition {
    shipping: Shipping,
    gathered: Option<OutputBuffer>,
    targets: Vec<Target>,
    closed: Vec<bool>,
    /// Targets that turned out to be full in the drain at hand.
    full: Vec<bool>,
    pending: VecDeque<(usize, StreamElement)>,
    role: EdgeRole,
}

/// Whether a partition has sent all it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Everything is sent.
    Yes,
    /// A target is full; its waker is registered.
    No,
    /// No target wants anything any more.
    AllClosed,
}

impl ResultPartition {
    /// An edge to these targets.
    pub fn new(shipping: Shipping, targets: Vec<Target>, role: EdgeRole) -> Self {
        let closed = vec![false; targets.len()];
        let full = closed.clone();
        let pending = VecDeque::new();
        ResultPartition { shipping, gathered: None, targets, closed, full, pending, role }
    }

    /// The edge, which gathers like that. Call it before the first element.
    pub fn with_gathering(mut self, gathering: Gathering) -> Self {
        self.gathered = match (gathering, &self.shipping) {
            (Gathering::AsTheyCome, _) | (Gathering::Buffers { .. }, Shipping::Hash(_)) => None,
            (Gathering::Buffers { rows }, _) => Some(OutputBuffer::new(rows)),
        };
        self
    }

    /// Whether this is an edge out of an iteration whose targets want nothing more.
    pub fn is_left_exit(&self) -> bool {
        self.role == EdgeRole::Exit && self.closed.iter().all(|closed| *closed)
    }

    /// Whether this is an edge out of an iteration.
    pub fn is_exit(&self) -> bool {
        self.role == EdgeRole::Exit
    }

    /// Whether rows wait here for others to make a buffer with.
    pub fn holds_rows(&self) -> bool {
        match &self.shipping {
            Shipping::Hash(partitioner) => partitioner.holds_rows(),
            Shipping::Single | Shipping::Broadcast | Shipping::Rebalance { .. } => {
                self.gathered.as_ref().is_some_and(OutputBuffer::holds_rows)
            }
        }
    }

    /// Lets incomplete buffers go; they are sent by [`ResultPartition::drain`].
    pub fn flush(&mut self) -> Result<()> {
        if let Some(gathered) = &mut self.gathered
            && let Some(batch) = gathered.flush()?
        {
            self.ship(batch)?;
        }
        let pending = &mut self.pending;
        match &mut self.shipping {
            Shipping::Hash(partitioner) => {
                partitioner.flush(|t, b| pending.push_back((t, StreamElement::Batch(b))))
            }
            Shipping::Single | Shipping::Broadcast | Shipping::Rebalance { .. } => Ok(()),
        }
    }

    /// Takes an element; it is sent by [`ResultPartition::drain`]. Call it only when drained.
    pub fn emit(&mut self, element: StreamElement) -> Result<()> {
        let targets = self.targets.len();
        match element {
            StreamElement::Batch(batch) => match &mut self.gathered {
                Some(gathered) => {
                    if let Some(full) = gathered.push(batch.compact()?)? {
                        self.ship(full)?;
                    }
                }
                None => self.ship(batch)?,
            },
            StreamElement::Pages(pages) => {
                self.flush()?;
                self.ship_pages(pages);
            }
            StreamElement::Superstep(_) if self.role == EdgeRole::Exit => {}
            mut control => {
                if let (StreamElement::Superstep(step), EdgeRole::Feedback) =
                    (&mut control, self.role)
                {
                    step.number += 1;
                }
                self.flush()?;
                (0..targets).for_each(|t| self.pending.push_back((t, control.clone())));
            }
        }
        Ok(())
    }

    fn ship_pages(&mut self, pages: Pages) {
        let pending = &mut self.pending;
        let targets = self.targets.len();
        match &mut self.shipping {
            Shipping::Single => pending.push_back((0, StreamElement::Pages(pages))),
            Shipping::Broadcast => (0..targets)
                .for_each(|t| pending.push_back((t, StreamElement::Pages(pages.clone())))),
            Shipping::Rebalance { next } => {
                pending.push_back((*next, StreamElement::Pages(pages)));
                *next = (*next + 1) % targets;
            }
            Shipping::Hash(_) => {
                let target = pages.partition() as usize % targets;
                pending.push_back((target, StreamElement::Pages(pages)));
            }
        }
    }

    fn ship(&mut self, batch: Batch) -> Result<()> {
        let pending = &mut self.pending;
        match &mut self.shipping {
            Shipping::Single => pending.push_back((0, StreamElement::Batch(batch))),
            Shipping::Broadcast => (0..self.targets.len())
                .for_each(|t| pending.push_back((t, StreamElement::Batch(batch.clone())))),
            Shipping::Rebalance { next } => {
                pending.push_back((*next, StreamElement::Batch(batch)));
                *next = (*next + 1) % self.targets.len();
            }
            Shipping::Hash(partitioner) => {
                partitioner.push(batch, |t, b| pending.push_back((t, StreamElement::Batch(b))))?
            }
        }
        Ok(())
    }

    /// Sends what is pending as far as targets have room. A full target holds up only its own elements.
    pub fn drain(&mut self, waker: &Waker) -> Result<Drained> {
        self.full.fill(false);
        // Each element is looked at once; those that stay keep their order.
        for _ in 0..self.pending.len() {
            let Some((t, element)) = self.pending.pop_front() else { break };
            if self.closed[t] {
                continue;
            }
            if self.full[t] {
                self.pending.push_back((t, element));
                continue;
            }
            let target = &self.targets[t];
            match target.queue.offer(target.port, target.channel, element, waker)? {
                Offer::Taken => {}
                Offer::Full(element) => {
                    self.full[t] = true;
                    self.pending.push_back((t, element));
                }
                Offer::Closed => self.closed[t] = true,
            }
        }
        Ok(if self.closed.iter().all(|c| *c) {
            Drained::AllClosed
        } else if self.pending.is_empty() {
            Drained::Yes
        } else {
            Drained::No
        })
    }
}
