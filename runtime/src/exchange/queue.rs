//! The queue in front of one consumer subtask: elements of all its channels, in arrival order.
//!
//! Bounded by bytes for each port: a port that is full refuses, so that one slow input of a join does not
//! hold up the other. A blocking port takes everything and shows nothing until all its producers have ended. A channel
//! whose barrier was handed out is held: its elements stay until it is released, and do not count against the room of
//! the port's other channels, which are to bring theirs. Ports take turns: one that always has something does not keep the
//! rows of another waiting for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::element::StreamElement;
use crate::error::Result;
use crate::graph::VertexId;
use crate::memory::{MemoryManager, Reservation};
use crate::operators::{PortId, PortSet};

/// An element with the channel it came by.
#[derive(Debug)]
pub struct Arrival {
    /// The port.
    pub port: PortId,
    /// Which producer subtask of that port.
    pub channel: usize,
    /// What came.
    pub element: StreamElement,
}

/// What became of an element offered to a queue.
#[derive(Debug)]
pub enum Offer {
    /// It is in the queue.
    Taken,
    /// The port is full: here it is again, and the waker is registered.
    Full(StreamElement),
    /// The consumer wants nothing more.
    Closed,
}

/// One port's description.
#[derive(Debug, Clone)]
pub struct PortSpec {
    /// Number of producer subtasks.
    pub channels: usize,
    /// How much it holds, and when it shows it.
    pub kind: PortKind,
    /// For each producer the vertex whose scan it is a subtask of, if it is of one. Some of those may have no split, and
    /// need not be heard of before time goes on: no other goes on while a split has not begun (see
    /// [`crate::source::Source::pending_from_us`]).
    pub scans: Vec<Option<VertexId>>,
}

impl PortSpec {
    /// A port whose producers are no scans.
    pub fn of_operators(channels: usize, kind: PortKind) -> Self {
        PortSpec { channels, kind, scans: vec![None; channels] }
    }
}

/// How much a port holds, and when it shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A bounded number of bytes, shown at once.
    Pipelined,
    /// Everything, shown once all producers have ended.
    Blocking,
    /// Everything, shown at once: the way back of an iteration, whose head must not wait for its own body.
    Feedback,
}

/// Shared by one consumer subtask and its producers.
pub struct InputQueue {
    inner: Mutex<Inner>,
    bytes_max: usize,
}

/// Elements of a port that are handed out before another port is looked at.
const TURN_MAX: usize = 16;

struct Inner {
    ports: Vec<Port>,
    /// The port that is looked at first, and how many elements have come from it in a row.
    turn: (usize, usize),
    consumer: Option<Waker>,
    closed: bool,
}

struct Port {
    elements: VecDeque<(usize, StreamElement, usize)>,
    bytes: usize,
    /// The part of the bytes that is of held channels.
    held_bytes: usize,
    held: Vec<bool>,
    open_channels: usize,
    kind: PortKind,
    /// Holds the bytes of a port without a bound.
    reservation: Option<Reservation>,
    producers: Vec<Waker>,
}

impl Port {
    /// The first element of a channel that is not held.
    fn next(&mut self) -> Option<(usize, StreamElement, usize)> {
        if !self.held.contains(&true) {
            return self.elements.pop_front();
        }
        let at = self.elements.iter().position(|(channel, ..)| !self.held[*channel])?;
        self.elements.remove(at)
    }

    fn hold(&mut self, channel: usize) {
        if !std::mem::replace(&mut self.held[channel], true) {
            self.held_bytes += self.bytes_of(channel);
        }
    }

    fn bytes_of(&self, channel: usize) -> usize {
        self.elements.iter().filter(|(of, ..)| *of == channel).map(|(.., bytes)| bytes).sum()
    }

    /// Bytes that stand in the way of a channel's next element.
    fn used(&self, channel: usize) -> usize {
        if self.held[channel] { self.held_bytes } else { self.bytes - self.held_bytes }
    }
}

impl InputQueue {
    /// A queue whose ports each hold up to `bytes_max` bytes.
    pub fn new(ports: &[PortSpec], bytes_max: usize, memory: &Arc<MemoryManager>) -> Arc<Self> {
        let ports = ports
            .iter()
            .map(|spec| Port {
                elements: VecDeque::new(),
                bytes: 0,
                held_bytes: 0,
                held: vec![false; spec.channels],
                open_channels: spec.channels,
                kind: spec.kind,
                reservation: match spec.kind {
                    PortKind::Pipelined => None,
                    PortKind::Blocking => Some(memory.reserve("blocking exchange")),
                    PortKind::Feedback => Some(memory.reserve("iteration feedback")),
                },
                producers: Vec::new(),
            })
            .collect();
        Arc::new(InputQueue {
            inner: Mutex::new(Inner { ports, turn: (0, 0), consumer: None, closed: false }),
            bytes_max,
        })
    }

    /// Offers an element; an element goes into a port that holds less than its bound.
    pub fn offer(
        &self,
        port: PortId,
        channel: usize,
        element: StreamElement,
        waker: &Waker,
    ) -> Result<Offer> {
        let bytes = element.memory_bytes();
        let mut inner = self.inner.lock();
        if inner.closed {
            return Ok(Offer::Closed);
        }
        let slot = &mut inner.ports[port.0 as usize];
        let used = slot.used(channel);
        match &mut slot.reservation {
            Some(reservation) => reservation.try_grow(bytes)?,
            None if bytes > 0 && used >= self.bytes_max => {
                if !slot.producers.iter().any(|w| w.will_wake(waker)) {
                    slot.producers.push(waker.clone());
                }
                return Ok(Offer::Full(element));
            }
            None => {}
        }
        if matches!(element, StreamElement::End) {
            slot.open_channels -= 1;
        }
        slot.bytes += bytes;
        if slot.held[channel] {
            slot.held_bytes += bytes;
        }
        slot.elements.push_back((channel, element, bytes));
        let wake = slot.kind != PortKind::Blocking || slot.open_channels == 0;
        let consumer = if wake { inner.consumer.take() } else { None };
        drop(inner);
        if let Some(waker) = consumer {
            waker.wake();
        }
        Ok(Offer::Taken)
    }

    /// The next element of one of these ports; if there is none, `waker` will be woken when one comes.
    pub fn poll(&self, wanted: PortSet, waker: &Waker) -> Option<Arrival> {
        let mut inner = self.inner.lock();
        let Inner { ports, turn, .. } = &mut *inner;
        let count = ports.len();
        for index in (turn.0..count).chain(0..turn.0) {
            let (id, port) = (PortId(index as u16), &mut ports[index]);
            if !wanted.contains(id) || (port.kind == PortKind::Blocking && port.open_channels > 0) {
                continue;
            }
            let Some((channel, element, bytes)) = port.next() else { continue };
            let taken = if turn.0 == index { turn.1 + 1 } else { 1 };
            *turn = if taken < TURN_MAX { (index, taken) } else { ((index + 1) % count, 0) };
            port.bytes -= bytes;
            if let Some(reservation) = &mut port.reservation {
                reservation.shrink(bytes);
            }
            if let StreamElement::Barrier(_) = element {
                port.hold(channel);
            }
            let producers = if port.bytes - port.held_bytes < self.bytes_max {
                std::mem::take(&mut port.producers)
            } else {
                Vec::new()
            };
            drop(inner);
            producers.into_iter().for_each(Waker::wake);
            return Some(Arrival { port: id, channel, element });
        }
        match &mut inner.consumer {
            Some(known) if known.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
        None
    }

    /// Lets the elements of a channel out that were held behind its barrier. Only the consumer calls it, and polls next.
    pub fn release(&self, port: PortId, channel: usize) {
        let mut inner = self.inner.lock();
        let slot = &mut inner.ports[port.0 as usize];
        if std::mem::take(&mut slot.held[channel]) {
            slot.held_bytes -= slot.bytes_of(channel);
        }
    }

    /// The consumer wants nothing more: what is queued goes, and producers learn it at their next offer.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let mut wakers = Vec::new();
        for port in &mut inner.ports {
            port.elements.clear();
            (port.bytes, port.held_bytes) = (0, 0);
            port.reservation = None;
            wakers.append(&mut port.producers);
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A line for the wait graph: what each port holds and how many producers are still there.
    pub fn describe(&self) -> String {
        let inner = self.inner.lock();
        let ports = inner.ports.iter().enumerate().map(|(i, p)| {
            format!(
                "port {i}: {} elements, {} bytes, {} producers",
                p.elements.len(),
                p.bytes,
                p.open_channels
            )
        });
        ports.collect::<Vec<_>>().join("; ")
    }
}
